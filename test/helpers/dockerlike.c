/* Runs a command as other machines would:
 *   dockerlike [--docker] [--no-userns] [--no-mount] [--no-loopback]
 *              [--masked-proc] [--user UID] [--abi N] [--without NAME,...]
 *              COMMAND [ARG ...]
 * --docker        Docker's default capabilities (as root) and what its seccomp
 *                 profile refuses
 * --no-userns     namespaces are refused, nothing else
 * --no-mount      namespaces are made, but mounting is refused (AppArmor)
 * --no-loopback   the loopback interface cannot be brought up (Ubuntu 24.04)
 * --masked-proc   parts of /proc are covered, so that no fresh one is allowed
 *                 in a user namespace; needs root
 * --abi N         the kernel answers N when asked for its Landlock ABI
 * --without ...   the kernel lacks these calls; memfd_exec: it lacks the flag
 * The answers are changed by a seccomp filter and, for --abi, by a tracer: the
 * processes under test do not know.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LANDLOCK_CREATE_RULESET = 444, VERSION_FLAG = 1, CODE_MAX = 1024 };

static struct sock_filter code[CODE_MAX];
static unsigned short code_len;

static void die(const char* what) {
  fprintf(stderr, "dockerlike: %s: %s\n", what, strerror(errno));
  exit(125);
}

static void add(unsigned op, unsigned k, unsigned jt, unsigned jf) {
  code[code_len++] = (struct sock_filter){(unsigned short) op,
                                          (unsigned char) jt,
                                          (unsigned char) jf, k};
}

static void load(size_t offset) { add(BPF_LD | BPF_W | BPF_ABS, offset, 0, 0); }

static void give(unsigned action) { add(BPF_RET | BPF_K, action, 0, 0); }

static void refuse(int nr, int error) {
  add(BPF_JMP | BPF_JEQ | BPF_K, (unsigned) nr, 0, 1);
  give(SECCOMP_RET_ERRNO | (unsigned) error);
}

/* if (nr && argument & bits) action; the number is loaded again */
static void on_bits(int nr, int arg, unsigned bits, unsigned action) {
  add(BPF_JMP | BPF_JEQ | BPF_K, (unsigned) nr, 0, 4);
  load(offsetof(struct seccomp_data, args) + 8 * (size_t) arg);
  add(BPF_JMP | BPF_JSET | BPF_K, bits, 0, 1);
  give(action);
  load(offsetof(struct seccomp_data, nr));
}

static void on_equal(int nr, int arg, unsigned value, unsigned action) {
  add(BPF_JMP | BPF_JEQ | BPF_K, (unsigned) nr, 0, 4);
  load(offsetof(struct seccomp_data, args) + 8 * (size_t) arg);
  add(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1);
  give(action);
  load(offsetof(struct seccomp_data, nr));
}

static void no_userns(void) {
  unsigned namespaces = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS |
                        CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID |
                        CLONE_NEWNET;

  refuse(435, ENOSYS); /* clone3: its flags cannot be seen */
  refuse(SYS_unshare, EPERM);
  refuse(SYS_setns, EPERM);
  on_bits(SYS_clone, 0, namespaces, SECCOMP_RET_ERRNO | EPERM);
}

static void no_mount(int error) {
  static const int calls[] = {SYS_mount, SYS_umount2, SYS_pivot_root, 428, 429,
                              430, 431, 432, 433, 442};

  for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
    refuse(calls[i], error);
}

/* What moby's default.json leaves out for a container without SYS_ADMIN. */
static void docker_profile(void) {
  static const int calls[] = {
      SYS_acct,          SYS_add_key,       SYS_bpf,        SYS_clock_settime,
      SYS_delete_module, SYS_fanotify_init, SYS_init_module, SYS_kcmp,
      SYS_kexec_load,    SYS_keyctl,        SYS_open_by_handle_at,
      SYS_perf_event_open, SYS_quotactl,    SYS_reboot,     SYS_request_key,
      SYS_swapon,        SYS_swapoff,       SYS_syslog,     SYS_userfaultfd,
      425, 426, 427};

  no_userns();
  no_mount(EPERM);
  for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
    refuse(calls[i], EPERM);
}

static void without(char* list) {
  static const struct {
    const char* name;
    int nr;
  } names[] = {{"open_tree", 428},   {"move_mount", 429},
               {"clone3", 435},      {"close_range", 436},
               {"openat2", 437},     {"pidfd_open", 434},
               {"pidfd_getfd", 438}, {"mount_setattr", 442},
               {"landlock", 444},    {"seccomp", SYS_seccomp},
               {"fchmodat2", 452},   {"statx", SYS_statx}};

  for (char* name = strtok(list, ","); name; name = strtok(NULL, ",")) {
    size_t i = 0;

    if (strcmp(name, "memfd_exec") == 0) {
      on_bits(SYS_memfd_create, 1, 0x10, SECCOMP_RET_ERRNO | EINVAL);
      continue;
    }
    while (i < sizeof(names) / sizeof(names[0]) &&
           strcmp(names[i].name, name) != 0)
      i++;
    if (i == sizeof(names) / sizeof(names[0])) {
      errno = EINVAL;
      die(name);
    }
    refuse(names[i].nr, ENOSYS);
  }
}

