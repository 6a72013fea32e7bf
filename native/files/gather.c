/* The verb gather: the contents of many files in one answer, for a search. */
#include "gather.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
  BATCH = 8 << 20,
  /* What Node can turn into one string. */
  FILE_MAX = 512 << 20,
  SCRATCH = 64 << 10
};

static bool lies_below(const char* path, const char* folder) {
  size_t len = strlen(folder);
  return strncmp(path, folder, len) == 0 && path[len] == '/';
}

static bool is_done(const struct sbx__gather* g,
                    const struct sbx__node* node) {
  const char* after = g->after;
  if (!after || !*after) return false;
  if (sbx__walk_order(node->path, node->path_len, after, strlen(after)) > 0)
    return false;
  return node->type != DT_DIR || !lies_below(after, node->path);
}

/* Content straight behind its entry. Shorter is what shrank meanwhile. */
static int read_behind(struct sbx__gather* g, int fd, size_t size, size_t* len) {
  int rc = sbx__pack_reserve(&g->pack, size);
  char* out = g->pack.data + g->pack.len;
  *len = 0;
  while (rc == 0 && *len < size) {
    ssize_t n = read(fd, out + *len, size - *len);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) rc = -errno;
    if (n <= 0) break;
    *len += (size_t)n;
  }
  return rc;
}

/* 1: the batch is full and this file belongs to the next one. */
static int begin_entry(struct sbx__gather* g, const char* name, uint64_t size) {
  struct sbx__entry entry = {.type = SBX_TYPE_FILE, .has_size = true,
                             .name = name, .name_len = strlen(name)};
  if (g->pack.len > 0 && g->pack.len + size > g->limit) return 1;
  return sbx__pack_entry(&g->pack, &entry);
}

static int gather_whole(struct sbx__gather* g, const char* name, int fd) {
  struct statx st;
  size_t start = g->pack.len, len;
  int rc = sbx__statx_fd(fd, &st);
  if (rc < 0 || !S_ISREG(st.stx_mode) || st.stx_size > FILE_MAX) return 0;
  rc = begin_entry(g, name, st.stx_size);
  if (rc != 0) return rc;
  rc = read_behind(g, fd, st.stx_size, &len);
  if (rc == -ENOMEM) return rc;
  const char* content = g->pack.data + g->pack.len;
  if (rc < 0 || !sbx__literal_find(&g->want, content, len)) {
    g->pack.len = start;
    g->pack.count--;
    return 0;
  }
  sbx__packed_set_size(g->pack.data + start, len);
  g->pack.len += len;
  return 0;
}

/* A file that is longer than the scratch buffer is looked at before more of it
 * is read: it may be a device by now. */
static int grow_scratch(struct sbx__gather* g, int fd) {
  struct statx st;
  int rc = sbx__statx_fd(fd, &st);
  if (rc < 0 || !S_ISREG(st.stx_mode)) return -EINVAL;
  if (st.stx_size > FILE_MAX || g->scratch_size > FILE_MAX) return -EFBIG;
  size_t size = g->scratch_size * 2;
  if (size <= st.stx_size) size = st.stx_size + 1;
  char* grown = realloc(g->scratch, size);
  if (!grown) return -ENOMEM;
  g->scratch = grown;
  g->scratch_size = size;
  return 0;
}

/* Less than was asked for is the end of a file in the page cache, which spares
 * one call for each file; others (of /proc, say) are searched in part. */
static int read_scratch(struct sbx__gather* g, int fd, size_t* len) {
  *len = 0;
  for (;;) {
    ssize_t n = read(fd, g->scratch + *len, g->scratch_size - *len);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return -errno;
    *len += (size_t)n;
    if (*len < g->scratch_size) return *len > FILE_MAX ? -EFBIG : 0;
    int rc = grow_scratch(g, fd);
    if (rc < 0) return rc;
  }
}

static int gather_lines(struct sbx__gather* g, const char* name, int fd) {
  size_t start = g->pack.len, len;
  int rc = read_scratch(g, fd, &len);
  if (rc == -ENOMEM) return rc;
  if (rc < 0) return 0;
  len = sbx__literal_lines(&g->want, g->scratch, len);
  if (len == 0) return 0;
  rc = begin_entry(g, name, len);
  if (rc == 0) rc = sbx__pack_reserve(&g->pack, len);
  if (rc != 0) return rc;
  memcpy(g->pack.data + g->pack.len, g->scratch, len);
  sbx__packed_set_size(g->pack.data + start, len);
  g->pack.len += len;
  return 0;
}

static int gather_open(struct sbx__gather* g, const char* name, int fd) {
  return g->lines ? gather_lines(g, name, fd) : gather_whole(g, name, fd);
}

