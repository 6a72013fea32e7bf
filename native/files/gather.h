/* A walk that takes up what files hold, and how two share one.
 *
 * Functions give 0 or -errno unless they say otherwise.
 */
#ifndef SBX_FILES_GATHER_H
#define SBX_FILES_GATHER_H

#include "internal.h"

struct sbx__both;

struct sbx__gather {
  struct sbx__job* job;
  struct sbx__tree tree;
  struct sbx__pack pack;
  const char* after; /* nothing up to this path is wanted; borrowed */
  uint64_t limit;
  struct sbx__literal want;
  bool more;      /* it is full, and there is more */
  bool lines;     /* what else a file holds is left out */
  char* scratch;  /* where files are read whose lines are wanted */
  size_t scratch_size;
  unsigned files; /* seen while alone */
  unsigned half;  /* 0 or 1, of both */
  struct sbx__both* both; /* NULL: alone */
};

/* --- gather.c: one walk ---------------------------------------------------- */

/* To be closed in any case. */
int sbx__gather_open(struct sbx__gather* g, struct sbx__job* job,
                     const char* after);
int sbx__gather_walk(struct sbx__gather* g, int top);
void sbx__gather_close(struct sbx__gather* g);

/* --- gather_two.c: another thread for every second file --------------------- */

/* Whether this walk is to open the file. Begins the other walk after a while. */
bool sbx__gather_is_mine(struct sbx__gather* g, const struct sbx__node* node);

/* The other walk was full before it came here. */
bool sbx__gather_is_over(const struct sbx__gather* g,
                         const struct sbx__node* node);

/* This walk ends at the node, which is left out. 1, or -errno. */
int sbx__gather_stop(struct sbx__gather* g, const struct sbx__node* node);

/* Waits for the other walk, if there is one, and takes over what it found.
 * `rc` is how this one ended. */
int sbx__gather_join(struct sbx__gather* g, int rc);

/* <0, 0, >0 in the order of a walk: a folder's content right behind its name. */
int sbx__walk_order(const char* a, size_t a_len, const char* b, size_t b_len);

#endif
