/* What a session changed on top of the template it lies on: goes through the
 * overlay's upper layer, whose size is that of the changes, and looks up each
 * name in the template. */
#include "changes.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "../files/internal.h"

enum { PIECE = 64 << 10, RECORDS_MAX = 256 << 20 };

struct changes {
  uv_work_t work;
  struct sbx_root* base;
  struct sbx_root* upper;
  char* data;
  size_t len;
  size_t size;
  int rc;
  sbx_file_cb cb;
  void* arg;
};

static char type_of(unsigned mode) {
  if (S_ISREG(mode)) return 'f';
  if (S_ISDIR(mode)) return 'd';
  return S_ISLNK(mode) ? 'l' : 'o';
}

static int add(struct changes* c, char what, char type, const char* path,
               const char* below) {
  size_t len = strlen(path), more = below ? strlen(below) + 1 : 0;
  size_t need = 2 + len + more + 1;
  if (c->size - c->len < need) {
    size_t size = (c->size + need) * 2;
    char* data = size > RECORDS_MAX ? NULL : realloc(c->data, size);
    if (!data) return -ENOMEM;
    c->data = data;
    c->size = size;
  }
  char* at = c->data + c->len;
  *at++ = what;
  *at++ = type;
  memcpy(at, path, len);
  at += len;
  if (below) {
    *at++ = '/';
    memcpy(at, below, more - 1);
    at += more - 1;
  }
  *at = 0;
  c->len += need;
  return 0;
}

/* --- looking at one name ---------------------------------------------------- */

static int look(struct sbx_root* root, const char* path, struct statx* st) {
  int fd = sbx__open_real(root, root->fd, path, O_PATH | O_NOFOLLOW);
  if (fd < 0) return fd == -ENOTDIR ? -ENOENT : fd;
  int rc = sbx__statx_fd(fd, st);
  close(fd);
  return rc;
}

static bool is_whiteout(const struct statx* st) {
  return S_ISCHR(st->stx_mode) && st->stx_rdev_major == 0 &&
         st->stx_rdev_minor == 0;
}

static bool same_bytes(int a, int b) {
  char* one = malloc(2 * PIECE);
  bool same = one != NULL;
  while (same) {
    ssize_t n = read(a, one, PIECE);
    ssize_t m = n < 0 ? -1 : 0;
    while (m >= 0 && m < n) {
      ssize_t more = read(b, one + PIECE + m, (size_t)(n - m));
      if (more <= 0) break;
      m += more;
    }
    if (n == 0) break;
    same = n > 0 && m == n && memcmp(one, one + PIECE, (size_t)n) == 0;
  }
  free(one);
  return same;
}

static bool same_files(struct changes* c, const char* path) {
  int flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
  int a = sbx__open_real(c->base, c->base->fd, path, flags);
  int b = sbx__open_real(c->upper, c->upper->fd, path, flags);
  bool same = a >= 0 && b >= 0 && same_bytes(a, b);
  if (a >= 0) close(a);
  if (b >= 0) close(b);
  return same;
}

static ssize_t link_text(struct sbx_root* root, const char* path, char* out) {
  int fd = sbx__open_real(root, root->fd, path, O_PATH | O_NOFOLLOW);
  if (fd < 0) return fd;
  ssize_t len = readlinkat(fd, "", out, PATH_MAX);
  close(fd);
  return len;
}

static bool same_links(struct changes* c, const char* path) {
  char a[PATH_MAX], b[PATH_MAX];
  ssize_t n = link_text(c->base, path, a);
  ssize_t m = link_text(c->upper, path, b);
  return n >= 0 && n == m && memcmp(a, b, (size_t)n) == 0;
}

static bool is_same(struct changes* c, const char* path,
                    const struct statx* old, const struct statx* new) {
  if ((old->stx_mode ^ new->stx_mode) & (S_IFMT | 0777)) return false;
  if (S_ISLNK(new->stx_mode)) return same_links(c, path);
  if (!S_ISREG(new->stx_mode)) return true;
  return old->stx_size == new->stx_size && same_files(c, path);
}

/* --- what is gone ----------------------------------------------------------- */

static int gone_below(struct changes* c, const char* path, int top) {
  struct sbx__tree tree;
  struct sbx__node node;
  int rc = sbx__tree_open(&tree, c->base, top, true);
  while (rc == 0) {
    rc = sbx__tree_next(&tree, &node);
    if (rc <= 0) break;
    rc = 0;
    if (node.leave) continue;
    char full[PATH_MAX];
    struct statx st;
    int len = snprintf(full, sizeof(full), "%s/%s", path, node.path);
    if (len >= (int)sizeof(full)) continue;
    if (node.type == DT_DIR) rc = sbx__tree_enter(&tree, &node);
    if (sbx__tree_skips(rc)) rc = 0;
    if (rc == 0 && look(c->upper, full, &st) == -ENOENT) {
      char type = node.type == DT_DIR   ? 'd'
                  : node.type == DT_LNK ? 'l'
                  : node.type == DT_REG ? 'f'
                                        : 'o';
      rc = add(c, 'D', type, path, node.path);
    }
  }
  sbx__tree_close(&tree);
  return rc;
}

