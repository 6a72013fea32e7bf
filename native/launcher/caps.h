/* What PID 1 and every command give up: capabilities and resource limits. */
#ifndef SBX_LAUNCHER_CAPS_H
#define SBX_LAUNCHER_CAPS_H

#include <stdbool.h>
#include <stdint.h>

#include "config.h"

/* Limits that a command gets when it is spawned. PID 1 itself stays above
 * them, so that a fork bomb cannot keep it from working. */
struct sbx_limits {
  bool apply;
  uint64_t processes;
  uint64_t files_soft;
  uint64_t files_hard;
  uint64_t file_size; /* 0: none; and one more applies where `apply` is false */
  uint64_t data;
};

/* Empties every capability set for good and hides this process from ptrace
 * and /proc. */
int sbx_caps_drop(void);

/* Sets the limits that hold for PID 1 as well, fills those of the commands. */
int sbx_limits_set(const struct sbx_config* config, struct sbx_limits* limits);

/* The two halves of sbx_caps_drop where no user namespace gives the right to
 * the first: that is left out then, and no_new_privs has to do for it. A change
 * of ids comes between them. */
void sbx_caps_bound(void);
int sbx_caps_clear(void);

/* Those of the commands where they are not isolated: what was asked for, and
 * no number of processes, which would be one of the whole user. */
void sbx_limits_of_none(const struct sbx_config* config,
                        struct sbx_limits* limits);

#endif
