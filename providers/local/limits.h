/* The limits of a Local session: read, handed to the launcher, reported. */
#ifndef SBX_LOCAL_LIMITS_H
#define SBX_LOCAL_LIMITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../../native/session/config.h"
#include "../../native/error.h"
#include "../../native/launcher/protocol.h"
#include "../../native/options.h"
#include "../provider.h"

/* 0: not limited. */
struct sbx_local_limits {
  uint64_t processes;
  uint64_t memory; /* bytes */
  uint64_t cpu;    /* thousandths of a core */
  uint64_t open_files;
  uint64_t file_size;
  uint64_t workspace_size;
  uint64_t output_rate; /* bytes per second and command */
};

/* Checks `limits.*`; the error names the one at fault and what it may be. */
int sbx_local_limits_read(const struct sbx_options* o,
                          struct sbx_local_limits* out,
                          struct sbx_error* error);

/* `tmp_bytes` is the size of a temporary folder where memory sets none. */
void sbx_local_limits_add(const struct sbx_local_limits* limits,
                          uint64_t tmp_bytes, struct sbx_config* config);

/* Tells each limit that holds, as "limits.memory" = "536870912" and
 * "limits.memory.enforcedBy" = "cgroup v2", "rlimit", "watcher" or "engine".
 * `counted`: the kernel counts the processes of this session. `ready`: enum
 * sbx_ready_flag. */
void sbx_local_limits_tell(const struct sbx_local_limits* limits,
                           bool counted, uint32_t ready,
                           sbx_fact_cb cb, void* arg);

/* What was asked for and does not hold, a line each, each with its newline. */
size_t sbx_local_limits_degraded(const struct sbx_local_limits* limits,
                                 bool counted, uint32_t ready,
                                 char* out, size_t size);

#endif
