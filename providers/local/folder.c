/* The folder of one Local session on the host. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#include "../../native/remove.h"

enum { CAP_OF_CHOWN = 0, CAP_OF_SETGID = 6, CAP_OF_SETUID = 7 };

void sbx_local_folder_init(struct sbx_local_folder* f) {
  memset(f, 0, sizeof(*f));
  f->lock_fd = -1;
  f->base = -1;
  f->run_uid = f->run_gid = -1;
}

void sbx_local_folder_release(struct sbx_local_folder* f) {
  if (f->lock_fd >= 0) close(f->lock_fd);
  free(f->path);
  free(f->workspace);
  free(f->scratch);
  sbx_local_folder_init(f);
}

static int fail(struct sbx_error* error, const char* doing, const char* path) {
  int sys = errno;
  char words[SBX_SYS_TEXT_MAX];

  return sbx_error_set(error, SBX_E_UNAVAILABLE, sys, "start",
                       "%s \"%.300s\" failed: %s.", doing, path,
                       sbx_sys_text(sys, words));
}

/* ---- ids ---- */

/* Whether the user namespace that Node runs in holds our whole range: in a
 * container with remapped ids it may not. */
static bool maps_range(const char* file) {
  FILE* in = fopen(file, "re");
  unsigned long long inner, outer, count;
  unsigned long long last =
      SBX_LOCAL_BASE_TEMPLATE + SBX_LOCAL_BASE_STEP - 1;
  bool found = false;

  if (in == NULL) return false;
  while (!found && fscanf(in, "%llu %llu %llu", &inner, &outer, &count) == 3)
    found = inner <= SBX_LOCAL_BASE_FIRST && count > last - inner;
  fclose(in);
  return found;
}

static bool has_capabilities(void) {
  uint64_t need = UINT64_C(1) << CAP_OF_CHOWN | UINT64_C(1) << CAP_OF_SETGID |
                  UINT64_C(1) << CAP_OF_SETUID;
  FILE* in = fopen("/proc/self/status", "re");
  char line[256];
  unsigned long long caps = 0;

  if (in == NULL) return false;
  while (fgets(line, sizeof(line), in) != NULL)
    if (sscanf(line, "CapEff: %llx", &caps) == 1) break;
  fclose(in);
  return (caps & need) == need;
}

bool sbx_local_folder_has_ranges(void) {
  return geteuid() == 0 && has_capabilities() &&
         maps_range("/proc/self/uid_map") && maps_range("/proc/self/gid_map");
}

static bool may_have_range(const struct sbx_local_options* o) {
  if (o->level == SBX_LEVEL_LANDLOCK && !o->own_ids) return false;
  return o->level != SBX_LEVEL_NONE && sbx_local_folder_has_ranges();
}

static int64_t base_of(uint32_t uid) {
  int64_t offset = (int64_t) uid - SBX_LOCAL_INNER_ID - SBX_LOCAL_BASE_FIRST;

  if (offset < 0 || offset % SBX_LOCAL_BASE_STEP != 0) return -1;
  if (offset / SBX_LOCAL_BASE_STEP >= SBX_LOCAL_BASE_COUNT) return -1;
  return SBX_LOCAL_BASE_FIRST + offset;
}

static int64_t random_base(void) {
  uint16_t n = 0;

  if (uv_random(NULL, NULL, &n, sizeof(n), 0, NULL) != 0)
    n = (uint16_t) uv_hrtime();
  return SBX_LOCAL_BASE_FIRST +
         (n % SBX_LOCAL_BASE_COUNT) * SBX_LOCAL_BASE_STEP;
}

static uint32_t own_id(int64_t base) {
  return (uint32_t) (base + SBX_LOCAL_INNER_ID);
}

/* A folder just made goes to the session's own id; of any other, the owners
 * are mapped. */
