/* Removes trees depth first over descriptors. Below a fixed depth a folder is
 * moved up to the top instead of being entered, so that neither descriptors
 * nor memory grow with the depth of the tree.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "remove.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
  SBX__DEPTH_MAX = 48,
  SBX__DENTS_SIZE = 8192,
  SBX__PASSES_MAX = 16 /* over a folder that others keep filling */
};

struct sbx__dirent {
  uint64_t ino;
  int64_t off;
  unsigned short reclen;
  unsigned char type;
  char name[];
};

struct sbx__frame {
  int fd;
  int passes;
  bool progress; /* something was removed in this pass */
  bool stuck;    /* something could not be */
  size_t at;
  size_t len;
  char name[256]; /* in the frame below */
  _Alignas(uint64_t) char dents[SBX__DENTS_SIZE];
};

struct sbx__removal {
  int error; /* the first one */
  int depth;
  unsigned long long moved; /* counter for names at the top */
  bool moving;              /* the top got new folders in this pass */
  uint64_t mount;           /* everything removed lies on it */
  struct sbx__frame* frames[SBX__DEPTH_MAX];
};

static void sbx__note(struct sbx__removal* r, int error) {
  if (error != ENOENT && r->error == 0) r->error = error;
}

static int sbx__close(int fd) {
  int saved = errno;
  close(fd);
  errno = saved;
  return -1;
}

/* What tells one mount from another: its id where the kernel says, else the
 * device. statx, since fstat is a newer symbol than Node's own glibc floor. */
static int sbx__look(int fd, uint64_t* mount, unsigned* mode) {
  struct statx stx;
  unsigned mask = STATX_MODE;

#ifdef STATX_MNT_ID
  mask |= STATX_MNT_ID;
#endif
  if (statx(fd, "", AT_EMPTY_PATH, mask, &stx) != 0) return -1;
  *mode = stx.stx_mode;
  *mount = (uint64_t) stx.stx_dev_major << 32 | stx.stx_dev_minor;
#ifdef STATX_MNT_ID
  if (stx.stx_mask & STATX_MNT_ID) *mount = stx.stx_mnt_id;
#endif
  return 0;
}

/* A folder of mode 000 can only be opened as a path, and only the magic link
 * changes the mode of exactly that folder: by name it might be a link now. */
