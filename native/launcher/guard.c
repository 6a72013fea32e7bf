/* Answers the calls of level landlock that are the same for files and processes
 * inside and outside, once it is clear that the thing at hand is inside. */
#include "sys.h" /* first: feature macros */

#include "guard.h"

#include <limits.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <utime.h>

#include "notifier.h"
#include "path.h"
#include "proc.h"

enum {
  SBX__PIDFD_OPEN = 434,
  SBX__PIDFD_GETFD = 438,
  SBX__AT_EMPTY = 0x1000,
  SBX__XATTR_NAME = 256,
  SBX__XATTR_MAX = 65536,
  SBX__TIOCGPTPEER = 0x5441,
  SBX__DEPTH_MAX = 65536 /* of a chain of parents */
};

/* Numbers of the kernel's interface that older headers lack. */
struct sbx__addfd {
  uint64_t id;
  uint32_t flags;
  uint32_t srcfd;
  uint32_t newfd;
  uint32_t newfd_flags;
};
#define SBX__NOTIF_ADDFD _IOW('!', 3, struct sbx__addfd)

struct sbx__call {
  const struct sbx_guard* guard;
  int listener;
  const struct seccomp_notif* n;
  const uint64_t* a;
};

/* ---- where a file lies ---- */

bool sbx_guard_add(struct sbx_guard* g, const char* path) {
  char* real = realpath(path, NULL);

  if (real == NULL || g->len == SBX_GUARD_MAX) {
    free(real);
    return false;
  }
  g->folders[g->len++] = real;
  return true;
}

bool sbx_guard_holds(const struct sbx_guard* g, int fd) {
  char link[64], path[PATH_MAX + 16];
  ssize_t n;
  size_t i;

  snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
  n = readlink(link, path, sizeof(path) - 1);
  if (n <= 0 || (size_t) n == sizeof(path) - 1) return false;
  path[n] = '\0';
  if (path[0] != '/' || strncmp(path, "/memfd:", 7) == 0) return true;
  for (i = 0; i < g->len; i++)
    if (sbx_path_below(path, g->folders[i])) return true;
  return false;
}

/* Memory of the caller: what is read once is what counts. */
static int sbx__read(const struct sbx__call* c, uint64_t address, void* out,
                     size_t len) {
  struct iovec to = {out, len};
  struct iovec from = {(void*) (uintptr_t) address, len};
  ssize_t n = process_vm_readv((pid_t) c->n->pid, &to, 1, &from, 1, 0);

  return n == (ssize_t) len ? 0 : -EFAULT;
}

static int sbx__read_text(const struct sbx__call* c, uint64_t address,
                          char* out, size_t size) {
  size_t at = 0;

  while (at < size) {
    size_t part = 4096 - (size_t) ((address + at) & 4095);
    struct iovec to = {out + at, part < size - at ? part : size - at};
    struct iovec from = {(void*) (uintptr_t) (address + at), to.iov_len};
    ssize_t n = process_vm_readv((pid_t) c->n->pid, &to, 1, &from, 1, 0);

    if (n <= 0) return -EFAULT;
    if (memchr(to.iov_base, '\0', (size_t) n) != NULL) return 0;
    at += (size_t) n;
  }
  return -ERANGE;
}

/* The file, if it may be changed. */
static int sbx__check(const struct sbx__call* c, int fd) {
  int rc = 0;

  if (fd < 0) return fd;
  if (!sbx_guard_holds(c->guard, fd)) rc = -EPERM;
  else if (!sbx_notifier_is_valid(c->listener, c->n)) rc = -EINTR;
  if (rc == 0) return fd;
  close(fd);
  return rc;
}

static int sbx__by_path(const struct sbx__call* c, int dir, uint64_t address,
                        bool follow) {
  return sbx__check(
      c, sbx_notifier_open_path(c->n, dir, address, follow, false));
}

static int sbx__by_fd(const struct sbx__call* c, uint64_t fd) {
  return sbx__check(c, sbx_notifier_open_descriptor(c->n, (int) fd));
}

static int sbx__by_at(const struct sbx__call* c, int dir, uint64_t address,
                      unsigned flags) {
  if (flags & ~(unsigned) (AT_SYMLINK_NOFOLLOW | SBX__AT_EMPTY)) return -EINVAL;
  return sbx__check(c, sbx_notifier_open_path(
                           c->n, dir, address, !(flags & AT_SYMLINK_NOFOLLOW),
                           (flags & SBX__AT_EMPTY) != 0));
}

