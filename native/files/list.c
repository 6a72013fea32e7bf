/* The verbs that list: readdir and walk. */
#include "internal.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct list {
  struct sbx__job* job;
  struct sbx__tree tree;
  struct sbx__pack pack;
  size_t depth_max;
  bool sizes;
};

static uint8_t type_of_mode(unsigned mode) {
  if (S_ISDIR(mode)) return SBX_TYPE_DIRECTORY;
  return S_ISREG(mode) ? SBX_TYPE_FILE : SBX_TYPE_OTHER;
}

/* What a link leads to, a file if that is nothing or lies outside. */
static uint8_t type_of_target(struct list* l, const struct sbx__node* node) {
  char path[PATH_MAX];
  struct statx st;
  int rc = sbx__node_target(l->job, node, path, &st);
  return rc < 0 ? SBX_TYPE_FILE : type_of_mode(st.stx_mode);
}

static void entry_link(struct list* l, const struct sbx__node* node, int dir,
                       char* target, struct sbx__entry* entry) {
  ssize_t len = readlinkat(dir, node->name, target, PATH_MAX);
  entry->is_link = true;
  entry->type = type_of_target(l, node);
  entry->target = target;
  entry->target_len = len > 0 ? (size_t)len : 0;
}

/* 1: the file is gone. */
static int entry_size(const struct sbx__node* node, int dir,
                      struct sbx__entry* entry) {
  struct statx st;
  int rc = sbx__statx(dir, node->name, &st);
  if (rc == -ENOENT) return 1;
  if (rc < 0) return 0;
  entry->has_size = S_ISREG(st.stx_mode);
  entry->size = entry->has_size ? st.stx_size : 0;
  return 0;
}

static int list_node(struct list* l, const struct sbx__node* node) {
  char target[PATH_MAX];
  struct sbx__entry entry = {.name = node->path, .name_len = node->path_len};
  bool link = node->type == DT_LNK, file = node->type == DT_REG;
  entry.type = node->type == DT_DIR ? SBX_TYPE_DIRECTORY
               : file               ? SBX_TYPE_FILE
                                    : SBX_TYPE_OTHER;
  if (file && !sbx__extension_fits(l->job->request, node->name,
                                   node->name_len, false))
    return 0;
  if (link || (file && l->sizes)) {
    int dir = sbx__tree_dir(&l->tree);
    if (dir < 0) return sbx__tree_skips(dir) ? 0 : dir;
    if (link) entry_link(l, node, dir, target, &entry);
    else if (entry_size(node, dir, &entry)) return 0;
  }
  return sbx__pack_entry(&l->pack, &entry);
}

static int list_run(struct list* l) {
  struct sbx__node node;
  int rc;
  while ((rc = sbx__tree_next(&l->tree, &node)) > 0) {
    if (node.leave) continue;
    rc = list_node(l, &node);
    if (rc < 0) return rc;
    if (node.type != DT_DIR || node.depth >= l->depth_max) continue;
    rc = sbx__tree_enter(&l->tree, &node);
    if (rc < 0 && !sbx__tree_skips(rc)) return rc;
  }
  return rc;
}

/* readdir counts the levels below the first, walk counts all; 0 is "only
 * this one" there and "all" here. */
static size_t depth_max(const struct sbx_file_request* request) {
  if (request->verb == SBX_FILE_WALK)
    return request->max_depth ? request->max_depth : SIZE_MAX;
  if (!(request->flags & SBX_FILE_RECURSIVE)) return 1;
  return (size_t)request->max_depth + 1;
}

static int list_opened(struct sbx__job* job, int fd) {
  const struct sbx_file_request* request = job->request;
  bool walk = request->verb == SBX_FILE_WALK;
  bool hidden = !walk || request->flags & SBX_FILE_HIDDEN;
  struct list l = {.job = job, .depth_max = depth_max(request),
                   .sizes = !walk};
  int rc = sbx__tree_open(&l.tree, job->root, fd, hidden);
  if (rc == 0) rc = list_run(&l);
  sbx__tree_close(&l.tree);
  if (rc < 0) {
    free(l.pack.data);
    return rc;
  }
  sbx__pack_take(&l.pack, job->result);
  return 0;
}

int sbx__file_list(struct sbx__job* job) {
  const char* path = job->request->path;
  int flags = O_RDONLY | O_DIRECTORY | O_NONBLOCK;
  int fd = sbx__open(job->root, path, flags);
  if (fd < 0) return sbx__fail(job, fd, path, SBX__FOLDER);
  int rc = list_opened(job, fd);
  close(fd);
  if (rc == -E2BIG)
    return sbx_error_set(job->error, SBX_E_IO, E2BIG,
                         sbx__operation(job->request->verb),
                         "The list of /%s is larger than 1 GiB; list a folder "
                         "in it or set maxDepth.", path);
  return rc < 0 ? sbx__fail(job, rc, path, SBX__FOLDER) : 0;
}
