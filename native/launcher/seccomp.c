/* A filter written by hand: allow by default, refuse what reaches kernel code
 * that no build tool needs, and every way to make a set-id file.
 *
 * New mount calls, clone3, openat2 and io_uring answer ENOSYS, for programs
 * have a fallback for that; clone3 and openat2 keep their flags behind a
 * pointer, where a filter cannot look. Numbers newer than this list are
 * unknown and answer ENOSYS, too.
 */
#include "sys.h" /* first: feature macros */

#include "seccomp.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#if defined(__x86_64__)
#define SBX__ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define SBX__ARCH AUDIT_ARCH_AARCH64
#else
#error "no system call table for this architecture"
#endif

enum {
  SBX__NEWEST = 466, /* removexattrat; 467 is open_tree_attr */
  SBX__X32_BIT = 0x40000000,
  SBX__SET_ID = 06000,
  SBX__CREATES = O_CREAT | 020000000, /* __O_TMPFILE */
  SBX__NEW_NAMESPACES = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS |
                        CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID |
                        CLONE_NEWNET,
  SBX__CLONE_NEWTIME = 0x80, /* an exit signal in clone */
  SBX__FILTER_MAX = 1024,
  SBX__FLAG_NEW_LISTENER = 8,
  SBX__FLAG_WAIT_KILLABLE = 32
};

#define SBX__ERRNO(e) (SECCOMP_RET_ERRNO | ((unsigned) (e) & 0xffff))
#define SBX__KILL 0x80000000u /* the whole process */
#define SBX__NOTIFY 0x7fc00000u

struct sbx__refusal {
  int nr;
  int error;
};

static const struct sbx__refusal sbx__refused[] = {
    {435, ENOSYS}, /* clone3 */
    {SBX_SYS_OPENAT2, ENOSYS},
    {425, ENOSYS}, /* io_uring_setup, _enter, _register */
    {426, ENOSYS},
    {427, ENOSYS},
    {SBX_SYS_OPEN_TREE, ENOSYS},
    {SBX_SYS_MOVE_MOUNT, ENOSYS},
    {430, ENOSYS}, /* fsopen, fsconfig, fsmount, fspick */
    {431, ENOSYS},
    {432, ENOSYS},
    {433, ENOSYS},
    {SBX_SYS_MOUNT_SETATTR, ENOSYS},
    {440, EPERM}, /* process_madvise */
    {443, EPERM}, /* quotactl_fd */
    {SYS_mount, EPERM},
    {SYS_umount2, EPERM},
    {SYS_pivot_root, EPERM},
    {SYS_chroot, EPERM},
    {SYS_setns, EPERM},
    {SYS_add_key, EPERM},
    {SYS_request_key, EPERM},
    {SYS_keyctl, EPERM},
    {SYS_bpf, EPERM},
    {SYS_perf_event_open, EPERM},
    {SYS_userfaultfd, EPERM},
    {SYS_kexec_load, EPERM},
#ifdef SYS_kexec_file_load
    {SYS_kexec_file_load, EPERM},
#endif
    {SYS_init_module, EPERM},
    {SYS_finit_module, EPERM},
    {SYS_delete_module, EPERM},
    {SYS_swapon, EPERM},
    {SYS_swapoff, EPERM},
    {SYS_reboot, EPERM},
    {SYS_quotactl, EPERM},
    {SYS_acct, EPERM},
    {SYS_settimeofday, EPERM},
    {SYS_clock_settime, EPERM},
    {SYS_clock_adjtime, EPERM},
    {SYS_adjtimex, EPERM},
    {SYS_open_by_handle_at, EPERM},
    {SYS_name_to_handle_at, EPERM},
    {SYS_fanotify_init, EPERM},
    {SYS_syslog, EPERM},
    {SYS_vhangup, EPERM},
#ifdef SYS_nfsservctl
    {SYS_nfsservctl, EPERM},
#endif
#ifdef SYS_lookup_dcookie
    {SYS_lookup_dcookie, EPERM},
#endif
#ifdef SYS_iopl
    {SYS_iopl, EPERM},
    {SYS_ioperm, EPERM},
    {SYS_uselib, EPERM},
    {SYS_ustat, EPERM},
    {SYS_sysfs, EPERM},
#endif
};

struct sbx__filter {
  struct sock_filter code[SBX__FILTER_MAX];
  unsigned short len;
};

