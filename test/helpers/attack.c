/* Tries what a hostile command would: reaching files and processes of the host.
 *   attack [--all] HOST_PID OUTSIDE PORT
 * OUTSIDE is a folder with the files "secret", "writable" by all, and "socket" (a
 * Unix socket that somebody listens on;
 * "sandbox-attack-PORT" is an abstract one), PORT a TCP port of localhost that is
 * not declared. Prints the name of each
 * attempt that worked, then "done N"; with --all each name, a tab and -1 if it
 * worked, else the kernel's answer as a number.
 *   attack swap A B       lets two names change places until it is killed
 *   attack orphans N      leaves N processes behind, one after another
 *   attack nest N         makes N folders, each in the one before
 *   attack owner PID      sends SIGKILL to PID by way of a descriptor's owner
 *   attack forget PID     removes what attempts at that host left where they worked
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <dirent.h>
#include <mqueue.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fanotify.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mount.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/swap.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/klog.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <netinet/in.h>
#include <grp.h>
#include <unistd.h>

static pid_t host;
static const char* outside;
static int port;
static int tried;
static int all;
static char secret[4096];

static void result(const char* name, int worked) {
  tried++;
  if (all) printf("%s\t%d\n", name, worked ? -1 : errno);
  else if (worked) printf("%s\n", name);
  errno = 0;
}

/* A name of the host's that other runs on this machine do not have. */
static const char* named(const char* folder) {
  static char path[128];

  snprintf(path, sizeof(path), "%ssandbox-attack-%d", folder, (int) host);
  return path;
}

static int opens(const char* path, int flags) {
  int fd = open(path, flags, 0600);
  char byte;

  if (fd < 0) return 0;
  if ((flags & O_ACCMODE) == O_RDONLY && read(fd, &byte, 1) < 0) {
    close(fd);
    return 0;
  }
  close(fd);
  return 1;
}

static int opens_proc(pid_t pid, const char* name, int flags) {
  char path[64];

  snprintf(path, sizeof(path), "/proc/%d/%s", (int) pid, name);
  return opens(path, flags);
}

static int opens_fd(pid_t pid, const char* name) {
  char path[64];

  snprintf(path, sizeof(path), "/proc/%d/%s", (int) pid, name);
  return open(path, O_RDONLY);
}

static int reads_proc(pid_t pid, const char* name) {
  char byte;

  return read(opens_fd(pid, name), &byte, 1) == 1;
}

static void files(void) {
  char path[5000];

  result("read secret", opens(secret, O_RDONLY));
  result("write secret", opens(secret, O_WRONLY));
  result("truncate by open", opens(secret, O_RDONLY | O_TRUNC));
  result("truncate", truncate(secret, 0) == 0);
  snprintf(path, sizeof(path), "%s/new", outside);
  result("create outside", opens(path, O_WRONLY | O_CREAT));
  result("create in /tmp", opens(named("/tmp/"), O_WRONLY | O_CREAT));
  result("create in /var/tmp",
         opens(named("/var/tmp/"), O_WRONLY | O_CREAT));
  result("create in /dev/shm",
         opens(named("/dev/shm/"), O_WRONLY | O_CREAT));
  result("list outside", opens(outside, O_RDONLY | O_DIRECTORY) &&
                             0 <= open(outside, O_RDONLY | O_DIRECTORY));
  snprintf(path, sizeof(path), "/proc/self/root%s", secret);
  result("read by /proc/self/root", opens(path, O_RDONLY));
  result("symbolic link", symlink(secret, "link") == 0 &&
                              opens("link", O_RDONLY));
  result("hard link", link(secret, "hard") == 0);
  result("rename in", rename(secret, "renamed") == 0);
  close(open("mine", O_WRONLY | O_CREAT, 0600));
  snprintf(path, sizeof(path), "%s/mine", outside);
  result("rename out", rename("mine", path) == 0);
  result("remove", unlink(secret) == 0);
  result("make folder", mkdir(path, 0700) == 0);
  result("shadow", opens("/etc/shadow", O_RDONLY));
  result("change /usr", opens(named("/usr/"), O_WRONLY | O_CREAT));
  result("sysctl", opens("/proc/sys/vm/drop_caches", O_WRONLY));
  result("core_pattern", opens("/proc/sys/kernel/core_pattern", O_WRONLY));
  result("sysrq", opens("/proc/sysrq-trigger", O_WRONLY));
  result("block device", mknod("dev", S_IFBLK | 0600, 8 << 8) == 0);
  result("memory device", opens("/dev/mem", O_RDONLY));
}

