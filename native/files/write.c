/* The verbs that put content: write and append. */
#include "internal.h"

#include <errno.h>
#include <unistd.h>

int sbx__file_write(struct sbx__job* job) {
  const struct sbx_file_request* request = job->request;
  struct sbx__replace what = {
      .content = {.data = request->data, .len = request->data_len, .fd = -1},
      .mode = request->mode,
      .expected = request->expected_mtime_ms,
      .exclusive = request->flags & SBX_FILE_EXCLUSIVE,
      .parents = request->flags & SBX_FILE_PARENTS,
      .text = request->flags & SBX_FILE_TEXT,
  };
  return sbx__replace(job, request->path, &what);
}

enum { AGAIN = 1, ATTEMPTS_MAX = 64 };

static int append_check(struct sbx__job* job, const struct sbx__spot* spot) {
  const char* path = job->request->path;
  if (!spot->present && spot->name[0]) return 0;
  if (S_ISDIR(spot->st.stx_mode)) return sbx__fail_is_directory(job, path);
  if (S_ISREG(spot->st.stx_mode)) return 0;
  return sbx__fail_special(job, path, spot->st.stx_mode);
}

/* A full disk: takes back the part that found room, if nobody without our
 * lock wrote behind it. */
static void append_undo(int fd, uint64_t before, size_t written) {
  struct statx st;
  if (written == 0 || sbx__statx_fd(fd, &st) < 0) return;
  if (st.stx_size == before + written && ftruncate(fd, (off_t)before) < 0)
    return;
}

/* One call for everything, which O_APPEND keeps in one piece. */
static int append_write(int fd, uint64_t before, const char* data,
                        size_t len) {
  size_t at = 0;
  while (at < len) {
    size_t step = len - at < (1u << 30) ? len - at : 1u << 30;
    ssize_t n = write(fd, data + at, step);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      int rc = -errno;
      append_undo(fd, before, at);
      return rc;
    }
    at += (size_t)n;
  }
  return 0;
}

/* Makes the file under the name that of the descriptor for as long as the lock
 * is held: a writer that replaces it would lose what is appended now. */
static int append_settle(struct sbx__spot* spot, int fd, struct statx* st) {
  sbx__lock(fd);
  int rc = sbx__statx_fd(fd, st);
  if (rc == 0) rc = sbx__spot_look(spot);
  if (rc < 0) return rc;
  if (!S_ISREG(st->stx_mode)) return AGAIN;
  return spot->present && sbx__same_file(st, &spot->st) ? 0 : AGAIN;
}

static int append_open(struct sbx__job* job, struct sbx__spot* spot, int fd) {
  const struct sbx_file_request* request = job->request;
  bool fresh = !spot->present; /* before it was opened */
  struct statx st;
  int rc = append_settle(spot, fd, &st);
  if (rc == AGAIN) return AGAIN;
  if (rc == 0)
    rc = append_write(fd, st.stx_size, request->data, request->data_len);
  if (rc < 0 && fresh && sbx__statx_fd(fd, &st) == 0 && st.stx_size == 0)
    unlinkat(spot->dir, spot->name, 0);
  if (rc < 0) return sbx__fail(job, rc, request->path, SBX__TARGET);
  uint32_t mode = fresh && st.stx_size == 0
                      ? (request->mode ? request->mode & 01777 : 0644)
                      : st.stx_mode & 01777;
  if ((st.stx_mode & 07777) != mode) fchmod(fd, mode);
  if (sbx__statx_fd(fd, &st) == 0) sbx__stat_fill(&st, &job->result->stat);
  return 0;
}

static int append_once(struct sbx__job* job, struct sbx__spot* spot) {
  int flags = O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK |
              O_NOCTTY | O_CLOEXEC;
  int rc = append_check(job, spot);
  if (rc < 0) return rc;
  int fd = openat(spot->dir, spot->name, flags, 0644);
  if (fd < 0 && (errno == ELOOP || errno == ENOENT)) return AGAIN;
  if (fd < 0) return sbx__fail(job, errno, job->request->path, SBX__TARGET);
  rc = append_open(job, spot, fd);
  close(fd);
  return rc;
}

int sbx__file_append(struct sbx__job* job) {
  const char* path = job->request->path;
  for (int i = 0; i < ATTEMPTS_MAX; i++) {
    struct sbx__spot spot;
    int rc = sbx__resolve(job->root, path, SBX__FOLLOW | SBX__MAKE, &spot);
    if (rc == -ENOENT) return sbx__fail_parent(job, path);
    if (rc < 0) return sbx__fail(job, rc, path, SBX__TARGET);
    rc = append_once(job, &spot);
    sbx__spot_close(&spot);
    if (rc != AGAIN) return rc;
  }
  return sbx__fail(job, EAGAIN, path, SBX__TARGET);
}
