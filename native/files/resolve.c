/* From a relative path to a descriptor without ever leaving the root.
 *
 * The kernel resolves (openat2, RESOLVE_BENEATH). What it refuses for being
 * absolute or for climbing above the root may still come back to the root at
 * the place where commands see it; such a path, and every path on a kernel
 * without openat2, is walked here, one component and one link at a time.
 */
#include "internal.h"

#include <errno.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
  LINKS_MAX = 40,  /* the kernel's own limit */
  RACES_MAX = 32,  /* lost against somebody who renames all the time */
  REST_MAX = 2 * PATH_MAX
};

#define BENEATH (RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS)

int sbx__openat2(int dir, const char* path, int flags, uint64_t resolve) {
  struct open_how how = {
      .flags = (uint64_t)(flags | O_CLOEXEC), .resolve = resolve};
  for (int i = 0;; i++) {
    long fd = syscall(SYS_openat2, dir, path, &how, sizeof(how));
    if (fd >= 0) return (int)fd;
    bool again = errno == EINTR ||
                 (errno == EAGAIN && !(resolve & RESOLVE_CACHED));
    if (!again || i == RACES_MAX) return -errno;
  }
}

/* What openat2 cannot decide: the walk here gives the definite answer. */
static bool undecided(int rc) {
  return rc == -EXDEV || rc == -ELOOP || rc == -ENOSYS || rc == -EPERM ||
         rc == -EAGAIN;
}

static int open_beneath(const struct sbx_root* root, int dir,
                        const char* path, int flags, uint64_t resolve) {
  if (root->no_openat2) return -ENOSYS;
  return sbx__openat2(dir, *path ? path : ".", flags, resolve);
}

/* --- the walk ------------------------------------------------------------ */

struct walk {
  struct sbx_root* root;
  unsigned flags;
  int fd;     /* the folder reached */
  int links;  /* followed */
  bool linked;
  size_t up;  /* levels above the root, on the way back to it or out */
  size_t len; /* of done */
  char done[PATH_MAX]; /* real path of fd */
  size_t at;           /* in rest */
  char rest[REST_MAX]; /* still to walk */
};

static int open_folder(int dir, const char* name) {
  int flags = O_PATH | O_NOFOLLOW | O_DIRECTORY | O_CLOEXEC;
  int fd = openat(dir, *name ? name : ".", flags);
  return fd < 0 ? -errno : fd;
}

static int walk_to(struct walk* w, int fd) {
  if (fd < 0) return fd;
  if (w->fd >= 0) close(w->fd);
  w->fd = fd;
  return 0;
}

static int walk_to_root(struct walk* w) {
  w->len = 0;
  w->done[0] = 0;
  return walk_to(w, open_folder(w->root->fd, ""));
}

/* Never opens "..": the folder may have been moved out meanwhile. */
static int walk_up(struct walk* w) {
  if (w->len == 0) {
    if (w->up < w->root->parts) w->up++;
    return 0;
  }
  while (w->len > 0 && w->done[w->len - 1] != '/') w->len--;
  if (w->len > 0) w->len--;
  w->done[w->len] = 0;
  int flags = O_PATH | O_DIRECTORY;
  return walk_to(w, sbx__open_real(w->root, w->root->fd, w->done, flags));
}

/* Above the root only the way back to it exists. */
static int walk_back(struct walk* w, const char* name) {
  const char* part = sbx__root_inside(w->root, w->root->parts - w->up);
  if (strcmp(part, name) != 0) return -EXDEV;
  w->up--;
  return 0;
}

static int walk_into(struct walk* w, const char* name, int fd) {
  size_t len = strlen(name);
  if (w->len + len + 2 > sizeof(w->done)) {
    close(fd);
    return -ENAMETOOLONG;
  }
  if (w->len > 0) w->done[w->len++] = '/';
  memcpy(w->done + w->len, name, len + 1);
  w->len += len;
  return walk_to(w, fd);
}

static int walk_link(struct walk* w, int link) {
  char text[PATH_MAX];
  ssize_t len = readlinkat(link, "", text, sizeof(text));
  if (len < 0) return -errno;
  if (++w->links > LINKS_MAX) return -ELOOP;
  size_t left = strlen(w->rest + w->at);
  if (len == sizeof(text) || (size_t)len + left + 2 > sizeof(w->rest))
    return -ENAMETOOLONG;
  memmove(w->rest + len + 1, w->rest + w->at, left + 1);
  memcpy(w->rest, text, (size_t)len);
  w->rest[len] = '/';
  if (left == 0) w->rest[len] = 0;
  w->at = 0;
  if (text[0] != '/') return 0;
  w->up = w->root->parts;
  return walk_to_root(w);
}

/* The next component; 0 when the path is used up. */
static int walk_take(struct walk* w, char* name) {
  while (w->rest[w->at] == '/') w->at++;
  size_t len = strcspn(w->rest + w->at, "/");
  if (len == 0) return 0;
  if (len > NAME_MAX) return -ENAMETOOLONG;
  memcpy(name, w->rest + w->at, len);
  name[len] = 0;
  w->at += len;
  return 1;
}