static int settle_owner(const struct sbx_local_options* o,
                        struct sbx_local_folder* f, bool fresh,
                        struct sbx_error* error) {
  bool range = may_have_range(o);
  struct statx st;

  if (range && fresh) {
    int64_t base = random_base();
    uint32_t id = own_id(base);

    /* Some file systems (of containers, of networks) have no such ids. */
    if (lchown(f->workspace, id, id) == 0) f->base = base;
  }
  if (statx(AT_FDCWD, f->workspace, 0, STATX_UID | STATX_GID, &st) != 0)
    return fail(error, "Looking at", f->workspace);
  f->owner_uid = st.stx_uid;
  f->owner_gid = st.stx_gid;
  if (f->base >= 0 || !range) return 0;
  f->base = base_of(st.stx_uid);
  if (o->level == SBX_LEVEL_LANDLOCK) return 0;
  if (f->base >= 0 && st.stx_gid == st.stx_uid) return 0;
  f->base = random_base();
  f->idmap = true;
  return 0;
}

/* ---- making ---- */

static int make_workspace(struct sbx_local_folder* f, bool* fresh,
                          struct sbx_error* error) {
  struct statx st;

  if (asprintf(&f->workspace, "%s/workspace", f->path) < 0) {
    f->workspace = NULL;
    errno = ENOMEM;
    return fail(error, "Naming", f->path);
  }
  *fresh = mkdir(f->workspace, 0755) == 0;
  if (!*fresh && errno != EEXIST) return fail(error, "Making", f->workspace);
  if (statx(AT_FDCWD, f->workspace, AT_SYMLINK_NOFOLLOW, STATX_TYPE, &st) != 0)
    return fail(error, "Looking at", f->workspace);
  if (S_ISDIR(st.stx_mode)) return 0;
  errno = ENOTDIR;
  return fail(error, "Using", f->workspace);
}

/* Only named here: the monitor makes it, so that whenever this process is
 * killed, somebody lives who knows of the folder and removes it. */
static int name_temporary(const struct sbx_local_options* o,
                          struct sbx_local_folder* f,
                          struct sbx_error* error) {
  uint64_t n = 0;

  if (access(o->tmpdir, W_OK | X_OK) != 0)
    return fail(error, "Making a session folder in", o->tmpdir);
  if (uv_random(NULL, NULL, &n, sizeof(n), 0, NULL) != 0) n = uv_hrtime();
  if (asprintf(&f->path, "%s/sandbox-sdk-%012llx", o->tmpdir,
               (unsigned long long) (n >> 16)) < 0)
    f->path = NULL;
  if (f->path != NULL && asprintf(&f->workspace, "%s/workspace", f->path) < 0)
    f->workspace = NULL;
  if (f->workspace == NULL) {
    errno = ENOMEM;
    return fail(error, "Naming a folder in", o->tmpdir);
  }
  f->base = may_have_range(o) ? random_base() : -1;
  f->owner_uid = f->base < 0 ? geteuid() : own_id(f->base);
  f->owner_gid = f->base < 0 ? getegid() : own_id(f->base);
  return 0;
}

static int check_ours(const char* path, struct sbx_error* error) {
  struct statx st;

  if (statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, STATX_TYPE | STATX_UID, &st) !=
      0)
    return fail(error, "Looking at", path);
  if (S_ISDIR(st.stx_mode) && st.stx_uid == geteuid()) return 0;
  return sbx_error_set(error, SBX_E_CONFLICT, 0, "start",
                       "\"%.300s\" is not a session folder of this user: "
                       "choose another root.",
                       path);
}

static int in_use(const struct sbx_local_options* o, struct sbx_error* error) {
  sbx_error_set(error, SBX_E_CONFLICT, 0, "start",
                "The session \"%.200s\" below \"%.300s\" is in use by another "
                "process or instance: stop that one or choose another id.",
                o->id, o->root);
  if (error != NULL) error->retryable = true;
  return SBX_E_CONFLICT;
}

/* The lock file holds the id. Two processes may meet while one removes the
 * folder: a lock on a file that is gone from its path counts for nothing. */
