/* The bytes of a file: from memory, or those of another file without its holes.
 *
 * Where the kernel has to copy a large file through memory, two threads do it:
 * one reads while the other holds the lock that a write takes.
 */
#include "internal.h"

#include <errno.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/statfs.h>
#include <unistd.h>

#ifndef XFS_SUPER_MAGIC
#define XFS_SUPER_MAGIC 0x58465342
#endif

enum {
  CHUNK = 32 << 10, /* fits into a cache; more takes larger pieces of memory, which
                      a virtual machine may have to ask its host for */
  TWO_FROM = 32 << 20 /* bytes, so that a thread's start does not matter */
};

/* What two threads take chunks of. */
struct halves {
  int from;
  int to;
  off_t end;
  _Atomic off_t next;
  _Atomic int rc;
};

static int write_at(int fd, const char* data, size_t len, off_t at) {
  while (len > 0) {
    size_t step = len < (1u << 30) ? len : 1u << 30;
    ssize_t n = pwrite(fd, data, step, at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return -errno;
    data += n;
    at += n;
    len -= (size_t)n;
  }
  return 0;
}

static int copy_chunk(int from, int to, off_t at, off_t end, char* buffer) {
  while (at < end) {
    off_t left = end - at;
    ssize_t n = pread(from, buffer, left < CHUNK ? (size_t)left : CHUNK, at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return -errno;
    if (n == 0) return 0; /* somebody cut it */
    int rc = write_at(to, buffer, (size_t)n, at);
    if (rc < 0) return rc;
    at += n;
  }
  return 0;
}

static int copy_by_hand(int from, int to, off_t at, off_t end) {
  char* buffer = malloc(CHUNK);
  if (!buffer) return -ENOMEM;
  int rc = copy_chunk(from, to, at, end, buffer);
  free(buffer);
  return rc;
}

/* Without memory for a buffer the other thread does all. */
static void take_chunks(void* arg) {
  struct halves* h = arg;
  char* buffer = malloc(CHUNK);
  while (buffer && atomic_load(&h->rc) == 0) {
    off_t at = atomic_fetch_add(&h->next, CHUNK);
    if (at >= h->end) break;
    off_t end = h->end - at < CHUNK ? h->end : at + CHUNK;
    int rc = copy_chunk(h->from, h->to, at, end, buffer);
    if (rc < 0) atomic_store(&h->rc, rc);
  }
  free(buffer);
}

static int copy_by_two(int from, int to, off_t at, off_t end) {
  struct halves h = {.from = from, .to = to, .end = end};
  uv_thread_t other;
  atomic_init(&h.next, at);
  bool helped = uv_thread_create(&other, take_chunks, &h) == 0;
  take_chunks(&h);
  if (helped) uv_thread_join(&other);
  off_t next = atomic_load(&h.next);
  int rc = atomic_load(&h.rc);
  return rc == 0 && next < end ? copy_by_hand(from, to, next, end) : rc;
}

/* File systems that copy through memory, where they cannot share blocks. */
static bool copies_bytes(int fd) {
  struct statfs fs;
  if (fstatfs(fd, &fs) < 0) return false;
  return fs.f_type == EXT4_SUPER_MAGIC || fs.f_type == TMPFS_MAGIC ||
         fs.f_type == XFS_SUPER_MAGIC;
}

static int copy_range(int from, int to, off_t at, off_t end) {
  if (end - at >= TWO_FROM && copies_bytes(to))
    return copy_by_two(from, to, at, end);
  while (at < end) {
    off_t in = at, out = at;
    ssize_t n = copy_file_range(from, &in, to, &out, (size_t)(end - at), 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == ENOSPC || errno == EDQUOT || errno == EIO ||
                  errno == EFBIG))
      return -errno;
    /* 0 as well: some file systems answer so for files they cannot splice. */
    if (n <= 0) return copy_by_hand(from, to, at, end);
    at += n;
  }
  return 0;
}

/* Only what is not a hole. */
static int copy_data(int from, int to, off_t size) {
  off_t at = 0;
  while (at < size) {
    off_t start = lseek(from, at, SEEK_DATA);
    if (start < 0 && errno == ENXIO) break;
    if (start < 0) return copy_range(from, to, at, size);
    off_t end = lseek(from, start, SEEK_HOLE);
    if (end < 0 || end > size) end = size;
    if (start >= size) break;
    int rc = copy_range(from, to, start, end);
    if (rc < 0) return rc;
    at = end;
  }
  return 0;
}

static int content_copy(int to, const struct sbx__content* content) {
  if (content->size == 0) return 0;
  if (ioctl(to, FICLONE, content->fd) == 0) return 0;
  int rc = copy_data(content->fd, to, (off_t)content->size);
  if (rc < 0) return rc;
  return ftruncate(to, (off_t)content->size) < 0 ? -errno : 0;
}

int sbx__content_write(int fd, const struct sbx__content* content) {
  if (content->fd >= 0) return content_copy(fd, content);
  return write_at(fd, content->data, content->len, 0);
}

static uint64_t content_size(const struct sbx__content* content) {
  return content->fd >= 0 ? content->size : content->len;
}

int sbx__content_write_over(int fd, const struct sbx__content* content,
                            off_t old_size) {
  off_t size = (off_t)content_size(content);
  int rc = 0;
  if (size > 0 && fallocate(fd, 0, 0, size) < 0 &&
      (errno == ENOSPC || errno == EDQUOT || errno == EFBIG))
    rc = -errno;
  if (rc == 0 && content->fd < 0 && size > old_size)
    rc = write_at(fd, (const char*)content->data + old_size,
                  (size_t)(size - old_size), old_size);
  if (rc < 0) {
    if (ftruncate(fd, old_size) < 0) return -errno;
    return rc;
  }
  if (content->fd >= 0)
    rc = copy_range(content->fd, fd, 0, size);
  else
    rc = write_at(fd, content->data,
                  (size_t)(size < old_size ? size : old_size), 0);
  if (rc == 0 && ftruncate(fd, size) < 0) rc = -errno;
  return rc;
}
