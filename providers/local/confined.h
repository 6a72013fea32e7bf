/* What level landlock asks of the host, where nothing is mounted: which ids can
 * reach what commands need, and which file an absolute path means. */
#ifndef SBX_LOCAL_CONFINED_H
#define SBX_LOCAL_CONFINED_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "../../native/session/config.h"
#include "folder.h"
#include "options.h"

/* Whether a process with ids that nobody else has reaches the place of the
 * workspace and all that is to be visible. If not, commands keep the caller's.
 * Blocks. */
bool sbx_confined_may_own(const struct sbx_local_options* o,
                          const struct sbx_config* config);

/* Adds the records of the level. */
void sbx_confined_add(const struct sbx_local_options* o,
                      const struct sbx_local_folder* f,
                      struct sbx_config* config);

/* Whether this failure says that the machine refuses namespaces, rather than
 * that something is wrong with this one sandbox. */
bool sbx_confined_refused(int step, int sys);

/* `path` is relative to "/". 0: below the workspace, 1: below the scratch
 * folder, and *rest is the path there; -1: neither. */
int sbx_confined_route(const struct sbx_local_folder* f, const char* alias,
                       const char* path, const char** rest);

/* What the scratch folder is for. */
struct sbx_confined_env {
  char home[PATH_MAX];
  char tmp[PATH_MAX];
  char shm[PATH_MAX];
  char library[PATH_MAX];
};
void sbx_confined_env(const struct sbx_local_folder* f,
                      struct sbx_confined_env* env);

/* What the level does not guarantee, one reason per line. */
void sbx_confined_degraded(const struct sbx_local_options* o,
                           const struct sbx_local_folder* f, uint32_t flags,
                           uint32_t abi, char* out, size_t size);

/* Whether the kernel holds commands to a number of processes: not root's. */
bool sbx_confined_counts(const struct sbx_local_folder* f);

#endif
