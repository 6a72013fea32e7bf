// The machine of a fake cloud service: namespaces around a real directory,
// real processes in it, and what a service's agent needs to serve them.
//   boot ROOT NAME...          PID 1 of a new machine, until stdin ends
//   run INIT UID CWD IN ARG... one process; frames both ways on fd 3
//   dial INIT PORT             a connection to a port inside, on fd 3
//   watch DIR RECURSIVE        inotify as lines on stdout, until stdin ends
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <pty.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utmp.h>

#define FIRST_UID 1800000000u
#define CHUNK 32768
#define PTY_CHUNK 16384
#define ABANDONED 3

static void die(const char* format, ...) {
  int code = errno;
  va_list args;
  va_start(args, format);
  vfprintf(stderr, format, args);
  va_end(args);
  fprintf(stderr, ": %s\n", strerror(code));
  _exit(125);
}

static void write_text(const char* path, const char* text) {
  int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0 || write(fd, text, strlen(text)) < 0) die("%s", path);
  close(fd);
}

static void join(char* out, const char* a, const char* b) {
  if (snprintf(out, PATH_MAX, "%s/%s", a, b) >= PATH_MAX) {
    errno = ENAMETOOLONG;
    die("%s", a);
  }
}

// ---- boot ----

static int read_only(const char* path) {
  struct {
    uint64_t set, clear, propagation, userns;
  } attr = {1 /* RDONLY */, 0, 0, 0};
  return syscall(442, AT_FDCWD, path, 0x8000 /* RECURSIVE */, &attr,
                 sizeof attr);
}

static void bind_host(const char* root, const char* name) {
  char to[PATH_MAX], from[PATH_MAX];
  join(from, "", name);
  join(to, root, name);
  if (mount(from, to, NULL, MS_BIND | MS_REC, NULL)) die("bind %s", from);
  if (read_only(to)) die("read-only %s", to);
}

static void bind_own(const char* root, const char* name) {
  char to[PATH_MAX], from[PATH_MAX], below[64];
  snprintf(below, sizeof below, "../etc/%s", name);
  join(from, root, below);
  snprintf(below, sizeof below, "etc/%s", name);
  join(to, root, below);
  if (mount(from, to, NULL, MS_BIND, NULL) && errno != ENOENT)
    die("bind %s", to);
}

static void mount_at(const char* root, const char* name, const char* type,
                     const char* options) {
  char to[PATH_MAX];
  join(to, root, name);
  if (mount(type, to, type, MS_NOSUID, options)) die("mount %s", to);
}

static void mount_devices(const char* root) {
  char ptmx[PATH_MAX], own[PATH_MAX];
  join(ptmx, root, "dev");
  if (mount("/dev", ptmx, NULL, MS_BIND | MS_REC, NULL)) die("bind /dev");
  mount_at(root, "dev/pts", "devpts", "newinstance,ptmxmode=0666,mode=620");
  mount_at(root, "dev/shm", "tmpfs", "mode=1777");
  join(ptmx, root, "dev/ptmx");
  join(own, root, "dev/pts/ptmx");
  if (mount(own, ptmx, NULL, MS_BIND, NULL)) die("bind %s", ptmx);
}

static void build_view(const char* root, char** names) {
  static const char* own[] = {"passwd", "group", "hosts", "hostname",
                              "profile", NULL};
  if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL)) die("private");
  if (mount(root, root, NULL, MS_BIND | MS_REC, NULL)) die("bind %s", root);
  for (char** name = names; *name; name++) bind_host(root, *name);
  for (const char** name = own; *name; name++) bind_own(root, *name);
  mount_devices(root);
  mount_at(root, "proc", "proc", NULL);
  if (chdir(root)) die("chdir %s", root);
  if (syscall(SYS_pivot_root, ".", ".")) die("pivot_root %s", root);
  if (umount2(".", MNT_DETACH)) die("umount old root");
  if (chdir("/")) die("chdir /");
}

static void loopback_up(void) {
  int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  struct ifreq request = {.ifr_flags = IFF_UP | IFF_RUNNING};
  strcpy(request.ifr_name, "lo");
  if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &request)) die("loopback");
  close(fd);
}

// PID 1: f freezes everything, t thaws it, q quits. The end of stdin without a
// q means that the owner died: ABANDONED.
static int serve_machine(void) {
  char order;
  signal(SIGCHLD, SIG_IGN);
  signal(SIGPIPE, SIG_IGN);
  while (read(0, &order, 1) == 1) {
    if (order == 'q') return 0;
    if (order == 'f') kill(-1, SIGSTOP);
    if (order == 't') kill(-1, SIGCONT);
    if (write(1, "ok\n", 3) != 3) break;
  }
  return ABANDONED;
}