static int reads_link(pid_t pid, const char* name) {
  char path[64], to[4096];

  snprintf(path, sizeof(path), "/proc/%d/%s", (int) pid, name);
  return readlink(path, to, sizeof(to)) > 0;
}

static int writes_proc(pid_t pid, const char* name, const char* text) {
  char path[64];
  int fd, n;

  snprintf(path, sizeof(path), "/proc/%d/%s", (int) pid, name);
  fd = open(path, O_WRONLY);
  if (fd < 0) return 0;
  n = (int) write(fd, text, strlen(text));
  if (n >= 0) close(fd);
  return n > 0;
}

static int lists(const char* path) {
  DIR* dir = opendir(path);
  int found = 0;

  while (dir != NULL && readdir(dir) != NULL) found = 1;
  if (dir != NULL) closedir(dir);
  return found;
}

static int climbs(void) {
  char path[5000] = "";

  for (int i = 0; i < 40; i++) strcat(path, "../");
  strcat(path, secret + 1);
  return opens(path, O_RDONLY);
}

static void places(void) {
  char path[5000];
  int here = open(".", O_PATH);

  result("read by ../..", climbs());
  snprintf(path, sizeof(path), "/proc/1/root%s", secret);
  result("read by /proc/1/root", opens(path, O_RDONLY));
  snprintf(path, sizeof(path), "/proc/%d/root%s", (int) host, secret);
  result("read by root of host", opens(path, O_RDONLY));
  snprintf(path, sizeof(path), "/proc/%d/cwd/package.json", (int) host);
  result("read by folder of host", opens(path, O_RDONLY));
  result("list /root", lists("/root/.ssh"));
  result("host name", opens("/etc/hostname", O_WRONLY));
  result("cron", opens(named("/etc/cron.d/"), O_WRONLY | O_CREAT));
  result("transparent huge pages",
         opens("/sys/kernel/mm/transparent_hugepage/enabled", O_WRONLY));
  result("control group", mkdir("/sys/fs/cgroup/pids/sandbox", 0755) == 0 ||
                              mkdir("/sys/fs/cgroup/sandbox", 0755) == 0);
  result("hostname by sysctl", opens("/proc/sys/kernel/hostname", O_WRONLY));
  result("hard link of a set-id program",
         link("/usr/bin/passwd", "passwd") == 0 || link("/bin/su", "su") == 0);
  result("hard link by descriptor",
         linkat(open(secret, O_PATH), "", AT_FDCWD, "hard2", 0x1000) == 0);
  result("open by handle", syscall(SYS_open_by_handle_at, here, path, 0) >= 0);
  result("file_setattr", syscall(469, AT_FDCWD, secret, path, 24, 0) == 0);
  result("setxattrat", syscall(463, AT_FDCWD, secret, 0, "user.x", path, 16) ==
                           0);
}

/* What level landlock does not hide. */
static void visible(void) {
  struct stat st;

  result("size and date", stat(secret, &st) == 0);
  result("existence", access(outside, F_OK) == 0);
  result("command line of host", reads_proc(host, "cmdline"));
  result("statistics of host", reads_proc(host, "stat"));
  result("host in the process list", getpgid(host) > 0);
}

static void devices(void) {
  static const char* const names[] = {
      "/dev/kmsg",    "/dev/kvm",          "/dev/fuse",
      "/dev/net/tun", "/dev/loop-control", "/dev/userfaultfd",
      "/dev/sda",     "/dev/vda",          "/dev/port",
      "/dev/console", "/dev/tty1",         "/dev/ttyS0",
      "/dev/vsock",   "/dev/vhost-vsock",  "/dev/mqueue"};
  char name[64];

  for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
    snprintf(name, sizeof(name), "device %s", names[i]);
    result(name, opens(names[i], O_RDWR | O_NONBLOCK));
  }
  result("character device", mknod("chr", S_IFCHR | 0600, 1 << 8 | 1) == 0);
  result("terminal of the host", opens("/dev/tty", O_RDWR));
}