static void sbx__add(struct sbx__filter* f, unsigned code, unsigned k,
                     unsigned jt, unsigned jf) {
  struct sock_filter op = {(unsigned short) code, (unsigned char) jt,
                           (unsigned char) jf, k};
  f->code[f->len++] = op;
}

static void sbx__load(struct sbx__filter* f, size_t offset) {
  sbx__add(f, BPF_LD | BPF_W | BPF_ABS, (unsigned) offset, 0, 0);
}

/* The low half, which is all the kernel takes of an int (little endian). */
static void sbx__load_arg(struct sbx__filter* f, unsigned i) {
  sbx__load(f, offsetof(struct seccomp_data, args) + 8 * i);
}

static void sbx__return(struct sbx__filter* f, unsigned action) {
  sbx__add(f, BPF_RET | BPF_K, action, 0, 0);
}

/* if (value == k) return action */
static void sbx__if_equal(struct sbx__filter* f, unsigned k, unsigned action) {
  sbx__add(f, BPF_JMP | BPF_JEQ | BPF_K, k, 0, 1);
  sbx__return(f, action);
}

/* if (value & bits) return action */
static void sbx__if_bits(struct sbx__filter* f, unsigned bits,
                         unsigned action) {
  sbx__add(f, BPF_JMP | BPF_JSET | BPF_K, bits, 0, 1);
  sbx__return(f, action);
}

/* Opens a block for one call; every path in it returns. */
static unsigned short sbx__begin(struct sbx__filter* f, int nr) {
  sbx__add(f, BPF_JMP | BPF_JEQ | BPF_K, (unsigned) nr, 0, 0);
  return (unsigned short) (f->len - 1);
}

static void sbx__end(struct sbx__filter* f, unsigned short begin) {
  f->code[begin].jf = (unsigned char) (f->len - begin - 1);
}

static void sbx__bits_of(struct sbx__filter* f, int nr, unsigned arg,
                         unsigned bits, unsigned action) {
  unsigned short block = sbx__begin(f, nr);

  sbx__load_arg(f, arg);
  sbx__if_bits(f, bits, action);
  sbx__return(f, SECCOMP_RET_ALLOW);
  sbx__end(f, block);
}

/* The mode is only read when the call can create; else it may be garbage. */
static void sbx__open_mode(struct sbx__filter* f, int nr, unsigned flags,
                           unsigned mode) {
  unsigned short block = sbx__begin(f, nr);

  sbx__load_arg(f, flags);
  sbx__add(f, BPF_JMP | BPF_JSET | BPF_K, SBX__CREATES, 1, 0);
  sbx__return(f, SECCOMP_RET_ALLOW);
  sbx__load_arg(f, mode);
  sbx__if_bits(f, SBX__SET_ID, SBX__ERRNO(EPERM));
  sbx__return(f, SECCOMP_RET_ALLOW);
  sbx__end(f, block);
}

static void sbx__modes(struct sbx__filter* f, bool notify) {
  unsigned action = notify ? SBX__NOTIFY : SBX__ERRNO(EPERM);

  sbx__bits_of(f, SYS_fchmod, 1, SBX__SET_ID, action);
  sbx__bits_of(f, SYS_fchmodat, 2, SBX__SET_ID, action);
  sbx__bits_of(f, SBX_SYS_FCHMODAT2, 2, SBX__SET_ID, action);
  sbx__open_mode(f, SYS_openat, 2, 3);
  sbx__bits_of(f, SYS_mknodat, 2, SBX__SET_ID, SBX__ERRNO(EPERM));
#ifdef SYS_chmod
  sbx__bits_of(f, SYS_chmod, 1, SBX__SET_ID, action);
  sbx__open_mode(f, SYS_open, 1, 2);
  sbx__bits_of(f, SYS_creat, 1, SBX__SET_ID, SBX__ERRNO(EPERM));
  sbx__bits_of(f, SYS_mknod, 1, SBX__SET_ID, SBX__ERRNO(EPERM));
#endif
}

static void sbx__ioctl(struct sbx__filter* f) {
  unsigned short block = sbx__begin(f, SYS_ioctl);

  sbx__load_arg(f, 1);
  sbx__if_equal(f, TIOCSTI, SBX__ERRNO(EPERM));
  sbx__if_equal(f, TIOCLINUX, SBX__ERRNO(EPERM));
  sbx__return(f, SECCOMP_RET_ALLOW);
  sbx__end(f, block);
}