static int machine_main(int go, char** args) {
  char byte;
  if (read(go, &byte, 1) != 1) _exit(125);
  close(go);
  setsid();
  build_view(args[0], args + 1);
  loopback_up();
  if (sethostname("e2b", 3)) die("sethostname");
  if (getuid() != 1000 && setgroups(0, NULL)) die("setgroups");
  if (getuid() != 1000 && (setresgid(0, 0, 0) || setresuid(0, 0, 0)))
    die("setresuid");
  prctl(PR_SET_DUMPABLE, 1);
  if (write(1, "ready\n", 6) != 6) _exit(125);
  _exit(serve_machine());
}

static void write_maps(pid_t pid, unsigned uid, unsigned gid) {
  char path[64], map[64];
  snprintf(path, sizeof path, "/proc/%d/setgroups", pid);
  if (uid) write_text(path, "deny");
  snprintf(path, sizeof path, "/proc/%d/gid_map", pid);
  if (uid) snprintf(map, sizeof map, "1000 %u 1", gid);
  else snprintf(map, sizeof map, "0 %u 65536", FIRST_UID);
  write_text(path, map);
  snprintf(path, sizeof path, "/proc/%d/uid_map", pid);
  if (uid) snprintf(map, sizeof map, "1000 %u 1", uid);
  write_text(path, map);
}

// A killed test cannot remove the folder that holds the root.
static void remove_folder(const char* root) {
  char folder[PATH_MAX];
  snprintf(folder, sizeof folder, "%s", root);
  char* end = strrchr(folder, '/');
  if (!end || !strstr(folder, "/fake-machine-")) return;
  *end = 0;
  execl("/bin/rm", "rm", "-rf", "--", folder, NULL);
}

static int boot(char** args) {
  int go[2], status;
  if (pipe2(go, O_CLOEXEC)) die("pipe");
  unsigned uid = geteuid(), gid = getegid();
  pid_t pid = syscall(SYS_clone,
                      CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID |
                          CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | SIGCHLD,
                      NULL, NULL, NULL, NULL);
  if (pid < 0) die("new namespaces");
  if (pid == 0) {
    close(go[1]);
    machine_main(go[0], args);
  }
  close(go[0]);
  write_maps(pid, uid, gid);
  printf("pid %d\n", pid);
  fflush(stdout);
  if (write(go[1], "g", 1) != 1) die("start");
  close(0);
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == ABANDONED)
    remove_folder(args[0]);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

// ---- entering a machine ----

static void enter(const char* init, const char* kinds) {
  static const struct {
    char kind;
    const char* name;
  } all[] = {{'u', "user"}, {'n', "net"}, {'i', "ipc"}, {'t', "uts"},
             {'p', "pid"},  {'m', "mnt"}};
  int fds[6];
  for (int i = 0; i < 6; i++) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%s/ns/%s", init, all[i].name);
    fds[i] = open(path, O_RDONLY | O_CLOEXEC);
    if (fds[i] < 0) die("%s", path);
  }
  for (int i = 0; i < 6; i++) {
    if (strchr(kinds, all[i].kind) && setns(fds[i], 0))
      die("enter %s", all[i].name);
    close(fds[i]);
  }
}

// A plain user's machine has one id, so its root is one more namespace.
static void become_inner_root(void) {
  if (unshare(CLONE_NEWUSER)) die("inner root");
  write_text("/proc/self/setgroups", "deny");
  write_text("/proc/self/gid_map", "0 1000 1");
  write_text("/proc/self/uid_map", "0 1000 1");
}

static void become(unsigned uid, int plain) {
  if (plain) {
    if (uid == 0) become_inner_root();
    return;
  }
  if (setgroups(0, NULL) || setresgid(uid, uid, uid) ||
      setresuid(uid, uid, uid))
    die("become %u", uid);
}

// ---- run ----

typedef struct {
  int control;
  int in, out, err;
  int pty;
  int reaped;
  pid_t pid, inner;
  char* outgoing;
  size_t outgoing_length, outgoing_sent;
  char* input;
  size_t input_length, input_sent;
  int input_waits;
  int input_closes;
  int held;
  char head[5];
  size_t head_length;
  char* body;
  size_t body_length, body_size;
} job_t;

