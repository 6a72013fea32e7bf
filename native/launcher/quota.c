/* Walks a folder that hostile programs change meanwhile. A walk is started when
 * the file system has lost space (asking that costs nothing) and at times
 * anyway. Levels far above the current one are closed and found again through
 * "..", so that no depth runs out of descriptors.
 */
#include "sys.h" /* first: feature macros */

#include "quota.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>

enum {
  SBX__LOOK_MS = 100,     /* between questions about free space */
  SBX__REST_MS = 5000,    /* between walks that nothing calls for */
  SBX__SLICE = 4000,      /* entries of one step */
  SBX__OPEN_MAX = 32,     /* levels that are kept open */
  SBX__LEVELS_MAX = 200000
};

#define SBX__GROWTH ((uint64_t) 256 << 10) /* less is not worth a walk */

struct sbx__level {
  int fd; /* -1: closed, to be found again */
  dev_t dev;
  ino_t ino;
  size_t from; /* its folders' names in the list of names */
  size_t at;   /* the next one */
  size_t end;
};

struct sbx_quota {
  int folder;
  uint64_t limit;
  uint64_t used;
  uint64_t told; /* the size at which it was last said to be too large */
  bool walked;   /* once, at least */
  uint64_t due;
  uint64_t next_walk;
  uint64_t free_before; /* of the file system when the last walk began */
  bool walking;
  uint64_t sum;
  struct sbx__level* levels;
  size_t levels_len;
  size_t levels_size;
  char* names; /* of folders still to be read, those of one level together */
  size_t names_len;
  size_t names_size;
};

struct sbx__entry {
  uint64_t ino;
  int64_t off;
  unsigned short reclen;
  unsigned char type;
  char name[];
};

static uint64_t sbx__now(void) {
  struct timespec t;

  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t) t.tv_sec * 1000 + (uint64_t) t.tv_nsec / 1000000;
}

struct sbx_quota* sbx_quota_new(int folder, uint64_t limit) {
  struct sbx_quota* q = calloc(1, sizeof(*q));

  if (q == NULL) return NULL;
  q->folder = folder;
  q->limit = limit;
  return q;
}

/* ---- levels ---- */

static void sbx__pop(struct sbx_quota* q) {
  struct sbx__level* l = &q->levels[--q->levels_len];

  if (l->fd >= 0) close(l->fd);
  q->names_len = l->from;
}

static void sbx__clear(struct sbx_quota* q) {
  while (q->levels_len > 0) sbx__pop(q);
  q->walking = false;
}

void sbx_quota_free(struct sbx_quota* q) {
  sbx__clear(q);
  free(q->levels);
  free(q->names);
  close(q->folder);
  free(q);
}

/* Takes over the descriptor. */
static bool sbx__push(struct sbx_quota* q, int fd) {
  struct sbx__level* l;
  struct stat st;

  if (q->levels_len == q->levels_size) {
    size_t size = q->levels_size == 0 ? 32 : q->levels_size * 2;
    l = realloc(q->levels, size * sizeof(*l));
    if (l == NULL) {
      close(fd);
      return false;
    }
    q->levels = l;
    q->levels_size = size;
  }
  if (q->levels_len >= SBX__LEVELS_MAX || fstat(fd, &st) != 0) {
    close(fd);
    return false;
  }
  l = &q->levels[q->levels_len++];
  *l = (struct sbx__level){
      .fd = fd, .dev = st.st_dev, .ino = st.st_ino, .from = q->names_len};
  l->at = l->end = l->from;
  if (q->levels_len > SBX__OPEN_MAX) {
    struct sbx__level* far = l - SBX__OPEN_MAX;
    if (far->fd >= 0) close(far->fd);
    far->fd = -1;
  }
  return true;
}

