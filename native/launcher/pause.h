/* Stops every process of the sandbox and lets them go on. */
#ifndef SBX_LAUNCHER_PAUSE_H
#define SBX_LAUNCHER_PAUSE_H

#include <stdbool.h>
#include <stdint.h>

#include "cgroup.h"
#include "proc.h"

struct sbx_pause_spec {
  bool alone; /* in a pid namespace of its own */
  int proc;
  struct sbx_freezer freezer; /* taken over */
};

struct sbx_pause;

/* NULL: no memory. */
struct sbx_pause* sbx_pause_new(const struct sbx_pause_spec* spec);

/* Begins to stop; sbx_pause_step is due at once. */
void sbx_pause_begin(struct sbx_pause* pause, struct sbx_procs* procs);

/* When the next step is due, in ms; UINT64_MAX: none. */
uint64_t sbx_pause_due(const struct sbx_pause* pause);

/* True: everything stands still. */
bool sbx_pause_step(struct sbx_pause* pause, struct sbx_procs* procs,
                    uint64_t now);

/* Lets go on what was stopped, and only that. True if it was stopped at all;
 * then no step is due any more. */
bool sbx_pause_end(struct sbx_pause* pause, struct sbx_procs* procs);

/* Whether the freezer did it. */
bool sbx_pause_is_frozen(const struct sbx_pause* pause);

#endif
