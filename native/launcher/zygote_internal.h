/* What the parts of PID 1's loop know of each other; nothing public. */
#ifndef SBX_LAUNCHER_ZYGOTE_INTERNAL_H
#define SBX_LAUNCHER_ZYGOTE_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "dial.h"
#include "outbox.h"
#include "pause.h"
#include "spawn.h"
#include "tree.h"
#include "zygote.h"

struct sbx__zygote_command {
  uint32_t id;
  pid_t pid;
  uint64_t exited; /* 0: it runs */
  bool full;       /* no more processes could be started while it ran */
  char streams[2][SBX_STREAM_NAME];
};

/* Ending everything. */
struct sbx__zygote_end_all {
  bool active;
  uint64_t kill_at;
};

struct sbx_zygote {
  struct sbx_zygote_spec spec;
  struct sbx_spawner spawner;
  int epoll;
  int signals;
  int proc;
  int null;
  struct sbx__zygote_command* commands;
  size_t commands_len;
  size_t commands_size;
  struct sbx_tree** trees;
  size_t trees_len;
  size_t trees_size;
  struct sbx_procs procs;
  struct sbx_outbox out;
  struct sbx__zygote_end_all end_all;
  struct sbx_dialer dialer;
  struct sbx_watch* watch;
  struct sbx_pause* pause;
  uint64_t memory_kills; /* by the kernel, as far as they were told */
  _Alignas(8) char in[sizeof(struct sbx_msg) + SBX_MSG_INLINE_MAX];
};

/* One message of the host with its descriptors; those still here when the
 * handler is done are closed. */
struct sbx__zygote_request {
  struct sbx_msg msg;
  char* payload;
  size_t len;
  int fds[SBX_MSG_FDS_MAX];
  size_t fds_len;
};

/* ---- zygote.c ---- */

uint64_t sbx__zygote_now(void); /* ms */
__attribute__((noreturn)) void sbx__zygote_exit(struct sbx_zygote* z);
/* Room for one more item in a list of `len`. False: no memory. */
bool sbx__zygote_grow(void** list, size_t* size, size_t len, size_t item);
/* Sends it, or keeps it until the host reads; `usage` may be NULL. */
void sbx__zygote_answer(struct sbx_zygote* z, const struct sbx_msg* msg,
                        const struct sbx_usage* usage);

/* ---- zygote_commands.c ---- */

void sbx__zygote_on_spawn(struct sbx_zygote* z,
                          struct sbx__zygote_request* r);
void sbx__zygote_refuse(struct sbx_zygote* z, uint32_t id, uint32_t stage,
                        int error);
/* NULL: it is not known, or not any more. */
struct sbx__zygote_command* sbx__zygote_find(struct sbx_zygote* z,
                                             uint32_t id);
void sbx__zygote_reap(struct sbx_zygote* z);

/* ---- zygote_ends.c ---- */

void sbx__zygote_on_signal(struct sbx_zygote* z,
                           const struct sbx__zygote_request* r);
void sbx__zygote_on_end(struct sbx_zygote* z,
                        const struct sbx__zygote_request* r);
/* Does what is due and returns how long the loop may sleep. */
int sbx__zygote_work_ends(struct sbx_zygote* z);

/* ---- zygote_limits.c ---- */

/* Into z->procs. */
int sbx__zygote_scan(struct sbx_zygote* z);
void sbx__zygote_tell_limit(struct sbx_zygote* z, uint32_t id, uint32_t limit,
                            uint64_t value);
/* The regular look at who uses how much. */
void sbx__zygote_look(struct sbx_zygote* z, uint64_t now);
/* The monitor says so. */
void sbx__zygote_on_full_workspace(struct sbx_zygote* z);

#endif
