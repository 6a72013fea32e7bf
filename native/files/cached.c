/* Read, stat and exists on the loop's thread, from what the kernel has in its
 * caches; everything else is left to a pool thread.
 *
 * Where the sandbox has an id of its own, taking it for the call would cost more
 * than the call. So the way is walked one folder at a time, each one pinned,
 * and gone only as long as everything on it belongs to that id and lets its
 * owner pass: then the answer is the one that a command would get. (An owner's
 * own bits are not subject to an ACL.) */
#include "internal.h"

#include <errno.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

enum { TRY_MAX = 64 << 10, TRY_DEPTH = 8, AT_ONCE_MAX = 32 };

/* The folder that a name is looked up in. */
struct way {
  int fd;
  bool own; /* fd is to be closed */
  const char* name;
  struct sbx__near* near; /* what is known of it, or NULL */
  struct statx st;        /* of the folder */
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

/* Without an id of the sandbox's own the kernel itself has decided. */
static bool lets_owner(const struct sbx_root* root, const struct statx* st,
                       unsigned bits) {
  if (!has_id(root)) return true;
  return st->stx_uid == root->fsuid && (st->stx_mode & bits) == bits;
}

static void way_close(struct way* way) {
  if (way->own) close(way->fd);
  way->own = false;
}

static bool way_passes(const struct sbx_root* root, struct way* way) {
  return sbx__statx_fd(way->fd, &way->st) == 0 &&
         S_ISDIR(way->st.stx_mode) && lets_owner(root, &way->st, S_IXUSR);
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
  way->fd = fd;
  way->own = true;
  way->name = slash + 1;
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

/* --- folders that files were just read in ---------------------------------- */

/* Opening a folder costs more than to ask whether it still is the one that was
 * opened before. And as long as nothing in it was made, renamed or removed, what
 * was a plain file still is one, so that it may be opened without a look: of a
 * FIFO even that would let a waiting writer go on into nothing. */
enum { NEAR_PATH = 512, NEAR_NAMES = 1024, SETTLED_MS = 50 };

struct sbx__near {
  int fd;
  char path[NEAR_PATH]; /* relative to the root, "" for the root itself */
  struct statx st;
  uint64_t names[NEAR_NAMES]; /* hashes of plain files, by their low bits */
};

uint64_t sbx__hash(const char* name) {
  uint64_t hash = 14695981039346656037u;
  for (; *name; name++) hash = (hash ^ (uint8_t)*name) * 1099511628211u;
  return hash;
}

/* Never 0, which is an empty place. */
static uint64_t hash_of(const char* name) {
  return sbx__hash(name) | 1;
}

static bool same_time(const struct statx_timestamp* a,
                      const struct statx_timestamp* b) {
  return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

static void near_renew(struct sbx__near* near, const struct statx* st) {
  if (!same_time(&near->st.stx_mtime, &st->stx_mtime) ||
      !same_time(&near->st.stx_ctime, &st->stx_ctime))
    memset(near->names, 0, sizeof(near->names));
  near->st = *st;
}

/* Clocks of file systems tick in steps: two changes in one step look like
 * one, so a folder counts from a while after its last change on. */
static bool near_settled(const struct sbx__near* near) {
  struct timespec now;
  if (clock_gettime(CLOCK_REALTIME, &now) != 0) return false;
  const struct statx_timestamp* changed = &near->st.stx_ctime;
  int64_t ms = (now.tv_sec - changed->tv_sec) * 1000 +
               (now.tv_nsec - (int64_t)changed->tv_nsec) / 1000000;
  return ms > SETTLED_MS;
}

static bool near_knows(const struct way* way) {
  uint64_t hash = hash_of(way->name);
  return way->near && way->near->names[hash / 2 % NEAR_NAMES] == hash;
}

static void near_learn(const struct way* way) {
  uint64_t hash = hash_of(way->name);
  if (way->near && near_settled(way->near))
    way->near->names[hash / 2 % NEAR_NAMES] = hash;
}

/* The folders on the way to it, one after another, and then itself. What is
 * asked for by name may be swapped meanwhile; what is used is pinned. */
static bool near_passes(const struct sbx_root* root, struct sbx__near* near,
                        struct way* way) {
  char path[NEAR_PATH];
  size_t len = 0;
  if (!way_passes(root, way)) return false;
  do {
    struct statx st;
    len += strcspn(near->path + len, "/");
    memcpy(path, near->path, len);
    path[len] = '\0';
    if (sbx__statx(root->fd, path, &st) < 0 || !S_ISDIR(st.stx_mode) ||
        !lets_owner(root, &st, S_IXUSR))
      return false;
    way->st = st;
  } while (near->path[len++] == '/');
  return sbx__same_file(&way->st, &near->st);
}

static bool near_use(struct sbx_root* root, struct way* way) {
  struct sbx__near* near = root->near;
  const char* slash = strrchr(way->name, '/');
  size_t len = slash ? (size_t)(slash - way->name) : 0;
  if (!near || !slash || strlen(near->path) != len ||
      memcmp(near->path, way->name, len) != 0)
    return false;
  if (!near_passes(root, near, way)) return false;
  near_renew(near, &way->st);
  way->fd = near->fd;
  way->name = slash + 1;
  way->near = near;
  return true;
}

/* Takes the folder over from the way that led to it. */
static void near_keep(struct sbx_root* root, struct way* way,
                      const char* path) {
  size_t len = (size_t)(way->name - path);
  if (!way->own || len == 0 || len > NEAR_PATH) return;
  struct sbx__near* near = root->near;
  if (!near) {
    near = root->near = calloc(1, sizeof(*near));
    if (!near) return;
  } else {
    close(near->fd);
    memset(near->names, 0, sizeof(near->names));
  }
  memcpy(near->path, path, len - 1);
  near->path[len - 1] = '\0';
  near->fd = way->fd;
  near->st = way->st;
  way->own = false;
  way->near = near;
}

void sbx__near_free(struct sbx_root* root) {
  if (!root->near) return;
  close(root->near->fd);
  free(root->near);
}

/* --- answers ----------------------------------------------------------------- */

/* tmpfs knows no RWF_NOWAIT, and has its files in memory anyhow. */
static ssize_t read_at_once(int fd, const struct iovec* part) {
  struct statfs fs;
  ssize_t n = preadv2(fd, part, 1, 0, RWF_NOWAIT);
  if (n >= 0 || errno != EOPNOTSUPP) return n;
  if (fstatfs(fd, &fs) != 0 || fs.f_type != TMPFS_MAGIC) return -1;
  return preadv(fd, part, 1, 0);
}

/* One byte more than there should be: a shorter answer is the end of what the
 * cache holds, a longer one is another file than the one looked at. */
static int read_open(struct sbx__job* job, int fd, size_t size) {
  void* data = malloc(size + 1);
  struct iovec part = {data, size + 1};
  if (!data || read_at_once(fd, &part) != (ssize_t)size) {
    free(data);
    return 0;
  }
  job->result->data = data;
  job->result->len = size;
  return 1;
}

static bool is_small(const struct sbx_file_request* request,
                     const struct statx* st) {
  if (!S_ISREG(st->stx_mode) || st->stx_size > TRY_MAX) return false;
  return !request->max_bytes || st->stx_size <= request->max_bytes;
}

/* Looks again, for the name may have got another file meanwhile. */
static int read_cached(struct sbx__job* job, const struct way* way,
                       uint64_t resolve) {
  struct statx st;
  int fd = open_cached(way->fd, way->name, O_RDONLY | O_NONBLOCK | O_NOCTTY,
                       resolve);
  if (fd < 0) return 0;
  int rc = 0;
  if (sbx__statx_fd(fd, &st) == 0 && is_small(job->request, &st) &&
      lets_owner(job->root, &st, S_IRUSR))
    rc = read_open(job, fd, st.stx_size);
  if (rc == 1) sbx__stat_fill(&st, &job->result->stat);
  close(fd);
  return rc;
}

static int try_stat(struct sbx__job* job, const struct way* way,
                    uint64_t resolve, int fd) {
  const struct sbx_file_request* request = job->request;
  struct statx st;
  if (sbx__statx_fd(fd, &st) < 0) return 0;
  sbx__stat_fill(&st, &job->result->stat);
  if (request->verb == SBX_FILE_STAT) return 1;
  if (!is_small(request, &st)) return 0;
  near_learn(way);
  return read_cached(job, way, resolve);
}

static int try_at(struct sbx__job* job, const struct way* way,
                  uint64_t resolve) {
  const struct sbx_file_request* request = job->request;
  bool exists = request->verb == SBX_FILE_EXISTS;
  if (request->verb == SBX_FILE_READ && near_knows(way))
    return read_cached(job, way, resolve);
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

/* An answer at once lets the caller go on at once, who may then never let the
 * loop turn: a few per turn, the rest is for the threads. So are all while
 * threads are at it: the loop's has enough to do with what those answer. */
static bool may_answer(uv_loop_t* loop, struct sbx_root* root) {
  if (root->hops > 0) return false;
  uint64_t now = uv_now(loop);
  if (now != root->turn_ms) root->at_once = 0;
  root->turn_ms = now;
  return root->at_once++ < AT_ONCE_MAX;
}

int sbx_files_try(uv_loop_t* loop, struct sbx_root* root,
                  const struct sbx_file_request* request,
                  struct sbx_file_result* result, struct sbx_error* error) {
  struct sbx__job job = {root, request, result, error, NULL};
  if (!root->quick || !suits(request) || !sbx__is_sound(request)) return 0;
  if (!may_answer(loop, root)) return 0;
  memset(result, 0, sizeof(*result));
  struct way way = {.fd = root->fd, .name = request->path};
  if (near_use(root, &way)) return try_at(&job, &way, RESOLVE_NO_SYMLINKS);
  way = (struct way){.fd = root->fd, .name = request->path};
  int rc = 0;
  if (way_walk(root, &way)) {
    near_keep(root, &way, request->path);
    rc = try_at(&job, &way, RESOLVE_NO_SYMLINKS);
  } else if (!has_id(root)) { /* links on the way are the kernel's to follow */
    struct way whole = {.fd = root->fd, .name = request->path};
    rc = try_at(&job, &whole, 0);
  }
  way_close(&way);
  return rc;
}
