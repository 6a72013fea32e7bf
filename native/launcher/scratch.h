/* The folder of a session at level landlock that is not its workspace: HOME and
 * TMPDIR of its commands, their shared memory, and the library for that. */
#ifndef SBX_LAUNCHER_SCRATCH_H
#define SBX_LAUNCHER_SCRATCH_H

#include "config.h"

struct sbx_scratch {
  int parent; /* -1: nothing was made */
  const char* name;
};

/* Makes config->scratch with home, tmp, shm and lib in it, for the ids that
 * commands run with, and lets those ids into the session folder. -1 with errno. */
int sbx_scratch_make(struct sbx_scratch* scratch,
                     const struct sbx_config* config);
void sbx_scratch_remove(struct sbx_scratch* scratch);

/* Forgets it in a child. */
void sbx_scratch_close(struct sbx_scratch* scratch);

#endif
