/* The control group (v2) of a session, where one can be made. */
#ifndef SBX_LAUNCHER_CGROUP_H
#define SBX_LAUNCHER_CGROUP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "config.h"

/* What PID 1 needs to freeze everything but itself: descriptors that the
 * monitor opened, -1 where there is no freezer. */
struct sbx_freezer {
  int outer;  /* cgroup.procs of the session's group */
  int inner;  /* the same of the group in it, where the processes are */
  int freeze; /* cgroup.freeze of that */
  int events; /* its cgroup.events */
};

struct sbx_cgroup {
  bool made;
  bool fake; /* of the tests: an ordinary folder */
  int parent; /* folder that holds the group */
  int group;
  char name[64];
  uint32_t flags; /* enum sbx_ready_flag: the limits that it holds */
  struct sbx_freezer freezer;
  int memory_events; /* -1: the memory limit is not the group's */
};

/* Makes the group and sets its limits; what cannot be had is left out, and the
 * flags say so. */
void sbx_cgroup_make(struct sbx_cgroup* group, const struct sbx_config* config);

/* Moves a process into it, before it starts others. False: then the group has
 * been removed and holds nothing. */
bool sbx_cgroup_enter(struct sbx_cgroup* group, pid_t pid);

/* Kills what may be left in it and removes it. */
void sbx_cgroup_end(struct sbx_cgroup* group);

/* Closes the folders only, in the monitor's child and at the very end. */
void sbx_cgroup_close(struct sbx_cgroup* group);

/* How many processes the kernel has killed for want of memory. */
uint64_t sbx_cgroup_kills(int memory_events);

/* Freezes all but the caller. -1: not possible, nothing is frozen. */
int sbx_freezer_freeze(const struct sbx_freezer* freezer);
void sbx_freezer_thaw(const struct sbx_freezer* freezer);
bool sbx_freezer_is_frozen(const struct sbx_freezer* freezer);

#endif
