/* Landlock: reading everywhere in the view, writing in a few places. */
#ifndef SBX_LAUNCHER_LANDLOCK_H
#define SBX_LAUNCHER_LANDLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "config.h"

/* Restricts this process and all that come from it. `abi` is what is in force,
 * 0 where the kernel has no Landlock. */
int sbx_landlock_restrict(const struct sbx_config* config, uint32_t* abi,
                          const char** what);

/* Level landlock, where no mounts hide anything: what is named in the
 * configuration can be read, workspace and scratch folder written, the declared
 * TCP ports used. Two rulesets, for the launcher's loop and, beneath it, for the
 * commands; only the commands cannot signal what is outside of theirs. */
struct sbx_confinement {
  uint32_t abi;
  int loop;
  int commands;
};

/* Terminals in /dev/pts are open to commands whose ids nobody else has. -1 also
 * where the kernel has no Landlock. */
int sbx_landlock_confine(const struct sbx_config* config, bool own_ids,
                         struct sbx_confinement* out, const char** what);

/* Restricts the calling thread and closes the ruleset. */
int sbx_landlock_enter(int ruleset);

#endif
