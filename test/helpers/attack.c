/* Tries what a hostile command would: reaching files and processes of the host.
 *   attack HOST_PID OUTSIDE PORT
 * OUTSIDE is a folder with the files "secret" and "socket" (a Unix socket that
 * somebody listens on; the same name without the folder is an abstract one),
 * PORT a TCP port of localhost that is not declared. Prints the name of each
 * attempt that worked, then "done N".
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <mqueue.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <netinet/in.h>
#include <unistd.h>

static pid_t host;
static const char* outside;
static int port;
static int tried;
static char secret[4096];

static void result(const char* name, int worked) {
  tried++;
  if (worked) printf("%s\n", name);
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

static void files(void) {
  char path[5000];

  result("read secret", opens(secret, O_RDONLY));
  result("write secret", opens(secret, O_WRONLY));
  result("truncate by open", opens(secret, O_RDONLY | O_TRUNC));
  result("truncate", truncate(secret, 0) == 0);
  snprintf(path, sizeof(path), "%s/new", outside);
  result("create outside", opens(path, O_WRONLY | O_CREAT));
  result("create in /tmp", opens("/tmp/sandbox-attack", O_WRONLY | O_CREAT));
  result("create in /var/tmp",
         opens("/var/tmp/sandbox-attack", O_WRONLY | O_CREAT));
  result("create in /dev/shm",
         opens("/dev/shm/sandbox-attack", O_WRONLY | O_CREAT));
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
  result("change /usr", opens("/usr/sandbox-attack", O_WRONLY | O_CREAT));
  result("sysctl", opens("/proc/sys/vm/drop_caches", O_WRONLY));
  result("core_pattern", opens("/proc/sys/kernel/core_pattern", O_WRONLY));
  result("sysrq", opens("/proc/sysrq-trigger", O_WRONLY));
  result("block device", mknod("dev", S_IFBLK | 0600, 8 << 8) == 0);
  result("memory device", opens("/dev/mem", O_RDONLY));
}

static void attributes(void) {
  struct timespec times[2] = {{1, 0}, {1, 0}};
  struct timeval old[2] = {{1, 0}, {1, 0}};
  int readable = open("/etc/passwd", O_RDONLY);
  int path = open(secret, O_PATH);
  int flags = 0x80; /* no access times */
  char name[64];

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

static void processes(void) {
  struct rlimit limit = {1 << 20, 1 << 20};
  char buffer[64];
  struct iovec here = {buffer, 8}, there = {(void*) (uintptr_t) 0x400000, 8};
  siginfo_t info;
  cpu_set_t cpus;
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
    TRY("group signal", pid > 1 && kill(-getpgid(pid), 0) == 0);
    memset(&info, 0, sizeof(info));
    info.si_code = SI_QUEUE;
    TRY("queued signal", syscall(SYS_rt_sigqueueinfo, pid, 0, &info) == 0);
    TRY("ptrace", ptrace(PTRACE_SEIZE, pid, 0, 0) == 0);
    TRY("process_vm_readv", process_vm_readv(pid, &here, 1, &there, 1, 0) > 0);
    fd = (int) syscall(434, pid, 0);
    TRY("pidfd signal", fd >= 0 && syscall(424, fd, 0, NULL, 0) == 0);
    TRY("pidfd_getfd", fd >= 0 && syscall(438, fd, 0, 0) >= 0);
    TRY("prlimit", syscall(SYS_prlimit64, pid, RLIMIT_CPU, &limit, NULL) == 0);
    TRY("affinity", sched_setaffinity(pid, sizeof(cpus), &cpus) == 0);
    TRY("priority", setpriority(PRIO_PROCESS, (id_t) pid, 19) == 0);
    TRY("io priority", syscall(SYS_ioprio_set, 1, pid, 3 << 13) == 0);
    TRY("scheduler",
        sched_setscheduler(pid, SCHED_BATCH, &(struct sched_param){0}) == 0);
  }
  result("user priority", setpriority(PRIO_USER, 0, 0) == 0);
  result("shmget", shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600) >= 0);
  result("semget", semget(IPC_PRIVATE, 1, IPC_CREAT | 0600) >= 0);
  result("msgget", msgget(IPC_PRIVATE, IPC_CREAT | 0600) >= 0);
  result("mq_open", syscall(SYS_mq_open, "sandbox-attack", O_RDWR | O_CREAT,
                            0600, NULL) >= 0);
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

static void kernel(void) {
  struct {
    uint64_t v[11];
  } args = {{CLONE_NEWUSER, 0, 0, 0, SIGCHLD}};
  char byte = 'x';

  result("unshare", unshare(CLONE_NEWUSER) == 0);
  result("clone", syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0) > 0);
  result("clone3", syscall(435, &args, sizeof(args)) > 0);
  result("setns", setns(open("/proc/self/ns/net", O_RDONLY), 0) == 0);
  result("mount", mount("x", "/mnt", "tmpfs", 0, NULL) == 0);
  result("chroot", chroot(".") == 0);
  result("keyctl", syscall(SYS_keyctl, 0, -4, 1) >= 0);
  result("add_key",
         syscall(SYS_add_key, "user", "x", "y", 1, -4) >= 0);
  result("io_uring", syscall(425, 1, &args) >= 0);
  result("bpf", syscall(SYS_bpf, 0, &args, sizeof(args)) >= 0);
  result("perf", syscall(SYS_perf_event_open, &args, 0, -1, -1, 0) >= 0);
  result("userfaultfd", syscall(SYS_userfaultfd, 1) >= 0);
  result("TIOCSTI", ioctl(0, TIOCSTI, &byte) == 0);
  result("own listener", listens_to_calls());
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

static void network(void) {
  struct sockaddr_in at = {.sin_family = AF_INET,
                           .sin_port = htons((uint16_t) port),
                           .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  struct sockaddr_in any = {.sin_family = AF_INET};
  char path[5000];

  snprintf(path, sizeof(path), "%s/socket", outside);
  result("unix socket", connects(path, 0));
  result("abstract socket", connects("sandbox-attack-socket", 1));
  result("unix datagram", sends());
  result("tcp", connect(socket(AF_INET, SOCK_STREAM, 0), (void*) &at,
                        sizeof(at)) == 0);
  result("tcp fast open",
         sendto(socket(AF_INET, SOCK_STREAM, 0), "x", 1, 0x20000000 | 0x4000,
                (void*) &at, sizeof(at)) == 1);
  result("mptcp", connect(socket(AF_INET, SOCK_STREAM, 262), (void*) &at,
                          sizeof(at)) == 0);
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

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  host = (pid_t) strtol(argv[1], NULL, 10);
  outside = argv[2];
  port = (int) strtol(argv[3], NULL, 10);
  snprintf(secret, sizeof(secret), "%s/secret", outside);
  attributes();
  files();
  processes();
  threads();
  kernel();
  network();
  printf("done %d\n", tried);
  return 0;
}
