/* The file tree that the sandbox sees. */
#ifndef SBX_LAUNCHER_VIEW_H
#define SBX_LAUNCHER_VIEW_H

#include <stdbool.h>

#include "config.h"
#include "report.h"

enum { SBX_DEVICES = 6 };

struct sbx_view {
  struct sbx_config* config;
  struct sbx_report* report;
  int tree;      /* detached id-mapped workspace, or -1: bind it */
  int workspace; /* as the host has it */
  int lower;     /* template below the workspace, or -1 */
  bool lower_detached; /* ... as a mount of its own */
  bool overlaid; /* the workspace lies over it */
  int proc_self; /* of the host's /proc: its fd/N are the sources of binds */
  int proc_fds;
  int empty;     /* an empty file, to cover others with */
  int devices[SBX_DEVICES];
};

/* In the monitor of a host's root: takes the sources of binds as detached
 * mounts, since some may lie in folders that only root's capabilities open (the
 * home of the user who called sudo). With a `range` the writable ones get their
 * owners mapped as the workspace does. Best effort. */
void sbx_view_clone(struct sbx_config* config, bool range);
void sbx_view_close(struct sbx_config* config);

/* Opens every other source. Runs with the caller's own host id, which may enter
 * folders that the inner id may not; the working directory is the workspace. */
int sbx_view_open(struct sbx_view* view);

/* Builds the tree and makes it the root; needs all capabilities inside. */
int sbx_view_build(struct sbx_view* view);

#endif