/* Emulation of old binaries is refused; what setarch -R and gdb ask for is
 * not. 0xffffffff only asks. */
static void sbx__personality(struct sbx__filter* f) {
  static const unsigned good[] = {PER_LINUX, PER_LINUX32, ADDR_NO_RANDOMIZE,
                                  ADDR_NO_RANDOMIZE | PER_LINUX32, 0x20000,
                                  0x20008, 0xffffffffu};
  unsigned short block = sbx__begin(f, SYS_personality);
  size_t i;

  sbx__load_arg(f, 0);
  for (i = 0; i < sizeof(good) / sizeof(good[0]); i++)
    sbx__if_equal(f, good[i], SECCOMP_RET_ALLOW);
  sbx__return(f, SBX__ERRNO(EPERM));
  sbx__end(f, block);
}

/* AF_INET and AF_INET6: the ordinary protocols, no raw sockets, and none that
 * makes the kernel load a module. */
static void sbx__inet(struct sbx__filter* f) {
  static const unsigned good[] = {0, 6, 17, 1, 58, 262}; /* 262: MPTCP */
  size_t i;

  sbx__load_arg(f, 1);
  sbx__add(f, BPF_ALU | BPF_AND | BPF_K, 0xf, 0, 0);
  sbx__if_equal(f, SOCK_RAW, SBX__ERRNO(EPERM));
  sbx__add(f, BPF_JMP | BPF_JEQ | BPF_K, SOCK_STREAM, 2, 0);
  sbx__add(f, BPF_JMP | BPF_JEQ | BPF_K, SOCK_DGRAM, 1, 0);
  sbx__return(f, SBX__ERRNO(ESOCKTNOSUPPORT));
  sbx__load_arg(f, 2);
  for (i = 0; i < sizeof(good) / sizeof(good[0]); i++)
    sbx__if_equal(f, good[i], SECCOMP_RET_ALLOW);
  sbx__return(f, SBX__ERRNO(EPROTONOSUPPORT));
}

/* The families of socket(): what goes on behind this is INET or INET6. */
static void sbx__families(struct sbx__filter* f, uint32_t unix_sockets) {
  unsigned short netlink;

  sbx__load_arg(f, 0);
  sbx__if_equal(f, AF_UNIX, unix_sockets);
  sbx__if_equal(f, AF_PACKET, SBX__ERRNO(EPERM));
  netlink = sbx__begin(f, AF_NETLINK);
  sbx__load_arg(f, 2);
  sbx__if_equal(f, 0, SECCOMP_RET_ALLOW); /* NETLINK_ROUTE */
  sbx__return(f, SBX__ERRNO(EPROTONOSUPPORT));
  sbx__end(f, netlink);
  sbx__add(f, BPF_JMP | BPF_JEQ | BPF_K, AF_INET, 2, 0);
  sbx__add(f, BPF_JMP | BPF_JEQ | BPF_K, AF_INET6, 1, 0);
  sbx__return(f, SBX__ERRNO(EAFNOSUPPORT));
}

static void sbx__socket(struct sbx__filter* f) {
  unsigned short block = sbx__begin(f, SYS_socket);

  sbx__families(f, SECCOMP_RET_ALLOW);
  sbx__inet(f);
  sbx__end(f, block);

  block = sbx__begin(f, SYS_socketpair);
  sbx__load_arg(f, 0);
  sbx__if_equal(f, AF_UNIX, SECCOMP_RET_ALLOW);
  sbx__return(f, SBX__ERRNO(EAFNOSUPPORT));
  sbx__end(f, block);
}

/* PID 1 has the uid of the commands, so the kernel would let them set its
 * limits (a limit of CPU time even kills it) and its scheduling. Both of its
 * threads have to be covered. */
static void sbx__shield(struct sbx__filter* f, int nr, unsigned arg, int tid) {
  unsigned short block = sbx__begin(f, nr);

  sbx__load_arg(f, arg);
  sbx__if_equal(f, 1, SBX__ERRNO(EPERM));
  sbx__if_equal(f, (unsigned) tid, SBX__ERRNO(EPERM));
  sbx__return(f, SECCOMP_RET_ALLOW);
  sbx__end(f, block);
}

