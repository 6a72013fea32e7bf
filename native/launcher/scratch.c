/* Makes and removes HOME and TMPDIR of a session that has no mounts of its own.
 */
#include "sys.h" /* first: feature macros */

#include "scratch.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "../remove.h"

extern const unsigned char sbx_preload_start[], sbx_preload_end[];

static int sbx__open_parent(const char* path, const char** name) {
  const char* slash = strrchr(path, '/');
  char* parent = strndup(path, slash == path ? 1 : (size_t) (slash - path));
  int fd;

  if (parent == NULL) return -1;
  *name = slash + 1;
  fd = open(parent, O_PATH | O_DIRECTORY | O_CLOEXEC);
  free(parent);
  return fd;
}

static int sbx__make(int dir, const char* name, const struct sbx_config* c) {
  if (mkdirat(dir, name, 0700) != 0) return -1;
  if (!c->has_run) return 0;
  return fchownat(dir, name, c->run_uid, c->run_gid, AT_SYMLINK_NOFOLLOW);
}

static int sbx__write_all(int fd, const unsigned char* at,
                          const unsigned char* end) {
  while (at < end) {
    ssize_t n = write(fd, at, (size_t) (end - at));

    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return -1;
    at += n;
  }
  return 0;
}

/* Ours and read-only: a rule of Landlock shows it. */
static int sbx__make_library(int dir) {
  int folder, fd, rc;

  if (mkdirat(dir, "lib", 0755) != 0) return -1;
  folder = openat(dir, "lib", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (folder < 0) return -1;
  fd = openat(folder, SBX_SCRATCH_LIBRARY,
              O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
  close(folder);
  if (fd < 0) return -1;
  rc = sbx__write_all(fd, sbx_preload_start, sbx_preload_end);
  if (rc != 0) return sbx_close_keep(fd);
  return close(fd);
}

/* It stays ours, so that what is in it cannot be exchanged; the commands' group
 * may pass through. */
static int sbx__let_in(int fd, const struct sbx_config* c) {
  if (!c->has_run) return 0;
  if (fchown(fd, (uid_t) -1, c->run_gid) != 0) return -1;
  return fchmod(fd, 0710);
}

static int sbx__let_into_session(const struct sbx_config* c) {
  int fd, rc;

  if (c->remove == NULL || !c->has_run) return 0;
  fd = open(c->remove, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return -1;
  rc = sbx__let_in(fd, c);
  if (rc != 0) return sbx_close_keep(fd);
  close(fd);
  return 0;
}

static int sbx__fill(int fd, const struct sbx_config* c) {
  if (sbx__make(fd, "home", c) != 0 || sbx__make(fd, "tmp", c) != 0) return -1;
  if (sbx__make(fd, "shm", c) != 0 || sbx__make_library(fd) != 0) return -1;
  return sbx__let_in(fd, c);
}

int sbx_scratch_make(struct sbx_scratch* s, const struct sbx_config* c) {
  int parent, fd, rc;

  if (sbx__let_into_session(c) != 0) return -1;
  parent = sbx__open_parent(c->scratch, &s->name);
  if (parent < 0) return -1;
  if (mkdirat(parent, s->name, 0700) != 0) return sbx_close_keep(parent);
  s->parent = parent; /* from here on it is ours to remove */
  fd = openat(parent, s->name,
              O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return -1;
  rc = sbx__fill(fd, c);
  if (rc != 0) return sbx_close_keep(fd);
  close(fd);
  return 0;
}

void sbx_scratch_remove(struct sbx_scratch* s) {
  if (s->parent >= 0) sbx_remove_tree(s->parent, s->name);
  sbx_scratch_close(s);
}

void sbx_scratch_close(struct sbx_scratch* s) {
  if (s->parent >= 0) close(s->parent);
  s->parent = -1;
}