static bool walk_is_last(const struct walk* w) {
  return w->rest[w->at] == 0;
}

/* Hands the folder over: a spot is (folder, name). */
static int walk_finish(struct walk* w, const char* name,
                       struct sbx__spot* spot) {
  if (w->up > 0) return -EXDEV;
  spot->dir = w->fd;
  spot->owned = true;
  spot->linked = w->linked;
  w->fd = -1;
  strcpy(spot->name, name);
  int rc = sbx__spot_look(spot);
  if (rc < 0) sbx__spot_close(spot);
  return rc;
}

static int walk_missing(struct walk* w, const char* name) {
  if (!(w->flags & SBX__MAKE)) return -ENOENT;
  int rc = sbx__mkdir_at(w->fd, name, 0755);
  if (rc < 0 && rc != -EEXIST) return rc;
  int fd = open_folder(w->fd, name);
  if (fd == -ELOOP || fd == -ENOTDIR) return -EAGAIN; /* someone was faster */
  return fd < 0 ? fd : walk_into(w, name, fd);
}

/* 1: the walk ended at `spot`. */
static int walk_step(struct walk* w, const char* name,
                     struct sbx__spot* spot) {
  bool last = walk_is_last(w);
  struct statx st;
  if (strcmp(name, ".") == 0) return 0;
  if (strcmp(name, "..") == 0) return walk_up(w);
  if (w->up > 0) return walk_back(w, name);
  if (last && !(w->flags & SBX__FOLLOW)) {
    int rc = walk_finish(w, name, spot);
    return rc < 0 ? rc : 1;
  }
  int fd = openat(w->fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0 && errno == ENOENT && !last) return walk_missing(w, name);
  if (fd < 0 && errno != ENOENT) return -errno;
  int rc = fd < 0 ? 0 : sbx__statx_fd(fd, &st);
  if (rc == 0 && fd >= 0 && S_ISLNK(st.stx_mode)) {
    if (last) w->linked = true;
    rc = walk_link(w, fd);
    close(fd);
    return rc;
  }
  if (rc == 0 && fd >= 0 && !last && S_ISDIR(st.stx_mode))
    return walk_into(w, name, fd);
  if (fd >= 0) close(fd);
  if (rc < 0) return rc;
  if (!last) return -ENOTDIR;
  rc = walk_finish(w, name, spot);
  return rc < 0 ? rc : 1;
}

static int walk_run(struct walk* w, struct sbx__spot* spot) {
  char name[NAME_MAX + 1];
  int rc = walk_to_root(w);
  while (rc == 0) {
    rc = walk_take(w, name);
    if (rc == 0) return walk_finish(w, "", spot);
    if (rc > 0) rc = walk_step(w, name, spot);
  }
  return rc < 0 ? rc : 0;
}

static int walk(struct walk* w, struct sbx_root* root, const char* path,
                unsigned flags, struct sbx__spot* spot) {
  size_t len = strlen(path);
  if (len >= PATH_MAX) return -ENAMETOOLONG;
  for (int i = 0;; i++) {
    w->root = root;
    w->flags = flags;
    w->fd = -1;
    w->links = 0;
    w->linked = false;
    w->up = w->at = 0;
    memcpy(w->rest, path, len + 1);
    int rc = walk_run(w, spot);
    if (w->fd >= 0) close(w->fd);
    /* The last component became a link between two looks at it. */
    if (rc == 0 && (flags & SBX__FOLLOW) && spot->present &&
        S_ISLNK(spot->st.stx_mode)) {
      sbx__spot_close(spot);
      rc = -EAGAIN;
    }
    if (rc != -EAGAIN || i == RACES_MAX) return rc;
  }
}

/* --- the spot ------------------------------------------------------------ */

int sbx__spot_look(struct sbx__spot* spot) {
  int rc = sbx__statx(spot->dir, spot->name, &spot->st);
  spot->present = rc == 0;
  return rc == -ENOENT ? 0 : rc;
}

void sbx__spot_close(struct sbx__spot* spot) {
  if (spot->owned) close(spot->dir);
  spot->owned = false;
  spot->dir = -1;
}

/* The usual case in two calls: the kernel opens the parent, and the name in it
 * is no link. 1: it is not the usual case. */
static int spot_fast(struct sbx_root* root, const char* path, unsigned flags,
                     struct sbx__spot* spot) {
  char parent[PATH_MAX];
  const char* slash = strrchr(path, '/');
  const char* name = slash ? slash + 1 : path;
  if (strlen(path) >= PATH_MAX || strlen(name) > NAME_MAX)
    return -ENAMETOOLONG;
  strcpy(spot->name, name);
  spot->dir = root->fd;
  if (slash) {
    memcpy(parent, path, (size_t)(slash - path));
    parent[slash - path] = 0;
    spot->dir = open_beneath(root, root->fd, parent, O_PATH | O_DIRECTORY,
                             BENEATH);
    spot->owned = spot->dir >= 0;
    if (undecided(spot->dir)) return 1;
    if (spot->dir == -ENOENT && (flags & SBX__MAKE)) return 1;
    if (spot->dir < 0) return spot->dir;
  }
  int rc = sbx__spot_look(spot);
  if (rc < 0) {
    sbx__spot_close(spot);
    return rc;
  }
  if (!(flags & SBX__FOLLOW) || !spot->present) return 0;
  if (!S_ISLNK(spot->st.stx_mode)) return 0;
  sbx__spot_close(spot);
  return 1;
}

