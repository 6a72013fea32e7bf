/* What PID 1 does when a limit is reached: it finds the command that is behind
 * it, tells the host and ends it. */
#include "sys.h" /* first: feature macros */

#include "zygote_internal.h"

#include <stdlib.h>

void sbx__zygote_tell_limit(struct sbx_zygote* z, uint32_t id, uint32_t limit,
                            uint64_t value) {
  struct sbx_msg msg = {.type = SBX_MSG_LIMIT, .id = id, .a = limit};
  struct sbx_usage payload = {.user_us = value}; /* its first eight bytes */

  sbx__zygote_answer(z, &msg, &payload);
}

int sbx__zygote_scan(struct sbx_zygote* z) {
  if (sbx_procs_scan(&z->procs, z->proc) != 0) return -1;
  if (!z->spec.alone) sbx_watch_keep_below(&z->procs);
  return 0;
}

/* The pids of the commands that run, or NULL; the caller frees it. */
static pid_t* sbx__running(const struct sbx_zygote* z, size_t* count) {
  pid_t* pids = calloc(z->commands_len + 1, sizeof(*pids));
  size_t i;

  *count = 0;
  for (i = 0; pids != NULL && i < z->commands_len; i++)
    if (z->commands[i].exited == 0) pids[(*count)++] = z->commands[i].pid;
  return pids;
}

static void sbx__punish(struct sbx_zygote* z, const struct sbx_culprit* who,
                        uint32_t limit, uint64_t value) {
  struct sbx__zygote_request end = {
      .msg = {.type = SBX_MSG_END, .a = 0, .b = SBX_SCOPE_TREE}};
  size_t i;

  if (who->command == 0) {
    if (who->session != 0) sbx_watch_kill(&z->procs, who);
    return;
  }
  for (i = 0; i < z->commands_len; i++) {
    struct sbx__zygote_command* c = &z->commands[i];
    if (c->pid != who->command || c->exited != 0) continue;
    sbx__zygote_tell_limit(z, c->id, limit, value);
    end.msg.id = c->id;
    sbx__zygote_on_end(z, &end);
    return;
  }
}

void sbx__zygote_look(struct sbx_zygote* z, uint64_t now) {
  struct sbx_culprit who;
  size_t count, i;
  pid_t* pids = sbx__running(z, &count);

  if (sbx__zygote_scan(z) == 0 && pids != NULL) {
    if (z->procs.len == 0) sbx_watch_idle(z->watch);
    if (sbx_watch_is_full(z->watch, &z->procs))
      for (i = 0; i < z->commands_len; i++) z->commands[i].full = true;
    if (z->procs.len > 0 &&
        sbx_watch_memory(z->watch, &z->procs, z->proc, now, pids, count, &who))
      sbx__punish(z, &who, SBX_LIMIT_MEMORY, z->spec.memory);
    sbx_watch_sample(z->watch, &z->procs, z->proc);
  }
  free(pids);
}

void sbx__zygote_on_full_workspace(struct sbx_zygote* z) {
  struct sbx_culprit who;
  size_t count;
  pid_t* pids = sbx__running(z, &count);

  if (pids != NULL && sbx__zygote_scan(z) == 0 &&
      sbx_watch_writer(z->watch, &z->procs, z->proc, pids, count, &who))
    sbx__punish(z, &who, SBX_LIMIT_WORKSPACE, z->spec.workspace_size);
  free(pids);
}