static void sbx__name(int fd, char name[64]) {
  snprintf(name, 64, "/proc/self/fd/%d", fd);
}

/* ---- owners ---- */

static int sbx__chown(int fd, uint64_t uid, uint64_t gid) {
  int rc;

  if (fd < 0) return fd;
  rc = fchownat(fd, "", (uid_t) uid, (gid_t) gid, SBX__AT_EMPTY) == 0 ? 0
                                                                    : -errno;
  close(fd);
  return rc;
}

static int sbx__owners(const struct sbx__call* c) {
  const uint64_t* a = c->a;

  switch (c->n->data.nr) {
    case SYS_fchown:
      return sbx__chown(sbx__by_fd(c, a[0]), a[1], a[2]);
    case SYS_fchownat:
      return sbx__chown(sbx__by_at(c, (int) a[0], a[1], (unsigned) a[4]), a[2],
                        a[3]);
#ifdef SYS_chown
    case SYS_chown:
      return sbx__chown(sbx__by_path(c, AT_FDCWD, a[0], true), a[1], a[2]);
    case SYS_lchown:
      return sbx__chown(sbx__by_path(c, AT_FDCWD, a[0], false), a[1], a[2]);
#endif
    default:
      return -ENOSYS;
  }
}

/* ---- times ---- */

static int sbx__set_times(int fd, const struct timespec* times) {
  char name[64];
  int rc;

  if (fd < 0) return fd;
  sbx__name(fd, name);
  rc = utimensat(AT_FDCWD, name, times, 0) == 0 ? 0 : -errno;
  close(fd);
  return rc;
}

static int sbx__utimensat(const struct sbx__call* c) {
  const uint64_t* a = c->a;
  struct timespec times[2];
  int rc = a[2] == 0 ? 0 : sbx__read(c, a[2], times, sizeof(times));

  if (rc != 0) return rc;
  return sbx__set_times(a[1] == 0
                            ? sbx__by_fd(c, a[0])
                            : sbx__by_at(c, (int) a[0], a[1], (unsigned) a[3]),
                        a[2] == 0 ? NULL : times);
}

#ifdef SYS_utime
static int sbx__utimes(const struct sbx__call* c, int dir, uint64_t path,
                       uint64_t address) {
  struct timeval given[2];
  struct timespec times[2];
  int rc = address == 0 ? 0 : sbx__read(c, address, given, sizeof(given));
  int i;

  for (i = 0; rc == 0 && address != 0 && i < 2; i++) {
    if (given[i].tv_usec < 0 || given[i].tv_usec > 999999) return -EINVAL;
    times[i].tv_sec = given[i].tv_sec;
    times[i].tv_nsec = given[i].tv_usec * 1000;
  }
  if (rc != 0) return rc;
  return sbx__set_times(sbx__by_path(c, dir, path, true),
                        address == 0 ? NULL : times);
}

static int sbx__utime(const struct sbx__call* c) {
  struct utimbuf given = {0};
  struct timespec times[2] = {{0, 0}, {0, 0}};
  int rc = c->a[1] == 0 ? 0 : sbx__read(c, c->a[1], &given, sizeof(given));

  if (rc != 0) return rc;
  times[0].tv_sec = given.actime;
  times[1].tv_sec = given.modtime;
  return sbx__set_times(sbx__by_path(c, AT_FDCWD, c->a[0], true),
                        c->a[1] == 0 ? NULL : times);
}
#endif

static int sbx__times(const struct sbx__call* c) {
  switch (c->n->data.nr) {
    case SYS_utimensat:
      return sbx__utimensat(c);
#ifdef SYS_utime
    case SYS_utime:
      return sbx__utime(c);
    case SYS_utimes:
      return sbx__utimes(c, AT_FDCWD, c->a[0], c->a[1]);
    case SYS_futimesat:
      return sbx__utimes(c, (int) c->a[0], c->a[1], c->a[2]);
#endif
    default:
      return -ENOSYS;
  }
}

/* ---- extended attributes ---- */

static int sbx__set_xattr(const struct sbx__call* c, int fd) {
  char name[64], key[SBX__XATTR_NAME];
  size_t size = (size_t) c->a[3];
  void* value = NULL;
  int rc;

  if (fd < 0) return fd;
  sbx__name(fd, name);
  rc = sbx__read_text(c, c->a[1], key, sizeof(key));
  if (rc == 0 && size > SBX__XATTR_MAX) rc = -E2BIG;
  if (rc == 0) value = malloc(size + 1);
  if (rc == 0 && value == NULL) rc = -ENOMEM;
  if (rc == 0 && size > 0) rc = sbx__read(c, c->a[2], value, size);
  if (rc == 0 && setxattr(name, key, value, size, (int) c->a[4]) != 0)
    rc = -errno;
  free(value);
  close(fd);
  return rc;
}

