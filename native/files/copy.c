/* The verb copy: one file, or a folder with everything in it. Modes and links
 * stay as they are, times are new. */
#include "internal.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../remove.h"

/* A folder on its way from one place to another. */
struct copy {
  struct sbx__job* job;
  struct sbx__tree tree;
  struct statx top; /* of the new tree, which is not copied into itself */
  int top_fd;
  int to;           /* folder in the new tree beside the one in the tree */
  bool exclusive;   /* what is there already stays */
  bool whole;       /* owner and times, too */
  const char* to_path;
  uint8_t* made;    /* per level: the folder is new, so its mode is ours */
  size_t made_size;
};

static int fail_at(struct copy* c, const struct sbx__node* node, int sys) {
  char path[PATH_MAX];
  snprintf(path, sizeof(path), "%s%s%s", c->to_path, *node->path ? "/" : "",
           node->path);
  return sbx__fail(c->job, sys, path, SBX__TARGET);
}

static void keep_owner_and_times(int fd, const struct statx* st) {
  struct timespec times[2] = {
      {st->stx_atime.tv_sec, st->stx_atime.tv_nsec},
      {st->stx_mtime.tv_sec, st->stx_mtime.tv_nsec}};
  if (fchown(fd, st->stx_uid, st->stx_gid) < 0) errno = 0; /* not root */
  futimens(fd, times);
}

/* --- what is no folder ---------------------------------------------------- */

/* Straight into place, for the new tree is not finished anyway. */
static int file_create(struct copy* c, struct sbx__spot* to, int fd,
                       const struct statx* st) {
  struct sbx__content content = {.fd = fd, .size = st->stx_size};
  mode_t mode = st->stx_mode & 0777;
  int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  int out = openat(to->dir, to->name, flags, 0600);
  if (out < 0) return -errno;
  int rc = sbx__content_write(out, &content);
  if (rc == 0 && c->whole) keep_owner_and_times(out, st);
  if (rc == 0 && fchmod(out, mode) < 0) rc = -errno;
  close(out);
  if (rc < 0) unlinkat(to->dir, to->name, 0);
  return rc;
}

static int file_replace(struct copy* c, struct sbx__spot* to,
                        const struct sbx__node* node, int fd,
                        const struct statx* st) {
  char path[PATH_MAX];
  struct sbx__replace what = {.content = {.fd = fd, .size = st->stx_size},
                              .mode = st->stx_mode,
                              .expected = INT64_MIN};
  snprintf(path, sizeof(path), "%s/%s", c->to_path, node->path);
  int rc = sbx__spot_look(to);
  if (rc < 0) return sbx__fail(c->job, rc, path, SBX__TARGET);
  return sbx__replace_at(c->job, to, path, &what);
}

static int copy_file(struct copy* c, const struct sbx__node* node, int dir,
                     struct sbx__spot* to) {
  struct statx st;
  int flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
  int fd = openat(dir, node->name, flags);
  if (fd < 0 && (errno == ENOENT || errno == ELOOP)) return 0;
  if (fd < 0) return fail_at(c, node, errno);
  int rc = sbx__statx_fd(fd, &st);
  if (rc == 0 && S_ISREG(st.stx_mode)) rc = file_create(c, to, fd, &st);
  if (rc == -EEXIST)
    rc = c->exclusive ? 0 : file_replace(c, to, node, fd, &st);
  else if (rc < 0)
    rc = fail_at(c, node, rc);
  close(fd);
  return rc;
}

static int make_link(const struct sbx__node* node, int dir,
                     struct sbx__spot* to) {
  char text[PATH_MAX];
  ssize_t len = readlinkat(dir, node->name, text, sizeof(text) - 1);
  if (len < 0) return errno == ENOENT || errno == EINVAL ? 0 : -errno;
  text[len] = 0;
  return symlinkat(text, to->dir, to->name) < 0 ? -errno : 0;
}

/* A raw call, for the function is a newer libc's. What only root can make is
 * left out, as a copy of a socket is of no use anyway. */
