/* Makes files of an archive below one folder. Names are resolved without links
 * and only downwards, and nothing that is there is opened for writing. */
#include "internal.h"

#include <errno.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { BUFFER = 1 << 20 };

/* A folder gets its mode and time when everything in it is there. */
struct folder {
  char* path;
  uint32_t mode;
  int64_t mtime;
  uint32_t mtime_ns;
};

struct unpack {
  struct sbx__archive* a;
  int top;
  int dir; /* of the last entry */
  char dir_path[SBX_TAR_PATH_MAX];
  int file; /* whose data comes, or -1 */
  struct sbx_tar_entry entry;
  struct folder* folders;
  size_t folders_len;
  size_t folders_size;
};

/* --- names ----------------------------------------------------------------- */

static int open_below(struct unpack* u, const char* path) {
  if (*path == 0) path = ".";
  return sbx__open_real(u->a->root, u->top, path,
                        O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
}

/* The folder of a path, opened, and the name in it. */
static int parent_of(struct unpack* u, const char* path, const char** name) {
  const char* slash = strrchr(path, '/');
  size_t len = slash ? (size_t)(slash - path) : 0;
  char parent[SBX_TAR_PATH_MAX];
  *name = slash ? slash + 1 : path;
  if (u->dir >= 0 && strlen(u->dir_path) == len &&
      memcmp(u->dir_path, path, len) == 0)
    return 0;
  memcpy(parent, path, len);
  parent[len] = 0;
  int fd = open_below(u, parent);
  if (fd < 0) return fd;
  if (u->dir >= 0) close(u->dir);
  u->dir = fd;
  memcpy(u->dir_path, parent, len + 1);
  return 0;
}

static struct timespec modified(int64_t s, uint32_t ns) {
  struct timespec t = {s, ns};
  return t;
}

/* --- one entry ------------------------------------------------------------- */

static int note_folder(struct unpack* u, const struct sbx_tar_entry* e) {
  if (u->folders_len == u->folders_size) {
    size_t size = u->folders_size * 2 + 64;
    struct folder* more = realloc(u->folders, size * sizeof(*more));
    if (!more) return -ENOMEM;
    u->folders = more;
    u->folders_size = size;
  }
  char* path = strdup(e->path);
  if (!path) return -ENOMEM;
  u->folders[u->folders_len++] =
      (struct folder){path, e->mode, e->mtime, e->mtime_ns};
  return 0;
}

static int make_folder(struct unpack* u, const char* name,
                       const struct sbx_tar_entry* e) {
  if (mkdirat(u->dir, name, 0700) < 0) return -errno;
  return note_folder(u, e);
}

static int make_file(struct unpack* u, const char* name,
                     const struct sbx_tar_entry* e) {
  int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  u->file = openat(u->dir, name, flags, 0600);
  if (u->file < 0) return -errno;
  u->entry = *e;
  return 0;
}

static int set_times_at(int dir, const char* name,
                        const struct sbx_tar_entry* e) {
  struct timespec t[2] = {{0, UTIME_NOW}, modified(e->mtime, e->mtime_ns)};
  return utimensat(dir, name, t, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

static int make_link(struct unpack* u, const char* name,
                     const struct sbx_tar_entry* e) {
  if (symlinkat(e->link, u->dir, name) < 0) return -errno;
  return set_times_at(u->dir, name, e);
}

/* The link itself, should the earlier entry have been one. */
static int make_hard_link(struct unpack* u, const char* name,
                          const struct sbx_tar_entry* e) {
  const char* slash = strrchr(e->link, '/');
  char parent[SBX_TAR_PATH_MAX] = "";
  if (slash) memcpy(parent, e->link, (size_t)(slash - e->link));
  int fd = open_below(u, parent);
  if (fd < 0) return fd;
  int rc = linkat(fd, slash ? slash + 1 : e->link, u->dir, name, 0);
  if (rc < 0) rc = -errno;
  close(fd);
  return rc;
}

/* A raw call: the function is a newer libc's. */
static int make_fifo(struct unpack* u, const char* name,
                     const struct sbx_tar_entry* e) {
  if (syscall(SYS_mknodat, u->dir, name, S_IFIFO | e->mode, 0) < 0)
    return -errno;
  return set_times_at(u->dir, name, e);
}

static int on_entry(void* arg, const struct sbx_tar_entry* e) {
  struct unpack* u = arg;
  const char* name;
  sbx__archive_at(u->a, e->path);
  if (*e->path == 0) return e->type == SBX_TAR_FOLDER ? 0 : -EPROTO;
  int rc = parent_of(u, e->path, &name);
  if (rc < 0) return rc;
  switch (e->type) {
    case SBX_TAR_FOLDER: return make_folder(u, name, e);
    case SBX_TAR_FILE: return make_file(u, name, e);
    case SBX_TAR_LINK: return make_link(u, name, e);
    case SBX_TAR_HARD_LINK: return make_hard_link(u, name, e);
    case SBX_TAR_FIFO: return make_fifo(u, name, e);
  }
  return -EPROTO;
}

static int on_data(void* arg, uint64_t offset, const char* bytes, size_t len) {
  struct unpack* u = arg;
  while (len > 0) {
    ssize_t n = pwrite(u->file, bytes, len, (off_t)offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return -errno;
    bytes += n;
    offset += (uint64_t)n;
    len -= (size_t)n;
  }
  return 0;
}

static void close_file(struct unpack* u) {
  if (u->file >= 0) close(u->file);
  u->file = -1;
}

/* Holes, and one at the end too: the size says where that is. */
static int on_end(void* arg) {
  struct unpack* u = arg;
  const struct sbx_tar_entry* e = &u->entry;
  struct timespec t[2] = {{0, UTIME_NOW}, modified(e->mtime, e->mtime_ns)};
  struct statx st;
  int rc = sbx__statx_fd(u->file, &st);
  if (rc == 0 && st.stx_size != e->size &&
      ftruncate(u->file, (off_t)e->size) < 0)
    rc = -errno;
  if (rc == 0 && (fchmod(u->file, e->mode & 0777) < 0 ||
                  futimens(u->file, t) < 0))
    rc = -errno;
  close_file(u);
  return rc;
}

/* --- the whole ------------------------------------------------------------- */

static int finish_folder(struct unpack* u, const struct folder* f) {
  struct timespec t[2] = {{0, UTIME_NOW}, modified(f->mtime, f->mtime_ns)};
  sbx__archive_at(u->a, f->path);
  int fd = open_below(u, f->path);
  if (fd < 0) return fd;
  int rc = fchmod(fd, f->mode & 01777) < 0 || futimens(fd, t) < 0 ? -errno : 0;
  close(fd);
  return rc;
}

/* Deepest first: a mode may close the way to what lies below. */
static int finish_folders(struct unpack* u) {
  for (size_t i = u->folders_len; i-- > 0;) {
    int rc = finish_folder(u, &u->folders[i]);
    if (rc < 0) return rc;
  }
  return 0;
}

static int read_archive(struct unpack* u, struct sbx_tar* tar, char* buffer) {
  for (;;) {
    ssize_t n = read(u->a->fd, buffer, BUFFER);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return -errno;
    if (n == 0) break;
    u->a->bytes += (uint64_t)n;
    int rc = sbx_tar_feed(tar, buffer, (size_t)n);
    if (rc < 0) return rc;
  }
  return sbx_tar_ended(tar) ? finish_folders(u) : -EPROTO;
}

static void clear(struct unpack* u) {
  close_file(u);
  if (u->dir >= 0) close(u->dir);
  for (size_t i = 0; i < u->folders_len; i++) free(u->folders[i].path);
  free(u->folders);
}

int sbx__archive_unpack(struct sbx__archive* a, int top) {
  struct unpack u = {.a = a, .top = top, .dir = -1, .file = -1};
  struct sbx_tar_sink sink = {&u, on_entry, on_data, on_end};
  struct sbx_tar* tar = NULL;
  char* buffer = malloc(BUFFER);
  int rc = buffer ? sbx_tar_new(&sink, &tar) : -ENOMEM;
  if (rc == 0) rc = read_archive(&u, tar, buffer);
  if (rc == -EPROTO) a->what = "the archive is damaged";
  sbx_tar_free(tar);
  free(buffer);
  clear(&u);
  return rc;
}