/* A link to a file is searched as that file, as Mastra's own search does. */
static int open_link(struct sbx__gather* g, const struct sbx__node* node) {
  char path[PATH_MAX];
  struct statx st;
  int rc = sbx__node_target(g->job, node, path, &st);
  if (rc < 0) return rc;
  if (!S_ISREG(st.stx_mode)) return -ENOENT;
  return sbx__open(g->job->root, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
}

static int open_node(struct sbx__gather* g, const struct sbx__node* node) {
  int flags = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW | O_CLOEXEC;
  if (node->type == DT_LNK) return open_link(g, node);
  int dir = sbx__tree_dir(&g->tree);
  if (dir < 0) return dir;
  int fd = openat(dir, node->name, flags);
  return fd < 0 ? -errno : fd;
}

static int gather_file(struct sbx__gather* g, const struct sbx__node* node) {
  if (!sbx__extension_fits(g->job->request, node->name, node->name_len, true))
    return 0;
  if (!sbx__gather_is_mine(g, node)) return 0;
  int fd = open_node(g, node);
  if (fd == -EMFILE || fd == -ENFILE || fd == -ENOMEM) return fd;
  if (fd < 0) return 0;
  int rc = gather_open(g, node->path, fd);
  close(fd);
  return rc;
}

static bool is_pruned(const struct sbx__gather* g, const struct sbx__node* node) {
  const struct sbx_file_request* request = g->job->request;
  for (size_t i = 0; i < request->prune_len; i++)
    if (strcmp(request->prune[i], node->name) == 0) return true;
  return false;
}

static int gather_node(struct sbx__gather* g, const struct sbx__node* node) {
  if (node->leave || is_done(g, node)) return 0;
  if (sbx__gather_is_over(g, node)) return 1;
  if (node->type == DT_REG || node->type == DT_LNK)
    return gather_file(g, node);
  if (node->type != DT_DIR || is_pruned(g, node)) return 0;
  int rc = sbx__tree_enter(&g->tree, node);
  return sbx__tree_skips(rc) ? 0 : rc;
}

int sbx__gather_walk(struct sbx__gather* g, int fd) {
  bool hidden = g->job->request->flags & SBX_FILE_HIDDEN;
  struct sbx__node node;
  int rc = sbx__tree_open(&g->tree, g->job->root, fd, hidden);
  while (rc == 0) {
    rc = sbx__tree_next(&g->tree, &node);
    if (rc <= 0) break;
    rc = gather_node(g, &node);
    if (rc == 1) rc = sbx__gather_stop(g, &node);
  }
  sbx__tree_close(&g->tree);
  return rc < 0 ? rc : 0;
}

static int gather_folder(struct sbx__gather* g, int fd) {
  int rc = sbx__gather_walk(g, fd);
  return sbx__gather_join(g, rc);
}

static int gather_top(struct sbx__gather* g, unsigned mode) {
  const char* path = g->job->request->path;
  const char* slash = strrchr(path, '/');
  int flags = O_RDONLY | O_NONBLOCK | O_NOCTTY;
  if (!S_ISREG(mode) && !S_ISDIR(mode)) return 0;
  int fd = sbx__open(g->job->root, path, flags);
  if (fd < 0) return fd;
  int rc = S_ISDIR(mode) ? gather_folder(g, fd)
                         : gather_open(g, slash ? slash + 1 : path, fd);
  close(fd);
  return rc;
}

/* Bytes with a line's end in them lie in no line. */
int sbx__gather_open(struct sbx__gather* g, struct sbx__job* job,
                     const char* after) {
  const struct sbx_file_request* request = job->request;
  memset(g, 0, sizeof(*g));
  g->job = job;
  g->after = after;
  g->limit = request->max_bytes > 0 ? request->max_bytes : BATCH;
  g->want.data = request->data;
  g->want.len = request->data_len;
  g->want.fold = request->flags & SBX_FILE_FOLD;
  g->lines = (request->flags & SBX_FILE_LINES) && g->want.len > 0 &&
             !memchr(g->want.data, '\n', g->want.len);
  if (!g->lines) return 0;
  g->scratch_size = SCRATCH;
  g->scratch = malloc(g->scratch_size);
  return g->scratch ? 0 : -ENOMEM;
}

void sbx__gather_close(struct sbx__gather* g) {
  free(g->scratch);
  free(g->pack.data);
}

static int gather(struct sbx__gather* g) {
  struct statx st;
  const struct sbx__job* job = g->job;
  int fd = sbx__open(job->root, job->request->path, O_PATH);
  if (fd < 0) return fd;
  int rc = sbx__statx_fd(fd, &st);
  close(fd);
  return rc < 0 ? rc : gather_top(g, st.stx_mode);
}

int sbx__file_gather(struct sbx__job* job) {
  const struct sbx_file_request* request = job->request;
  struct sbx__gather g;
  int rc = sbx__gather_open(&g, job, request->to);
  if (rc == 0) rc = gather(&g);
  if (rc == 0) {
    job->result->more = g.more;
    sbx__pack_take(&g.pack, job->result);
    g.pack.data = NULL;
  }
  sbx__gather_close(&g);
  return rc < 0 ? sbx__fail(job, rc, request->path, SBX__FOLDER) : 0;
}
