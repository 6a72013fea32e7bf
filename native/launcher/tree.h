/* Ending the tree of a command: everything that came from it, nothing else. */
#ifndef SBX_LAUNCHER_TREE_H
#define SBX_LAUNCHER_TREE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "proc.h"

/* Where a tree starts. */
struct sbx_tree_root {
  uint32_t id; /* of the command */
  pid_t pid;   /* its process, and its session */
  bool alive;  /* not reaped yet, so that the pid is surely its own */
  char streams[2][SBX_STREAM_NAME];
};

struct sbx_tree;

/* Starts to end a tree. NULL: no memory. */
struct sbx_tree* sbx_tree_new(const struct sbx_tree_root* root,
                              uint64_t grace_ms);
void sbx_tree_free(struct sbx_tree* tree);

/* Shortens the grace of a tree that is being ended. */
void sbx_tree_hurry(struct sbx_tree* tree, uint64_t now, uint64_t grace_ms);
uint32_t sbx_tree_id(const struct sbx_tree* tree);

/* When the next step is due, in ms. */
uint64_t sbx_tree_due(const struct sbx_tree* tree);

/* One step over a fresh scan. True: the tree has been ended. */
bool sbx_tree_step(struct sbx_tree* tree, struct sbx_procs* procs, int dir,
                   uint64_t now);

/* One signal to the whole tree. */
void sbx_tree_signal(const struct sbx_tree_root* root, struct sbx_procs* procs,
                     int dir, int signo);

/* Kills everything that descends from this process; for a launcher without a
 * pid namespace. Returns when nothing runs any more; who is dead may still have
 * to be reaped. */
void sbx_tree_kill_below(int dir);

/* The same at the end of a launcher: reaps, too. */
void sbx_tree_end_below(int dir);
void sbx_tree_signal_below(int dir, int signo);

#endif
