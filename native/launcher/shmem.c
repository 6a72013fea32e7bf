/* Finds memory by the names it has in /proc. */
#include "sys.h" /* first: feature macros */

#include "shmem.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/shm.h>
#include <sys/stat.h>

enum { SBX__SEEN_MAX = 65536, SBX__TABLE_MAX = 1 << 20 };

void sbx_shmem_forget(struct sbx_shmem_seen* seen) {
  free(seen->inodes);
  memset(seen, 0, sizeof(*seen));
}

static int sbx__is_new(struct sbx_shmem_seen* s, uint64_t inode) {
  uint64_t* more;
  size_t i;

  for (i = 0; i < s->len; i++)
    if (s->inodes[i] == inode) return 0;
  if (s->len == s->size) {
    s->size = s->size == 0 ? 64 : s->size * 2;
    more = s->size > SBX__SEEN_MAX
               ? NULL
               : realloc(s->inodes, s->size * sizeof(*more));
    if (more == NULL) {
      s->size = s->len;
      return 1; /* counted too often rather than not at all */
    }
    s->inodes = more;
  }
  s->inodes[s->len++] = inode;
  return 1;
}

static uint64_t sbx__memfd(int dir, const char* fd,
                           struct sbx_shmem_seen* seen) {
  char link[32];
  struct stat st;
  ssize_t n = readlinkat(dir, fd, link, sizeof(link));

  if (n < 7 || memcmp(link, "/memfd:", 7) != 0) return 0;
  if (fstatat(dir, fd, &st, 0) != 0) return 0;
  return sbx__is_new(seen, st.st_ino) ? (uint64_t) st.st_blocks * 512 : 0;
}

uint64_t sbx_shmem_memfds(int proc, pid_t pid, struct sbx_shmem_seen* seen) {
  char path[32];
  struct dirent* entry;
  uint64_t sum = 0;
  DIR* list;
  int fd;

  snprintf(path, sizeof(path), "%d/fd", (int) pid);
  fd = openat(proc, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  list = fd >= 0 ? fdopendir(fd) : NULL;
  if (list == NULL) {
    if (fd >= 0) close(fd);
    return 0;
  }
  while ((entry = readdir(list)) != NULL)
    if (entry->d_name[0] != '.')
      sum += sbx__memfd(dirfd(list), entry->d_name, seen);
  closedir(list);
  return sum;
}

/* key shmid perms size cpid lpid nattch uid gid cuid cgid atime dtime ctime
 * rss swap */
static uint64_t sbx__segment(const char* line, int remove) {
  unsigned long long attached, rss;
  int id;

  if (sscanf(line, "%*d %d %*o %*u %*d %*d %llu %*u %*u %*u %*u %*u %*u %*u "
                   "%llu", &id, &attached, &rss) != 3 || attached > 0)
    return 0;
  if (remove) shmctl(id, IPC_RMID, NULL);
  return rss;
}

static char* sbx__table(int proc) {
  int fd = openat(proc, "sysvipc/shm", O_RDONLY | O_CLOEXEC);
  char* text = fd >= 0 ? malloc(SBX__TABLE_MAX) : NULL;
  size_t len = 0;
  ssize_t n = 0;

  while (text != NULL && len + 1 < SBX__TABLE_MAX &&
         (n = read(fd, text + len, SBX__TABLE_MAX - 1 - len)) > 0)
    len += (size_t) n;
  if (fd >= 0) close(fd);
  if (text != NULL) text[len] = '\0';
  return text;
}

uint64_t sbx_shmem_detached(int proc, int remove) {
  char* text = sbx__table(proc);
  char* line = text != NULL ? strchr(text, '\n') : NULL;
  uint64_t sum = 0;

  while (line != NULL && line[1] != '\0') {
    sum += sbx__segment(line + 1, remove);
    line = strchr(line + 1, '\n');
  }
  free(text);
  return sum;
}