static void queue(job_t* job, char kind, const void* data, uint32_t length) {
  size_t size = job->outgoing_length + 5 + length;
  job->outgoing = realloc(job->outgoing, size);
  if (!job->outgoing) die("memory");
  char* at = job->outgoing + job->outgoing_length;
  at[0] = kind;
  at[1] = (char) (length >> 24);
  at[2] = (char) (length >> 16);
  at[3] = (char) (length >> 8);
  at[4] = (char) length;
  if (length) memcpy(at + 5, data, length);
  job->outgoing_length = size;
}

// Nobody listens any more. The leader still has to be reaped by its parent: an
// outer init that is slow at it would hold up the end of the whole machine.
static void let_go(job_t* job) {
  close(job->control);
  if (job->in >= 0) close(job->in);
  if (job->out >= 0 && job->out != job->in) close(job->out);
  if (job->err >= 0) close(job->err);
  while (!job->reaped && waitpid(job->pid, NULL, 0) < 0 && errno == EINTR) {
  }
  _exit(0);
}

static void flush(job_t* job) {
  while (job->outgoing_sent < job->outgoing_length) {
    ssize_t n = write(job->control, job->outgoing + job->outgoing_sent,
                      job->outgoing_length - job->outgoing_sent);
    if (n < 0 && errno == EAGAIN) return;
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) let_go(job);
    job->outgoing_sent += n;
  }
  job->outgoing_length = job->outgoing_sent = 0;
}

static void read_output(job_t* job, int* fd, char kind) {
  static char buffer[CHUNK];
  ssize_t n = read(*fd, buffer, kind == 'p' ? PTY_CHUNK : CHUNK);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n > 0) {
    queue(job, kind, buffer, n);
    return;
  }
  queue(job, kind == 'p' ? 'P' : kind == 'o' ? 'O' : 'E', NULL, 0);
  if (!job->pty) close(*fd);
  *fd = -1;
}

static void end_input(job_t* job, const char* why) {
  if (job->input_waits) queue(job, why ? 'f' : 'a', why, why ? strlen(why) : 0);
  job->input_waits = 0;
  free(job->input);
  job->input = NULL;
}

static void close_input(job_t* job) {
  if (job->in >= 0 && !job->pty) close(job->in);
  if (!job->pty) job->in = -1;
  job->input_closes = 0;
}

static void write_input(job_t* job) {
  while (job->input_waits && job->input_sent < job->input_length) {
    ssize_t n = write(job->in, job->input + job->input_sent,
                      job->input_length - job->input_sent);
    if (n < 0 && errno == EAGAIN) return;
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      end_input(job, strerror(errno));
      break;
    }
    job->input_sent += n;
  }
  end_input(job, NULL);
  if (job->input_closes) close_input(job);
}

static void take_input(job_t* job) {
  job->input = job->body;
  job->input_length = job->body_size;
  job->input_sent = 0;
  job->input_waits = 1;
  job->body = NULL;
  if (job->in < 0) end_input(job, "closed");
  else write_input(job);
}

static void resize(job_t* job) {
  struct winsize size = {0};
  sscanf(job->body, "%hu %hu", &size.ws_col, &size.ws_row);
  if (job->pty) ioctl(job->out >= 0 ? job->out : job->in, TIOCSWINSZ, &size);
}

static void take_frame(job_t* job) {
  switch (job->head[0]) {
    case 'i': take_input(job); break;
    case 'c':
      if (job->input_waits) job->input_closes = 1;
      else close_input(job);
      break;
    case 'k':
      if (!job->reaped) kill(job->pid, atoi(job->body));
      break;
    case 'w': resize(job); break;
    case 'h': job->held = 1; break;
    case 'g': job->held = 0; break;
  }
  free(job->body);
  job->body = NULL;
  job->head_length = 0;
}

static void start_body(job_t* job) {
  unsigned char* head = (unsigned char*) job->head;
  job->body_size = (size_t) head[1] << 24 | head[2] << 16 | head[3] << 8 |
                   head[4];
  job->body = calloc(1, job->body_size + 1);
  job->body_length = 0;
  if (!job->body) die("memory");
}

static void read_control(job_t* job) {
  int in_head = job->head_length < 5;
  char* to = in_head ? job->head + job->head_length
                     : job->body + job->body_length;
  size_t want = in_head ? 5 - job->head_length
                        : job->body_size - job->body_length;
  ssize_t n = want ? read(job->control, to, want) : 0;
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (want && n <= 0) let_go(job);
  if (in_head) {
    job->head_length += n;
    if (job->head_length < 5) return;
    start_body(job);
  } else {
    job->body_length += n;
  }
  if (job->body_length == job->body_size) take_frame(job);
}