static int make_special(const struct sbx__node* node, int dir,
                        struct sbx__spot* to) {
  struct statx st;
  int rc = sbx__statx(dir, node->name, &st);
  if (rc < 0) return rc == -ENOENT ? 0 : rc;
  unsigned mode = st.stx_mode & (S_IFMT | 0777);
  unsigned long dev = (st.stx_rdev_minor & 0xff) | (st.stx_rdev_major << 8) |
                      ((unsigned long)(st.stx_rdev_minor & ~0xffu) << 12);
  if (S_ISREG(mode) || S_ISDIR(mode) || S_ISLNK(mode)) return 0;
  if (syscall(SYS_mknodat, to->dir, to->name, mode, dev) == 0) return 0;
  return errno == EPERM || errno == EOPNOTSUPP ? 0 : -errno;
}

static void other_owner(const struct sbx__node* node, int dir,
                        const struct sbx__spot* to) {
  struct statx st;
  if (sbx__statx(dir, node->name, &st) < 0) return;
  if (fchownat(to->dir, to->name, st.stx_uid, st.stx_gid,
               AT_SYMLINK_NOFOLLOW) < 0)
    errno = 0; /* not root */
}

static int copy_other(struct copy* c, const struct sbx__node* node, int dir,
                      struct sbx__spot* to) {
  for (int i = 0; i < 2; i++) {
    int rc = node->type == DT_LNK ? make_link(node, dir, to)
                                  : make_special(node, dir, to);
    if (rc == 0 && c->whole) other_owner(node, dir, to);
    if (rc == -EEXIST && c->exclusive) return 0;
    if (rc == -EEXIST && i == 0) {
      if (unlinkat(to->dir, to->name, 0) < 0 && errno != ENOENT)
        return fail_at(c, node, errno);
      continue;
    }
    return rc < 0 ? fail_at(c, node, rc) : 0;
  }
  return 0;
}

/* --- folders -------------------------------------------------------------- */

static int made_set(struct copy* c, size_t depth, bool made) {
  if (depth >= c->made_size) {
    size_t size = depth * 2 + 64;
    uint8_t* bigger = realloc(c->made, size);
    if (!bigger) return -ENOMEM;
    c->made = bigger;
    c->made_size = size;
  }
  c->made[depth] = made;
  return 0;
}

/* A folder of ours is opened for reading, so that its mode can be set by
 * descriptor in the end: by name, a link could have taken its place. */
static int to_open(int dir, const char* name, bool made) {
  int flags = (made ? O_RDONLY : O_PATH) | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  int fd = openat(dir, name, flags);
  if (fd < 0) return errno == ELOOP ? -ENOTDIR : -errno;
  return fd;
}

static int to_enter(struct copy* c, const struct sbx__node* node) {
  bool made = mkdirat(c->to, node->name, 0700) == 0;
  if (!made && errno != EEXIST) return -errno;
  int fd = to_open(c->to, node->name, made);
  if (fd < 0) return fd;
  close(c->to);
  c->to = fd;
  return made_set(c, node->depth, made);
}

static bool is_top(struct copy* c, const struct sbx__node* node, int dir) {
  struct statx st;
  return sbx__statx(dir, node->name, &st) == 0 &&
         sbx__same_file(&st, &c->top);
}

static int copy_enter(struct copy* c, const struct sbx__node* node, int dir) {
  if (is_top(c, node, dir)) return 0;
  int rc = sbx__tree_enter(&c->tree, node);
  if (rc == -ENOENT || rc == -ENOTDIR || rc == -ELOOP) return 0;
  if (rc < 0) return fail_at(c, node, rc);
  rc = to_enter(c, node);
  return rc < 0 ? fail_at(c, node, rc) : 0;
}

static void folder_finish(struct copy* c, int from_dir, const char* name,
                          int fd) {
  struct statx st;
  if (sbx__statx(from_dir, name, &st) < 0 || !S_ISDIR(st.stx_mode)) return;
  if (c->whole) keep_owner_and_times(fd, &st);
  fchmod(fd, st.stx_mode & 03777); /* setgid is harmless on a folder */
}

static int copy_leave(struct copy* c, const struct sbx__node* node) {
  char* parent = strndup(node->path, node->path_len);
  if (!parent) return fail_at(c, node, ENOMEM);
  char* slash = strrchr(parent, '/');
  *(slash ? slash : parent) = 0;
  int dir = sbx__tree_dir(&c->tree);
  if (dir >= 0 && c->made[node->depth])
    folder_finish(c, dir, node->name, c->to);
  close(c->to);
  bool made = node->depth > 1 && c->made[node->depth - 1];
  c->to = sbx__open_real(c->tree.root, c->top_fd, parent,
                         (made ? O_RDONLY : O_PATH) | O_DIRECTORY);
  free(parent);
  return c->to < 0 ? fail_at(c, node, c->to) : 0;
}