static int sbx__remove_xattr(const struct sbx__call* c, int fd) {
  char name[64], key[SBX__XATTR_NAME];
  int rc;

  if (fd < 0) return fd;
  sbx__name(fd, name);
  rc = sbx__read_text(c, c->a[1], key, sizeof(key));
  if (rc == 0 && removexattr(name, key) != 0) rc = -errno;
  close(fd);
  return rc;
}

static int sbx__xattrs(const struct sbx__call* c) {
  switch (c->n->data.nr) {
    case SYS_setxattr:
      return sbx__set_xattr(c, sbx__by_path(c, AT_FDCWD, c->a[0], true));
    case SYS_lsetxattr:
      return sbx__set_xattr(c, sbx__by_path(c, AT_FDCWD, c->a[0], false));
    case SYS_fsetxattr:
      return sbx__set_xattr(c, sbx__by_fd(c, c->a[0]));
    case SYS_removexattr:
      return sbx__remove_xattr(c, sbx__by_path(c, AT_FDCWD, c->a[0], true));
    case SYS_lremovexattr:
      return sbx__remove_xattr(c, sbx__by_path(c, AT_FDCWD, c->a[0], false));
    case SYS_fremovexattr:
      return sbx__remove_xattr(c, sbx__by_fd(c, c->a[0]));
    default:
      return -ENOSYS;
  }
}

static int sbx__truncate(const struct sbx__call* c) {
  int fd = sbx__by_path(c, AT_FDCWD, c->a[0], true);
  char name[64];
  int rc;

  if (fd < 0) return fd;
  sbx__name(fd, name);
  rc = truncate(name, (off_t) c->a[1]) == 0 ? 0 : -errno;
  close(fd);
  return rc;
}

/* ---- descriptors of the caller ---- */

static pid_t sbx__leader(uint32_t tid) {
  char path[32], text[1024];
  const char* at;
  ssize_t n;
  int fd;

  snprintf(path, sizeof(path), "/proc/%u/status", tid);
  fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  n = read(fd, text, sizeof(text) - 1);
  close(fd);
  if (n <= 0) return -1;
  text[n] = '\0';
  at = strstr(text, "\nTgid:");
  return at == NULL ? -1 : (pid_t) strtol(at + 6, NULL, 10);
}

static int sbx__take(const struct sbx__call* c, int fd) {
  int process = (int) syscall(SBX__PIDFD_OPEN, sbx__leader(c->n->pid), 0);
  int taken;

  if (process < 0) return -errno;
  taken = (int) syscall(SBX__PIDFD_GETFD, process, fd, 0);
  if (taken < 0) taken = -errno;
  close(process);
  if (taken < 0 || sbx_notifier_is_valid(c->listener, c->n)) return taken;
  close(taken);
  return -EINTR;
}

static int sbx__listen_on(int fd, int backlog) {
  struct sockaddr_storage at;
  socklen_t len = sizeof(at);
  const struct sockaddr_in* in = (const void*) &at;

  memset(&at, 0, sizeof(at));
  if (getsockname(fd, (struct sockaddr*) &at, &len) != 0) return -errno;
  /* The port stands at the same place in both families. */
  if ((at.ss_family == AF_INET || at.ss_family == AF_INET6) &&
      in->sin_port == 0)
    return -EACCES;
  return listen(fd, backlog) == 0 ? 0 : -errno;
}

static int sbx__listen(const struct sbx__call* c) {
  int fd = sbx__take(c, (int) c->a[0]);
  int rc;

  if (fd < 0) return fd;
  rc = sbx__listen_on(fd, (int) c->a[1]);
  close(fd);
  return rc;
}

/* The other end of a terminal that the caller made, and of no other. */
static int sbx__terminal(const struct sbx__call* c, int64_t* value) {
  int master, peer, fd;
  struct sbx__addfd add = {.id = c->n->id};

  master = sbx__take(c, (int) c->a[0]);
  if (master < 0) return master;
  peer = ioctl(master, SBX__TIOCGPTPEER, (int) c->a[2] | O_NOCTTY);
  fd = peer < 0 ? -errno : 0;
  close(master);
  if (peer < 0) return fd;
  add.srcfd = (uint32_t) peer;
  add.newfd_flags = (uint32_t) c->a[2] & O_CLOEXEC;
  fd = ioctl(c->listener, SBX__NOTIF_ADDFD, &add);
  if (fd < 0) fd = -errno;
  close(peer);
  if (fd < 0) return fd;
  *value = fd;
  return 0;
}

