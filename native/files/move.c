/* The verb move: a rename, or where the kernel cannot (another file system, a
 * folder of an overlay's lower layer) a whole copy that takes the name in one
 * step before the source goes. */
#include "internal.h"

#include <errno.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../remove.h"

static bool is_folder(const struct sbx__spot* spot) {
  return spot->present && S_ISDIR(spot->st.stx_mode);
}

static int fail_root(struct sbx__job* job) {
  return sbx_error_set(job->error, SBX_E_ACCESS, 0, "files.move",
                       "The workspace's root cannot be moved or replaced; "
                       "move what is in it.");
}

/* A link itself is moved or replaced, but not one that leads outside. */
static int check_link(struct sbx__job* job, const struct sbx__spot* spot,
                      const char* path, enum sbx__role role) {
  struct sbx__spot end;
  if (!spot->present || !S_ISLNK(spot->st.stx_mode)) return 0;
  int rc = sbx__resolve(job->root, path, SBX__FOLLOW, &end);
  if (rc == 0) sbx__spot_close(&end);
  return rc == -EXDEV ? sbx__fail(job, rc, path, role) : 0;
}

static bool same_spot(const struct sbx__spot* a, const struct sbx__spot* b) {
  struct statx x, y;
  return strcmp(a->name, b->name) == 0 && sbx__statx_fd(a->dir, &x) == 0 &&
         sbx__statx_fd(b->dir, &y) == 0 && sbx__same_file(&x, &y);
}

static int rename_spot(const struct sbx__spot* from,
                       const struct sbx__spot* to, bool exclusive) {
  unsigned flags = exclusive ? RENAME_NOREPLACE : 0;
  if (!flags) {
    int rc = renameat(from->dir, from->name, to->dir, to->name);
    return rc < 0 ? -errno : 0;
  }
  if (!is_folder(from))
    return sbx__rename_new(from->dir, from->name, to->dir, to->name);
  int rc = renameat2(from->dir, from->name, to->dir, to->name, flags);
  return rc < 0 ? -errno : 0;
}

static int fail_rename(struct sbx__job* job, int rc) {
  const struct sbx_file_request* request = job->request;
  bool exclusive = request->flags & SBX_FILE_EXCLUSIVE;
  if (rc == -EEXIST && !exclusive) rc = -ENOTEMPTY;
  if (rc == -ENOENT) return sbx__fail(job, rc, request->path, SBX__SOURCE);
  if (rc == -EINVAL)
    return sbx_error_set(job->error, SBX_E_INVALID_INPUT, EINVAL, "files.move",
                         "/%s cannot go into itself; choose another place.",
                         request->path);
  return sbx__fail(job, rc, request->to, SBX__TARGET);
}

static int move_across(struct sbx__job* job, const struct sbx__spot* from,
                       const struct sbx__spot* to) {
  const struct sbx_file_request* request = job->request;
  bool exclusive = request->flags & SBX_FILE_EXCLUSIVE;
  struct sbx__spot temp = {.dir = to->dir};
  sbx__temp_name(temp.name);
  int rc = sbx__copy_whole(job, from, &temp, request->to);
  if (rc < 0) return rc;
  rc = sbx__spot_look(&temp);
  if (rc == 0) rc = rename_spot(&temp, to, exclusive);
  if (rc < 0) {
    sbx_remove_tree(temp.dir, temp.name);
    return fail_rename(job, rc);
  }
  rc = sbx_remove_tree(from->dir, from->name);
  return rc < 0 && rc != -ENOENT
             ? sbx__fail(job, rc, request->path, SBX__SOURCE)
             : 0;
}

static int move_spot(struct sbx__job* job, struct sbx__spot* from,
                     struct sbx__spot* to) {
  const struct sbx_file_request* request = job->request;
  bool exclusive = request->flags & SBX_FILE_EXCLUSIVE;
  if (!to->name[0]) return fail_root(job);
  int rc = check_link(job, to, request->to, SBX__TARGET);
  if (rc < 0) return rc;
  if (to->present && exclusive) return sbx__fail_exists(job, request->to);
  if (is_folder(to) && !is_folder(from))
    return sbx__fail_is_directory(job, request->to);
  if (to->present && sbx__same_file(&from->st, &to->st)) {
    if (same_spot(from, to)) return 0;
    /* Two names of one file: the rename would do nothing. */
    rc = unlinkat(from->dir, from->name, 0) < 0 ? -errno : 0;
    return rc < 0 ? fail_rename(job, rc) : 0;
  }
  rc = rename_spot(from, to, exclusive);
  if (rc == -EXDEV) return move_across(job, from, to);
  return rc < 0 ? fail_rename(job, rc) : 0;
}

/* A link that has the new name is replaced, so only its folder counts. */
static int check_nesting(struct sbx__job* job, const struct sbx__spot* from) {
  const struct sbx_file_request* request = job->request;
  char folder[PATH_MAX];
  const char* slash = strrchr(request->to, '/');
  size_t len = slash ? (size_t)(slash - request->to) : 0;
  if (!is_folder(from) || len >= sizeof(folder)) return 0;
  memcpy(folder, request->to, len);
  folder[len] = 0;
  return sbx__refuse_nesting(job, request->path, folder);
}

static int move_from(struct sbx__job* job, struct sbx__spot* from) {
  const struct sbx_file_request* request = job->request;
  struct sbx__spot to;
  if (!from->name[0]) return fail_root(job);
  if (!from->present)
    return sbx__fail(job, ENOENT, request->path, SBX__SOURCE);
  int rc = check_link(job, from, request->path, SBX__SOURCE);
  if (rc == 0) rc = check_nesting(job, from);
  if (rc < 0) return rc;
  rc = sbx__resolve(job->root, request->to, SBX__MAKE, &to);
  if (rc == -ENOENT) return sbx__fail_parent(job, request->to);
  if (rc < 0) return sbx__fail(job, rc, request->to, SBX__TARGET);
  rc = move_spot(job, from, &to);
  sbx__spot_close(&to);
  return rc;
}

int sbx__file_move(struct sbx__job* job) {
  const char* path = job->request->path;
  struct sbx__spot from;
  int rc = sbx__resolve(job->root, path, 0, &from);
  if (rc < 0) return sbx__fail(job, rc, path, SBX__SOURCE);
  rc = move_from(job, &from);
  sbx__spot_close(&from);
  return rc;
}