int sbx__resolve(struct sbx_root* root, const char* path, unsigned flags,
                 struct sbx__spot* spot) {
  struct walk w;
  spot->owned = spot->present = spot->linked = false;
  int rc = spot_fast(root, path, flags, spot);
  return rc == 1 ? walk(&w, root, path, flags, spot) : rc;
}

static int open_slowly(struct sbx_root* root, const char* path, int flags) {
  struct sbx__spot spot = {.owned = false};
  struct walk w;
  for (int i = 0;; i++) {
    int rc = walk(&w, root, path, SBX__FOLLOW, &spot);
    if (rc < 0) return rc;
    int fd = openat(spot.dir, spot.name[0] ? spot.name : ".",
                    flags | O_NOFOLLOW | O_CLOEXEC);
    rc = fd < 0 ? -errno : fd;
    sbx__spot_close(&spot);
    if (rc != -ELOOP || i == RACES_MAX) return rc;
  }
}

int sbx__open(struct sbx_root* root, const char* path, int flags) {
  int fd = open_beneath(root, root->fd, path, flags, BENEATH);
  return undecided(fd) ? open_slowly(root, path, flags) : fd;
}

int sbx__real_path(struct sbx_root* root, const char* path, bool may_miss,
                   char* out) {
  struct sbx__spot spot = {.owned = false};
  struct walk w;
  int rc = walk(&w, root, path, SBX__FOLLOW, &spot);
  if (rc < 0) return rc;
  bool missing = !spot.present && !may_miss;
  sbx__spot_close(&spot);
  if (missing) return -ENOENT;
  size_t len = strlen(spot.name), slash = w.len > 0 && len > 0;
  if (w.len + slash + len >= PATH_MAX) return -ENAMETOOLONG;
  memcpy(out, w.done, w.len);
  if (slash) out[w.len] = '/';
  memcpy(out + w.len + slash, spot.name, len + 1);
  return 0;
}

/* --- without links -------------------------------------------------------- */

/* Length of the longest piece of `path` that the kernel takes and that ends
 * before a slash. */
static size_t piece_length(const char* path) {
  size_t len = strnlen(path, PATH_MAX);
  if (len < PATH_MAX) return len;
  do len--;
  while (len > 0 && path[len] != '/');
  return len;
}

static int open_parts(int base, const char* path, int flags) {
  char name[NAME_MAX + 1];
  int dir = base;
  for (;;) {
    size_t len = strcspn(path, "/");
    if (len > NAME_MAX) break;
    memcpy(name, path, len);
    name[len] = 0;
    bool last = path[len] == 0;
    int fd = openat(dir, len ? name : ".",
                    (last ? flags : O_PATH | O_DIRECTORY) | O_NOFOLLOW |
                        O_CLOEXEC);
    int rc = fd < 0 ? -errno : fd;
    if (dir != base) close(dir);
    if (rc < 0 || last) return rc;
    dir = fd;
    path += len + 1;
  }
  if (dir != base) close(dir);
  return -ENAMETOOLONG;
}

int sbx__open_real(const struct sbx_root* root, int base, const char* path,
                   int flags) {
  char piece[PATH_MAX];
  uint64_t resolve = BENEATH | RESOLVE_NO_SYMLINKS;
  int dir = base, fd;
  for (;;) {
    size_t len = piece_length(path);
    bool last = path[len] == 0;
    memcpy(piece, path, len);
    piece[len] = 0;
    int piece_flags = last ? flags : O_PATH | O_DIRECTORY;
    fd = open_beneath(root, dir, piece, piece_flags, resolve);
    if (fd == -ENOSYS || fd == -EPERM || fd == -EAGAIN)
      fd = open_parts(dir, piece, piece_flags);
    if (dir != base) close(dir);
    if (fd < 0 || last) return fd;
    if (len == 0) break;
    dir = fd;
    path += len + 1;
  }
  close(fd);
  return -ENAMETOOLONG;
}

int sbx__mkdir_at(int dir, const char* name, uint32_t mode) {
  struct statx st;
  if (mkdirat(dir, name, mode & 01777) < 0) return -errno;
  if (sbx__statx(dir, name, &st) < 0 || !S_ISDIR(st.stx_mode)) return 0;
  if ((st.stx_mode & 01777) == (mode & 01777)) return 0;
  int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return 0;
  int rc = fchmod(fd, (st.stx_mode & 02000) | (mode & 01777));
  close(fd);
  return rc < 0 ? -errno : 0;
}