static int gone(struct changes* c, const char* path, const struct statx* old,
                bool itself) {
  int rc = itself ? add(c, 'D', type_of(old->stx_mode), path, NULL) : 0;
  if (rc < 0 || !S_ISDIR(old->stx_mode)) return rc;
  int top = sbx__open_real(c->base, c->base->fd, path,
                           O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  if (top < 0) return sbx__tree_skips(top) ? 0 : top;
  rc = gone_below(c, path, top);
  close(top);
  return rc;
}

/* --- the upper layer -------------------------------------------------------- */

static bool is_opaque(struct changes* c, const char* path) {
  char value[4];
  int fd = sbx__open_real(c->upper, c->upper->fd, path,
                          O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  if (fd < 0) return false;
  ssize_t n = fgetxattr(fd, "user.overlay.opaque", value, sizeof(value));
  close(fd);
  return n == 1 && value[0] == 'y';
}

static int on_folder(struct changes* c, const char* path, bool was,
                     const struct statx* old) {
  if (was && S_ISDIR(old->stx_mode))
    return is_opaque(c, path) ? gone(c, path, old, false) : 0;
  int rc = was ? gone(c, path, old, true) : 0;
  return rc < 0 ? rc : add(c, 'A', 'd', path, NULL);
}

static int on_node(struct changes* c, const struct sbx__node* node) {
  struct statx new, old;
  int rc = look(c->upper, node->path, &new);
  if (rc < 0) return rc == -ENOENT ? 0 : rc;
  rc = look(c->base, node->path, &old);
  if (rc < 0 && rc != -ENOENT) return rc;
  bool was = rc == 0;
  if (is_whiteout(&new)) return was ? gone(c, node->path, &old, true) : 0;
  if (S_ISDIR(new.stx_mode)) return on_folder(c, node->path, was, &old);
  if (was && S_ISDIR(old.stx_mode)) {
    rc = gone(c, node->path, &old, true);
    if (rc < 0) return rc;
    was = false;
  }
  if (was && is_same(c, node->path, &old, &new)) return 0;
  return add(c, was ? 'M' : 'A', type_of(new.stx_mode), node->path, NULL);
}

static int walk(struct changes* c, int top) {
  struct sbx__tree tree;
  struct sbx__node node;
  int rc = sbx__tree_open(&tree, c->upper, top, true);
  while (rc == 0) {
    rc = sbx__tree_next(&tree, &node);
    if (rc <= 0) break;
    rc = 0;
    if (node.leave) continue;
    if (node.path_len >= PATH_MAX) continue;
    rc = on_node(c, &node);
    if (rc == 0 && node.type == DT_DIR) rc = sbx__tree_enter(&tree, &node);
    if (sbx__tree_skips(rc)) rc = 0;
  }
  sbx__tree_close(&tree);
  return rc;
}

static void on_work(uv_work_t* work) {
  struct changes* c = work->data;
  int top = openat(c->upper->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  c->rc = top < 0 ? -errno : walk(c, top);
  if (top >= 0) close(top);
}

static void on_worked(uv_work_t* work, int status) {
  struct changes* c = work->data;
  struct sbx_file_result result = {.data = c->data, .len = c->len};
  struct sbx_error error;
  char words[SBX_SYS_TEXT_MAX];
  if (status < 0) c->rc = status;
  if (c->rc < 0) {
    free(c->data);
    memset(&result, 0, sizeof(result));
    sbx_error_set(&error, SBX_E_IO, -c->rc, "changes",
                  "The changes could not be found out: %s.",
                  sbx_sys_text(-c->rc, words));
  }
  c->cb(c->arg, c->rc < 0 ? &error : NULL, &result);
  sbx_root_unref(c->base);
  sbx_root_unref(c->upper);
  free(c);
}

static struct sbx_root* root_on(int fd) {
  struct sbx_root_spec spec = {.fd = fd, .inside = "/", .fsuid = -1,
                               .fsgid = -1};
  struct sbx_root* root = NULL;
  if (sbx_root_new(&spec, &root) < 0) {
    close(fd);
    return NULL;
  }
  return root;
}

int sbx_changes_request(uv_loop_t* loop, const struct sbx_changes_spec* spec,
                        sbx_file_cb cb, void* arg) {
  struct changes* c = calloc(1, sizeof(*c));
  if (!c) return SBX_E_INTERNAL;
  *c = (struct changes){.base = root_on(spec->base),
                        .upper = root_on(spec->upper),
                        .cb = cb,
                        .arg = arg};
  c->work.data = c;
  if (c->base && c->upper &&
      uv_queue_work(loop, &c->work, on_work, on_worked) == 0)
    return 0;
  sbx_root_unref(c->base);
  sbx_root_unref(c->upper);
  free(c);
  return SBX_E_INTERNAL;
}
