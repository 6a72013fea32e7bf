/* PID 1: starts, signals and reaps commands until the host goes away. */
#ifndef SBX_LAUNCHER_ZYGOTE_H
#define SBX_LAUNCHER_ZYGOTE_H

#include <stdint.h>

#include "caps.h"
#include "cgroup.h"
#include "nursery.h"
#include "supervisor.h"
#include "watch.h"

struct sbx_zygote_spec {
  int control;
  int lifeline; /* its end of file: the monitor died */
  bool alone;   /* PID 1 of an own namespace */
  struct sbx_limits limits;
  struct sbx_watch_spec watch;
  struct sbx_freezer freezer; /* taken over */
  int memory_events;          /* of the control group, or -1 */
  uint64_t memory;            /* as they were asked for; 0: no limit */
  uint64_t file_size;
  uint64_t workspace_size;
  struct sbx_supervisor* supervisor; /* NULL: none */
  struct sbx_nursery* nursery;       /* NULL: none */
  int workspace; /* descriptors for the host, taken over */
  int root;
  uint32_t landlock_abi;
  uint32_t ready_flags;
};

/* Makes everything that the loop needs, so that READY is a promise. */
struct sbx_zygote;
struct sbx_zygote* sbx_zygote_new(const struct sbx_zygote_spec* spec);

/* Sends READY and serves. Never returns. */
__attribute__((noreturn)) void sbx_zygote_run(struct sbx_zygote* zygote);

#endif
