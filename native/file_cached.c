/* Read, stat and exists on the loop's thread, from what the kernel has in its
 * caches; everything else is left to a pool thread.
 *
 * Where the sandbox has an id of its own, taking it for the call would cost more
 * than the call. So the way is walked one folder at a time, each one pinned,
 * and gone only as long as everything on it belongs to that id and lets its
 * owner pass: then the answer is the one that a command would get. (An owner's
 * own bits are not subject to an ACL.) */
#include "files_internal.h"

#include <errno.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

enum { TRY_MAX = 64 << 10, TRY_DEPTH = 8 };

/* The folder that a name is looked up in. */
struct way {
  int fd;
  bool own; /* fd is to be closed */
  const char* name;
};

static int open_cached(int dir, const char* path, int flags,
                       uint64_t resolve) {
  resolve |= RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV |
             RESOLVE_CACHED;
  return sbx__openat2(dir, *path ? path : ".", flags, resolve);
}

static bool has_id(const struct sbx_root* root) {
  return root->fsuid >= 0;
}

static bool lets_owner(const struct sbx_root* root, const struct statx* st,
                       unsigned bits) {
  return st->stx_uid == root->fsuid && (st->stx_mode & bits) == bits;
}

static void way_close(struct way* way) {
  if (way->own) close(way->fd);
  way->own = false;
}

static bool way_passes(const struct sbx_root* root, const struct way* way) {
  struct statx st;
  return sbx__statx_fd(way->fd, &st) == 0 && S_ISDIR(st.stx_mode) &&
         lets_owner(root, &st, S_IXUSR);
}

/* One folder on. A link is no folder here. */
static bool way_step(const struct sbx_root* root, struct way* way,
                     const char* slash) {
  char name[NAME_MAX + 1];
  size_t len = (size_t)(slash - way->name);
  if (len > NAME_MAX) return false;
  memcpy(name, way->name, len);
  name[len] = '\0';
  int fd = open_cached(way->fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW,
                       RESOLVE_NO_SYMLINKS);
  way_close(way);
  if (fd < 0) return false;
  *way = (struct way){fd, true, slash + 1};
  return way_passes(root, way);
}

/* The last name, in a folder that the sandbox's own id may search. */
static bool way_walk(const struct sbx_root* root, struct way* way) {
  const char* slash;
  if (!way_passes(root, way)) return false;
  for (int depth = 0; (slash = strchr(way->name, '/')); depth++)
    if (depth == TRY_DEPTH || !way_step(root, way, slash)) return false;
  return true;
}

/* tmpfs knows no RWF_NOWAIT, and has its files in memory anyhow. */
static ssize_t read_at_once(int fd, const struct iovec* part) {
  struct statfs fs;
  ssize_t n = preadv2(fd, part, 1, 0, RWF_NOWAIT);
  if (n >= 0 || errno != EOPNOTSUPP) return n;
  if (fstatfs(fd, &fs) != 0 || fs.f_type != TMPFS_MAGIC) return -1;
  return preadv(fd, part, 1, 0);
}

/* Between look and open the name may have got another file. */
static bool is_readable(const struct sbx_root* root, int fd) {
  struct statx st;
  if (!has_id(root)) return true;
  return sbx__statx_fd(fd, &st) == 0 && lets_owner(root, &st, S_IRUSR);
}

static int read_cached(struct sbx__job* job, const struct way* way,
                       uint64_t resolve, size_t size) {
  int fd = open_cached(way->fd, way->name, O_RDONLY | O_NONBLOCK | O_NOCTTY,
                       resolve);
  if (fd < 0) return 0;
  void* data = is_readable(job->root, fd) ? malloc(size + 1) : NULL;
  struct iovec part = {data, size + 1};
  /* One byte more than there should be: a shorter answer is the end of what
   * the cache holds, a longer one is another file than the one looked at. */
  bool whole = data && read_at_once(fd, &part) == (ssize_t)size;
  close(fd);
  if (!whole) {
    free(data);
    return 0;
  }
  job->result->data = data;
  job->result->len = size;
  return 1;
}

static int try_stat(struct sbx__job* job, const struct way* way,
                    uint64_t resolve, int fd) {
  const struct sbx_file_request* request = job->request;
  struct statx st;
  if (sbx__statx_fd(fd, &st) < 0) return 0;
  sbx__stat_fill(&st, &job->result->stat);
  if (request->verb == SBX_FILE_STAT) return 1;
  if (!S_ISREG(st.stx_mode) || st.stx_size > TRY_MAX) return 0;
  if (request->max_bytes && st.stx_size > request->max_bytes) return 0;
  return read_cached(job, way, resolve, st.stx_size);
}

static int try_at(struct sbx__job* job, const struct way* way,
                  uint64_t resolve) {
  const struct sbx_file_request* request = job->request;
  bool exists = request->verb == SBX_FILE_EXISTS;
  int fd = open_cached(way->fd, way->name, O_PATH, resolve);
  if (fd == -ENOENT || fd == -ENOTDIR) {
    if (exists) return 1;
    return sbx__fail(job, fd, request->path, SBX__SOURCE);
  }
  if (fd < 0) return 0;
  job->result->exists = true;
  int rc = exists ? 1 : try_stat(job, way, resolve, fd);
  close(fd);
  return rc;
}

static bool suits(const struct sbx_file_request* request) {
  if (request->verb == SBX_FILE_STAT)
    return !(request->flags & SBX_FILE_NOFOLLOW);
  return request->verb == SBX_FILE_READ || request->verb == SBX_FILE_EXISTS;
}

int sbx_files_try(struct sbx_root* root,
                  const struct sbx_file_request* request,
                  struct sbx_file_result* result, struct sbx_error* error) {
  struct sbx__job job = {root, request, result, error};
  if (!root->quick || !suits(request) || !sbx__is_sound(request)) return 0;
  memset(result, 0, sizeof(*result));
  struct way way = {root->fd, false, request->path};
  if (!has_id(root)) return try_at(&job, &way, 0);
  int rc = 0;
  if (way_walk(root, &way)) rc = try_at(&job, &way, RESOLVE_NO_SYMLINKS);
  way_close(&way);
  return rc;
}