static void attributes(void) {
  struct timespec times[2] = {{1, 0}, {1, 0}};
  struct timeval old[2] = {{1, 0}, {1, 0}};
  int readable = open("/etc/passwd", O_RDONLY);
  int path = open(secret, O_PATH);
  int flags = 0x80; /* no access times */
  char name[64], writable[5000];

  result("chmod", chmod(secret, 0777) == 0);
  result("fchmodat", fchmodat(AT_FDCWD, secret, 0777, 0) == 0);
  result("fchmodat2", syscall(452, AT_FDCWD, secret, 0777, 0) == 0);
  result("chmod folder", chmod(outside, 0777) == 0);
  snprintf(name, sizeof(name), "/proc/self/fd/%d", path);
  result("chmod by descriptor", chmod(name, 0777) == 0);
  result("fchmod", fchmod(readable, 0644) == 0);
  result("chown", chown(secret, getuid(), getgid()) == 0);
  result("lchown", lchown(secret, getuid(), getgid()) == 0);
  result("fchown", fchown(readable, getuid(), getgid()) == 0);
  result("fchownat empty", fchownat(path, "", getuid(), getgid(), 0x1000) == 0);
  result("utimensat", utimensat(AT_FDCWD, secret, times, 0) == 0);
  result("futimens", futimens(readable, NULL) == 0);
  result("utimes", utimes(secret, old) == 0);
  snprintf(writable, sizeof(writable), "%s/writable", outside);
  result("times of what all may write",
         utimensat(AT_FDCWD, writable, NULL, 0) == 0);
  result("attribute of what all may write",
         setxattr(writable, "user.x", "1", 1, 0) == 0);
  result("utime of what all may write", utimes(writable, NULL) == 0);
  result("setxattr", setxattr(secret, "user.x", "1", 1, 0) == 0);
  result("fsetxattr", fsetxattr(readable, "user.x", "1", 1, 0) == 0);
  result("removexattr", removexattr(secret, "user.keep") == 0);
  result("lease", fcntl(readable, F_SETLEASE, F_RDLCK) == 0);
  result("file flags", ioctl(readable, 0x40086602, &flags) == 0);
  result("watch", inotify_add_watch(inotify_init1(0), outside, IN_ALL_EVENTS) >=
                      0);
  symlink(secret, "to-secret");
  result("chmod by link", chmod("to-secret", 0777) == 0);
}

static void queues(void) {
  int id = shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600);

  result("shmget", id >= 0);
  if (id >= 0) shmctl(id, IPC_RMID, NULL);
  id = semget(IPC_PRIVATE, 1, IPC_CREAT | 0600);
  result("semget", id >= 0);
  if (id >= 0) semctl(id, 0, IPC_RMID);
  id = msgget(IPC_PRIVATE, IPC_CREAT | 0600);
  result("msgget", id >= 0);
  if (id >= 0) msgctl(id, IPC_RMID, NULL);
  result("mq_open", syscall(SYS_mq_open, named(""), O_RDWR | O_CREAT, 0600,
                            NULL) >= 0);
}