static void install(void) {
  struct sock_fprog program = {0, code};

  give(SECCOMP_RET_ALLOW);
  program.len = code_len;
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) die("no_new_privs");
  if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) != 0)
    die("seccomp");
}

static void docker_capabilities(void) {
  /* CHOWN DAC_OVERRIDE FOWNER FSETID KILL SETGID SETUID SETPCAP
   * NET_BIND_SERVICE NET_RAW SYS_CHROOT MKNOD AUDIT_WRITE SETFCAP */
  uint64_t kept = 0xa80425fb;
  struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct data[2];

  if (geteuid() != 0) return;
  for (unsigned long cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++)
    if (!(kept >> cap & 1)) prctl(PR_CAPBSET_DROP, cap, 0, 0, 0);
  memset(data, 0, sizeof(data));
  data[0].permitted = data[0].effective = (uint32_t) kept;
  if (syscall(SYS_capset, &head, data) != 0) die("capset");
}

static void mask_proc(void) {
  static const char* const files[] = {"/proc/kcore", "/proc/keys",
                                      "/proc/timer_list", "/proc/latency_stats",
                                      "/proc/sched_debug"};
  static const char* const frozen[] = {"/proc/bus", "/proc/fs", "/proc/irq",
                                       "/proc/sys", "/proc/sysrq-trigger"};

  if (unshare(CLONE_NEWNS) != 0) die("unshare");
  if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) die("private");
  for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
    mount("/dev/null", files[i], NULL, MS_BIND, NULL);
  for (size_t i = 0; i < sizeof(frozen) / sizeof(frozen[0]); i++)
    if (mount(frozen[i], frozen[i], NULL, MS_BIND | MS_REC, NULL) == 0)
      mount(NULL, frozen[i], NULL, MS_BIND | MS_REMOUNT | MS_RDONLY, NULL);
}

/* ---- a tracer that answers one question ---- */

static void answer(pid_t pid, long abi) {
  struct user_regs_struct r;

  if (ptrace(PTRACE_GETREGS, pid, 0, &r) != 0) return;
  if (r.rdx == VERSION_FLAG) {
    r.orig_rax = (unsigned long long) -1;
    r.rax = (unsigned long long) abi;
    ptrace(PTRACE_SETREGS, pid, 0, &r);
  }
}

static int trace(pid_t first, long abi) {
  long options = PTRACE_O_TRACESECCOMP | PTRACE_O_TRACEFORK |
                 PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL;
  int status, result = 125;
  pid_t pid;

  if (ptrace(PTRACE_SEIZE, first, 0, options) != 0) die("ptrace");
  kill(first, SIGCONT);
  while ((pid = waitpid(-1, &status, __WALL)) > 0) {
    int event = status >> 16, signo = WSTOPSIG(status);

    if (!WIFSTOPPED(status)) {
      if (pid != first) continue;
      result = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      return result; /* the rest is killed with this tracer */
    }
    if (event == PTRACE_EVENT_SECCOMP) answer(pid, abi);
    if (event == PTRACE_EVENT_STOP && signo != SIGTRAP)
      ptrace(PTRACE_LISTEN, pid, 0, 0);
    else
      ptrace(PTRACE_CONT, pid, 0, event == 0 ? signo : 0);
  }
  return result;
}

int main(int argc, char** argv) {
  bool docker = false, masked = false;
  long abi = 0, user = -1;
  int i;

  load(offsetof(struct seccomp_data, nr));
  for (i = 1; i < argc && strncmp(argv[i], "--", 2) == 0; i++) {
    const char* o = argv[i];

    if (strcmp(o, "--docker") == 0) docker = true;
    else if (strcmp(o, "--no-userns") == 0) no_userns();
    else if (strcmp(o, "--no-mount") == 0) no_mount(EACCES);
    else if (strcmp(o, "--no-loopback") == 0)
      on_equal(SYS_ioctl, 1, 0x8914, SECCOMP_RET_ERRNO | EPERM);
    else if (strcmp(o, "--masked-proc") == 0) masked = true;
    else if (strcmp(o, "--user") == 0 && i + 1 < argc)
      user = strtol(argv[++i], NULL, 10);
    else if (strcmp(o, "--abi") == 0 && i + 1 < argc)
      abi = strtol(argv[++i], NULL, 10);
    else if (strcmp(o, "--without") == 0 && i + 1 < argc) without(argv[++i]);
    else {
      errno = EINVAL;
      die(o);
    }
  }
  if (i == argc) {
    errno = EINVAL;
    die("no command");
  }
  if (docker) docker_profile();
  if (masked) mask_proc();
  if (docker) docker_capabilities();
  if (user >= 0 && (setresgid((gid_t) user, (gid_t) user, (gid_t) user) != 0 ||
                    setresuid((uid_t) user, (uid_t) user, (uid_t) user) != 0))
    die("setresuid");
  if (abi > 0) {
    pid_t child;

    add(BPF_JMP | BPF_JEQ | BPF_K, LANDLOCK_CREATE_RULESET, 0, 1);
    give(SECCOMP_RET_TRACE);
    child = fork();
    if (child < 0) die("fork");
    if (child > 0) {
      waitpid(child, NULL, WUNTRACED);
      return trace(child, abi);
    }
    raise(SIGSTOP);
  }
  install();
  execvp(argv[i], argv + i);
  die(argv[i]);
}