static void sbx__shields(struct sbx__filter* f, int tid) {
  static const int calls[] = {SYS_prlimit64,         SYS_sched_setaffinity,
                              SYS_sched_setparam,    SYS_sched_setscheduler,
                              SYS_sched_setattr};
  unsigned short block;
  size_t i;

  for (i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
    sbx__shield(f, calls[i], 0, tid);
  for (i = 0; i < 2; i++) { /* by user means PID 1, too */
    block = sbx__begin(f, i == 0 ? SYS_setpriority : SYS_ioprio_set);
    sbx__load_arg(f, 0);
    sbx__if_equal(f, i == 0 ? PRIO_USER : 3, SBX__ERRNO(EPERM));
    sbx__load_arg(f, 1);
    sbx__if_equal(f, 1, SBX__ERRNO(EPERM));
    sbx__if_equal(f, (unsigned) tid, SBX__ERRNO(EPERM));
    sbx__return(f, SECCOMP_RET_ALLOW);
    sbx__end(f, block);
  }
}

/* What both levels have in common comes first. */
static void sbx__build_head(struct sbx__filter* f) {
  size_t i;

  f->len = 0;
  sbx__load(f, offsetof(struct seccomp_data, arch));
  sbx__add(f, BPF_JMP | BPF_JEQ | BPF_K, SBX__ARCH, 1, 0);
  sbx__return(f, SBX__KILL);
  sbx__load(f, offsetof(struct seccomp_data, nr));
#if defined(__x86_64__)
  /* -1 is not x32 but what a tracer writes to skip a call. */
  sbx__if_equal(f, 0xffffffffu, SECCOMP_RET_ALLOW);
  sbx__if_bits(f, SBX__X32_BIT, SBX__KILL);
#endif
  sbx__add(f, BPF_JMP | BPF_JGT | BPF_K, SBX__NEWEST, 0, 1);
  sbx__return(f, SBX__ERRNO(ENOSYS));
  for (i = 0; i < sizeof(sbx__refused) / sizeof(sbx__refused[0]); i++)
    sbx__if_equal(f, (unsigned) sbx__refused[i].nr,
                  SBX__ERRNO(sbx__refused[i].error));
  sbx__bits_of(f, SYS_clone, 0, SBX__NEW_NAMESPACES, SBX__ERRNO(EPERM));
  sbx__bits_of(f, SYS_unshare, 0,
               (unsigned) SBX__NEW_NAMESPACES | SBX__CLONE_NEWTIME,
               SBX__ERRNO(EPERM));
}

static void sbx__build(struct sbx__filter* f, int tid, bool notify) {
  sbx__build_head(f);
  sbx__shields(f, tid);
  sbx__modes(f, notify);
  sbx__ioctl(f);
  sbx__personality(f);
  sbx__socket(f);
  sbx__return(f, SECCOMP_RET_ALLOW);
}

static int sbx__install(struct sbx__filter* f, unsigned flags) {
  struct sock_fprog program = {.len = f->len, .filter = f->code};

  return (int) syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
}

static int sbx__install_any(struct sbx__filter* f, bool notify) {
  int fd;

  if (!notify) return sbx__install(f, 0);
  fd = sbx__install(f, SBX__FLAG_NEW_LISTENER | SBX__FLAG_WAIT_KILLABLE);
  if (fd < 0 && errno == EINVAL) fd = sbx__install(f, SBX__FLAG_NEW_LISTENER);
  return fd;
}

int sbx_seccomp_install(int tid, bool notify) {
  struct sbx__filter filter;

  sbx__build(&filter, tid, notify);
  return sbx__install_any(&filter, notify);
}

/* ---- level landlock: the processes, the network and the files of the host
 * stand beside those of the sandbox ---- */

enum {
  SBX__SIGNALS_ABI = 6,   /* ... signals */
  SBX__TCP_ABI = 4,       /* ... TCP */
  SBX__TRUNCATE_ABI = 3,
  SBX__FASTOPEN = 0x20000000,
  SBX__TIOCGPTPEER = 0x5441,
  SBX__FS_VERSION = 0x40087602
};

/* Of the kernel's objects without a file or a namespace of ours: shared with
 * every process of the machine that has these ids. */
static void sbx__shared_memory(struct sbx__filter* f) {
  static const int calls[] = {SYS_shmget, SYS_shmat,  SYS_shmctl, SYS_semget,
                              SYS_semop,  SYS_semctl, SYS_semtimedop,
                              SYS_msgget, SYS_msgsnd, SYS_msgrcv, SYS_msgctl,
                              SYS_mq_open, SYS_mq_unlink, 463, 466};
  size_t i; /* 463 and 466 set extended attributes, arguments in memory */

  for (i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
    sbx__if_equal(f, (unsigned) calls[i], SBX__ERRNO(ENOSYS));
}

static void sbx__shield_from(struct sbx__filter* f, int nr, unsigned arg,
                             const struct sbx_seccomp_outside* o,
                             unsigned rest) {
  unsigned short block = sbx__begin(f, nr);
  size_t i;

  sbx__load_arg(f, arg);
  for (i = 0; i < SBX_SECCOMP_SHIELDED; i++)
    if (o->shielded[i] != 0)
      sbx__if_equal(f, (unsigned) o->shielded[i], SBX__ERRNO(EPERM));
  sbx__return(f, rest);
  sbx__end(f, block);
}

/* Only 0, the caller itself. */
static void sbx__only_own(struct sbx__filter* f, int nr, unsigned arg) {
  unsigned short block = sbx__begin(f, nr);

  sbx__load_arg(f, arg);
  sbx__if_equal(f, 0, SECCOMP_RET_ALLOW);
  sbx__return(f, SBX__ERRNO(EPERM));
  sbx__end(f, block);
}

static void sbx__others(struct sbx__filter* f,
                        const struct sbx_seccomp_outside* o) {
  static const int calls[] = {SYS_prlimit64, SYS_sched_setaffinity,
                              SYS_sched_setparam, SYS_sched_setscheduler,
                              SYS_sched_setattr};
  static const int ranks[] = {SYS_setpriority, SYS_ioprio_set};
  size_t i;

  for (i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
    if (o->own_ids)
      sbx__shield_from(f, calls[i], 0, o, SECCOMP_RET_ALLOW);
    else
      sbx__only_own(f, calls[i], 0);
  for (i = 0; i < 2; i++) {
    unsigned short block = sbx__begin(f, ranks[i]);

    sbx__load_arg(f, 0); /* one process, not a group or a user */
    sbx__add(f, BPF_JMP | BPF_JEQ | BPF_K, i == 0 ? PRIO_PROCESS : 1, 1, 0);
    sbx__return(f, SBX__ERRNO(EPERM));
    sbx__load_arg(f, 1);
    sbx__if_equal(f, 0, SECCOMP_RET_ALLOW);
    sbx__return(f, SBX__ERRNO(EPERM));
    sbx__end(f, block);
  }
}

/* From ABI 6 on Landlock keeps signals inside, but what it looks at is the
 * first thread, and one of ours shares the commands' domain. */
static void sbx__signals(struct sbx__filter* f,
                         const struct sbx_seccomp_outside* o) {
  bool open = !o->own_ids && o->abi < SBX__SIGNALS_ABI;
  unsigned rest = open && o->notify ? SBX__NOTIFY : SECCOMP_RET_ALLOW;

  if (open) {
    sbx__if_equal(f, 424, SBX__ERRNO(ENOSYS)); /* pidfd_send_signal */
    sbx__if_equal(f, SYS_rt_sigqueueinfo, SBX__ERRNO(EPERM));
    sbx__if_equal(f, SYS_rt_tgsigqueueinfo, SBX__ERRNO(EPERM));
  }
  sbx__shield_from(f, SYS_kill, 0, o, rest);
  sbx__shield_from(f, SYS_tkill, 0, o, rest);
  sbx__shield_from(f, SYS_tgkill, 1, o, rest);
  sbx__shield_from(f, 434, 0, o, SECCOMP_RET_ALLOW); /* pidfd_open */
  sbx__shield_from(f, SYS_rt_sigqueueinfo, 0, o, SECCOMP_RET_ALLOW);
  sbx__shield_from(f, SYS_rt_tgsigqueueinfo, 1, o, SECCOMP_RET_ALLOW);
}

/* Landlock knows none of these. The first ask for the right to write, which
 * some files give to everybody, and a watch for the right to read, so that it
 * tells what is made in any folder. The others are the owner's: where commands
 * have the ids of others, that is what those own. */
static void sbx__attributes(struct sbx__filter* f, bool own_ids,
                            unsigned action) {
  static const int calls[] = {
      SYS_utimensat,    SYS_setxattr,    SYS_lsetxattr,
      SYS_fsetxattr,    SYS_removexattr, SYS_lremovexattr,
      SYS_fremovexattr, SYS_inotify_add_watch,
#ifdef SYS_utime
      SYS_utime,        SYS_utimes,      SYS_futimesat,
#endif
  };
  static const int owners[] = {
      SYS_fchmod, SYS_fchmodat, SBX_SYS_FCHMODAT2, SYS_fchown, SYS_fchownat,
#ifdef SYS_chmod
      SYS_chmod,  SYS_chown,    SYS_lchown,
#endif
  };
  size_t i;

  for (i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
    sbx__if_equal(f, (unsigned) calls[i], action);
  if (own_ids) return;
  for (i = 0; i < sizeof(owners) / sizeof(owners[0]); i++)
    sbx__if_equal(f, (unsigned) owners[i], action);
}

/* A lease makes those wait who open the file, and its owner may take one. Who
 * owns a descriptor gets signals of any number from it: the launcher has the ids
 * of the commands, and before ABI 6 others may have them. */
static void sbx__fcntl(struct sbx__filter* f,
                       const struct sbx_seccomp_outside* o) {
  unsigned action = o->notify ? SBX__NOTIFY : SBX__ERRNO(EPERM);
  unsigned short block = sbx__begin(f, SYS_fcntl);

  sbx__load_arg(f, 1);
  sbx__if_equal(f, F_SETOWN, action);
  sbx__if_equal(f, F_SETOWN_EX, action);
  if (!o->own_ids) sbx__if_equal(f, F_SETLEASE, SBX__ERRNO(EPERM));
  sbx__return(f, SECCOMP_RET_ALLOW);
  sbx__end(f, block);
}

/* O_TRUNC without writing asks Landlock nothing before ABI 3. */
static void sbx__no_truncate(struct sbx__filter* f, int nr, unsigned arg) {
  unsigned short block = sbx__begin(f, nr);

  sbx__load_arg(f, arg);
  sbx__add(f, BPF_ALU | BPF_AND | BPF_K, O_ACCMODE | O_TRUNC, 0, 0);
  sbx__if_equal(f, O_RDONLY | O_TRUNC, SBX__ERRNO(EACCES));
  sbx__load_arg(f, arg);
  sbx__add(f, BPF_JMP | BPF_JSET | BPF_K, SBX__CREATES, 1, 0);
  sbx__return(f, SECCOMP_RET_ALLOW);
  sbx__load_arg(f, arg + 1);
  sbx__if_bits(f, SBX__SET_ID, SBX__ERRNO(EPERM));
  sbx__return(f, SECCOMP_RET_ALLOW);
  sbx__end(f, block);
}

/* Flags, labels and subvolumes of a file system are set by its owner through
 * any descriptor, also one for reading. */
static void sbx__ioctl_outside(struct sbx__filter* f,
                               const struct sbx_seccomp_outside* o) {
  static const unsigned good[] = {
      0x80086601, 0x80046601, /* FS_IOC_GETFLAGS */
      0x801c581f,             /* FS_IOC_FSGETXATTR */
      0xc020660b,             /* FS_IOC_FIEMAP */
      0x40049409, 0x4020940d, /* FICLONE, FICLONERANGE */
      0xc0189436              /* FIDEDUPERANGE */
  };
  static const unsigned kinds[] = {0x6600, 0x5800, 0x9400};
  unsigned short block = sbx__begin(f, SYS_ioctl);
  size_t i;

  sbx__load_arg(f, 1);
  sbx__if_equal(f, TIOCSTI, SBX__ERRNO(EPERM));
  sbx__if_equal(f, TIOCLINUX, SBX__ERRNO(EPERM));
  sbx__if_equal(f, SBX__FS_VERSION, SBX__ERRNO(EPERM));
  sbx__if_equal(f, FIOSETOWN, o->notify ? SBX__NOTIFY : SBX__ERRNO(EPERM));
  sbx__if_equal(f, SIOCSPGRP, o->notify ? SBX__NOTIFY : SBX__ERRNO(EPERM));
  if (!o->own_ids && o->notify)
    sbx__if_equal(f, SBX__TIOCGPTPEER, SBX__NOTIFY);
  for (i = 0; i < sizeof(good) / sizeof(good[0]); i++)
    sbx__if_equal(f, good[i], SECCOMP_RET_ALLOW);
  sbx__add(f, BPF_ALU | BPF_AND | BPF_K, 0xff00, 0, 0);
  for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
    sbx__if_equal(f, kinds[i], SBX__ERRNO(EPERM));
  sbx__return(f, SECCOMP_RET_ALLOW);
  sbx__end(f, block);
}

/* TCP is what Landlock can limit, by port; it does not know MPTCP and SMC. */
static void sbx__tcp(struct sbx__filter* f,
                     const struct sbx_seccomp_outside* o) {
  if (o->network) {
    sbx__inet(f);
    return;
  }
  if (o->abi >= SBX__TCP_ABI) {
    sbx__load_arg(f, 1);
    sbx__add(f, BPF_ALU | BPF_AND | BPF_K, 0xf, 0, 0);
    sbx__add(f, BPF_JMP | BPF_JEQ | BPF_K, SOCK_STREAM, 1, 0);
    sbx__return(f, SBX__ERRNO(EACCES));
    sbx__load_arg(f, 2);
    sbx__if_equal(f, 0, SECCOMP_RET_ALLOW);
    sbx__if_equal(f, 6, SECCOMP_RET_ALLOW);
    sbx__return(f, SBX__ERRNO(EPROTONOSUPPORT));
  }
  sbx__return(f, SBX__ERRNO(EACCES));
}

/* A datagram socket sends to any path it names, and one of a pair does, too. */
static void sbx__socketpair(struct sbx__filter* f) {
  unsigned short block = sbx__begin(f, SYS_socketpair);

  sbx__load_arg(f, 0);
  sbx__add(f, BPF_JMP | BPF_JEQ | BPF_K, AF_UNIX, 1, 0);
  sbx__return(f, SBX__ERRNO(EAFNOSUPPORT));
  sbx__load_arg(f, 1);
  sbx__add(f, BPF_ALU | BPF_AND | BPF_K, 0xf, 0, 0);
  sbx__if_equal(f, SOCK_STREAM, SECCOMP_RET_ALLOW);
  sbx__if_equal(f, SOCK_SEQPACKET, SECCOMP_RET_ALLOW);
  sbx__return(f, SBX__ERRNO(EACCES));
  sbx__end(f, block);
}

static void sbx__sockets_outside(struct sbx__filter* f,
                                 const struct sbx_seccomp_outside* o) {
  unsigned short block = sbx__begin(f, SYS_socket);

  sbx__families(f, SBX__ERRNO(EACCES));
  sbx__tcp(f, o);
  sbx__end(f, block);
  sbx__socketpair(f);
  if (o->network) return;
  /* Fast open connects without asking Landlock, and listening without a bind
   * takes any port. */
  sbx__bits_of(f, SYS_sendto, 3, SBX__FASTOPEN, SBX__ERRNO(EACCES));
  sbx__bits_of(f, SYS_sendmsg, 2, SBX__FASTOPEN, SBX__ERRNO(EACCES));
  sbx__bits_of(f, SYS_sendmmsg, 3, SBX__FASTOPEN, SBX__ERRNO(EACCES));
  if (o->notify) sbx__if_equal(f, SYS_listen, SBX__NOTIFY);
}

static void sbx__build_outside(struct sbx__filter* f,
                               const struct sbx_seccomp_outside* o) {
  unsigned action = o->notify ? SBX__NOTIFY : SBX__ERRNO(EPERM);

  sbx__build_head(f);
  sbx__shared_memory(f);
  sbx__others(f, o);
  sbx__signals(f, o);
  if (o->abi < SBX__TRUNCATE_ABI) {
    sbx__if_equal(f, SYS_truncate, action);
    sbx__no_truncate(f, SYS_openat, 2);
#ifdef SYS_open
    sbx__no_truncate(f, SYS_open, 1);
#endif
  }
  sbx__attributes(f, o->own_ids, action);
  sbx__fcntl(f, o);
  sbx__modes(f, o->notify);
  sbx__ioctl_outside(f, o);
  sbx__personality(f);
  sbx__sockets_outside(f, o);
  sbx__return(f, SECCOMP_RET_ALLOW);
}

int sbx_seccomp_install_outside(const struct sbx_seccomp_outside* o) {
  struct sbx__filter filter;

  sbx__build_outside(&filter, o);
  return sbx__install_any(&filter, o->notify);
}
