/* Reads the process table from /proc with few calls and no stdio. */
#include "sys.h" /* first: feature macros */

#include "proc.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct sbx__dent {
  uint64_t ino;
  int64_t off;
  unsigned short reclen;
  unsigned char type;
  char name[];
};

/* Numbered entries of a folder, one at a time. */
struct sbx__listing {
  int fd;
  size_t at;
  size_t len;
  _Alignas(8) char bytes[16384];
};

static const char* sbx__next(struct sbx__listing* l) {
  for (;;) {
    const struct sbx__dent* d;

    if (l->at >= l->len) {
      long n = syscall(SYS_getdents64, l->fd, l->bytes, sizeof(l->bytes));
      if (n <= 0) return NULL;
      l->at = 0;
      l->len = (size_t) n;
    }
    d = (const void*) (l->bytes + l->at);
    l->at += d->reclen;
    if (d->name[0] >= '0' && d->name[0] <= '9') return d->name;
  }
}

/* pid (name) state ppid pgrp session ... starttime is field 22. The name may
 * hold anything, so that counting starts at the last parenthesis. */
static bool sbx__parse(char* text, struct sbx_proc* p) {
  char* s = strrchr(text, ')');
  int field;

  if (s == NULL || s[1] != ' ') return false;
  s += 2;
  p->state = *s;
  for (field = 3; field < 22; field++) {
    s = strchr(s, ' ');
    if (s == NULL) return false;
    s++;
    if (field + 1 == 4) p->parent = (pid_t) strtol(s, NULL, 10);
    if (field + 1 == 20) p->threads = (uint32_t) strtoul(s, NULL, 10);
    if (field + 1 == 6) p->session = (pid_t) strtol(s, NULL, 10);
  }
  p->start = strtoull(s, NULL, 10);
  return true;
}

static bool sbx__read(int dir, const char* name, struct sbx_proc* p) {
  char path[32], text[1024];
  ssize_t n;
  int fd;

  snprintf(path, sizeof(path), "%.20s/stat", name);
  fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  n = read(fd, text, sizeof(text) - 1);
  close(fd);
  if (n <= 0) return false;
  text[n] = '\0';
  memset(p, 0, sizeof(*p));
  p->pid = (pid_t) strtol(name, NULL, 10);
  return sbx__parse(text, p);
}

bool sbx_proc_read(pid_t pid, struct sbx_proc* p) {
  char name[20];

  snprintf(name, sizeof(name), "/proc/%d", (int) pid);
  if (!sbx__read(AT_FDCWD, name, p)) return false;
  p->pid = pid;
  return true;
}

static int sbx__compare(const void* a, const void* b) {
  const struct sbx_proc* x = a;
  const struct sbx_proc* y = b;
  return x->pid < y->pid ? -1 : x->pid > y->pid;
}

static int sbx__grow(struct sbx_procs* procs) {
  size_t size = procs->size == 0 ? 64 : procs->size * 2;
  struct sbx_proc* list = realloc(procs->list, size * sizeof(*list));

  if (list == NULL) return -1;
  procs->list = list;
  procs->size = size;
  return 0;
}

int sbx_procs_scan(struct sbx_procs* procs, int dir) {
  struct sbx__listing l = {.fd = dir};
  pid_t self = getpid();
  const char* name;
  int rc = 0;

  procs->len = 0;
  if (lseek(dir, 0, SEEK_SET) != 0) return -1;
  while (rc == 0 && (name = sbx__next(&l)) != NULL) {
    if (procs->len == procs->size && (rc = sbx__grow(procs)) != 0) break;
    if (sbx__read(dir, name, &procs->list[procs->len]) &&
        procs->list[procs->len].pid != self)
      procs->len++;
  }
  if (procs->len > 1)
    qsort(procs->list, procs->len, sizeof(*procs->list), sbx__compare);
  return rc;
}

void sbx_procs_free(struct sbx_procs* procs) {
  free(procs->list);
  memset(procs, 0, sizeof(*procs));
}

struct sbx_proc* sbx_procs_find(const struct sbx_procs* procs, pid_t pid) {
  struct sbx_proc key = {.pid = pid};

  if (procs->len == 0) return NULL;
  return bsearch(&key, procs->list, procs->len, sizeof(key), sbx__compare);
}

void sbx_stream_name(int fd, char name[SBX_STREAM_NAME]) {
  const char* kind = NULL;
  struct stat st;

  name[0] = '\0';
  if (fd < 0 || fstat(fd, &st) != 0) return;
  if (S_ISFIFO(st.st_mode)) kind = "pipe";
  if (S_ISSOCK(st.st_mode)) kind = "socket";
  if (kind == NULL) return;
  snprintf(name, SBX_STREAM_NAME, "%s:[%llu]", kind,
           (unsigned long long) st.st_ino);
}

/* The mode of the link itself tells how the file was opened: a reader of the
 * pipe does not hold it. */
static bool sbx__is_writer(int dir, const char* fd) {
  struct stat st;

  return fstatat(dir, fd, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
         (st.st_mode & 0200) != 0;
}

static bool sbx__is_one(int dir, const char* fd,
                        const char names[][SBX_STREAM_NAME], size_t count) {
  char link[SBX_STREAM_NAME];
  ssize_t n = readlinkat(dir, fd, link, sizeof(link) - 1);
  size_t i;

  if (n <= 0) return false;
  link[n] = '\0';
  for (i = 0; i < count; i++)
    if (names[i][0] != '\0' && strcmp(link, names[i]) == 0)
      return sbx__is_writer(dir, fd);
  return false;
}

bool sbx_proc_holds(int dir, pid_t pid, const char names[][SBX_STREAM_NAME],
                    size_t count) {
  struct sbx__listing l = {.fd = -1};
  char path[32];
  const char* name;
  bool held = false;

  snprintf(path, sizeof(path), "%d/fd", (int) pid);
  l.fd = openat(dir, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (l.fd < 0) return false;
  while (!held && (name = sbx__next(&l)) != NULL)
    held = sbx__is_one(l.fd, name, names, count);
  close(l.fd);
  return held;
}