static int lock_once(const struct sbx_local_options* o, const char* path,
                     int* fd, struct sbx_error* error) {
  struct statx mine, there;

  *fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (*fd < 0) return fail(error, "Opening", path);
  if (flock(*fd, LOCK_EX | LOCK_NB) != 0) {
    int sys = errno;

    close(*fd);
    *fd = -1;
    errno = sys;
    return sys == EWOULDBLOCK ? in_use(o, error) : fail(error, "Locking", path);
  }
  if (statx(*fd, "", AT_EMPTY_PATH, STATX_INO, &mine) == 0 &&
      statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, STATX_INO, &there) == 0 &&
      mine.stx_ino == there.stx_ino)
    return 0;
  close(*fd);
  *fd = -1;
  return 0;
}

static int check_id(const struct sbx_local_options* o, int fd,
                    struct sbx_error* error) {
  char text[256];
  ssize_t n = pread(fd, text, sizeof(text), 0);
  size_t len = strlen(o->id);

  if (n == 0 && pwrite(fd, o->id, len, 0) == (ssize_t) len) return 0;
  if (n == (ssize_t) len && memcmp(text, o->id, len) == 0) return 0;
  return sbx_error_set(error, SBX_E_CONFLICT, 0, "start",
                       "The folder of the session \"%.200s\" belongs to "
                       "another id: choose another id.",
                       o->id);
}

static int take_lock(const struct sbx_local_options* o,
                     struct sbx_local_folder* f, struct sbx_error* error) {
  char* path;
  int err = 0;

  if (asprintf(&path, "%s/lock", o->folder) < 0) {
    errno = ENOMEM;
    return fail(error, "Naming a lock in", o->folder);
  }
  for (int i = 0; i < 16 && err == 0 && f->lock_fd < 0; i++) {
    if (mkdir(o->folder, 0700) != 0 && errno != EEXIST)
      err = fail(error, "Making", o->folder);
    if (err == 0) err = check_ours(o->folder, error);
    if (err == 0) err = lock_once(o, path, &f->lock_fd, error);
  }
  free(path);
  if (err == 0 && f->lock_fd < 0) err = in_use(o, error);
  return err == 0 ? check_id(o, f->lock_fd, error) : err;
}

/* ---- level landlock ---- */

/* Nothing is mounted, so that commands have to be able to walk to the
 * workspace. */
static int let_in(const struct sbx_local_options* o,
                  const struct sbx_local_folder* f, struct sbx_error* error) {
  if (o->kind != SBX_LOCAL_ROOT || f->run_gid < 0) return 0;
  if (chown(f->path, (uid_t) -1, (gid_t) f->run_gid) == 0 &&
      chmod(f->path, 0710) == 0)
    return 0;
  return fail(error, "Opening to commands", f->path);
}

static int name_scratch(const struct sbx_local_options* o,
                        struct sbx_local_folder* f, struct sbx_error* error) {
  uint64_t n = 0;
  int rc;

  if (uv_random(NULL, NULL, &n, sizeof(n), 0, NULL) != 0) n = uv_hrtime();
  rc = o->kind == SBX_LOCAL_TEMPORARY
           ? asprintf(&f->scratch, "%s/scratch", f->path)
           : asprintf(&f->scratch, "%s/sandbox-sdk-%012llx", o->tmpdir,
                      (unsigned long long) (n >> 16));
  if (rc >= 0) return 0;
  f->scratch = NULL;
  errno = ENOMEM;
  return fail(error, "Naming a folder in", o->tmpdir);
}

static int settle_confined(const struct sbx_local_options* o,
                           struct sbx_local_folder* f,
                           struct sbx_error* error) {
  int err = name_scratch(o, f, error);

  if (geteuid() == 0 && f->owner_uid != 0 && has_capabilities()) {
    f->run_uid = f->owner_uid;
    f->run_gid = f->owner_gid;
  }
  return err != 0 ? err : let_in(o, f, error);
}