/* Goes up one level; false when it is not the folder any more that it was. */
static bool sbx__up(struct sbx_quota* q) {
  struct sbx__level* l = &q->levels[q->levels_len - 1];
  struct sbx__level* above = l - 1;
  struct stat st;

  if (q->levels_len > 1 && above->fd < 0) {
    above->fd = openat(l->fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (above->fd < 0 || fstat(above->fd, &st) != 0) return false;
    if (st.st_dev != above->dev || st.st_ino != above->ino) return false;
  }
  sbx__pop(q);
  return true;
}

/* ---- reading ---- */

static bool sbx__room(struct sbx_quota* q, size_t len) {
  size_t size = q->names_size == 0 ? 4096 : q->names_size;
  char* more;

  while (size - q->names_len < len) size *= 2;
  if (size == q->names_size) return true;
  more = realloc(q->names, size);
  if (more == NULL) return false;
  q->names = more;
  q->names_size = size;
  return true;
}

static void sbx__remember(struct sbx_quota* q, const char* name) {
  size_t len = strlen(name) + 1;

  if (!sbx__room(q, len)) return;
  memcpy(q->names + q->names_len, name, len);
  q->names_len += len;
}

/* A file with several names counts in parts, so no list of files is needed. */
static void sbx__count(struct sbx_quota* q, struct sbx__level* l,
                       const char* name) {
  struct stat st;

  if (name[0] == '.' && (name[1] == '\0' || (name[1] == '.' && !name[2])))
    return;
  if (fstatat(l->fd, name, &st, AT_SYMLINK_NOFOLLOW) != 0) return;
  if (st.st_dev != l->dev) return;
  q->sum += (uint64_t) st.st_blocks * 512 /
            (S_ISDIR(st.st_mode) || st.st_nlink == 0 ? 1 : st.st_nlink);
  if (S_ISDIR(st.st_mode)) sbx__remember(q, name);
}

static size_t sbx__read_level(struct sbx_quota* q) {
  struct sbx__level* l = &q->levels[q->levels_len - 1];
  _Alignas(8) char bytes[16384];
  size_t entries = 1;
  long n;

  while ((n = syscall(SYS_getdents64, l->fd, bytes, sizeof(bytes))) > 0) {
    long at = 0;
    while (at < n) {
      const struct sbx__entry* e = (const void*) (bytes + at);
      sbx__count(q, l, e->name);
      at += e->reclen;
      entries++;
    }
  }
  l->end = q->names_len;
  return entries;
}

static void sbx__enter(struct sbx_quota* q, size_t* done) {
  struct sbx__level* l = &q->levels[q->levels_len - 1];
  const char* name = q->names + l->at;
  int fd = openat(l->fd, name,
                  O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

  l->at += strlen(name) + 1;
  if (fd >= 0 && sbx__push(q, fd)) *done += sbx__read_level(q);
}

/* ---- walks ---- */

static uint64_t sbx__free_space(const struct sbx_quota* q) {
  struct statfs fs;

  if (fstatfs(q->folder, &fs) != 0) return 0;
  return (uint64_t) fs.f_bfree * (uint64_t) fs.f_bsize;
}

static void sbx__begin(struct sbx_quota* q) {
  int fd = openat(q->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

  q->sum = 0;
  q->free_before = sbx__free_space(q);
  if (fd < 0 || !sbx__push(q, fd)) return;
  q->walking = true;
  sbx__read_level(q);
}

/* What is too large already when the session begins is not its fault. */
static bool sbx__judge(struct sbx_quota* q) {
  bool grown = q->sum > q->told + SBX__GROWTH || q->told == 0;
  bool first = !q->walked;

  q->used = q->sum;
  q->walked = true;
  if (q->sum <= q->limit) {
    q->told = 0;
    return false;
  }
  if (!grown) return false;
  q->told = q->sum;
  return !first;
}

/* One slice. True once the walk is over, in `whole` whether it saw all. */
static bool sbx__walk(struct sbx_quota* q, bool* whole) {
  size_t done = 0;

  *whole = true;
  while (q->levels_len > 0 && done < SBX__SLICE) {
    struct sbx__level* l = &q->levels[q->levels_len - 1];

    if (l->at < l->end) {
      sbx__enter(q, &done);
    } else if (!sbx__up(q)) {
      *whole = false;
      break;
    }
  }
  if (*whole && q->levels_len > 0) return false;
  sbx__clear(q);
  return true;
}

static bool sbx__is_called_for(const struct sbx_quota* q, uint64_t now) {
  uint64_t left = q->limit > q->used ? q->limit - q->used : 0;
  uint64_t space = sbx__free_space(q);
  uint64_t lost = q->free_before > space ? q->free_before - space : 0;

  if (!q->walked || now >= q->next_walk) return true;
  return lost > SBX__GROWTH && lost > left / 2;
}

bool sbx_quota_step(struct sbx_quota* q) {
  uint64_t before = sbx__now(), now;
  bool whole = false, over = false;

  q->due = before + SBX__LOOK_MS;
  if (!q->walking && sbx__is_called_for(q, before)) sbx__begin(q);
  if (!q->walking) return false;
  if (sbx__walk(q, &whole)) {
    over = whole && sbx__judge(q);
    q->next_walk = before + SBX__REST_MS;
  } else {
    /* Half of the time is for others. */
    now = sbx__now();
    q->due = now + (now - before) + 1;
  }
  return over;
}

int sbx_quota_wait(const struct sbx_quota* q) {
  uint64_t now = sbx__now();
  return q->due > now ? (int) (q->due - now) : 0;
}

uint64_t sbx_quota_used(const struct sbx_quota* q) { return q->used; }
