/* Writes what lies below a root as one archive, front to back, without
 * recursion and with few descriptors. A file that changes meanwhile is cut or
 * filled up with zeros to the size it had. */
#include "internal.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BUFFER = 1 << 20, SPARSE_MIN = 64 << 10 };

/* A file with several names: the first one is the archive's. */
struct linked {
  uint64_t ino;
  uint64_t dev;
  char* path;
};

/* A folder that its mode had closed to its owner, open while we are in it. */
struct opened {
  size_t depth;
  unsigned mode;
};

struct pack {
  struct sbx__archive* a;
  struct sbx__tree tree;
  char* buffer;
  size_t used;
  struct linked* links; /* open addressing */
  size_t links_len;
  size_t links_size;
  struct opened* opened;
  size_t opened_len;
  size_t opened_size;
};

/* --- the archive ----------------------------------------------------------- */

static int flush(struct pack* p) {
  size_t at = 0;
  while (at < p->used) {
    ssize_t n = write(p->a->fd, p->buffer + at, p->used - at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return -errno;
    at += (size_t)n;
  }
  p->a->bytes += p->used;
  p->used = 0;
  return 0;
}

static int put(struct pack* p, const char* bytes, size_t len) {
  while (len > 0) {
    size_t n = BUFFER - p->used < len ? BUFFER - p->used : len;
    memcpy(p->buffer + p->used, bytes, n);
    p->used += n;
    bytes += n;
    len -= n;
    int rc = p->used == BUFFER ? flush(p) : 0;
    if (rc < 0) return rc;
  }
  return 0;
}

static int put_zeros(struct pack* p, uint64_t len) {
  while (len > 0) {
    size_t n = BUFFER - p->used;
    if (n > len) n = (size_t)len;
    memset(p->buffer + p->used, 0, n);
    p->used += n;
    len -= n;
    int rc = p->used == BUFFER ? flush(p) : 0;
    if (rc < 0) return rc;
  }
  return 0;
}

/* Straight into the buffer; what a shrinking file lacks becomes zeros. */
static int put_range(struct pack* p, int fd, uint64_t offset, uint64_t len) {
  while (len > 0) {
    size_t n = BUFFER - p->used;
    if (n > len) n = (size_t)len;
    ssize_t got = pread(fd, p->buffer + p->used, n, (off_t)offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return -errno;
    if (got == 0) return put_zeros(p, len);
    p->used += (size_t)got;
    offset += (uint64_t)got;
    len -= (uint64_t)got;
    int rc = p->used == BUFFER ? flush(p) : 0;
    if (rc < 0) return rc;
  }
  return 0;
}

static int put_header(struct pack* p, const struct sbx_tar_entry* entry,
                      const struct sbx_tar_extent* extents, size_t len) {
  size_t size;
  char* header = sbx_tar_header(entry, extents, len, &size);
  if (!header) return -ENOMEM;
  int rc = put(p, header, size);
  free(header);
  return rc;
}

static struct sbx_tar_entry entry_of(const char* path, const struct statx* st,
                                     enum sbx_tar_type type) {
  struct sbx_tar_entry entry = {
      .type = type,
      .path = path,
      .link = "",
      .mode = st->stx_mode & (type == SBX_TAR_FOLDER ? 01777 : 0777),
      .size = type == SBX_TAR_FILE ? st->stx_size : 0,
      .mtime = st->stx_mtime.tv_sec,
      .mtime_ns = st->stx_mtime.tv_nsec,
  };
  return entry;
}

/* --- what only its owner may open, once it allows that ---------------------- */

static int set_mode(int path_fd, unsigned mode) {
  char link[64];
  snprintf(link, sizeof(link), "/proc/self/fd/%d", path_fd);
  return chmod(link, mode & 07777) < 0 ? -errno : 0;
}

/* Opens what its own mode closes to the owner: changes that for the moment. */
static int open_closed(int dir, const char* name, int flags, unsigned bits,
                       unsigned* mode) {
  struct statx st;
  int path = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
  if (path < 0) return -errno;
  int rc = sbx__statx_fd(path, &st);
  if (rc == 0 && S_ISLNK(st.stx_mode)) rc = -ELOOP;
  if (rc == 0) rc = set_mode(path, st.stx_mode | bits);
  if (rc == 0) {
    *mode = st.stx_mode;
    rc = openat(dir, name, flags);
    if (rc < 0) rc = -errno;
    if (rc < 0 || !(flags & O_DIRECTORY)) set_mode(path, st.stx_mode);
  }
  close(path);
  return rc == -EPERM ? -EACCES : rc;
}

static int open_file(int dir, const char* name) {
  int flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
  unsigned mode;
  int fd = openat(dir, name, flags);
  if (fd < 0 && errno == EACCES)
    return open_closed(dir, name, flags, 0400, &mode);
  return fd < 0 ? -errno : fd;
}

static int opened_push(struct pack* p, size_t depth, unsigned mode) {
  if (p->opened_len == p->opened_size) {
    size_t size = p->opened_size * 2 + 8;
    struct opened* more = realloc(p->opened, size * sizeof(*more));
    if (!more) return -ENOMEM;
    p->opened = more;
    p->opened_size = size;
  }
  p->opened[p->opened_len++] = (struct opened){depth, mode};
  return 0;
}

static void close_again(struct pack* p, const struct sbx__node* node) {
  if (p->opened_len == 0) return;
  struct opened* last = &p->opened[p->opened_len - 1];
  if (last->depth != node->depth) return;
  p->opened_len--;
  int dir = sbx__tree_dir(&p->tree);
  if (dir < 0) return;
  int fd = openat(dir, node->name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return;
  set_mode(fd, last->mode);
  close(fd);
}

static int enter(struct pack* p, const struct sbx__node* node, int dir) {
  struct statx st;
  unsigned mode;
  int rc = sbx__statx(dir, node->name, &st);
  if (rc < 0) return rc;
  bool closed = (st.stx_mode & 0500) != 0500;
  if (!closed) return sbx__tree_enter(&p->tree, node);
  rc = open_closed(dir, node->name,
                   O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0700,
                   &mode);
  if (rc < 0) return rc;
  close(rc);
  rc = opened_push(p, node->depth, mode);
  return rc < 0 ? rc : sbx__tree_enter(&p->tree, node);
}

/* --- hard links ------------------------------------------------------------ */

static struct linked* link_spot(struct pack* p, const struct statx* st) {
  uint64_t dev = (uint64_t)st->stx_dev_major << 32 | st->stx_dev_minor;
  size_t mask = p->links_size - 1;
  size_t i = (size_t)((st->stx_ino ^ dev) * UINT64_C(0x9e3779b97f4a7c15) >> 20);
  for (i &= mask;; i = (i + 1) & mask) {
    struct linked* l = &p->links[i];
    if (!l->path || (l->ino == st->stx_ino && l->dev == dev)) {
      l->ino = st->stx_ino;
      l->dev = dev;
      return l;
    }
  }
}

static int links_grow(struct pack* p) {
  struct linked* old = p->links;
  size_t size = p->links_size;
  if (p->links_len * 2 < size) return 0;
  p->links_size = size ? size * 2 : 64;
  p->links = calloc(p->links_size, sizeof(*p->links));
  if (!p->links) {
    p->links = old;
    p->links_size = size;
    return -ENOMEM;
  }
  for (size_t i = 0; i < size; i++) {
    struct statx st = {.stx_ino = old[i].ino,
                       .stx_dev_major = (uint32_t)(old[i].dev >> 32),
                       .stx_dev_minor = (uint32_t)old[i].dev};
    if (old[i].path) link_spot(p, &st)->path = old[i].path;
  }
  free(old);
  return 0;
}

/* 1: written as a link to an earlier name. 0: this is the first one. */
static int put_again(struct pack* p, const char* path,
                     const struct statx* st) {
  int rc = links_grow(p);
  if (rc < 0) return rc;
  struct linked* l = link_spot(p, st);
  if (!l->path) {
    l->path = strdup(path);
    p->links_len++;
    return l->path ? 0 : -ENOMEM;
  }
  struct sbx_tar_entry entry = entry_of(path, st, SBX_TAR_HARD_LINK);
  entry.link = l->path;
  rc = put_header(p, &entry, NULL, 0);
  return rc < 0 ? rc : 1;
}

/* --- one entry ------------------------------------------------------------- */

/* The data between the holes, and an empty piece at the end, where tar expects
 * one. After as many pieces as an archive may have the rest counts as data. */
static int find_extents(int fd, uint64_t size, struct sbx_tar_extent** out,
                        size_t* len) {
  size_t n = 0, room = 16;
  struct sbx_tar_extent* list = malloc(room * sizeof(*list));
  off_t at = 0;
  if (!list) return -ENOMEM;
  while ((uint64_t)at < size) {
    off_t data = lseek(fd, at, SEEK_DATA);
    if (data < 0 || (uint64_t)data >= size) break;
    off_t end = lseek(fd, data, SEEK_HOLE);
    if (end < 0 || (uint64_t)end > size || n == SBX_TAR_EXTENTS_MAX - 2)
      end = (off_t)size;
    if (n + 1 >= room) {
      room = room * 2 + 16;
      struct sbx_tar_extent* more = realloc(list, room * sizeof(*list));
      if (!more) {
        free(list);
        return -ENOMEM;
      }
      list = more;
    }
    list[n++] = (struct sbx_tar_extent){(uint64_t)data, (uint64_t)(end - data)};
    at = end;
  }
  list[n++] = (struct sbx_tar_extent){size, 0};
  *out = list;
  *len = n;
  return 0;
}

static int put_sparse(struct pack* p, const struct sbx_tar_entry* entry,
                      int fd) {
  struct sbx_tar_extent* list;
  size_t len;
  uint64_t sum = 0;
  int rc = find_extents(fd, entry->size, &list, &len);
  if (rc < 0) return rc;
  rc = put_header(p, entry, list, len);
  for (size_t i = 0; i < len && rc == 0; i++) {
    rc = put_range(p, fd, list[i].offset, list[i].len);
    sum += list[i].len;
  }
  free(list);
  return rc < 0 ? rc : put_zeros(p, -sum % SBX_TAR_BLOCK);
}

static int put_content(struct pack* p, const char* path,
                       const struct statx* st, int fd) {
  struct sbx_tar_entry entry = entry_of(path, st, SBX_TAR_FILE);
  if (st->stx_size > SPARSE_MIN && st->stx_blocks * 512 < st->stx_size)
    return put_sparse(p, &entry, fd);
  int rc = put_header(p, &entry, NULL, 0);
  if (rc == 0) rc = put_range(p, fd, 0, st->stx_size);
  return rc < 0 ? rc : put_zeros(p, -st->stx_size % SBX_TAR_BLOCK);
}

static int pack_file(struct pack* p, const struct sbx__node* node, int dir) {
  struct statx st;
  int fd = open_file(dir, node->name);
  if (fd < 0) return fd;
  int rc = sbx__statx_fd(fd, &st);
  if (rc == 0 && !S_ISREG(st.stx_mode)) rc = -ENOENT; /* exchanged */
  if (rc == 0 && st.stx_nlink > 1) rc = put_again(p, node->path, &st);
  if (rc == 0) rc = put_content(p, node->path, &st, fd);
  close(fd);
  return rc < 0 ? rc : 0;
}

static int pack_link(struct pack* p, const struct sbx__node* node, int dir) {
  char target[SBX_TAR_PATH_MAX];
  struct statx st;
  int rc = sbx__statx(dir, node->name, &st);
  if (rc < 0) return rc;
  ssize_t len = readlinkat(dir, node->name, target, sizeof(target) - 1);
  if (len < 0) return errno == EINVAL ? -ENOENT : -errno;
  target[len] = 0;
  struct sbx_tar_entry entry = entry_of(node->path, &st, SBX_TAR_LINK);
  entry.link = target;
  return put_header(p, &entry, NULL, 0);
}

static int pack_folder(struct pack* p, const struct sbx__node* node, int dir) {
  struct statx st;
  int rc = sbx__statx(dir, node->name, &st);
  if (rc < 0) return rc;
  struct sbx_tar_entry entry = entry_of(node->path, &st, SBX_TAR_FOLDER);
  if (!S_ISDIR(st.stx_mode)) return -ENOENT;
  rc = enter(p, node, dir);
  return rc < 0 ? rc : put_header(p, &entry, NULL, 0);
}

static int pack_fifo(struct pack* p, const struct sbx__node* node, int dir) {
  struct statx st;
  int rc = sbx__statx(dir, node->name, &st);
  if (rc < 0) return rc;
  struct sbx_tar_entry entry = entry_of(node->path, &st, SBX_TAR_FIFO);
  return S_ISFIFO(st.stx_mode) ? put_header(p, &entry, NULL, 0) : 0;
}

static int pack_kind(struct pack* p, const struct sbx__node* node, int dir) {
  switch (node->type) {
    case DT_REG: return pack_file(p, node, dir);
    case DT_DIR: return pack_folder(p, node, dir);
    case DT_LNK: return pack_link(p, node, dir);
    case DT_FIFO: return pack_fifo(p, node, dir);
    default: return 0; /* sockets mean nothing without their owner */
  }
}

/* What goes away meanwhile was not there. */
static int pack_node(struct pack* p, const struct sbx__node* node) {
  if (node->leave) {
    close_again(p, node);
    return 0;
  }
  if (node->depth == 1 && strcmp(node->name, SBX_ARCHIVE_STAGE) == 0) return 0;
  sbx__archive_at(p->a, node->path);
  if (node->path_len >= SBX_TAR_PATH_MAX) return -ENAMETOOLONG;
  int dir = sbx__tree_dir(&p->tree);
  int rc = dir < 0 ? dir : pack_kind(p, node, dir);
  return rc == -ENOENT || rc == -ENOTDIR || rc == -ELOOP ? 0 : rc;
}

/* The top's own mode is the root's and not the archive's. */
static int pack_all(struct pack* p, int top) {
  struct sbx__node node;
  struct statx st;
  int rc = sbx__tree_open(&p->tree, p->a->root, top, true);
  if (rc == 0) rc = sbx__statx_fd(top, &st);
  if (rc == 0) {
    struct sbx_tar_entry entry = entry_of("", &st, SBX_TAR_FOLDER);
    rc = put_header(p, &entry, NULL, 0);
  }
  while (rc == 0) {
    rc = sbx__tree_next(&p->tree, &node);
    if (rc <= 0) break;
    rc = pack_node(p, &node);
  }
  if (rc == 0) rc = put_zeros(p, 2 * SBX_TAR_BLOCK);
  return rc < 0 ? rc : flush(p);
}

static void reopen_rest(struct pack* p) {
  struct sbx__node node;
  /* A failure leaves folders open that were closed: the walk goes up. */
  while (p->opened_len > 0 && sbx__tree_next(&p->tree, &node) > 0)
    if (node.leave) close_again(p, &node);
}

int sbx__archive_pack(struct sbx__archive* a) {
  struct pack p = {.a = a, .buffer = malloc(BUFFER)};
  int top = openat(a->root->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  int rc = top < 0 ? -errno : !p.buffer ? -ENOMEM : pack_all(&p, top);
  reopen_rest(&p);
  sbx__tree_close(&p.tree);
  for (size_t i = 0; i < p.links_size; i++) free(p.links[i].path);
  free(p.links);
  free(p.opened);
  free(p.buffer);
  if (top >= 0) close(top);
  return rc;
}