static void processes(void) {
  struct rlimit limit = {1 << 20, 1 << 20};
  char buffer[64];
  struct iovec here = {buffer, 8}, there = {(void*) (uintptr_t) 0x400000, 8};
  siginfo_t info;
  cpu_set_t cpus;
  struct {
    uint32_t size, policy;
    uint64_t rest[5];
  } batch = {48, SCHED_BATCH, {0}};
  unsigned long mask = 1;
  pid_t ours[2] = {host, getppid()};
  int fd;

  /* The command's parent is the launcher; its parent is the monitor. */
  CPU_ZERO(&cpus);
  CPU_SET(0, &cpus);
  for (int i = 0; i < 2; i++) {
    pid_t pid = ours[i];
    const char* who = i == 0 ? "host" : "launcher";
    char name[64];

#define TRY(what, worked)                                \
  do {                                                   \
    snprintf(name, sizeof(name), "%s of %s", what, who); \
    result(name, worked);                                \
  } while (0)
    TRY("environment", opens_proc(pid, "environ", O_RDONLY));
    TRY("memory", opens_proc(pid, "mem", O_RDWR));
    TRY("maps", opens_proc(pid, "maps", O_RDONLY));
    TRY("program", opens_proc(pid, "exe", O_WRONLY));
    TRY("root", opens_proc(pid, "root/etc/shadow", O_RDONLY));
    TRY("signal", kill(pid, 0) == 0);
    TRY("thread signal", syscall(SYS_tkill, pid, 0) == 0);
    errno = ESRCH;
    TRY("group signal", getpgid(pid) > 1 && kill(-getpgid(pid), 0) == 0);
    memset(&info, 0, sizeof(info));
    info.si_code = SI_QUEUE;
    TRY("queued signal", syscall(SYS_rt_sigqueueinfo, pid, 0, &info) == 0);
    TRY("ptrace", ptrace(PTRACE_SEIZE, pid, 0, 0) == 0);
    TRY("process_vm_readv", process_vm_readv(pid, &here, 1, &there, 1, 0) > 0);
    fd = (int) syscall(434, pid, 0);
    TRY("pidfd signal", syscall(424, fd, 0, NULL, 0) == 0);
    TRY("pidfd_getfd", syscall(438, fd, 0, 0) >= 0);
    TRY("prlimit", syscall(SYS_prlimit64, pid, RLIMIT_CPU, &limit, NULL) == 0);
    TRY("affinity", sched_setaffinity(pid, sizeof(cpus), &cpus) == 0);
    TRY("priority", setpriority(PRIO_PROCESS, (id_t) pid, 19) == 0);
    TRY("io priority", syscall(SYS_ioprio_set, 1, pid, 3 << 13) == 0);
    TRY("scheduler",
        sched_setscheduler(pid, SCHED_BATCH, &(struct sched_param){0}) == 0);
    TRY("scheduler attributes", syscall(SYS_sched_setattr, pid, &batch, 0) == 0);
    TRY("process_vm_writev",
        process_vm_writev(pid, &here, 1, &there, 1, 0) > 0);
    TRY("comparison", syscall(SYS_kcmp, pid, getpid(), 0, 0, 0) >= 0);
    TRY("pages", syscall(SYS_migrate_pages, pid, 64, &mask, &mask) == 0);
    TRY("madvise", syscall(440, fd, &here, 1, 21, 0) >= 0);
    TRY("name", opens_proc(pid, "comm", O_WRONLY));
    TRY("out-of-memory score", opens_proc(pid, "oom_score_adj", O_WRONLY));
    TRY("timer slack", writes_proc(pid, "timerslack_ns", "60000"));
    TRY("namespace", setns(opens_fd(pid, "ns/mnt"), 0) == 0);
    TRY("open files", reads_link(pid, "fd/0") || reads_link(pid, "fd/3"));
    TRY("folder", reads_link(pid, "cwd"));
    TRY("descriptor", opens_proc(pid, "fd/0", O_RDONLY) ||
                          opens_proc(pid, "fd/3", O_RDONLY));
  }
  result("user priority", setpriority(PRIO_USER, 0, 0) == 0);
  queues();
}

/* The launcher's threads share the commands' ids. */
static void threads(void) {
  char path[64];
  int worked = 0;

  for (int tid = getppid(); tid < getppid() + 8; tid++) {
    snprintf(path, sizeof(path), "/proc/%d/task/%d", getppid(), tid);
    if (access(path, F_OK) != 0 && errno == ENOENT) continue;
    worked += syscall(SYS_tgkill, getppid(), tid, 0) == 0;
    worked += syscall(SYS_tkill, tid, 0) == 0;
    worked += kill(tid, 0) == 0;
  }
  result("signal to threads of the launcher", worked > 0);
}

/* A listener of its own could let calls pass that the supervisor looks at. */
static int listens_to_calls(void) {
  struct sock_filter code[] = {{BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}};
  struct sock_fprog program = {1, code};

  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  return syscall(SYS_seccomp, 1, 8, &program) >= 0;
}