static int make_below_root(const struct sbx_local_options* o,
                           struct sbx_local_folder* f, bool* fresh,
                           struct sbx_error* error) {
  int err;
  mode_t mode = o->level == SBX_LEVEL_LANDLOCK && o->own_ids ? 0711 : 0700;

  if (mkdir(o->root, mode) != 0 && errno != EEXIST)
    return fail(error, "Making", o->root);
  err = take_lock(o, f, error);
  if (err != 0) return err;
  f->path = strdup(o->folder);
  if (f->path == NULL) return fail(error, "Naming", o->folder);
  return make_workspace(f, fresh, error);
}

static int make_directory(const struct sbx_local_options* o,
                          struct sbx_local_folder* f,
                          struct sbx_error* error) {
  if (mkdir(o->directory, 0777) != 0 && errno != EEXIST)
    return fail(error, "Making", o->directory);
  f->workspace = strdup(o->directory);
  return f->workspace == NULL ? fail(error, "Naming", o->directory) : 0;
}

int sbx_local_folder_make(const struct sbx_local_options* o,
                          struct sbx_local_folder* f,
                          struct sbx_error* error) {
  bool fresh = false;
  int err;

  sbx_local_folder_init(f);
  if (o->kind == SBX_LOCAL_DIRECTORY)
    err = make_directory(o, f, error);
  else if (o->kind == SBX_LOCAL_ROOT)
    err = make_below_root(o, f, &fresh, error);
  else
    err = name_temporary(o, f, error);
  if (err == 0 && o->kind != SBX_LOCAL_TEMPORARY)
    err = settle_owner(o, f, fresh, error);
  if (err == 0 && o->level == SBX_LEVEL_LANDLOCK)
    err = settle_confined(o, f, error);
  if (err != 0) sbx_local_folder_release(f);
  return err;
}

static bool is_folder(const char* path) {
  struct statx st;

  return statx(AT_FDCWD, path, 0, STATX_TYPE, &st) == 0 &&
         S_ISDIR(st.stx_mode);
}

bool sbx_local_folder_exists(const struct sbx_local_options* o) {
  char* path;
  bool found;

  if (o->kind == SBX_LOCAL_DIRECTORY) return is_folder(o->directory);
  if (o->kind == SBX_LOCAL_TEMPORARY) return false;
  if (asprintf(&path, "%s/workspace", o->folder) < 0) return false;
  found = is_folder(path);
  free(path);
  return found;
}

/* ---- removing ---- */

static int remove_tree(const char* path, struct sbx_error* error) {
  char* parent = strdup(path);
  char* slash = parent == NULL ? NULL : strrchr(parent, '/');
  int fd;
  int err;

  if (slash == NULL) {
    free(parent);
    errno = ENOMEM;
    return fail(error, "Removing", path);
  }
  *slash = '\0';
  fd = open(slash == parent ? "/" : parent,
            O_PATH | O_DIRECTORY | O_CLOEXEC);
  err = fd < 0 ? -errno : sbx_remove_tree(fd, slash + 1);
  if (fd >= 0) close(fd);
  free(parent);
  if (err == 0 || err == -ENOENT) return 0;
  errno = -err;
  return fail(error, "Removing", path);
}

void sbx_local_folder_sweep(const struct sbx_local_folder* f) {
  struct sbx_error ignored;

  if (f->scratch != NULL) remove_tree(f->scratch, &ignored);
}

int sbx_local_folder_remove(const struct sbx_local_options* o,
                            struct sbx_local_folder* f,
                            struct sbx_error* error) {
  int err = 0;

  if (o->kind == SBX_LOCAL_DIRECTORY) return 0;
  if (o->kind == SBX_LOCAL_TEMPORARY)
    return f->path == NULL ? 0 : remove_tree(f->path, error);
  if (!is_folder(o->folder)) return 0;
  if (f->lock_fd < 0) err = take_lock(o, f, error);
  return err != 0 ? err : remove_tree(o->folder, error);
}