/* Only what can be read can be watched. This thread can read what the caller
 * can, and the kernel has to be asked, for a watch alone asks nobody. */
static int sbx__may_read(int fd) {
  char name[64];
  struct stat st;
  int probe;

  if (fstat(fd, &st) != 0) return -errno;
  if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode)) return -EACCES;
  sbx__name(fd, name);
  probe = open(name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (probe < 0) return -errno;
  close(probe);
  return 0;
}

static int sbx__watch(const struct sbx__call* c, int64_t* value) {
  uint32_t mask = (uint32_t) c->a[2];
  int fd = sbx_notifier_open_path(c->n, AT_FDCWD, c->a[1],
                                  !(mask & IN_DONT_FOLLOW), false);
  char name[64];
  int queue, rc;

  if (fd < 0) return fd;
  rc = sbx__may_read(fd);
  queue = rc == 0 ? sbx__take(c, (int) c->a[0]) : rc;
  if (queue < 0) {
    close(fd);
    return queue;
  }
  sbx__name(fd, name);
  rc = inotify_add_watch(queue, name, mask & ~(uint32_t) IN_DONT_FOLLOW);
  if (rc < 0) rc = -errno;
  close(queue);
  close(fd);
  if (rc < 0) return rc;
  *value = rc;
  return 0;
}

/* ---- signals ---- */

static pid_t sbx__parent(pid_t pid) {
  struct sbx_proc p;

  return sbx_proc_read(pid, &p) ? p.parent : 0;
}

/* Descends from this launcher, and is not it. */
static bool sbx__is_inside(pid_t pid) {
  pid_t self = getpid();
  int depth;

  if (pid == self) return false;
  for (depth = 0; depth < SBX__DEPTH_MAX && pid > 1; depth++) {
    pid = sbx__parent(pid);
    if (pid == self) return true;
  }
  return false;
}

/* A group lies in one session, and each command has one of its own: one member
 * inside means that all are. */
static bool sbx__is_group_inside(pid_t group) {
  struct sbx_procs procs = {0};
  int dir = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  bool found = false;
  size_t i;

  if (dir < 0) return false;
  if (sbx_procs_scan(&procs, dir) == 0)
    for (i = 0; i < procs.len && !found; i++)
      found = getpgid(procs.list[i].pid) == group &&
              sbx__is_inside(procs.list[i].pid);
  sbx_procs_free(&procs);
  close(dir);
  return found;
}

/* Process 0 is the caller's own group, which here would be another one. */
static int sbx__kill(const struct sbx__call* c, pid_t pid, int signo) {
  if (pid == 0) pid = -getpgid(sbx__leader(c->n->pid));
  if (pid == -1 || pid == 0) return -EPERM;
  if (pid > 0 ? !sbx__is_inside(pid) : !sbx__is_group_inside(-pid))
    return -EPERM;
  return kill(pid, signo) == 0 ? 0 : -errno;
}

static int sbx__signal(const struct sbx__call* c) {
  const uint64_t* a = c->a;
  bool three = c->n->data.nr == SYS_tgkill;
  pid_t tid = (pid_t) (three ? a[1] : a[0]);
  int signo = (int) (three ? a[2] : a[1]);

  if (c->n->data.nr == SYS_kill) return sbx__kill(c, (pid_t) a[0], signo);
  if (tid <= 0 || !sbx__is_inside(tid)) return -EPERM;
  return (three ? syscall(SYS_tgkill, (pid_t) a[0], tid, signo)
                : syscall(SYS_tkill, tid, signo)) == 0
             ? 0
             : -errno;
}

/* ---- who gets the signals of a descriptor ---- */

static bool sbx__is_owner_inside(const struct f_owner_ex* o) {
  if (o->pid == 0) return true; /* nobody */
  if (o->pid < 0) return false;
  return o->type == F_OWNER_PGRP ? sbx__is_group_inside(o->pid)
                                 : sbx__is_inside(o->pid);
}

