/* Memory that no process has mapped: open memfds, and System V segments that
 * nobody is attached to. */
#ifndef SBX_LAUNCHER_SHMEM_H
#define SBX_LAUNCHER_SHMEM_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The memfds that were counted, so that none is twice. All zero to begin. */
struct sbx_shmem_seen {
  uint64_t* inodes;
  size_t len;
  size_t size;
};

void sbx_shmem_forget(struct sbx_shmem_seen* seen);

/* Bytes in the memfds that `pid` has open and nobody before it had. */
uint64_t sbx_shmem_memfds(int proc, pid_t pid, struct sbx_shmem_seen* seen);

/* Bytes in detached segments of this namespace; `remove` them at that. */
uint64_t sbx_shmem_detached(int proc, int remove);

#endif
