/* The verbs that only look: read, stat, exists and realpath. */
#include "internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { READ_STEP = 64 << 10 };

/* The most that Node puts into one Buffer. */
#define READ_MAX ((uint64_t)1 << 32)

/* 0: at its end, which a read that was asked for more and gives what the file
 * had when it was looked at has reached, too. 1: full. */
static int read_some(int fd, char* data, size_t size, size_t end,
                     size_t* len) {
  while (*len < size) {
    size_t want = size - *len;
    if (want > (1u << 30)) want = 1u << 30;
    ssize_t n = read(fd, data + *len, want);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return -errno;
    *len += (size_t)n;
    if (n == 0 || ((size_t)n < want && *len == end)) return 0;
  }
  return 1;
}

/* Full, so it grew: a log that is being written, or /proc with its size 0. */
static int read_more(int fd, char** bytes, size_t* room, uint64_t limit,
                     size_t* len) {
  if (*len > limit) return -EFBIG;
  size_t more = *room + *room / 2 + READ_STEP;
  char* bigger = realloc(*bytes, more);
  if (!bigger) return -ENOMEM;
  *bytes = bigger;
  *room = more;
  return read_some(fd, bigger, more, 0, len);
}

void* sbx__read_all(int fd, uint64_t size, uint64_t limit, size_t* len,
                    int* rc) {
  size_t room = size + 1;
  char* bytes = malloc(room);
  *len = 0;
  *rc = bytes ? read_some(fd, bytes, room, size, len) : -ENOMEM;
  while (*rc > 0) *rc = read_more(fd, &bytes, &room, limit, len);
  if (*rc == 0 && *len > limit) *rc = -EFBIG;
  if (*rc < 0) {
    free(bytes);
    return NULL;
  }
  void* exact = room - *len > READ_STEP ? realloc(bytes, *len + 1) : NULL;
  return exact ? exact : bytes;
}

static uint64_t read_limit(const struct sbx_file_request* request) {
  uint64_t limit = request->max_bytes;
  return limit == 0 || limit > READ_MAX ? READ_MAX : limit;
}

static int fail_large(struct sbx__job* job, uint64_t size) {
  return sbx_error_set(
      job->error, SBX_E_IO, EFBIG, "files.read",
      "/%s has %llu bytes, and one read returns at most %llu; read a part of "
      "it with a command (head, tail, dd).",
      job->request->path, (unsigned long long)size,
      (unsigned long long)read_limit(job->request));
}

static int check_readable(struct sbx__job* job, const struct statx* st) {
  const char* path = job->request->path;
  if (S_ISDIR(st->stx_mode)) return sbx__fail_is_directory(job, path);
  if (!S_ISREG(st->stx_mode)) return sbx__fail_special(job, path, st->stx_mode);
  if (st->stx_size > read_limit(job->request))
    return fail_large(job, st->stx_size);
  return 0;
}

static int look(struct sbx__job* job, struct statx* st) {
  const char* path = job->request->path;
  if (sbx__parent_look(job, st) == 0) return 0;
  int fd = sbx__open(job->root, path, O_PATH);
  if (fd < 0) return sbx__fail(job, fd, path, SBX__SOURCE);
  int rc = sbx__statx_fd(fd, st);
  close(fd);
  return rc < 0 ? sbx__fail(job, rc, path, SBX__SOURCE) : 0;
}

static int read_open(struct sbx__job* job, int fd) {
  struct sbx_file_result* result = job->result;
  struct statx st;
  int rc = sbx__statx_fd(fd, &st);
  if (rc < 0) return sbx__fail(job, rc, job->request->path, SBX__SOURCE);
  rc = check_readable(job, &st);
  if (rc < 0) return rc;
  result->data = sbx__read_all(fd, st.stx_size, read_limit(job->request),
                               &result->len, &rc);
  if (rc == -EFBIG) return fail_large(job, st.stx_size);
  if (rc < 0) return sbx__fail(job, rc, job->request->path, SBX__SOURCE);
  sbx__stat_fill(&st, &result->stat);
  return 0;
}

/* Looks before it opens: merely opening a FIFO lets a waiting writer go on
 * into nothing, and opening a device can do anything. */
int sbx__file_read(struct sbx__job* job) {
  const char* path = job->request->path;
  struct statx st;
  int rc = look(job, &st);
  if (rc == 0) rc = check_readable(job, &st);
  if (rc < 0) return rc;
  int flags = O_RDONLY | O_NONBLOCK | O_NOCTTY;
  int fd = sbx__parent_open(job, flags);
  if (fd < 0) fd = sbx__open(job->root, path, flags);
  if (fd < 0) return sbx__fail(job, fd, path, SBX__SOURCE);
  rc = read_open(job, fd);
  close(fd);
  return rc;
}

static int look_at_link(struct sbx__job* job, struct statx* st) {
  const char* path = job->request->path;
  struct sbx__spot spot;
  int rc = sbx__resolve(job->root, path, 0, &spot);
  if (rc < 0) return sbx__fail(job, rc, path, SBX__SOURCE);
  sbx__spot_close(&spot);
  if (!spot.present) return sbx__fail(job, ENOENT, path, SBX__SOURCE);
  *st = spot.st;
  return 0;
}

int sbx__file_stat(struct sbx__job* job) {
  struct statx st;
  int rc = job->request->flags & SBX_FILE_NOFOLLOW ? look_at_link(job, &st)
                                                   : look(job, &st);
  if (rc == 0) sbx__stat_fill(&st, &job->result->stat);
  return rc;
}

int sbx__file_exists(struct sbx__job* job) {
  struct statx st;
  job->result->exists = sbx__parent_look(job, &st) == 0;
  if (job->result->exists) return 0;
  int fd = sbx__open(job->root, job->request->path, O_PATH);
  if (fd >= 0) close(fd);
  job->result->exists = fd >= 0;
  return 0;
}

int sbx__file_realpath(struct sbx__job* job) {
  const char* path = job->request->path;
  char real[PATH_MAX];
  int rc = sbx__real_path(job->root, path, false, real);
  if (rc < 0) return sbx__fail(job, rc, path, SBX__SOURCE);
  char* copy = strdup(real);
  if (!copy) return sbx__fail(job, ENOMEM, path, SBX__SOURCE);
  job->result->data = copy;
  job->result->len = strlen(copy);
  return 0;
}
