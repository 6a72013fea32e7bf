/* New content for a name, in one step for everybody who looks.
 *
 * The content goes to a temporary neighbour that is renamed over the name, so
 * a reader sees the old or the new file and a full disk costs nothing. Where
 * that would lose something (other hard links, an owner or an attribute that
 * cannot be given to the new file, a folder that takes no new names) the file
 * is written in place instead.
 *
 * The state of the file is compared with what the caller expects, and then
 * the rename follows: nobody may write between the two. All writers of this
 * package, in whatever process, therefore hold a lock on the old inode while
 * they do both. Who waited finds another inode (or time) under the name, so
 * of two writers who expect the same state exactly one goes on. The lock is
 * on one byte that no program uses, far behind any content, and of the kind
 * that belongs to the open file: threads of one process exclude each other.
 */
#include "internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "../utf8.h"

enum {
  AGAIN = 1, /* the name changed meanwhile: from the start */
  IN_PLACE,  /* this file cannot be replaced by a new one */
  ATTEMPTS_MAX = 64,
  AHEAD_MAX = 500, /* ms that a time may run ahead of the clock */
  XATTR_MAX = 64 << 10
};

/* One attempt. */
struct attempt {
  struct sbx__job* job;
  struct sbx__spot* spot;
  const char* path;
  const struct sbx__replace* what;
  int old;  /* the file that is there now, -1: none */
  int temp;
  char temp_name[24];
};

/* --- small parts ---------------------------------------------------------- */

void sbx__temp_name(char* out) {
  uint64_t number = 0;
  if (getrandom(&number, sizeof(number), 0) != sizeof(number)) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    number = (uint64_t)now.tv_nsec * 2654435761u ^ (uint64_t)(size_t)out;
  }
  snprintf(out, 24, ".sbx-%016llx", (unsigned long long)number);
}

int sbx__rename_new(int from_dir, const char* from, int to_dir,
                    const char* to) {
  if (renameat2(from_dir, from, to_dir, to, RENAME_NOREPLACE) == 0) return 0;
  if (errno != EINVAL && errno != ENOSYS) return -errno;
  if (linkat(from_dir, from, to_dir, to, 0) < 0) return -errno;
  unlinkat(from_dir, from, 0);
  return 0;
}

/* Polls instead of waiting, so that a program that never lets go cannot keep
 * the thread pool busy: at most about a second. */
int sbx__lock(int fd) {
  struct flock lock = {
      .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = INT64_MAX - 1,
      .l_len = 1};
  struct timespec pause = {0, 20000};
  for (int64_t waited = 0; waited < 1000000000; waited += pause.tv_nsec) {
    if (fcntl(fd, F_OFD_SETLK, &lock) == 0) return 0;
    if (errno != EAGAIN && errno != EACCES && errno != EINTR) return -errno;
    nanosleep(&pause, NULL);
    if (pause.tv_nsec < 4000000) pause.tv_nsec *= 2;
  }
  return -EAGAIN;
}

static int fail_target(struct attempt* a, int rc) {
  return sbx__fail(a->job, rc, a->path, SBX__TARGET);
}

static int fail_stale(struct attempt* a, const struct statx* now) {
  int64_t actual = sbx__mtime_ms(now);
  int code = sbx_error_set(
      a->job->error, SBX_E_STALE, 0,
      sbx__operation(a->job->request->verb),
      "/%s was changed by somebody else since it was read; read it again.",
      a->path);
  if (a->job->error) a->job->error->number = actual;
  return code;
}

static int fail_locked(struct attempt* a) {
  int code = sbx_error_set(
      a->job->error, SBX_E_UNAVAILABLE, EAGAIN,
      sbx__operation(a->job->request->verb),
      "/%s is being written by somebody else; try again.", a->path);
  if (a->job->error) a->job->error->retryable = true;
  return code;
}

static bool is_stale(const struct attempt* a, const struct statx* now) {
  return a->what->expected != INT64_MIN &&
         sbx__mtime_ms(now) != a->what->expected;
}