static void reap(job_t* job) {
  int status;
  char text[32];
  for (;;) {
    pid_t pid = waitpid(-1, &status, WNOHANG);
    if (pid <= 0) return;
    if (pid != job->pid) continue;
    job->reaped = 1;
    if (WIFSIGNALED(status))
      snprintf(text, sizeof text, "signal %d %d", WTERMSIG(status),
               WCOREDUMP(status) ? 1 : 0);
    else snprintf(text, sizeof text, "exit %d", WEXITSTATUS(status));
    queue(job, 'x', text, strlen(text));
  }
}

static void turn(job_t* job, int signals) {
  int full = job->outgoing_length > 0;
  int deaf = full || job->held;
  struct pollfd fds[5] = {
      {job->control, POLLIN, 0},
      {full ? job->control : -1, POLLOUT, 0},
      {job->input_waits ? job->in : -1, POLLOUT, 0},
      {deaf ? -1 : job->out, POLLIN, 0},
      {deaf ? -1 : job->err, POLLIN, 0},
  };
  struct pollfd all[7];
  memcpy(all, fds, sizeof fds);
  all[5] = (struct pollfd){signals, POLLIN, 0};
  all[6] = (struct pollfd){job->control, 0, 0};
  if (poll(all, 7, -1) < 0) return;
  if (all[6].revents & (POLLHUP | POLLERR)) let_go(job);
  if (all[3].revents) read_output(job, &job->out, job->pty ? 'p' : 'o');
  if (all[4].revents) read_output(job, &job->err, 'e');
  if (all[2].revents) write_input(job);
  if (all[0].revents) read_control(job);
  if (all[5].revents) {
    struct signalfd_siginfo info;
    if (read(signals, &info, sizeof info) > 0) reap(job);
  }
  if (job->outgoing_length) flush(job);
}

// The parent may be writing: closed under it, what it has not read yet is lost.
static void drain_control(job_t* job) {
  struct pollfd one = {job->control, POLLIN, 0};
  char bytes[4096];
  ssize_t n;

  shutdown(job->control, SHUT_WR);
  do {
    poll(&one, 1, 5000);
    n = read(job->control, bytes, sizeof bytes);
  } while (n > 0 || (n < 0 && errno == EINTR));
}

static void set_nonblocking(int fd) {
  if (fd >= 0) fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

typedef struct {
  unsigned uid;
  int plain;
  const char* cwd;
  char** args;
  int report;
  int fds[3];
  int tty;
} start_t;

static void exec_leader(start_t* start) {
  char text[32];
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  signal(SIGPIPE, SIG_DFL);
  snprintf(text, sizeof text, "%d", getpid());
  if (write(start->report, text, strlen(text)) < 0) _exit(125);
  if (start->tty >= 0) login_tty(start->tty);
  else
    for (int i = 0; i < 3; i++) dup2(start->fds[i], i);
  become(start->uid, start->plain);
  if (chdir(start->cwd)) die("cwd %s", start->cwd);
  int count = 0;
  while (start->args[count]) count++;
  char** line = calloc(count + 5, sizeof *line);
  if (!line) _exit(125);
  line[0] = "/bin/sh";
  line[1] = "-c";
  line[2] = "exec \"${@}\"";
  line[3] = "--";
  memcpy(line + 4, start->args, count * sizeof *line);
  execv(line[0], line);
  die("/bin/sh");
}

// Without a terminal the command is no leader of a group: as on the service,
// `kill -- -PID` finds nothing unless the command asked for setsid.
static void fork_leader(start_t* start) {
  pid_t pid = fork();
  if (pid < 0) die("fork");
  if (pid) return;
  if (start->tty >= 0) exec_leader(start);
  setsid();
  pid = syscall(SYS_clone, CLONE_PARENT | SIGCHLD, NULL, NULL, NULL, NULL);
  if (pid == 0) exec_leader(start);
  _exit(0);
}

static void enable_credentials(int fd) {
  int on = 1;
  if (setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof on))
    die("credentials");
}

