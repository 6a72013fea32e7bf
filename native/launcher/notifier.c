/* Answers chmod calls with set-id bits: opens the file itself, leaves S_ISGID
 * to folders, drops both bits on everything else and reports success, as the
 * kernel does for a foreign group.
 *
 * It has no more rights than those it acts for, and it never lets a call
 * continue, so nothing depends on memory that another thread can still change.
 */
#include "sys.h" /* first: feature macros */

#include "notifier.h"

#include <limits.h>
#include <linux/seccomp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include "guard.h"

enum {
  SBX__AT_NOFOLLOW = 0x100,
  SBX__AT_EMPTY = 0x1000
};

/* One call, whichever of the four it was. */
struct sbx__chmod {
  uint32_t tid;
  int dir;
  bool has_path;
  unsigned mode;
  unsigned flags;
  char path[PATH_MAX];
};

/* Reads page by page: the string may end just before unmapped memory. */
static int sbx__read_path(uint32_t tid, uint64_t address, char* out) {
  size_t at = 0;

  while (at < PATH_MAX) {
    size_t part = 4096 - (size_t) ((address + at) & 4095);
    struct iovec to = {out + at, part < PATH_MAX - at ? part : PATH_MAX - at};
    struct iovec from = {(void*) (uintptr_t) (address + at), to.iov_len};
    ssize_t n = process_vm_readv((pid_t) tid, &to, 1, &from, 1, 0);

    if (n <= 0) return n < 0 && errno == EPERM ? -EPERM : -EFAULT;
    if (memchr(to.iov_base, '\0', (size_t) n) != NULL) return 0;
    at += (size_t) n;
  }
  return -ENAMETOOLONG;
}

static int sbx__parse(const struct seccomp_notif* n, struct sbx__chmod* c) {
  const uint64_t* a = (const uint64_t*) n->data.args;
  uint64_t address = 0;

  c->tid = n->pid;
  c->dir = AT_FDCWD;
  c->flags = 0;
  c->has_path = true;
  switch (n->data.nr) {
    case SYS_fchmod:
      c->has_path = false;
      c->dir = (int) a[0];
      c->mode = (unsigned) a[1];
      return 0;
#ifdef SYS_chmod
    case SYS_chmod:
      address = a[0];
      c->mode = (unsigned) a[1];
      break;
#endif
    case SBX_SYS_FCHMODAT2:
      c->flags = (unsigned) a[3];
      /* fall through */
    case SYS_fchmodat:
      c->dir = (int) a[0];
      address = a[1];
      c->mode = (unsigned) a[2];
      break;
    default:
      return -ENOSYS;
  }
  if (c->flags & ~(unsigned) (SBX__AT_NOFOLLOW | SBX__AT_EMPTY)) return -EINVAL;
  return sbx__read_path(c->tid, address, c->path);
}

static int sbx__open_descriptor(uint32_t tid, unsigned fd) {
  char link[64];

  snprintf(link, sizeof(link), "/proc/%u/fd/%u", tid, fd);
  fd = (unsigned) open(link, O_PATH | O_CLOEXEC);
  return (int) fd < 0 ? (errno == ENOENT ? -EBADF : -errno) : (int) fd;
}

/* libc and shells name an open file by these paths; they mean the caller's
 * descriptor, where here they would be PID 1's own. */
static bool sbx__names_descriptor(const struct sbx__chmod* c, unsigned* fd) {
  static const char* const fronts[] = {"/proc/self/fd/", "/dev/fd/",
                                       "/proc/thread-self/fd/"};
  char own[32];
  size_t i;

  snprintf(own, sizeof(own), "/proc/%u/fd/", c->tid);
  for (i = 0; i < 4; i++) {
    const char* front = i < 3 ? fronts[i] : own;
    size_t len = strlen(front);
    char* end;

    if (strncmp(c->path, front, len) != 0 || c->path[len] < '0' ||
        c->path[len] > '9')
      continue;
    *fd = (unsigned) strtoul(c->path + len, &end, 10);
    return *end == '\0';
  }
  return false;
}

static int sbx__open_base(const struct sbx__chmod* c) {
  char link[64];
  int fd;

  if (c->dir != AT_FDCWD)
    return sbx__open_descriptor(c->tid, (unsigned) c->dir);
  snprintf(link, sizeof(link), "/proc/%u/cwd", c->tid);
  fd = open(link, O_PATH | O_DIRECTORY | O_CLOEXEC);
  return fd < 0 ? -errno : fd;
}

/* Without openat2 there has to be a guard, which asks where the file lies. */
static int sbx__open_at(int base, const char* path, struct sbx_open_how* how) {
  int fd = sbx_openat2(base, path, how);

  if (fd < 0 && (errno == ENOSYS || errno == EPERM))
    fd = openat(base, path, (int) how->flags);
  return fd < 0 ? -errno : fd;
}