static int sbx__open_closed(int parent, const char* name) {
  char link[64];
  int path, fd;

  path = openat(parent, name,
                O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (path < 0) return -1;
  snprintf(link, sizeof(link), "/proc/self/fd/%d", path);
  if (chmod(link, 0700) != 0) return sbx__close(path);
  fd = openat(path, ".", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  sbx__close(path);
  return fd;
}

static int sbx__open_folder(int parent, const char* name, uint64_t* mount) {
  unsigned mode;
  int fd;

  fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0 && errno == EACCES) fd = sbx__open_closed(parent, name);
  if (fd < 0) return -1;
  if (sbx__look(fd, mount, &mode) != 0) return sbx__close(fd);
  if ((mode & 0700) != 0700 && fchmod(fd, 0700) != 0) return sbx__close(fd);
  return fd;
}

static int sbx__push(struct sbx__removal* r, int fd, const char* name) {
  struct sbx__frame* f = r->frames[r->depth];

  if (f == NULL) {
    f = malloc(sizeof(*f));
    if (f == NULL) return -1;
    r->frames[r->depth] = f;
  }
  f->fd = fd;
  f->passes = 0;
  f->progress = f->stuck = false;
  f->at = f->len = 0;
  snprintf(f->name, sizeof(f->name), "%s", name);
  r->depth++;
  return 0;
}

/* Moves the open folder `name` of the deepest frame to the top frame. */
static int sbx__move_up(struct sbx__removal* r, const char* name) {
  int top = r->frames[0]->fd;
  int from = r->frames[r->depth - 1]->fd;
  char to[32];
  int tries;

  for (tries = 0; tries < 10000; tries++) {
    snprintf(to, sizeof(to), ".sbx-rm-%llx", r->moved++);
    if (renameat(from, name, top, to) == 0) {
      r->moving = true;
      return 0;
    }
    if (errno != EEXIST && errno != ENOTEMPTY && errno != ENOTDIR) return -1;
  }
  return -1;
}

/* Enters the folder `name` of the deepest frame, or moves it to the top.
 * Returns 1 when a frame was pushed. */
static int sbx__enter(struct sbx__removal* r, const char* name) {
  uint64_t mount;
  int fd = sbx__open_folder(r->frames[r->depth - 1]->fd, name, &mount);

  if (fd < 0) return -1;
  if (mount != r->mount) {
    errno = EBUSY;
    return sbx__close(fd);
  }
  if (r->depth < SBX__DEPTH_MAX) {
    if (sbx__push(r, fd, name) != 0) return sbx__close(fd);
    return 1;
  }
  if (sbx__move_up(r, name) != 0) return sbx__close(fd);
  close(fd);
  return 0;
}

/* Removes one entry, or enters it. */
static void sbx__entry(struct sbx__removal* r, const struct sbx__dirent* d) {
  struct sbx__frame* f = r->frames[r->depth - 1];
  bool folder = d->type == DT_DIR;
  int rc;

  if (!folder) {
    if (unlinkat(f->fd, d->name, 0) == 0) {
      f->progress = true;
      return;
    }
    folder = errno == EISDIR || errno == EPERM;
  } else if (unlinkat(f->fd, d->name, AT_REMOVEDIR) == 0) {
    f->progress = true;
    return;
  } else if (errno == EBUSY) {
    folder = false;
  }
  if (!folder) {
    if (errno == ENOENT) return;
    f->stuck = true;
    sbx__note(r, errno);
    return;
  }
  rc = sbx__enter(r, d->name);
  if (rc == 0) f->progress = true;
  if (rc >= 0 || errno == ENOENT) return;
  f->stuck = true;
  /* Not a folder after all: it was unlink that was refused. */
  sbx__note(r, errno == ENOTDIR ? EPERM : errno);
}

static bool sbx__is_dot(const char* name) {
  return name[0] == '.' &&
         (name[1] == '\0' || (name[1] == '.' && name[2] == '\0'));
}

static bool sbx__fill(struct sbx__frame* f) {
  long n = syscall(SYS_getdents64, f->fd, f->dents, sizeof(f->dents));

  f->at = 0;
  f->len = n > 0 ? (size_t) n : 0;
  return n > 0;
}

/* Whether the emptied folder should be read once more: because folders were
 * moved into it, or because somebody fills it while it is being removed. */
static bool sbx__again(struct sbx__removal* r, struct sbx__frame* f) {
  bool again = f->progress && f->passes++ < SBX__PASSES_MAX;

  if (r->depth == 1 && r->moving) again = true;
  if (!again) return false;
  if (r->depth == 1) r->moving = false;
  f->progress = f->stuck = false;
  return lseek(f->fd, 0, SEEK_SET) == 0;
}

/* The deepest folder has been read to its end: removes it from its parent. */
static void sbx__leave(struct sbx__removal* r, int parent) {
  struct sbx__frame* f = r->frames[r->depth - 1];
  struct sbx__frame* up = r->depth > 1 ? r->frames[r->depth - 2] : NULL;

  if (unlinkat(up != NULL ? up->fd : parent, f->name, AT_REMOVEDIR) == 0 ||
      errno == ENOENT) {
    if (up != NULL) up->progress = true;
  } else if ((errno == ENOTEMPTY || errno == EEXIST) && sbx__again(r, f)) {
    return;
  } else {
    if (!f->stuck) sbx__note(r, errno);
    if (up != NULL) up->stuck = true;
  }
  close(f->fd);
  r->depth--;
}

static void sbx__run(struct sbx__removal* r, int parent) {
  while (r->depth > 0) {
    struct sbx__frame* f = r->frames[r->depth - 1];
    const struct sbx__dirent* d;

    if (f->at >= f->len && !sbx__fill(f)) {
      sbx__leave(r, parent);
      continue;
    }
    d = (const struct sbx__dirent*) (const void*) (f->dents + f->at);
    f->at += d->reclen;
    if (!sbx__is_dot(d->name)) sbx__entry(r, d);
  }
}

int sbx_remove_tree(int parent_fd, const char* name) {
  struct sbx__removal r;
  uint64_t mount;
  unsigned mode;
  int fd, i;

  if (name[0] == '\0' || sbx__is_dot(name) || strchr(name, '/') != NULL ||
      strlen(name) > 255)
    return -EINVAL;
  if (unlinkat(parent_fd, name, 0) == 0) return 0;
  if (errno != EISDIR && errno != EPERM) return -errno;

  memset(&r, 0, sizeof(r));
  fd = sbx__open_folder(parent_fd, name, &r.mount);
  if (fd < 0) return errno == ENOTDIR ? -EPERM : -errno;
  if (sbx__look(parent_fd, &mount, &mode) != 0 || mount != r.mount) {
    close(fd);
    return -EBUSY;
  }
  if (sbx__push(&r, fd, name) != 0) {
    close(fd);
    return -ENOMEM;
  }
  sbx__run(&r, parent_fd);
  for (i = 0; i < SBX__DEPTH_MAX; i++) free(r.frames[i]);
  return -r.error;
}