/* SIGIO and its like reach whom a descriptor belongs to. */
static int owns(pid_t pid, int how) {
  struct f_owner_ex owner = {F_OWNER_TID, pid};
  int pair[2];

  if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) return 0;
  if (how == 0) return fcntl(pair[0], F_SETOWN, pid) == 0;
  if (how == 1) return fcntl(pair[0], F_SETOWN_EX, &owner) == 0;
  return ioctl(pair[0], how, &pid) == 0;
}

static void owners(void) {
  pid_t ours[2] = {host, getppid()};

  for (int i = 0; i < 2; i++) {
    const char* who = i == 0 ? "host" : "launcher";
    char name[64];

    snprintf(name, sizeof(name), "owner of a descriptor %s", who);
    result(name, owns(ours[i], 0) || owns(-ours[i], 0) || owns(ours[i], 1));
    snprintf(name, sizeof(name), "owner by ioctl %s", who);
    result(name, owns(ours[i], 0x8901) || owns(ours[i], 0x8902));
  }
}

static int renames_host(void) {
  char name[65];

  return gethostname(name, sizeof(name)) == 0 &&
         sethostname(name, strlen(name)) == 0;
}

static void kernel(void) {
  struct timespec now;
  struct {
    uint64_t v[11];
  } args = {{CLONE_NEWUSER, 0, 0, 0, SIGCHLD}};
  char byte = 'x';

  result("unshare", unshare(CLONE_NEWUSER) == 0);
  result("clone", syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0) > 0);
  result("clone3", syscall(435, &args, sizeof(args)) > 0);
  result("setns", setns(open("/proc/self/ns/net", O_RDONLY), 0) == 0);
  result("setns of PID 1", setns(opens_fd(1, "ns/mnt"), 0) == 0);
  result("mount", mount("x", "/mnt", "tmpfs", 0, NULL) == 0);
  result("remount", mount(NULL, "/usr", NULL, MS_REMOUNT | MS_BIND, NULL) == 0);
  result("bind", mount("/usr", "/tmp", NULL, MS_BIND, NULL) == 0);
  result("umount", umount2("/proc", MNT_DETACH) == 0);
  result("pivot_root", syscall(SYS_pivot_root, ".", ".") == 0);
  result("open_tree", syscall(428, AT_FDCWD, "/usr", 1) >= 0);
  result("move_mount", syscall(429, AT_FDCWD, "/usr", AT_FDCWD, "/tmp", 0) == 0);
  result("fsopen", syscall(430, "tmpfs", 0) >= 0);
  result("fspick", syscall(433, AT_FDCWD, "/", 0) >= 0);
  result("mount_setattr", syscall(442, AT_FDCWD, "/", 0, &args, 32) == 0);
  result("open_tree_attr", syscall(467, AT_FDCWD, "/", 1, &args, 32) >= 0);
  result("chroot", chroot(".") == 0);
  result("sethostname", renames_host());
  result("clock", clock_gettime(CLOCK_REALTIME, &now) == 0 &&
                      clock_settime(CLOCK_REALTIME, &now) == 0);
  result("lower nice", setpriority(PRIO_PROCESS, 0, -5) == 0);
  result("real time",
         sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){1}) == 0);
  result("kernel log", klogctl(3, (char*) &args, 8) >= 0);
  result("swap", swapon("mine", 0) == 0);
  result("module", syscall(SYS_init_module, &args, 8, "") == 0);
  result("kexec", syscall(SYS_kexec_load, 0, 0, &args, 0) == 0);
  result("fanotify", syscall(SYS_fanotify_init, 0x200, 0) >= 0);
  result("user 0", setuid(0) == 0 && getuid() == 0 && opens(secret, O_RDONLY));
  result("groups", setgroups(1, &(gid_t){0}) == 0);
  result("core limit", setrlimit(RLIMIT_CORE, &(struct rlimit){1 << 20, 1 << 20})
                           == 0);
  result("more processes", setrlimit(RLIMIT_NPROC, &(struct rlimit){
                               RLIM_INFINITY, RLIM_INFINITY}) == 0);
  result("keyctl", syscall(SYS_keyctl, 0, -4, 1) >= 0);
  result("add_key",
         syscall(SYS_add_key, "user", "x", "y", 1, -4) >= 0);
  result("io_uring", syscall(425, 1, &args) >= 0);
  result("bpf", syscall(SYS_bpf, 0, &args, sizeof(args)) >= 0);
  result("perf", syscall(SYS_perf_event_open, &args, 0, -1, -1, 0) >= 0);
  result("userfaultfd", syscall(SYS_userfaultfd, 1) >= 0);
  result("userfaultfd whole", syscall(SYS_userfaultfd, 0) >= 0);
  result("TIOCSTI", ioctl(0, TIOCSTI, &byte) == 0);
  result("TIOCLINUX", ioctl(0, TIOCLINUX, &byte) == 0);
  result("controlling terminal", ioctl(0, TIOCSCTTY, 1) == 0);
  result("own listener", listens_to_calls());
  errno = EPERM;
  result("privileges", prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1);
}

