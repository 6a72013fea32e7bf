/* Snapshots of Local: one archive file each, in a private folder. A file gets
 * its name when it is whole, so a snapshot is there or it is not. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "snapshot.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../native/archive/archive.h"
#include "../../native/remove.h"
#include "folder.h"

enum { ID_MAX = 240 };

#define SUFFIX ".tar"

struct request {
  uv_work_t work;
  struct sbx_local_snapshot spec;
  char* store;
  char id[ID_MAX + 1];
  char file[ID_MAX + sizeof(SUFFIX)];
  struct sbx_snapshot* list;
  size_t count;
  int code;
  struct sbx_error error;
};

static int fail(struct request* r, const char* doing, int sys) {
  char words[SBX_SYS_TEXT_MAX];

  return sbx_error_set(&r->error, SBX_E_PROVIDER, sys,
                       sbx_snapshot_operation(r->spec.verb),
                       "%s in \"%.300s\" failed: %s.", doing, r->store,
                       sbx_sys_text(sys, words));
}

static int missing(struct request* r) {
  return sbx_error_set(&r->error, SBX_E_NOT_FOUND, ENOENT,
                       sbx_snapshot_operation(r->spec.verb),
                       "There is no snapshot \"%s\": snapshots.list() names "
                       "those there are.",
                       r->id);
}

/* A folder that others can write to would let them choose what is restored. */
static int open_store(struct request* r, bool make) {
  struct statx st;
  int fd;

  if (make && mkdir(r->store, 0700) != 0 && errno != EEXIST)
    return fail(r, "Making a folder", errno);
  fd = open(r->store, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return errno == ENOENT ? -ENOENT : fail(r, "Opening", errno);
  if (statx(fd, "", AT_EMPTY_PATH, STATX_UID | STATX_MODE, &st) == 0 &&
      st.stx_uid == geteuid() && (st.stx_mode & 022) == 0)
    return fd;
  close(fd);
  return fail(r, "Trusting what others may change", EPERM);
}

/* ---- create ---- */

/* Without a name until it is whole, where the file system can do that. */
static int open_new(int store, char* name, size_t size) {
  uint64_t n = 0;
  int fd = openat(store, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

  if (uv_random(NULL, NULL, &n, sizeof(n), 0, NULL) != 0) n = uv_hrtime();
  snprintf(name, size, ".new-%016llx", (unsigned long long) n);
  if (fd >= 0) return fd;
  return openat(store, name,
                O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
}

static int give_name(int store, int fd, const char* temporary,
                     const char* name) {
  char link[64];

  snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
  if (linkat(AT_FDCWD, link, store, temporary, AT_SYMLINK_FOLLOW) != 0 &&
      errno != EEXIST)
    return -errno;
  return renameat(store, temporary, store, name) == 0 ? 0 : -errno;
}

static int64_t now_ms(void) {
  struct timespec t;

  clock_gettime(CLOCK_REALTIME, &t);
  return (int64_t) t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int answer_one(struct request* r, uint64_t bytes) {
  r->list = calloc(1, sizeof(*r->list));
  if (r->list == NULL) return fail(r, "Answering", ENOMEM);
  snprintf(r->list->id, sizeof(r->list->id), "%s", r->id);
  r->list->bytes = bytes;
  r->list->created_ms = now_ms();
  r->count = 1;
  return 0;
}

static int create(struct request* r) {
  char temporary[32];
  uint64_t bytes = 0;
  int store = open_store(r, true);
  int fd, rc;

  if (store < 0) return store == -ENOENT ? fail(r, "Opening", ENOENT) : store;
  fd = open_new(store, temporary, sizeof(temporary));
  if (fd < 0) {
    rc = fail(r, "Making a file", errno);
    close(store);
    return rc;
  }
  rc = sbx_archive_run(r->spec.root, SBX_ARCHIVE_PACK, fd,
                       sbx_snapshot_operation(r->spec.verb), &bytes, &r->error);
  if (rc == 0) {
    rc = give_name(store, fd, temporary, r->file);
    if (rc != 0) rc = fail(r, "Naming a snapshot", -rc);
  }
  if (rc != 0) unlinkat(store, temporary, 0);
  close(fd);
  close(store);
  return rc == 0 ? answer_one(r, bytes) : rc;
}

/* ---- the others ---- */

static int open_snapshot(struct request* r, int* store) {
  int fd;

  *store = open_store(r, false);
  if (*store < 0) return *store == -ENOENT ? missing(r) : *store;
  fd = openat(*store, r->file, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  if (fd >= 0) return fd;
  fd = errno == ENOENT ? missing(r) : fail(r, "Opening a snapshot", errno);
  close(*store);
  return fd;
}

static int put_back(struct request* r, enum sbx_archive_verb verb) {
  uint64_t bytes;
  int store;
  int fd = open_snapshot(r, &store);
  int rc;

  if (fd < 0) return fd;
  rc = sbx_archive_run(r->spec.root, verb, fd,
                       sbx_snapshot_operation(r->spec.verb), &bytes, &r->error);
  close(fd);
  close(store);
  return rc;
}

static int delete(struct request* r) {
  int store = open_store(r, false);
  int rc = 0;

  if (store < 0) return store == -ENOENT ? missing(r) : store;
  if (unlinkat(store, r->file, 0) != 0)
    rc = errno == ENOENT ? missing(r) : fail(r, "Removing a snapshot", errno);
  close(store);
  return rc;
}

/* ---- a layer: the archive as a tree that no session owns ---- */

static int unpack_layer(struct request* r, int archive, int layer) {
  bool ranges = sbx_local_folder_has_ranges();
  uint32_t id = (uint32_t) SBX_LOCAL_BASE_TEMPLATE + SBX_LOCAL_INNER_ID;
  struct sbx_root_spec spec = {.fd = layer, .inside = "/",
                               .fsuid = ranges ? (int64_t) id : -1,
                               .fsgid = ranges ? (int64_t) id : -1};
  struct sbx_root* root;
  uint64_t bytes;
  int rc;

  if (ranges && fchown(layer, id, id) != 0) {
    rc = fail(r, "Giving away a layer", errno);
    close(layer);
    return rc;
  }
  if (sbx_root_new(&spec, &root) != 0) {
    close(layer);
    return fail(r, "Opening a layer", ENOMEM);
  }
  rc = sbx_archive_run(root, SBX_ARCHIVE_UNPACK, archive, "template", &bytes,
                       &r->error);
  sbx_root_unref(root);
  return rc;
}

static int make_layer(struct request* r) {
  char name[ID_MAX + 16];
  int store, layer, rc;
  int archive = open_snapshot(r, &store);

  if (archive < 0) return archive;
  snprintf(name, sizeof(name), "%s.layer", r->id);
  rc = mkdirat(store, name, 0755) == 0 ? 0 : fail(r, "Making a layer", errno);
  layer = rc == 0 ? openat(store, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
                  : -1;
  if (rc == 0 && layer < 0) rc = fail(r, "Opening a layer", errno);
  if (rc == 0) rc = unpack_layer(r, archive, layer);
  if (rc != 0) sbx_remove_tree(store, name);
  close(archive);
  close(store);
  return rc;
}

/* ---- list ---- */

static bool is_id(const char* id, size_t len) {
  static const char plain[] = "abcdefghijklmnopqrstuvwxyz"
                              "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-%";

  return len > 0 && len <= ID_MAX && strspn(id, plain) >= len;
}

static int add(struct request* r, int store, const char* name, size_t len) {
  struct sbx_snapshot* list;
  struct statx st;

  if (statx(store, name, AT_SYMLINK_NOFOLLOW, STATX_SIZE | STATX_MTIME, &st))
    return 0; /* deleted meanwhile */
  list = realloc(r->list, (r->count + 1) * sizeof(*list));
  if (list == NULL) return fail(r, "Listing", ENOMEM);
  r->list = list;
  list += r->count++;
  memset(list, 0, sizeof(*list));
  memcpy(list->id, name, len);
  list->bytes = st.stx_size;
  list->created_ms = st.stx_mtime.tv_sec * 1000 +
                     st.stx_mtime.tv_nsec / 1000000;
  return 0;
}

static int by_age(const void* a, const void* b) {
  const struct sbx_snapshot* x = a;
  const struct sbx_snapshot* y = b;

  if (x->created_ms != y->created_ms)
    return x->created_ms < y->created_ms ? -1 : 1;
  return strcmp(x->id, y->id);
}

static int list(struct request* r) {
  int fd = open_store(r, false);
  DIR* dir = fd < 0 ? NULL : fdopendir(fd);
  struct dirent* entry;
  int rc = 0;

  if (fd < 0) return fd == -ENOENT ? 0 : fd;
  if (dir == NULL) {
    close(fd);
    return fail(r, "Listing", ENOMEM);
  }
  while (rc == 0 && (entry = readdir(dir)) != NULL) {
    size_t len = strlen(entry->d_name);

    if (len < sizeof(SUFFIX) || !is_id(entry->d_name, len - 4) ||
        strcmp(entry->d_name + len - 4, SUFFIX) != 0)
      continue;
    rc = add(r, fd, entry->d_name, len - 4);
  }
  closedir(dir);
  if (r->count > 1) qsort(r->list, r->count, sizeof(*r->list), by_age);
  return rc;
}

/* ---- on the pool and back ---- */

static int run(struct request* r) {
  switch (r->spec.verb) {
    case SBX_SNAPSHOT_CREATE: return create(r);
    case SBX_SNAPSHOT_RESTORE: return put_back(r, SBX_ARCHIVE_RESTORE);
    case SBX_SNAPSHOT_DELETE: return delete(r);
    case SBX_SNAPSHOT_LIST: return list(r);
    case SBX_SNAPSHOT_SEED: return put_back(r, SBX_ARCHIVE_UNPACK);
    case SBX_SNAPSHOT_LAYER: return make_layer(r);
  }
  return fail(r, "An unknown verb", EINVAL);
}

static void on_work(uv_work_t* work) {
  struct request* r = work->data;

  r->code = run(r);
}

static void on_worked(uv_work_t* work, int status) {
  struct request* r = work->data;

  if (status < 0) r->code = fail(r, "Starting", ECANCELED);
  r->spec.cb(r->spec.arg, r->code != 0 ? &r->error : NULL, r->list, r->count);
  if (r->spec.root != NULL) sbx_root_unref(r->spec.root);
  free(r->list);
  free(r->store);
  free(r);
}

int sbx_local_snapshot_check(const struct sbx_local_snapshot* spec,
                             struct sbx_error* error) {
  const char* operation = sbx_snapshot_operation(spec->verb);
  bool needs_root = spec->verb == SBX_SNAPSHOT_CREATE ||
                    spec->verb == SBX_SNAPSHOT_RESTORE ||
                    spec->verb == SBX_SNAPSHOT_SEED;

  if (spec->store == NULL || spec->store[0] != '/')
    return sbx_error_set(error, SBX_E_INTERNAL, 0, operation,
                         "There is no folder for snapshots.");
  if (needs_root && spec->root == NULL)
    return sbx_error_set(error, SBX_E_UNAVAILABLE, 0, operation,
                         "The sandbox is not started.");
  if (spec->verb == SBX_SNAPSHOT_LIST) return 0;
  if (spec->id != NULL && is_id(spec->id, strlen(spec->id))) return 0;
  return sbx_error_set(error, SBX_E_INVALID_INPUT, 0, operation,
                       "\"%.300s\" is not the id of a snapshot: use what "
                       "snapshots.create() or list() returned.",
                       spec->id == NULL ? "" : spec->id);
}

int sbx_local_snapshot_request(uv_loop_t* loop,
                               const struct sbx_local_snapshot* spec,
                               struct sbx_error* error) {
  struct request* r;
  int rc = sbx_local_snapshot_check(spec, error);

  if (rc != 0) return rc;
  r = calloc(1, sizeof(*r));
  if (r != NULL) r->store = strdup(spec->store);
  if (r == NULL || r->store == NULL) {
    free(r);
    return sbx_error_set(error, SBX_E_INTERNAL, ENOMEM,
                         sbx_snapshot_operation(spec->verb), "Out of memory.");
  }
  r->spec = *spec;
  r->work.data = r;
  if (spec->id != NULL) {
    snprintf(r->id, sizeof(r->id), "%s", spec->id);
    snprintf(r->file, sizeof(r->file), "%s" SUFFIX, r->id);
  }
  if (spec->root != NULL) sbx_root_ref(spec->root);
  uv_queue_work(loop, &r->work, on_work, on_worked);
  return 0;
}