static void learn_pids(job_t* job, int fd) {
  char text[32] = {0};
  char space[CMSG_SPACE(sizeof(struct ucred))] = {0};
  struct iovec part = {text, sizeof text - 1};
  struct msghdr message = {.msg_iov = &part,
                           .msg_iovlen = 1,
                           .msg_control = space,
                           .msg_controllen = sizeof space};
  if (recvmsg(fd, &message, 0) <= 0) die("the process did not start");
  struct cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (!header || header->cmsg_type != SCM_CREDENTIALS) die("no credentials");
  struct ucred owner;
  memcpy(&owner, CMSG_DATA(header), sizeof owner);
  job->pid = owner.pid;
  queue(job, 's', text, strlen(text));
}

static void make_pipes(job_t* job, start_t* start, int with_input) {
  int in[2], out[2], err[2];
  if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC) || pipe2(err, O_CLOEXEC))
    die("pipe");
  if (!with_input) {
    close(in[0]);
    close(in[1]);
    in[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    in[1] = -1;
  }
  start->fds[0] = in[0];
  start->fds[1] = out[1];
  start->fds[2] = err[1];
  start->tty = -1;
  job->in = in[1];
  job->out = out[0];
  job->err = err[0];
}

static void make_terminal(job_t* job, start_t* start, const char* text) {
  struct winsize size = {0};
  sscanf(text, "pty:%hux%hu", &size.ws_col, &size.ws_row);
  if (openpty(&job->out, &start->tty, NULL, NULL, &size)) die("openpty");
  fcntl(job->out, F_SETFD, FD_CLOEXEC);
  job->pty = 1;
  job->in = job->out;
  job->err = -1;
}

static void close_childs(start_t* start) {
  if (start->tty >= 0) close(start->tty);
  else
    for (int i = 0; i < 3; i++) close(start->fds[i]);
}

static int run(char** args) {
  job_t job = {.control = 3};
  int plain = geteuid() != 0;
  start_t start = {.uid = atoi(args[1]), .plain = plain, .cwd = args[2],
                   .args = args + 4};
  int report[2];
  sigset_t mask;
  sigemptyset(&mask);
  sigaddset(&mask, SIGCHLD);
  sigprocmask(SIG_BLOCK, &mask, NULL);
  signal(SIGPIPE, SIG_IGN);
  fcntl(3, F_SETFD, FD_CLOEXEC);
  enter(args[0], "unitpm");
  if (strncmp(args[3], "pty:", 4) == 0) make_terminal(&job, &start, args[3]);
  else make_pipes(&job, &start, strcmp(args[3], "pipe") == 0);
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, report))
    die("socketpair");
  enable_credentials(report[0]);
  start.report = report[1];
  fork_leader(&start);
  close(report[1]);
  close_childs(&start);
  learn_pids(&job, report[0]);
  close(report[0]);
  int signals = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
  set_nonblocking(3);
  set_nonblocking(job.in);
  set_nonblocking(job.out);
  set_nonblocking(job.err);
  flush(&job);
  reap(&job);
  while (!job.reaped || job.out >= 0 || job.err >= 0 || job.outgoing_length)
    turn(&job, signals);
  drain_control(&job);
  return 0;
}

// ---- dial ----

static int copy_some(int from, int to) {
  static char buffer[65536];
  ssize_t n = read(from, buffer, sizeof buffer);
  if (n <= 0) return -1;
  for (ssize_t sent = 0; sent < n;) {
    ssize_t one = write(to, buffer + sent, n - sent);
    if (one < 0) return -1;
    sent += one;
  }
  return 0;
}

static int connect_inside(int port) {
  struct sockaddr_in six_less = {.sin_family = AF_INET,
                                 .sin_port = htons(port),
                                 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd >= 0 && !connect(fd, (struct sockaddr*) &six_less, sizeof six_less))
    return fd;
  close(fd);
  struct sockaddr_in6 six = {.sin6_family = AF_INET6,
                             .sin6_port = htons(port),
                             .sin6_addr = in6addr_loopback};
  fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd >= 0 && !connect(fd, (struct sockaddr*) &six, sizeof six)) return fd;
  close(fd);
  return -1;
}

static int dial(char** args) {
  signal(SIGPIPE, SIG_IGN);
  enter(args[0], "un");
  int fd = connect_inside(atoi(args[1]));
  if (write(3, fd < 0 ? "n" : "y", 1) != 1 || fd < 0) return 0;
  struct pollfd fds[2] = {{3, POLLIN, 0}, {fd, POLLIN, 0}};
  while (fds[0].fd >= 0 || fds[1].fd >= 0) {
    if (poll(fds, 2, -1) < 0 && errno != EINTR) return 1;
    if (fds[0].revents && copy_some(3, fd)) {
      shutdown(fd, SHUT_WR);
      fds[0].fd = -1;
      if (fds[0].revents & (POLLHUP | POLLERR)) return 0;
    }
    if (fds[1].revents && copy_some(fd, 3)) {
      shutdown(3, SHUT_WR);
      fds[1].fd = -1;
    }
  }
  return 0;
}

