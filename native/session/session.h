/* A running launcher: one isolated set of namespaces with PID 1 in it. */
#ifndef SBX_SESSION_H
#define SBX_SESSION_H

#include <stdbool.h>
#include <uv.h>

#include "../error.h"
#include "../launcher/protocol.h"

struct sbx_session;
struct sbx_config; /* builder of the launcher's configuration, config.h */

struct sbx_session_ready {
  uint32_t landlock_abi; /* 0: none */
  uint32_t flags;        /* enum sbx_ready_flag */
  int workspace_fd;      /* taken over by the callee */
  int root_fd;
};

struct sbx_session_events {
  void* data;
  /* Once: ready, or the set-up error (then the session is already over and
   * only close is left). */
  void (*on_ready)(void* data, const struct sbx_error* error,
                   const struct sbx_session_ready* ready);
  /* The session ended by itself after it was ready (PID 1 or the monitor was
   * killed). Every process has settled before. */
  void (*on_lost)(void* data, const struct sbx_error* error);
};

/* Starts the launcher; `config` is read before the call returns. Negative:
 * nothing was started, `error` filled. */
int sbx_session_start(uv_loop_t* loop, const struct sbx_config* config,
                      const struct sbx_session_events* events,
                      struct sbx_session** out, struct sbx_error* error);

/* Ends every process (TERM, grace, KILL) and keeps the session. `cb` when none
 * is left and every process has settled. */
typedef void (*sbx_session_cb)(void* arg);
void sbx_session_end_all(struct sbx_session* s, uint64_t grace_ms,
                         sbx_session_cb cb, void* arg);

/* Stops every process where it is, or lets them go on; `cb` when that is so, or
 * the session is over. While it is paused, spawned commands wait for the end of
 * the pause, time limits stand still, and signals and ends reach those that
 * they are for. sbx_session_end_all ends a pause. */
void sbx_session_pause(struct sbx_session* s, bool paused, sbx_session_cb cb,
                       void* arg);

/* From any state, at any moment: kills everything, settles every process,
 * waits until the monitor has gone (and has removed the session folder), then
 * frees the session and calls `cb`. No other event follows the call. */
void sbx_session_close(struct sbx_session* s, sbx_session_cb cb, void* arg);

#endif
