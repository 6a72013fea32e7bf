/* Goes through everything below a folder without recursion and with one open
 * descriptor, so that a tree of any depth costs memory for its names only.
 *
 * A folder is opened relative to its parent when that is still open, and else
 * by its path from the top without following links: whatever is renamed
 * meanwhile, nothing outside the top is reached.
 */
#include "internal.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct sbx__level {
  struct sbx__names names;
  size_t next;
  size_t path_len; /* of the folder, within tree->path */
};

enum { FOLDER = O_RDONLY | O_DIRECTORY | O_NONBLOCK };

bool sbx__tree_skips(int rc) {
  return rc == -ENOENT || rc == -EACCES || rc == -EPERM || rc == -ENOTDIR ||
         rc == -ELOOP || rc == -EXDEV || rc == -ESTALE;
}

static void close_folder(struct sbx__tree* tree) {
  if (tree->fd >= 0 && tree->fd != tree->top) close(tree->fd);
  tree->fd = -1;
}

static int push(struct sbx__tree* tree, int fd, size_t path_len) {
  if (tree->depth == tree->levels_size) {
    size_t size = tree->levels_size ? tree->levels_size * 2 : 16;
    struct sbx__level* levels = realloc(tree->levels, size * sizeof(*levels));
    if (!levels) return -ENOMEM;
    tree->levels = levels;
    tree->levels_size = size;
  }
  struct sbx__level* level = &tree->levels[tree->depth];
  int rc = sbx__names_read(fd, tree->hidden, &level->names);
  if (rc < 0) return rc;
  level->next = 0;
  level->path_len = path_len;
  tree->depth++;
  return 0;
}

int sbx__tree_open(struct sbx__tree* tree, const struct sbx_root* root,
                   int top, bool hidden) {
  memset(tree, 0, sizeof(*tree));
  tree->root = root;
  tree->top = tree->fd = top;
  tree->hidden = hidden;
  return push(tree, top, 0);
}

static int set_path(struct sbx__tree* tree, const struct sbx__level* level,
                    const struct sbx__name* name) {
  size_t need = level->path_len + 1 + name->len + 1;
  if (need > tree->path_size) {
    size_t size = need * 2;
    char* path = realloc(tree->path, size);
    if (!path) return -ENOMEM;
    tree->path = path;
    tree->path_size = size;
  }
  size_t at = level->path_len;
  if (at > 0) tree->path[at++] = '/';
  memcpy(tree->path + at, name->text, name->len + 1);
  return (int)(at - level->path_len);
}

static void leave(struct sbx__tree* tree, struct sbx__node* node) {
  size_t len = tree->levels[tree->depth - 1].path_len;
  tree->path[len] = 0;
  const char* slash = strrchr(tree->path, '/');
  node->path = tree->path;
  node->path_len = len;
  node->name = slash ? slash + 1 : tree->path;
  node->name_len = len - (size_t)(node->name - tree->path);
  node->type = DT_DIR;
  node->leave = true;
}

static void pop(struct sbx__tree* tree) {
  close_folder(tree);
  sbx__names_free(&tree->levels[--tree->depth].names);
}

int sbx__tree_next(struct sbx__tree* tree, struct sbx__node* node) {
  if (tree->depth == 0) return 0;
  struct sbx__level* level = &tree->levels[tree->depth - 1];
  if (level->next == level->names.count) {
    if (tree->depth > 1) leave(tree, node);
    pop(tree);
    node->depth = tree->depth;
    return tree->depth > 0;
  }
  const struct sbx__name* name = &level->names.list[level->next++];
  int slash = set_path(tree, level, name);
  if (slash < 0) return slash;
  *node = (struct sbx__node){.path = tree->path,
                             .path_len = level->path_len + slash + name->len,
                             .name = tree->path + level->path_len + slash,
                             .name_len = name->len,
                             .depth = tree->depth,
                             .type = name->type};
  return 1;
}

int sbx__tree_dir(struct sbx__tree* tree) {
  size_t len = tree->levels[tree->depth - 1].path_len;
  if (tree->fd >= 0) return tree->fd;
  if (len == 0) return tree->fd = tree->top;
  char kept = tree->path[len];
  tree->path[len] = 0;
  int fd = sbx__open_real(tree->root, tree->top, tree->path, FOLDER);
  tree->path[len] = kept;
  if (fd >= 0) tree->fd = fd;
  return fd;
}

int sbx__tree_enter(struct sbx__tree* tree, const struct sbx__node* node) {
  int fd;
  if (tree->fd >= 0) {
    fd = openat(tree->fd, node->name, FOLDER | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) fd = -errno;
  } else {
    fd = sbx__open_real(tree->root, tree->top, tree->path, FOLDER);
  }
  if (fd < 0) return fd;
  int rc = push(tree, fd, node->path_len);
  if (rc < 0) {
    close(fd);
    return rc;
  }
  close_folder(tree);
  tree->fd = fd;
  return 0;
}

void sbx__tree_close(struct sbx__tree* tree) {
  while (tree->depth > 0) pop(tree);
  free(tree->levels);
  free(tree->path);
  tree->levels = NULL;
  tree->path = NULL;
}

int sbx__node_target(const struct sbx__job* job, const struct sbx__node* node,
                     char path[PATH_MAX], struct statx* st) {
  const char* base = job->request->path;
  int len = snprintf(path, PATH_MAX, "%s%s%s", base, *base ? "/" : "",
                     node->path);
  if (len >= PATH_MAX) return -ENAMETOOLONG;
  int fd = sbx__open(job->root, path, O_PATH);
  if (fd < 0) return fd;
  int rc = sbx__statx_fd(fd, st);
  close(fd);
  return rc;
}
