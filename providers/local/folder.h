/* The folder of one Local session on the host: made, locked, found again and
 * removed. Every function blocks and is meant for the thread pool. */
#ifndef SBX_LOCAL_FOLDER_H
#define SBX_LOCAL_FOLDER_H

#include <stdbool.h>
#include <stdint.h>

#include "options.h"

/* One session's host ids are base .. base + 65535. */
#define SBX_LOCAL_BASE_FIRST INT64_C(0x70000000)
#define SBX_LOCAL_BASE_STEP INT64_C(65536)
#define SBX_LOCAL_BASE_COUNT 4095
/* Owns templates, and no session. */
#define SBX_LOCAL_BASE_TEMPLATE \
  (SBX_LOCAL_BASE_FIRST + SBX_LOCAL_BASE_STEP * SBX_LOCAL_BASE_COUNT)
#define SBX_LOCAL_INNER_ID 1000

struct sbx_local_folder {
  char* path;      /* 0700 folder of ours, NULL for a user's own directory */
  char* workspace; /* what commands see as their workspace */
  int lock_fd;     /* ROOT: flock on "<path>/lock", else -1 */
  int64_t base;    /* first host id of the session, -1: our own id is mapped */
  bool idmap;      /* its owners are not of that range: map them */
  uint32_t owner_uid;
  uint32_t owner_gid;

  /* Level landlock */
  char* scratch;   /* made by the monitor: HOME and TMPDIR of commands */
  int64_t run_uid; /* host ids of the commands, -1: our own */
  int64_t run_gid;
};

void sbx_local_folder_init(struct sbx_local_folder* f);

/* Makes what is missing and takes the lock; a temporary folder is only named.
 * On failure `f` is as after init. */
int sbx_local_folder_make(const struct sbx_local_options* o,
                          struct sbx_local_folder* f, struct sbx_error* error);

/* Whether sessions get host ids of their own, and templates those of
 * SBX_LOCAL_BASE_TEMPLATE. */
bool sbx_local_folder_has_ranges(void);

/* Whether there is something to connect to. */
bool sbx_local_folder_exists(const struct sbx_local_options* o);

/* Removes the session's folder, if it is ours and still there. ROOT without the
 * lock takes it first. A user's own directory stays. */
int sbx_local_folder_remove(const struct sbx_local_options* o,
                            struct sbx_local_folder* f,
                            struct sbx_error* error);

/* Removes what the monitor could not, should it have been killed. */
void sbx_local_folder_sweep(const struct sbx_local_folder* f);

/* Lets go of lock and memory; what is on disk stays. */
void sbx_local_folder_release(struct sbx_local_folder* f);

#endif