/* Other magic links than those are refused: they too would be PID 1's own. */
static int sbx__open_path(const struct sbx__chmod* c) {
  struct sbx_open_how how = {.flags = O_PATH | O_CLOEXEC,
                             .resolve = SBX_RESOLVE_NO_MAGICLINKS};
  unsigned named;
  int base, fd;

  if (c->flags & SBX__AT_NOFOLLOW)
    how.flags |= O_NOFOLLOW;
  else if (sbx__names_descriptor(c, &named))
    return sbx__open_descriptor(c->tid, named);
  if (c->path[0] == '\0') {
    if (!(c->flags & SBX__AT_EMPTY)) return -ENOENT;
    return sbx__open_base(c);
  }
  if (c->path[0] == '/') return sbx__open_at(AT_FDCWD, c->path, &how);
  base = sbx__open_base(c);
  if (base < 0) return base;
  fd = sbx__open_at(base, c->path, &how);
  close(base);
  return fd;
}

static bool sbx__is_valid(int listener, uint64_t id) {
  return ioctl(listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &id) == 0;
}

static int sbx__apply(int fd, unsigned mode) {
  char link[64];
  struct stat st;

  if (fstat(fd, &st) != 0) return -errno;
  if (S_ISLNK(st.st_mode)) return -EOPNOTSUPP;
  mode &= S_ISDIR(st.st_mode) ? ~(unsigned) S_ISUID
                              : ~(unsigned) (S_ISUID | S_ISGID);
  snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
  return chmod(link, mode & 07777) == 0 ? 0 : -errno;
}

/* The caller may die at any time and its id be given to another process; only
 * a call that is still waiting after the file was opened is worth an answer. */
static int sbx__handle(int listener, const struct seccomp_notif* n,
                       const struct sbx_guard* guard) {
  struct sbx__chmod c;
  int fd, rc;

  rc = sbx__parse(n, &c);
  if (rc != 0) return rc;
  fd = c.has_path ? sbx__open_path(&c)
                  : sbx__open_descriptor(c.tid, (unsigned) c.dir);
  if (fd < 0) return fd;
  if (guard != NULL && !sbx_guard_holds(guard, fd)) {
    close(fd);
    return -EPERM;
  }
  rc = sbx__is_valid(listener, n->id) ? sbx__apply(fd, c.mode) : -EINTR;
  close(fd);
  return rc;
}

/* The kernel may know longer structs than these headers do. */
struct sbx__room {
  _Alignas(8) unsigned char bytes[1024];
};

void sbx_notifier_answer(int listener, const struct sbx_guard* guard) {
  struct sbx__room in, out;
  struct seccomp_notif* n = (void*) &in;
  struct seccomp_notif_resp* answer = (void*) &out;

  memset(&in, 0, sizeof(in));
  /* A caller that was killed meanwhile leaves nothing to receive. */
  if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, n) != 0) return;
  memset(&out, 0, sizeof(out));
  answer->id = n->id;
  if (guard != NULL && sbx_guard_knows(n))
    sbx_guard_handle(guard, listener, n, answer);
  else
    answer->error = sbx__handle(listener, n, guard);
  ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, answer);
}

int sbx_notifier_open_path(const struct seccomp_notif* n, int dir,
                           uint64_t address, bool follow, bool empty) {
  struct sbx__chmod c = {.tid = n->pid, .dir = dir};
  int rc = sbx__read_path(c.tid, address, c.path);

  if (!follow) c.flags |= SBX__AT_NOFOLLOW;
  if (empty) c.flags |= SBX__AT_EMPTY;
  return rc != 0 ? rc : sbx__open_path(&c);
}

int sbx_notifier_open_descriptor(const struct seccomp_notif* n, int fd) {
  return sbx__open_descriptor(n->pid, (unsigned) fd);
}

bool sbx_notifier_is_valid(int listener, const struct seccomp_notif* n) {
  return sbx__is_valid(listener, n->id);
}

bool sbx_notifier_can_guard(void) {
  struct seccomp_notif_sizes sizes;

  if (syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, &sizes) != 0)
    return false;
  return sizes.seccomp_notif <= sizeof(struct sbx__room) &&
         sizes.seccomp_notif_resp <= sizeof(struct sbx__room);
}

bool sbx_notifier_can_run(void) {
  struct sbx_open_how how = {.flags = O_PATH | O_CLOEXEC};
  int fd = sbx_openat2(AT_FDCWD, "/", &how);

  if (fd < 0) return false;
  close(fd);
  return sbx_notifier_can_guard();
}
