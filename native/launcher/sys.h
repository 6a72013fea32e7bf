/* System calls and constants that the C library or its headers may lack. The
 * numbers from 424 on are the same on every architecture. */
#ifndef SBX_LAUNCHER_SYS_H
#define SBX_LAUNCHER_SYS_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
  SBX_SYS_OPEN_TREE = 428,
  SBX_SYS_MOVE_MOUNT = 429,
  SBX_SYS_CLOSE_RANGE = 436,
  SBX_SYS_OPENAT2 = 437,
  SBX_SYS_MOUNT_SETATTR = 442,
  SBX_SYS_LANDLOCK_CREATE_RULESET = 444,
  SBX_SYS_LANDLOCK_ADD_RULE = 445,
  SBX_SYS_LANDLOCK_RESTRICT_SELF = 446,
  SBX_SYS_FCHMODAT2 = 452
};

#define SBX_OPEN_TREE_CLONE 1u
#define SBX_AT_RECURSIVE 0x8000u
#define SBX_MOVE_MOUNT_F_EMPTY_PATH 4u
#define SBX_MOUNT_ATTR_RDONLY 0x1u
#define SBX_MOUNT_ATTR_NOSUID 0x2u
#define SBX_MOUNT_ATTR_NODEV 0x4u
#define SBX_MOUNT_ATTR_NOEXEC 0x8u
#define SBX_MOUNT_ATTR_IDMAP 0x100000u

struct sbx_mount_attr {
  uint64_t attr_set;
  uint64_t attr_clr;
  uint64_t propagation;
  uint64_t userns_fd;
};

#define SBX_RESOLVE_NO_MAGICLINKS 0x02u
#define SBX_RESOLVE_NO_SYMLINKS 0x04u

struct sbx_open_how {
  uint64_t flags;
  uint64_t mode;
  uint64_t resolve;
};

static inline int sbx_open_tree(int dir, const char* path, unsigned flags) {
  return (int) syscall(SBX_SYS_OPEN_TREE, dir, path, flags);
}

static inline int sbx_move_mount(int from, const char* to) {
  return (int) syscall(SBX_SYS_MOVE_MOUNT, from, "", AT_FDCWD, to,
                       SBX_MOVE_MOUNT_F_EMPTY_PATH);
}

static inline int sbx_mount_setattr(int dir, const char* path, unsigned flags,
                                    struct sbx_mount_attr* attr) {
  return (int) syscall(SBX_SYS_MOUNT_SETATTR, dir, path, flags, attr,
                       sizeof(*attr));
}

static inline int sbx_openat2(int dir, const char* path,
                              struct sbx_open_how* how) {
  return (int) syscall(SBX_SYS_OPENAT2, dir, path, how, sizeof(*how));
}

/* Closes every descriptor from `first` on. */
static inline void sbx_close_from(unsigned first) {
  unsigned fd;

  if (syscall(SBX_SYS_CLOSE_RANGE, first, ~0u, 0) == 0) return;
  for (fd = first; fd < 65536; fd++) close((int) fd);
}

static inline int sbx_close_keep(int fd) {
  int saved = errno;

  close(fd);
  errno = saved;
  return -1;
}

/* To a file of the kernel, which takes its text in one piece only. */
static inline int sbx_write_file(const char* path, const char* text) {
  int fd = open(path, O_WRONLY | O_CLOEXEC);

  if (fd < 0) return -1;
  if (write(fd, text, strlen(text)) < 0) return sbx_close_keep(fd);
  close(fd);
  return 0;
}

#endif
