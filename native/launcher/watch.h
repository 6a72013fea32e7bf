/* Limits that the kernel does not hold for a whole sandbox: PID 1 looks at its
 * processes from time to time and says which command went too far. */
#ifndef SBX_LAUNCHER_WATCH_H
#define SBX_LAUNCHER_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "proc.h"

struct sbx_watch_spec {
  uint64_t memory;    /* bytes, 0: nothing to watch */
  uint64_t processes; /* the kernel's own limit, to tell when it was reached */
  bool workspace;     /* who writes may be asked */
  bool alone;         /* System V memory is the sandbox's own */
};

struct sbx_watch;

/* Lives as long as the program. NULL: no memory. */
struct sbx_watch* sbx_watch_new(const struct sbx_watch_spec* spec);

/* When the next look is due, in ms; UINT64_MAX: when something was started. */
uint64_t sbx_watch_due(const struct sbx_watch* watch);
void sbx_watch_started(struct sbx_watch* watch, uint64_t now);

/* Nothing runs, so that there is nothing to look at. */
void sbx_watch_idle(struct sbx_watch* watch);

/* Processes that belong to no command any more are one culprit for each
 * session of theirs. */
struct sbx_culprit {
  pid_t command; /* one of `commands`, or 0 */
  pid_t session; /* where command is 0; 0: nobody */
};

/* Leaves only what comes from this process, where the scan shows the whole
 * host. */
void sbx_watch_keep_below(struct sbx_procs* procs);

/* Over a fresh scan: true if the memory limit was passed, and by whom most.
 * `commands` are the pids of those that run. */
bool sbx_watch_memory(struct sbx_watch* watch, const struct sbx_procs* procs,
                      int proc, uint64_t now, const pid_t* commands,
                      size_t count, struct sbx_culprit* out);

/* True if hardly another process can be started. */
bool sbx_watch_is_full(const struct sbx_watch* watch,
                       const struct sbx_procs* procs);

/* Remembers how much each process has written; and who has written most since.
 */
void sbx_watch_sample(struct sbx_watch* watch, const struct sbx_procs* procs,
                      int proc);
bool sbx_watch_writer(struct sbx_watch* watch, const struct sbx_procs* procs,
                      int proc, const pid_t* commands, size_t count,
                      struct sbx_culprit* out);

/* KILL to every process of the culprit that is not a command's. */
void sbx_watch_kill(const struct sbx_procs* procs,
                    const struct sbx_culprit* culprit);

#endif
