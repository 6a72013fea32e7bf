/* Files in memory whose content nobody can change any more. */
#ifndef SBX_MEMFD_H
#define SBX_MEMFD_H

#include <stddef.h>

enum sbx_memfd_kind { SBX_MEMFD_DATA, SBX_MEMFD_PROGRAM };

/* A sealed, close-on-exec file with the bytes, read position at 0. Returns the
 * descriptor or a negative errno. `name` shows up in /proc only. */
int sbx_memfd_sealed(const char* name, const void* bytes, size_t len,
                     enum sbx_memfd_kind kind);

/* 0, or a negative errno with a part written. */
int sbx_write_all(int fd, const void* bytes, size_t len);

#endif
