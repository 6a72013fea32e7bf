/* Facts of a file from statx, the one call that gives milliseconds and the
 * birth time and needs no newer libc. */
#include "internal.h"

#include <errno.h>

int sbx__statx(int dir, const char* name, struct statx* st) {
  int flags = AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_EMPTY_PATH;
  unsigned mask = STATX_BASIC_STATS | STATX_BTIME;
  return statx(dir, name, flags, mask, st) < 0 ? -errno : 0;
}

int sbx__statx_fd(int fd, struct statx* st) {
  return sbx__statx(fd, "", st);
}

/* Seconds before 1970 are negative while nanoseconds never are: that floors. */
static int64_t to_ms(const struct statx_timestamp* t) {
  return (int64_t)t->tv_sec * 1000 + t->tv_nsec / 1000000;
}

int64_t sbx__mtime_ms(const struct statx* st) {
  return to_ms(&st->stx_mtime);
}

bool sbx__same_file(const struct statx* a, const struct statx* b) {
  return a->stx_ino == b->stx_ino && a->stx_dev_major == b->stx_dev_major &&
         a->stx_dev_minor == b->stx_dev_minor;
}

static int64_t created_ms(const struct statx* st) {
  if (st->stx_mask & STATX_BTIME) return to_ms(&st->stx_btime);
  int64_t oldest = to_ms(&st->stx_mtime);
  if (to_ms(&st->stx_ctime) < oldest) oldest = to_ms(&st->stx_ctime);
  if (to_ms(&st->stx_atime) < oldest) oldest = to_ms(&st->stx_atime);
  return oldest;
}

static uint8_t type_of(unsigned mode) {
  if (S_ISREG(mode)) return SBX_TYPE_FILE;
  if (S_ISDIR(mode)) return SBX_TYPE_DIRECTORY;
  if (S_ISLNK(mode)) return SBX_TYPE_LINK;
  return SBX_TYPE_OTHER;
}

void sbx__stat_fill(const struct statx* st, struct sbx_file_stat* out) {
  out->type = type_of(st->stx_mode);
  out->mode = st->stx_mode & 07777;
  out->size = st->stx_size;
  out->modified_ms = sbx__mtime_ms(st);
  out->created_ms = created_ms(st);
}

const char* sbx__kind(unsigned mode) {
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISLNK(mode)) return "a link";
  return "a file";
}