static int sbx__read_owner(const struct sbx__call* c, struct f_owner_ex* o) {
  int pid = (int) c->a[2], rc = 0;

  if (c->n->data.nr == SYS_fcntl && (int) c->a[1] == F_SETOWN_EX)
    return sbx__read(c, c->a[2], o, sizeof(*o));
  if (c->n->data.nr == SYS_ioctl) rc = sbx__read(c, c->a[2], &pid, sizeof(pid));
  if (rc == 0 && pid == INT_MIN) rc = -EINVAL;
  o->type = pid < 0 ? F_OWNER_PGRP : F_OWNER_PID;
  o->pid = pid < 0 ? -pid : pid;
  return rc;
}

/* Looked at again afterwards: meanwhile the number may have become another
 * process's, and the descriptor keeps that one. */
static int sbx__set_owner(const struct sbx__call* c, int fd,
                          const struct f_owner_ex* o) {
  static const struct f_owner_ex nobody = {F_OWNER_PID, 0};

  if (!sbx__is_owner_inside(o)) return -EPERM;
  if (!sbx_notifier_is_valid(c->listener, c->n)) return -EINTR;
  if (fcntl(fd, F_SETOWN_EX, o) != 0) return -errno;
  if (sbx__is_owner_inside(o)) return 0;
  fcntl(fd, F_SETOWN_EX, &nobody);
  return -ESRCH;
}

static int sbx__descriptor_owner(const struct sbx__call* c) {
  struct f_owner_ex owner;
  int rc = sbx__read_owner(c, &owner), fd;

  if (rc != 0) return rc;
  fd = sbx__take(c, (int) c->a[0]);
  if (fd < 0) return fd;
  rc = sbx__set_owner(c, fd, &owner);
  close(fd);
  return rc;
}

/* ---- the table ---- */

enum sbx__kind {
  SBX__OTHER,
  SBX__OWNERS,
  SBX__TIMES,
  SBX__XATTRS,
  SBX__TRUNCATE,
  SBX__SIGNAL,
  SBX__LISTEN,
  SBX__TERMINAL,
  SBX__OWNER,
  SBX__WATCH
};

static enum sbx__kind sbx__kind_of(const struct seccomp_notif* n) {
  switch (n->data.nr) {
#ifdef SYS_chown
    case SYS_chown: case SYS_lchown:
#endif
    case SYS_fchown: case SYS_fchownat:
      return SBX__OWNERS;
#ifdef SYS_utime
    case SYS_utime: case SYS_utimes: case SYS_futimesat:
#endif
    case SYS_utimensat:
      return SBX__TIMES;
    case SYS_setxattr: case SYS_lsetxattr: case SYS_fsetxattr:
    case SYS_removexattr: case SYS_lremovexattr: case SYS_fremovexattr:
      return SBX__XATTRS;
    case SYS_truncate: return SBX__TRUNCATE;
    case SYS_kill: case SYS_tkill: case SYS_tgkill:
      return SBX__SIGNAL;
    case SYS_listen: return SBX__LISTEN;
    case SYS_fcntl: return SBX__OWNER;
    case SYS_ioctl:
      return (unsigned) n->data.args[1] == SBX__TIOCGPTPEER ? SBX__TERMINAL
                                                            : SBX__OWNER;
    case SYS_inotify_add_watch: return SBX__WATCH;
    default: return SBX__OTHER;
  }
}

bool sbx_guard_knows(const struct seccomp_notif* n) {
  return sbx__kind_of(n) != SBX__OTHER;
}

static int sbx__dispatch(const struct sbx__call* c, int64_t* value) {
  switch (sbx__kind_of(c->n)) {
    case SBX__OWNERS: return sbx__owners(c);
    case SBX__TIMES: return sbx__times(c);
    case SBX__XATTRS: return sbx__xattrs(c);
    case SBX__TRUNCATE: return sbx__truncate(c);
    case SBX__SIGNAL: return sbx__signal(c);
    case SBX__LISTEN: return sbx__listen(c);
    case SBX__TERMINAL: return sbx__terminal(c, value);
    case SBX__OWNER: return sbx__descriptor_owner(c);
    case SBX__WATCH: return sbx__watch(c, value);
    default: return -ENOSYS;
  }
}

void sbx_guard_handle(const struct sbx_guard* g, int listener,
                      const struct seccomp_notif* n,
                      struct seccomp_notif_resp* answer) {
  struct sbx__call c = {g, listener, n, (const uint64_t*) n->data.args};
  int64_t value = 0;

  answer->error = sbx__dispatch(&c, &value);
  answer->val = answer->error == 0 ? value : 0;
}
