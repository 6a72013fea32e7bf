/* Loaded into commands at level landlock: named semaphores and shared memory,
 * which the C library keeps in /dev/shm, lie in a folder of the session. What
 * they are for (Python's multiprocessing, among others) works, and nothing of
 * the machine's /dev/shm has to be shown.
 *
 * Bound to no library, so that it fits into whatever libc a command has.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PUBLIC __attribute__((visibility("default")))

/* Old C libraries have it in a library of its own. */
extern int sem_init(sem_t*, int, unsigned) __attribute__((weak));

static int place_of(const char* name, char out[PATH_MAX]) {
  const char* folder = getenv("SANDBOX_SHM");
  size_t len;

  while (*name == '/') name++;
  len = strlen(name);
  errno = EINVAL;
  if (folder == NULL || len == 0 || strchr(name, '/') != NULL) return -1;
  errno = ENAMETOOLONG;
  if (len > NAME_MAX - 4 || strlen(folder) + len + 6 > PATH_MAX) return -1;
  strcpy(out, folder);
  strcat(out, "/shm.");
  strcat(out, name);
  return 0;
}

PUBLIC int shm_open(const char* name, int flags, mode_t mode) {
  char path[PATH_MAX];

  if (place_of(name, path) != 0) return -1;
  return open(path, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, mode);
}

PUBLIC int shm_unlink(const char* name) {
  char path[PATH_MAX];

  return place_of(name, path) != 0 ? -1 : unlink(path);
}

static sem_t* map(int fd) {
  void* at = mmap(NULL, sizeof(sem_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                  0);
  int saved = errno;

  close(fd);
  errno = saved;
  return at == MAP_FAILED ? SEM_FAILED : at;
}

/* Complete before it has its name. */
static sem_t* make(const char* path, mode_t mode, unsigned value) {
  static const char zeros[sizeof(sem_t)];
  char fresh[PATH_MAX];
  sem_t* sem;
  int fd, rc;

  errno = ENOSYS;
  if (sem_init == NULL) return SEM_FAILED;
  strcpy(fresh, path);
  strcpy(strrchr(fresh, '/'), "/newXXXXXX");
  fd = mkstemp(fresh);
  if (fd < 0) return SEM_FAILED;
  if (write(fd, zeros, sizeof(zeros)) != sizeof(zeros) ||
      fchmod(fd, mode & 0666) != 0) {
    close(fd);
    unlink(fresh);
    return SEM_FAILED;
  }
  sem = map(fd);
  if (sem != SEM_FAILED) {
    rc = sem_init(sem, 1, value) == 0 ? link(fresh, path) : -1;
    if (rc != 0) {
      rc = errno;
      munmap(sem, sizeof(*sem));
      errno = rc;
      sem = SEM_FAILED;
    }
  }
  rc = errno;
  unlink(fresh);
  errno = rc;
  return sem;
}

PUBLIC sem_t* sem_open(const char* name, int flags, ...) {
  char path[PATH_MAX];
  unsigned value = 0;
  mode_t mode = 0;
  va_list args;
  sem_t* sem;
  int fd;

  if (flags & O_CREAT) {
    va_start(args, flags);
    mode = va_arg(args, mode_t);
    value = va_arg(args, unsigned);
    va_end(args);
  }
  if (place_of(name, path) != 0) return SEM_FAILED;
  for (;;) {
    if (!(flags & O_CREAT) || !(flags & O_EXCL)) {
      fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
      if (fd >= 0) return map(fd);
      if (!(flags & O_CREAT) || errno != ENOENT) return SEM_FAILED;
    }
    sem = make(path, mode, value);
    if (sem != SEM_FAILED || errno != EEXIST || (flags & O_EXCL)) return sem;
  }
}

PUBLIC int sem_close(sem_t* sem) { return munmap(sem, sizeof(*sem)); }

PUBLIC int sem_unlink(const char* name) { return shm_unlink(name); }
