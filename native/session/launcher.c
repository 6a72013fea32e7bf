/* Puts the embedded launcher program where it can be executed. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>
#include <uv.h>

#include "../memfd.h"

extern const unsigned char sbx_launcher_start[], sbx_launcher_end[];

/* The one mutable static of the engine: written once, by whichever loop's
 * thread comes first, and the same for all of them. */
static uv_once_t once = UV_ONCE_INIT;
static int launcher_fd = -ENOEXEC;

static size_t program_len(void) {
  return (size_t) (sbx_launcher_end - sbx_launcher_start);
}

/* For vm.memfd_noexec=2: a file without a name, opened again without the right
 * to write, for the kernel executes nothing that is open for writing. */
static int in_folder(const char* folder) {
  char path[64];
  int out = open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0500);
  int fd;
  int err;

  if (out < 0) return -errno;
  err = sbx_write_all(out, sbx_launcher_start, program_len());
  if (err != 0) {
    close(out);
    return err;
  }
  snprintf(path, sizeof(path), "/proc/self/fd/%d", out);
  fd = open(path, O_RDONLY | O_CLOEXEC);
  err = -errno;
  close(out);
  return fd < 0 ? err : fd;
}

/* Out of the way of the numbers that the launcher is given. */
static int move_up(int fd) {
  int high = fcntl(fd, F_DUPFD_CLOEXEC, 16);

  if (high < 0) return fd;
  close(fd);
  return high;
}

static void make(void) {
  int fd = sbx_memfd_sealed("sandbox-launcher", sbx_launcher_start,
                            program_len(), SBX_MEMFD_PROGRAM);

  if (fd == -EACCES || fd == -EPERM || fd == -ENOSYS)
    fd = in_folder("/dev/shm");
  if (fd == -EACCES || fd == -ENOENT || fd == -EOPNOTSUPP)
    fd = in_folder("/tmp");
  launcher_fd = fd < 0 ? fd : move_up(fd);
}

int sbx_launcher_fd(void) {
  uv_once(&once, make);
  return launcher_fd;
}
