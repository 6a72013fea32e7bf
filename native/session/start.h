/* The start of the launcher: the descriptors of both sides and the program. */
#ifndef SBX_START_H
#define SBX_START_H

#include <sys/types.h>

#include "config.h"

struct sbx__start {
  int null_fd;
  int control[2]; /* ours, theirs */
  int life[2];    /* their read end, our write end */
  int config;
};

/* 0 or a negative errno; sbx__start_clear in both cases, which leaves what was
 * set to -1. */
int sbx__start_open(struct sbx__start* st, const struct sbx_config* config);
void sbx__start_clear(struct sbx__start* st);

/* posix_spawn and not uv_spawn: libuv forks, and the fork of a big Node costs
 * several times what the whole start does. 0 or a negative errno. */
int sbx__start_program(const struct sbx__start* st, pid_t* pid);

#endif
