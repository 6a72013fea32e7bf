/* The folder that a name is in, kept open from one look to the next: what was
 * asked for together is in the same folder more often than not. All of it was
 * asked for before the first is answered, so whoever renames the folder
 * meanwhile renames it after them. */
#include "internal.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

void sbx__parent_close(struct sbx__parent* parent) {
  if (parent->fd >= 0) close(parent->fd);
  parent->fd = -1;
}

static bool is_name(const char* name) {
  return *name && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

static bool holds(const struct sbx__parent* parent, const char* path,
                  size_t len) {
  return parent->fd >= 0 && parent->len == len &&
         memcmp(parent->path, path, len) == 0;
}

static bool go_to(struct sbx_root* root, struct sbx__parent* parent,
                  const char* path, size_t len) {
  sbx__parent_close(parent);
  memcpy(parent->path, path, len);
  parent->path[len] = '\0';
  parent->len = len;
  parent->fd = sbx__open(root, parent->path, O_PATH | O_DIRECTORY);
  return parent->fd >= 0;
}

/* The descriptor of the folder and the name in it. */
static int find(const struct sbx__job* job, const char** name) {
  struct sbx_root* root = job->root;
  const char* path = job->request->path;
  const char* slash = strrchr(path, '/');
  *name = slash ? slash + 1 : path;
  if (!job->parent || !is_name(*name)) return -EAGAIN;
  if (!slash) return root->fd;
  size_t len = (size_t)(slash - path);
  if (len == 0 || len >= sizeof(job->parent->path)) return -EAGAIN;
  if (!holds(job->parent, path, len) && !go_to(root, job->parent, path, len))
    return -EAGAIN;
  return job->parent->fd;
}

int sbx__parent_look(const struct sbx__job* job, struct statx* st) {
  const char* name;
  int dir = find(job, &name);
  if (dir < 0 || sbx__statx(dir, name, st) < 0 || S_ISLNK(st->stx_mode))
    return -EAGAIN;
  return 0;
}

int sbx__parent_open(const struct sbx__job* job, int flags) {
  const char* name;
  int dir = find(job, &name);
  if (dir < 0) return -EAGAIN;
  int fd = openat(dir, name, flags | O_NOFOLLOW | O_CLOEXEC);
  return fd < 0 ? -EAGAIN : fd;
}