/* Permission bits of the result: never a set-id bit. */
static uint32_t final_mode(const struct attempt* a) {
  if (a->what->mode) return a->what->mode & 01777;
  return a->old >= 0 ? a->spot->st.stx_mode & 01777 : 0644;
}

/* --- checks --------------------------------------------------------------- */

/* U+FFFD in text says that a decoder met bytes it did not know. Where the file
 * has such bytes, writing the text back would destroy them. */
static int check_text(struct attempt* a) {
  const struct sbx__content* content = &a->what->content;
  size_t len;
  int rc;
  if (!a->what->text || content->fd >= 0 || a->old < 0) return 0;
  if (!memmem(content->data, content->len, "\xef\xbf\xbd", 3)) return 0;
  int fd = openat(a->spot->dir, a->spot->name,
                  O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return 0;
  void* data = sbx__read_all(fd, a->spot->st.stx_size, 1u << 30, &len, &rc);
  close(fd);
  if (!data) return 0;
  bool valid = sbx_utf8_valid(data, len);
  free(data);
  if (valid) return 0;
  return sbx_error_set(
      a->job->error, SBX_E_INVALID_INPUT, 0, "files.write",
      "/%s is not UTF-8, and the new text has U+FFFD where its bytes were: "
      "they would be lost. Edit it with a command (sed, iconv) or write bytes.",
      a->path);
}

static int check_target(struct attempt* a) {
  struct sbx__spot* spot = a->spot;
  bool exclusive = a->what->exclusive;
  if (spot->present && S_ISREG(spot->st.stx_mode) && is_stale(a, &spot->st))
    return fail_stale(a, &spot->st);
  if (exclusive && (spot->present || spot->linked))
    return sbx__fail_exists(a->job, a->path);
  if (!spot->name[0] || (spot->present && S_ISDIR(spot->st.stx_mode)))
    return sbx__fail_is_directory(a->job, a->path);
  if (spot->present && !S_ISREG(spot->st.stx_mode) &&
      !S_ISLNK(spot->st.stx_mode))
    return sbx__fail_special(a->job, a->path, spot->st.stx_mode);
  return 0;
}

/* Opening it for writing asks the kernel whether it may be written at all: a
 * rename would not ask. A running program (ETXTBSY) may be replaced. */
static int open_old(struct attempt* a) {
  int flags = O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
  if (!a->spot->present || S_ISLNK(a->spot->st.stx_mode)) return 0;
  a->old = openat(a->spot->dir, a->spot->name, O_WRONLY | flags);
  if (a->old < 0 && errno == ETXTBSY)
    a->old = openat(a->spot->dir, a->spot->name, O_RDONLY | flags);
  if (a->old < 0 && (errno == ENOENT || errno == ELOOP || errno == ENXIO))
    return AGAIN;
  if (a->old < 0) return fail_target(a, errno);
  int rc = sbx__statx_fd(a->old, &a->spot->st);
  if (rc < 0) return fail_target(a, rc);
  return S_ISREG(a->spot->st.stx_mode) ? 0 : AGAIN;
}

/* --- the new file --------------------------------------------------------- */

static int keep_xattr(int from, int to, const char* name) {
  char value[XATTR_MAX];
  /* Security labels belong to the system, which has labelled the new file. */
  if (strncmp(name, "security.", 9) == 0) return 0;
  ssize_t len = fgetxattr(from, name, value, sizeof(value));
  if (len < 0) return -errno;
  return fsetxattr(to, name, value, (size_t)len, 0) < 0 ? -errno : 0;
}

static int keep_xattrs(int from, int to) {
  char names[4096];
  ssize_t len = flistxattr(from, names, sizeof(names));
  if (len < 0) return errno == ENOTSUP ? 0 : -errno;
  for (ssize_t at = 0; at < len; at += (ssize_t)strlen(names + at) + 1) {
    int rc = keep_xattr(from, to, names + at);
    if (rc < 0) return rc;
  }
  return 0;
}

/* Owner first: chown would take bits away. -errno: write in place instead. */
static int keep_facts(struct attempt* a, const struct statx* fresh) {
  const struct statx* old = &a->spot->st;
  bool owned = fresh->stx_uid == old->stx_uid && fresh->stx_gid == old->stx_gid;
  if (!owned && fchown(a->temp, old->stx_uid, old->stx_gid) < 0) return -errno;
  return keep_xattrs(a->old, a->temp);
}

/* A later time even when the clock has not ticked since the last write, for
 * the time is how others notice that there was one. */
static void move_time(int fd, const struct statx* old,
                      const struct statx* fresh) {
  int64_t ms = sbx__mtime_ms(old) + 1;
  int64_t ahead = ms - sbx__mtime_ms(fresh);
  if (ahead <= 0 || ahead > AHEAD_MAX) return;
  struct timespec times[2] = {
      {0, UTIME_OMIT}, {ms / 1000, (ms % 1000) * 1000000}};
  if (ms >= 0) futimens(fd, times);
}

static void set_times(int fd, const struct statx* from) {
  struct timespec times[2] = {
      {from->stx_atime.tv_sec, from->stx_atime.tv_nsec},
      {from->stx_mtime.tv_sec, from->stx_mtime.tv_nsec}};
  futimens(fd, times);
}

static int temp_open(struct attempt* a) {
  int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  mode_t mode = final_mode(a) & 0777;
  /* Nobody else may read it before it has its owner and its mode. */
  if (a->old >= 0) mode &= 0700;
  sbx__temp_name(a->temp_name);
  a->temp = openat(a->spot->dir, a->temp_name, flags, mode | 0200);
  return a->temp < 0 ? -errno : 0;
}

static void temp_drop(struct attempt* a) {
  if (a->temp < 0) return;
  unlinkat(a->spot->dir, a->temp_name, 0);
  close(a->temp);
  a->temp = -1;
}

/* Content, owner, mode and time of the new file. */
static int temp_fill(struct attempt* a) {
  struct statx fresh;
  uint32_t mode = final_mode(a);
  int rc = sbx__content_write(a->temp, &a->what->content);
  if (rc == 0) rc = sbx__statx_fd(a->temp, &fresh);
  if (rc < 0) return fail_target(a, rc);
  if (a->old >= 0 && keep_facts(a, &fresh) < 0) return IN_PLACE;
  if ((fresh.stx_mode & 07777) != mode && fchmod(a->temp, mode) < 0)
    return fail_target(a, errno);
  if (a->what->times) set_times(a->temp, a->what->times);
  else if (a->old >= 0) move_time(a->temp, &a->spot->st, &fresh);
  rc = sbx__statx_fd(a->temp, &fresh);
  if (rc < 0) return fail_target(a, rc);
  sbx__stat_fill(&fresh, &a->job->result->stat);
  return 0;
}

/* Under the lock: is the name still the file that was looked at? */
static int recheck(struct attempt* a) {
  struct statx now;
  bool expects = a->what->expected != INT64_MIN;
  int rc = sbx__lock(a->old);
  if (rc == -EAGAIN && expects) return fail_locked(a);
  rc = sbx__statx(a->spot->dir, a->spot->name, &now);
  if (rc == -ENOENT) return AGAIN;
  if (rc < 0) return fail_target(a, rc);
  if (sbx__same_file(&now, &a->spot->st))
    return is_stale(a, &now) ? fail_stale(a, &now) : 0;
  return expects ? fail_stale(a, &now) : AGAIN;
}

static int replace_new(struct attempt* a) {
  int dir = a->spot->dir, rc;
  if (a->spot->present) /* a link, which the caller wants replaced */
    rc = renameat(dir, a->temp_name, dir, a->spot->name) < 0 ? -errno : 0;
  else
    rc = sbx__rename_new(dir, a->temp_name, dir, a->spot->name);
  if (rc == -EEXIST && a->what->exclusive)
    return sbx__fail_exists(a->job, a->path);
  if (rc == -EEXIST) return AGAIN;
  return rc < 0 ? fail_target(a, rc) : 0;
}

static int replace_old(struct attempt* a) {
  int dir = a->spot->dir;
  int rc = recheck(a);
  if (rc != 0) return rc;
  if (renameat(dir, a->temp_name, dir, a->spot->name) < 0)
    return fail_target(a, errno);
  return 0;
}

static int replace_by_temp(struct attempt* a) {
  int rc = temp_open(a);
  bool closed = rc == -EACCES || rc == -EPERM || rc == -EROFS;
  if (closed && a->old >= 0) return IN_PLACE;
  if (rc == -ENOENT) return AGAIN;
  if (rc < 0) return fail_target(a, rc);
  rc = temp_fill(a);
  if (rc == 0) rc = a->old >= 0 ? replace_old(a) : replace_new(a);
  if (rc != 0) temp_drop(a);
  return rc;
}

/* --- in place ------------------------------------------------------------- */

static int replace_in_place(struct attempt* a) {
  struct statx now;
  int rc = recheck(a);
  if (rc != 0) return rc;
  if ((fcntl(a->old, F_GETFL) & O_ACCMODE) == O_RDONLY)
    return fail_target(a, ETXTBSY);
  rc = sbx__content_write_over(a->old, &a->what->content,
                               (off_t)a->spot->st.stx_size);
  if (rc == 0) rc = sbx__statx_fd(a->old, &now);
  if (rc < 0) return fail_target(a, rc);
  if ((now.stx_mode & 07777) != final_mode(a))
    fchmod(a->old, final_mode(a)); /* not ours to change: the bits stay */
  move_time(a->old, &a->spot->st, &now);
  sbx__statx_fd(a->old, &now);
  sbx__stat_fill(&now, &a->job->result->stat);
  return 0;
}

/* --- one attempt after the other ------------------------------------------ */

static int attempt(struct attempt* a) {
  int rc = check_target(a);
  if (rc == 0) rc = open_old(a);
  if (rc == 0 && a->old >= 0) {
    rc = is_stale(a, &a->spot->st) ? fail_stale(a, &a->spot->st) : 0;
    if (rc == 0) rc = check_text(a);
  }
  if (rc != 0) return rc;
  bool shared = a->old >= 0 && a->spot->st.stx_nlink > 1;
  rc = shared ? IN_PLACE : replace_by_temp(a);
  return rc == IN_PLACE ? replace_in_place(a) : rc;
}

static int attempt_at(struct sbx__job* job, struct sbx__spot* spot,
                      const char* path, const struct sbx__replace* what) {
  struct attempt a = {.job = job, .spot = spot, .path = path, .what = what,
                      .old = -1, .temp = -1};
  int rc = attempt(&a);
  if (a.temp >= 0) close(a.temp);
  if (a.old >= 0) close(a.old);
  return rc;
}

static int fail_races(struct sbx__job* job, const char* path) {
  return sbx__fail(job, EAGAIN, path, SBX__TARGET);
}

int sbx__replace_at(struct sbx__job* job, struct sbx__spot* spot,
                    const char* path, const struct sbx__replace* what) {
  for (int i = 0; i < ATTEMPTS_MAX; i++) {
    int rc = attempt_at(job, spot, path, what);
    if (rc != AGAIN) return rc;
    rc = sbx__spot_look(spot);
    if (rc < 0) return sbx__fail(job, rc, path, SBX__TARGET);
  }
  return fail_races(job, path);
}

int sbx__replace(struct sbx__job* job, const char* path,
                 const struct sbx__replace* what) {
  unsigned flags = SBX__FOLLOW | (what->parents ? SBX__MAKE : 0);
  for (int i = 0; i < ATTEMPTS_MAX; i++) {
    struct sbx__spot spot;
    int rc = sbx__resolve(job->root, path, flags, &spot);
    if (rc == -ENOENT) return sbx__fail_parent(job, path);
    if (rc < 0) return sbx__fail(job, rc, path, SBX__TARGET);
    rc = attempt_at(job, &spot, path, what);
    sbx__spot_close(&spot);
    if (rc != AGAIN) return rc;
  }
  return fail_races(job, path);
}
