/* Landlock: reading everywhere in the view, writing in a few places. */
#ifndef SBX_LAUNCHER_LANDLOCK_H
#define SBX_LAUNCHER_LANDLOCK_H

#include <stdint.h>

#include "config.h"

/* Restricts this process and all that come from it. `abi` is what is in force,
 * 0 where the kernel has no Landlock. */
int sbx_landlock_restrict(const struct sbx_config* config, uint32_t* abi,
                          const char** what);

#endif