static int connects(const char* path, int abstract) {
  struct sockaddr_un at = {.sun_family = AF_UNIX};
  int fd = socket(AF_UNIX, SOCK_STREAM, 0);

  snprintf(at.sun_path + abstract, sizeof(at.sun_path) - 1, "%s", path);
  return connect(fd, (void*) &at,
                 (socklen_t) (offsetof(struct sockaddr_un, sun_path) +
                              (size_t) abstract + strlen(path))) == 0;
}

static int sends(void) {
  struct sockaddr_un at = {.sun_family = AF_UNIX};
  int pair[2];

  if (socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) != 0) return 0;
  snprintf(at.sun_path, sizeof(at.sun_path), "%s/datagram", outside);
  return sendto(pair[0], "x", 1, 0, (void*) &at, sizeof(at)) == 1;
}

/* Whether somebody answers. */
static int reaches_by_udp(const struct sockaddr_in* at) {
  struct timeval wait = {0, 200000};
  int fd = socket(AF_INET, SOCK_DGRAM, 0);
  char byte;

  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
  return sendto(fd, "x", 1, 0, (const void*) at, sizeof(*at)) == 1 &&
         recv(fd, &byte, 1, 0) == 1;
}

static int connects_to_6(const struct in6_addr* address) {
  struct sockaddr_in6 at = {.sin6_family = AF_INET6,
                            .sin6_port = htons((uint16_t) port)};

  at.sin6_addr = *address;
  return connect(socket(AF_INET6, SOCK_STREAM, 0), (void*) &at, sizeof(at)) ==
         0;
}

static int connects_to_name(void) {
  char name[64];

  snprintf(name, sizeof(name), "sandbox-attack-%d", port);
  return connects(name, 1);
}

static void network(void) {
  struct sockaddr_in at = {.sin_family = AF_INET,
                           .sin_port = htons((uint16_t) port),
                           .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  struct sockaddr_in any = {.sin_family = AF_INET};
  char path[5000];

  snprintf(path, sizeof(path), "%s/socket", outside);
  result("unix socket", connects(path, 0));
  result("abstract socket", connects_to_name());
  result("unix datagram", sends());
  result("tcp", connect(socket(AF_INET, SOCK_STREAM, 0), (void*) &at,
                        sizeof(at)) == 0);
  result("tcp fast open",
         sendto(socket(AF_INET, SOCK_STREAM, 0), "x", 1, 0x20000000 | 0x4000,
                (void*) &at, sizeof(at)) == 1);
  result("mptcp", connect(socket(AF_INET, SOCK_STREAM, 262), (void*) &at,
                          sizeof(at)) == 0);
  result("udp to host", reaches_by_udp(&at));
  result("tcp to ::1", connects_to_6(&in6addr_loopback));
  at.sin_addr.s_addr = htonl(0xa9fea9fe);
  at.sin_port = htons(80);
  result("metadata", connect(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0),
                             (void*) &at, sizeof(at)) == 0 ||
                         errno == EINPROGRESS);
  result("udp", socket(AF_INET, SOCK_DGRAM, 0) >= 0);
  result("raw", socket(AF_INET, SOCK_RAW, 1) >= 0);
  result("packet", socket(AF_PACKET, SOCK_RAW, 0) >= 0);
  result("vsock", socket(40, SOCK_STREAM, 0) >= 0);
  result("alg", socket(38, SOCK_SEQPACKET, 0) >= 0);
  result("netlink audit", socket(AF_NETLINK, SOCK_RAW, 9) >= 0);
  result("xdp", socket(44, SOCK_RAW, 0) >= 0);
  result("bind any", bind(socket(AF_INET, SOCK_STREAM, 0), (void*) &any,
                          sizeof(any)) == 0);
  result("listen without bind",
         listen(socket(AF_INET, SOCK_STREAM, 0), 1) == 0);
}

