/* Sealed files in memory, and writing all of something. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "memfd.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif
#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U
#endif

int sbx_write_all(int fd, const void* bytes, size_t len) {
  const char* at = bytes;

  while (len > 0) {
    ssize_t n = write(fd, at, len);

    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return -errno;
    at += n;
    len -= (size_t) n;
  }
  return 0;
}

/* Data needs no execute bit, and a program needs one. Before 6.3 every memfd
 * was executable and the flags unknown, and some sandboxes around us refuse
 * unknown ones. */
static int create(const char* name, enum sbx_memfd_kind kind) {
  unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  unsigned mode = kind == SBX_MEMFD_PROGRAM ? MFD_EXEC : MFD_NOEXEC_SEAL;
  int fd = memfd_create(name, flags | mode);

  if (fd < 0 && errno == EINVAL) fd = memfd_create(name, flags);
  return fd < 0 ? -errno : fd;
}

int sbx_memfd_sealed(const char* name, const void* bytes, size_t len,
                     enum sbx_memfd_kind kind) {
  int fd = create(name, kind);
  int err;

  if (fd < 0) return fd;
  err = sbx_write_all(fd, bytes, len);
  if (err == 0 && lseek(fd, 0, SEEK_SET) < 0) err = -errno;
  if (err == 0 && fcntl(fd, F_ADD_SEALS,
                        F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW |
                            F_SEAL_WRITE) < 0)
    err = -errno;
  if (err == 0) return fd;
  close(fd);
  return err;
}
