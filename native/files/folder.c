/* The verbs that make and remove names: mkdir, rmdir and delete. A link is
 * removed itself, never what it leads to. */
#include "internal.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "../remove.h"

static int fail_root(struct sbx__job* job) {
  return sbx_error_set(job->error, SBX_E_ACCESS, 0,
                       sbx__operation(job->request->verb),
                       "The workspace's root cannot be removed; remove what "
                       "is in it.");
}

static bool is_folder(const struct sbx__spot* spot) {
  return spot->present && S_ISDIR(spot->st.stx_mode);
}

/* What the path leads to in the end; absent for a link to nothing. */
static int look_through(struct sbx__job* job, struct statx* st,
                        bool* present) {
  struct sbx__spot spot;
  int rc = sbx__resolve(job->root, job->request->path, SBX__FOLLOW, &spot);
  *present = false;
  if (rc == -ENOENT || rc == -ENOTDIR || rc == -ELOOP) return 0;
  if (rc < 0) return rc;
  *present = spot.present;
  *st = spot.st;
  sbx__spot_close(&spot);
  return 0;
}

/* --- mkdir ---------------------------------------------------------------- */

/* There is something: a folder will do, also behind a link. */
static int mkdir_on(struct sbx__job* job) {
  const char* path = job->request->path;
  struct statx st;
  bool present;
  int rc = look_through(job, &st, &present);
  if (rc < 0) return sbx__fail(job, rc, path, SBX__TARGET);
  if (!present) return sbx__fail(job, ENOENT, path, SBX__FOLDER);
  return S_ISDIR(st.stx_mode) ? 0 : sbx__fail_exists(job, path);
}

int sbx__file_mkdir(struct sbx__job* job) {
  const struct sbx_file_request* request = job->request;
  const char* path = request->path;
  unsigned flags = request->flags & SBX_FILE_PARENTS ? SBX__MAKE : 0;
  struct sbx__spot spot;
  int rc = sbx__resolve(job->root, path, flags, &spot);
  if (rc == -ENOENT) return sbx__fail_parent(job, path);
  if (rc < 0) return sbx__fail(job, rc, path, SBX__TARGET);
  if (!spot.present && spot.name[0])
    rc = sbx__mkdir_at(spot.dir, spot.name,
                       request->mode ? request->mode : 0755);
  else
    rc = is_folder(&spot) ? 0 : -EEXIST;
  sbx__spot_close(&spot);
  if (rc == -EEXIST) return mkdir_on(job);
  if (rc == -ENOENT) return sbx__fail_parent(job, path);
  return rc < 0 ? sbx__fail(job, rc, path, SBX__TARGET) : 0;
}

/* --- delete --------------------------------------------------------------- */

/* Without force a link is judged by what it leads to, as Mastra does. */
static int delete_link(struct sbx__job* job) {
  const char* path = job->request->path;
  bool force = job->request->flags & SBX_FILE_FORCE;
  struct statx st;
  bool present;
  int rc = look_through(job, &st, &present);
  if (rc == -EXDEV && force) return 0;
  if (rc < 0) return sbx__fail(job, rc, path, SBX__TARGET);
  if (!present && !force) return sbx__fail(job, ENOENT, path, SBX__SOURCE);
  if (present && S_ISDIR(st.stx_mode)) return sbx__fail_is_directory(job, path);
  return 0;
}

static int delete_spot(struct sbx__job* job, struct sbx__spot* spot) {
  const char* path = job->request->path;
  bool force = job->request->flags & SBX_FILE_FORCE;
  if (!spot->name[0] || is_folder(spot))
    return sbx__fail_is_directory(job, path);
  if (!spot->present)
    return force ? 0 : sbx__fail(job, ENOENT, path, SBX__SOURCE);
  if (S_ISLNK(spot->st.stx_mode)) {
    int rc = delete_link(job);
    if (rc < 0) return rc;
  }
  if (unlinkat(spot->dir, spot->name, 0) == 0) return 0;
  if (errno == ENOENT && force) return 0;
  return sbx__fail(job, errno, path, SBX__TARGET);
}

int sbx__file_delete(struct sbx__job* job) {
  const char* path = job->request->path;
  struct sbx__spot spot;
  int rc = sbx__resolve(job->root, path, 0, &spot);
  if (rc == -ENOENT && job->request->flags & SBX_FILE_FORCE) return 0;
  if (rc < 0) return sbx__fail(job, rc, path, SBX__TARGET);
  rc = delete_spot(job, &spot);
  sbx__spot_close(&spot);
  return rc;
}

/* --- rmdir ---------------------------------------------------------------- */

static int is_empty(struct sbx__job* job, bool* empty) {
  struct sbx__names names;
  int fd = sbx__open(job->root, job->request->path,
                     O_RDONLY | O_DIRECTORY | O_NONBLOCK);
  if (fd < 0) return fd;
  int rc = sbx__names_read(fd, true, &names);
  close(fd);
  if (rc < 0) return rc;
  *empty = names.count == 0;
  sbx__names_free(&names);
  return 0;
}

/* The link goes where the folder it leads to could have gone. */
static int rmdir_link(struct sbx__job* job, struct sbx__spot* spot) {
  const struct sbx_file_request* request = job->request;
  struct statx st;
  bool present, empty = true;
  int rc = look_through(job, &st, &present);
  if (rc == 0 && !present && request->flags & SBX_FILE_FORCE) return 0;
  if (rc == 0 && !present) rc = -ENOENT;
  if (rc == 0 && !S_ISDIR(st.stx_mode)) rc = -ENOTDIR;
  if (rc == 0 && !(request->flags & SBX_FILE_RECURSIVE))
    rc = is_empty(job, &empty);
  if (rc == 0 && !empty) rc = -ENOTEMPTY;
  if (rc == 0 && unlinkat(spot->dir, spot->name, 0) < 0) rc = -errno;
  return rc;
}

static int rmdir_spot(struct sbx__job* job, struct sbx__spot* spot) {
  const struct sbx_file_request* request = job->request;
  if (!spot->present) return -ENOENT;
  if (S_ISLNK(spot->st.stx_mode)) return rmdir_link(job, spot);
  if (!S_ISDIR(spot->st.stx_mode)) return -ENOTDIR;
  if (request->flags & SBX_FILE_RECURSIVE)
    return sbx_remove_tree(spot->dir, spot->name);
  return unlinkat(spot->dir, spot->name, AT_REMOVEDIR) < 0 ? -errno : 0;
}

int sbx__file_rmdir(struct sbx__job* job) {
  const char* path = job->request->path;
  bool force = job->request->flags & SBX_FILE_FORCE;
  struct sbx__spot spot;
  int rc = sbx__resolve(job->root, path, 0, &spot);
  if (rc == 0) {
    rc = spot.name[0] ? rmdir_spot(job, &spot) : -EISDIR;
    sbx__spot_close(&spot);
  }
  if (rc == -EISDIR) return fail_root(job);
  if (rc == -ENOENT && force) return 0;
  return rc < 0 ? sbx__fail(job, rc, path, SBX__FOLDER) : 0;
}