/* What was handed down besides input and output. */
static void inherited(void) {
  int found = 0;

  for (int fd = 3; fd < 4096; fd++) found += fcntl(fd, F_GETFD) >= 0;
  errno = EBADF;
  result("inherited descriptor", found > 0);
}

__attribute__((noreturn)) static void swap(const char* a, const char* b) {
  for (;;) syscall(SYS_renameat2, AT_FDCWD, a, AT_FDCWD, b, 2 /* exchange */);
}

static int orphans(long n) {
  for (long i = 0; i < n; i++) {
    pid_t pid = fork();

    if (pid < 0) return 1;
    if (pid == 0) _exit(fork() < 0);
    waitpid(pid, NULL, 0);
  }
  return 0;
}

/* Landlock walks up to the root at each step, so the tree grows at its top:
 * what is there already moves into the deepest folder of a new piece. */
static int nest_piece(int base, long n) {
  if (mkdirat(base, "piece", 0755) != 0) return 1;
  if (fchdir(base) != 0 || chdir("piece") != 0) return 1;
  for (long i = 1; i < n; i++)
    if (mkdir("d", i % 100 == 99 ? 0700 : 0755) != 0 || chdir("d") != 0)
      return 1;
  if (renameat(base, "nest", AT_FDCWD, "d") != 0 && errno != ENOENT) return 1;
  if (mkdir("closed", 0) != 0) return 1;
  return renameat(base, "piece", base, "nest") != 0;
}

static int nest(long n) {
  int base = open(".", O_RDONLY | O_DIRECTORY);

  for (; n > 0; n -= 200)
    if (nest_piece(base, n < 200 ? n : 200) != 0) return 1;
  return 0;
}

static int kill_by_owner(pid_t pid) {
  struct f_owner_ex owner = {F_OWNER_TID, pid};
  int pair[2];

  if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) return 1;
  if (fcntl(pair[0], F_SETOWN_EX, &owner) != 0) return 1;
  if (fcntl(pair[0], F_SETSIG, SIGKILL) != 0) return 1;
  if (fcntl(pair[0], F_SETFL, O_ASYNC) != 0) return 1;
  return write(pair[1], "x", 1) != 1;
}

static int forget(pid_t pid) {
  host = pid;
  unlink(named("/tmp/"));
  unlink(named("/var/tmp/"));
  unlink(named("/dev/shm/"));
  return syscall(SYS_mq_unlink, named("")) != 0 && errno != ENOENT;
}

static int work(int argc, char** argv) {
  const char* verb = argc > 2 ? argv[1] : "";

  if (strcmp(verb, "swap") == 0 && argc == 4) swap(argv[2], argv[3]);
  if (strcmp(verb, "orphans") == 0) return orphans(atol(argv[2]));
  if (strcmp(verb, "nest") == 0) return nest(atol(argv[2]));
  if (strcmp(verb, "owner") == 0) return kill_by_owner(atoi(argv[2]));
  if (strcmp(verb, "forget") == 0) return forget(atoi(argv[2]));
  return 2;
}

int main(int argc, char** argv) {
  if (argc == 5 && strcmp(argv[1], "--all") == 0) {
    all = 1;
    argv++;
    argc--;
  }
  if (argc != 4 || strcmp(argv[1], "swap") == 0) return work(argc, argv);
  host = (pid_t) strtol(argv[1], NULL, 10);
  outside = argv[2];
  port = (int) strtol(argv[3], NULL, 10);
  snprintf(secret, sizeof(secret), "%s/secret", outside);
  inherited();
  attributes();
  files();
  places();
  if (all) visible();
  devices();
  processes();
  threads();
  owners();
  kernel();
  network();
  printf("done %d\n", tried);
  return 0;
}