static int copy_node(struct copy* c, const struct sbx__node* node) {
  struct sbx__spot to = {.dir = c->to};
  if (node->leave) return copy_leave(c, node);
  int dir = sbx__tree_dir(&c->tree);
  if (dir < 0) return sbx__tree_skips(dir) ? 0 : fail_at(c, node, dir);
  if (node->type == DT_DIR) return copy_enter(c, node, dir);
  memcpy(to.name, node->name, node->name_len + 1);
  if (node->type == DT_REG) return copy_file(c, node, dir, &to);
  return copy_other(c, node, dir, &to);
}

static int copy_nodes(struct copy* c, int from) {
  struct sbx__node node = {.path = ""};
  int rc = sbx__tree_open(&c->tree, c->job->root, from, true);
  while (rc >= 0) {
    rc = sbx__tree_next(&c->tree, &node);
    if (rc == 0) break;
    if (rc < 0) return fail_at(c, &node, rc);
    rc = copy_node(c, &node);
    if (rc < 0) return rc;
  }
  return rc < 0 ? fail_at(c, &node, rc) : 0;
}

/* From one open folder into another. */
static int copy_into(struct copy* c, int from) {
  c->to = openat(c->top_fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (c->to < 0) return sbx__fail(c->job, errno, c->to_path, SBX__TARGET);
  int rc = sbx__statx_fd(c->top_fd, &c->top);
  if (rc < 0)
    rc = sbx__fail(c->job, rc, c->to_path, SBX__TARGET);
  else
    rc = copy_nodes(c, from);
  sbx__tree_close(&c->tree);
  free(c->made);
  if (c->to >= 0) close(c->to);
  return rc;
}

/* Makes the folder if nothing is there. A copy that failed leaves nothing
 * that was not there before. */
static int copy_folder(struct copy* c, int from, struct sbx__spot* to) {
  bool made = !to->present;
  if (made && mkdirat(to->dir, to->name, 0700) < 0)
    return sbx__fail(c->job, errno, c->to_path, SBX__TARGET);
  c->top_fd = to_open(to->dir, to->name[0] ? to->name : ".", made);
  if (c->top_fd < 0)
    return sbx__fail(c->job, c->top_fd, c->to_path, SBX__TARGET);
  int rc = copy_into(c, from);
  if (rc == 0 && made) folder_finish(c, from, "", c->top_fd);
  close(c->top_fd);
  if (rc < 0 && made) sbx_remove_tree(to->dir, to->name);
  return rc;
}

/* --- the verb ------------------------------------------------------------- */

static bool lies_in(const char* path, const char* folder) {
  size_t len = strlen(folder);
  if (len == 0) return true;
  return strncmp(path, folder, len) == 0 &&
         (path[len] == 0 || path[len] == '/');
}

/* By the part of `to` that exists: nothing has been made yet. */
int sbx__refuse_nesting(struct sbx__job* job, const char* from,
                        const char* to) {
  char folder[PATH_MAX], real[PATH_MAX], part[PATH_MAX];
  int rc = sbx__real_path(job->root, from, false, folder);
  if (strlen(to) >= sizeof(part)) rc = -ENAMETOOLONG;
  if (rc == 0) strcpy(part, to);
  while (rc == 0) {
    rc = sbx__real_path(job->root, part, true, real);
    if (rc != -ENOENT) break;
    char* slash = strrchr(part, '/');
    *(slash ? slash : part) = 0;
    rc = 0;
  }
  if (rc < 0) return sbx__fail(job, rc, to, SBX__TARGET);
  if (!lies_in(real, folder)) return 0;
  return sbx_error_set(job->error, SBX_E_INVALID_INPUT, EINVAL,
                       sbx__operation(job->request->verb),
                       "/%s lies in /%s, which cannot go into itself; choose "
                       "another place.", to, from);
}

static int folder_to(struct sbx__job* job, int from) {
  const struct sbx_file_request* request = job->request;
  struct copy c = {.job = job, .to = -1, .to_path = request->to,
                   .exclusive = request->flags & SBX_FILE_EXCLUSIVE};
  struct sbx__spot to;
  int rc = sbx__refuse_nesting(job, request->path, request->to);
  if (rc < 0) return rc;
  rc = sbx__resolve(job->root, request->to, SBX__FOLLOW | SBX__MAKE, &to);
  if (rc == -ENOENT) return sbx__fail_parent(job, request->to);
  if (rc < 0) return sbx__fail(job, rc, request->to, SBX__TARGET);
  if (to.present && !S_ISDIR(to.st.stx_mode))
    rc = c.exclusive ? sbx__fail_exists(job, request->to)
                     : sbx__fail_not_directory(job, request->to);
  else
    rc = copy_folder(&c, from, &to);
  sbx__spot_close(&to);
  return rc;
}

static int copy_from_folder(struct sbx__job* job, struct sbx__spot* spot) {
  const char* path = job->request->path;
  if (!(job->request->flags & SBX_FILE_RECURSIVE))
    return sbx_error_set(job->error, SBX_E_IS_DIRECTORY, EISDIR, "files.copy",
                         "/%s is a folder; copy it recursively.", path);
  int fd = openat(spot->dir, spot->name[0] ? spot->name : ".",
                  O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return sbx__fail(job, errno, path, SBX__SOURCE);
  int rc = folder_to(job, fd);
  close(fd);
  return rc;
}

/* True if the target is the source, under whatever name. */
static bool is_itself(struct sbx__job* job, const struct statx* st) {
  struct sbx__spot to;
  if (sbx__resolve(job->root, job->request->to, SBX__FOLLOW, &to) < 0)
    return false;
  sbx__spot_close(&to);
  return to.present && sbx__same_file(&to.st, st);
}

static int copy_from_file(struct sbx__job* job, struct sbx__spot* spot) {
  const struct sbx_file_request* request = job->request;
  int flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
  int fd = openat(spot->dir, spot->name, flags);
  if (fd < 0) return sbx__fail(job, errno, request->path, SBX__SOURCE);
  struct statx st;
  int rc = sbx__statx_fd(fd, &st);
  struct sbx__replace what = {
      .content = {.fd = fd, .size = st.stx_size},
      .mode = st.stx_mode,
      .expected = INT64_MIN,
      .exclusive = request->flags & SBX_FILE_EXCLUSIVE,
      .parents = true,
  };
  if (rc < 0)
    rc = sbx__fail(job, rc, request->path, SBX__SOURCE);
  else if (!S_ISREG(st.stx_mode))
    rc = sbx__fail_special(job, request->path, st.stx_mode);
  else if (what.exclusive || !is_itself(job, &st))
    rc = sbx__replace(job, request->to, &what);
  close(fd);
  return rc;
}

int sbx__file_copy(struct sbx__job* job) {
  const char* path = job->request->path;
  struct sbx__spot spot;
  int rc = sbx__resolve(job->root, path, SBX__FOLLOW, &spot);
  if (rc < 0) return sbx__fail(job, rc, path, SBX__SOURCE);
  if (!spot.present)
    rc = sbx__fail(job, ENOENT, path, SBX__SOURCE);
  else if (S_ISDIR(spot.st.stx_mode))
    rc = copy_from_folder(job, &spot);
  else if (S_ISREG(spot.st.stx_mode))
    rc = copy_from_file(job, &spot);
  else
    rc = sbx__fail_special(job, path, spot.st.stx_mode);
  sbx__spot_close(&spot);
  return rc;
}

/* --- moves between file systems ------------------------------------------- */

int sbx__copy_whole(struct sbx__job* job, const struct sbx__spot* from,
                    struct sbx__spot* to, const char* to_path) {
  struct copy c = {.job = job, .to = -1, .to_path = to_path, .whole = true};
  struct sbx__node node = {.name = from->name, .path = "",
                           .name_len = strlen(from->name),
                           .type = (from->st.stx_mode & S_IFMT) >> 12};
  if (node.type == DT_REG) return copy_file(&c, &node, from->dir, to);
  if (node.type != DT_DIR) return copy_other(&c, &node, from->dir, to);
  int fd = openat(from->dir, from->name,
                  O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return sbx__fail(job, errno, job->request->path, SBX__SOURCE);
  int rc = copy_folder(&c, fd, to);
  close(fd);
  return rc;
}