// ---- watch ----

typedef struct {
  int fd;
  int recursive;
  const char* root;
  char** names;
  int count;
} watch_t;

static void watch_folder(watch_t* watch, const char* name, int announce);

static void watch_below(watch_t* watch, const char* name, int announce) {
  char path[PATH_MAX], inner[PATH_MAX];
  join(path, watch->root, name);
  DIR* folder = opendir(path);
  if (!folder) return;
  for (struct dirent* entry; (entry = readdir(folder));) {
    if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
    if (*name) join(inner, name, entry->d_name);
    else snprintf(inner, sizeof inner, "%s", entry->d_name);
    if (announce) printf("CREATE %s%c", inner, 0);
    if (entry->d_type == DT_DIR) watch_folder(watch, inner, announce);
  }
  closedir(folder);
}

static void watch_folder(watch_t* watch, const char* name, int announce) {
  char path[PATH_MAX];
  join(path, watch->root, name);
  int id = inotify_add_watch(watch->fd, path,
                             IN_CREATE | IN_MODIFY | IN_DELETE | IN_ATTRIB |
                                 IN_MOVED_FROM | IN_MOVED_TO | IN_ONLYDIR);
  if (id < 0) return;
  if (id >= watch->count) {
    watch->names = realloc(watch->names, (id + 1) * sizeof *watch->names);
    if (!watch->names) die("memory");
    while (watch->count <= id) watch->names[watch->count++] = NULL;
  }
  free(watch->names[id]);
  watch->names[id] = strdup(name);
  if (watch->recursive) watch_below(watch, name, announce);
}

static const char* kind_of(uint32_t mask) {
  if (mask & (IN_CREATE | IN_MOVED_TO)) return "CREATE";
  if (mask & IN_MODIFY) return "WRITE";
  if (mask & IN_DELETE) return "REMOVE";
  if (mask & IN_MOVED_FROM) return "RENAME";
  return mask & IN_ATTRIB ? "CHMOD" : NULL;
}

static void report_event(watch_t* watch, struct inotify_event* event) {
  const char* kind = kind_of(event->mask);
  char name[PATH_MAX];
  if (!kind || event->wd < 0 || event->wd >= watch->count) return;
  const char* folder = watch->names[event->wd];
  if (!folder || !event->len) return;
  if (*folder) join(name, folder, event->name);
  else snprintf(name, sizeof name, "%s", event->name);
  printf("%s %s%c", kind, name, 0);
  if (watch->recursive && event->mask & IN_ISDIR && !strcmp(kind, "CREATE"))
    watch_folder(watch, name, 1);
}

static void read_events(watch_t* watch) {
  static char buffer[65536]
      __attribute__((aligned(__alignof__(struct inotify_event))));
  ssize_t n = read(watch->fd, buffer, sizeof buffer);
  for (ssize_t at = 0; at < n;) {
    struct inotify_event* event = (void*) (buffer + at);
    report_event(watch, event);
    at += sizeof *event + event->len;
  }
  fflush(stdout);
}

static int watch(char** args) {
  watch_t watch = {.root = args[0], .recursive = atoi(args[1])};
  watch.fd = inotify_init1(IN_CLOEXEC);
  if (watch.fd < 0) die("inotify");
  watch_folder(&watch, "", 0);
  printf("START%c", 0);
  fflush(stdout);
  struct pollfd fds[2] = {{0, POLLIN, 0}, {watch.fd, POLLIN, 0}};
  for (;;) {
    if (poll(fds, 2, -1) < 0) return 1;
    if (fds[0].revents) return 0;
    if (fds[1].revents) read_events(&watch);
  }
}

int main(int count, char** args) {
  const char* mode = count > 1 ? args[1] : "";
  if (!strcmp(mode, "boot") && count > 2) return boot(args + 2);
  if (!strcmp(mode, "run") && count > 6) return run(args + 2);
  if (!strcmp(mode, "dial") && count == 4) return dial(args + 2);
  if (!strcmp(mode, "watch") && count == 4) return watch(args + 2);
  fprintf(stderr, "usage: fake-machine boot|run|dial|watch ...\n");
  return 2;
}
