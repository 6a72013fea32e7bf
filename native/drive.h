/* Runs a protocol machine (step.h): its exchanges on a client, its timers on
 * the loop, its deadline, and what it emits to the owner. */
#ifndef SBX_DRIVE_H
#define SBX_DRIVE_H

#include "http/http.h"
#include "step.h"

struct sbx_drive;

struct sbx_drive_events {
  void* data;
  /* `bytes` are valid during the call. */
  void (*on_emit)(void* data, int64_t what, const char* bytes, size_t len);
  /* Once, the last; `error` NULL on success. */
  void (*on_done)(void* data, const struct sbx_error* error);
};

/* Takes the machine over, on failure too. Its BEGIN runs before this returns,
 * but no event comes to the owner before that. `deadline_ms` 0: none. */
int sbx_drive_start(uv_loop_t* loop, struct sbx_http* http,
                    struct sbx_machine* machine, uint64_t deadline_ms,
                    const struct sbx_drive_events* events,
                    struct sbx_drive** out);

/* From now on it tells these; what waits to be told comes to them, too. */
void sbx_drive_retell(struct sbx_drive* d,
                      const struct sbx_drive_events* events);

/* An INPUT event. */
void sbx_drive_input(struct sbx_drive* d, int64_t number, const void* bytes,
                     size_t len);

/* Back-pressure on everything that it receives. */
void sbx_drive_pause(struct sbx_drive* d, bool paused);

/* Its deadline keeps no loop alive: nobody waits for it. */
void sbx_drive_unref(struct sbx_drive* d);

/* No request of it is sent again: one that waits for that fails. */
void sbx_drive_no_retry(struct sbx_drive* d);

/* The machine gets CANCEL and says when it is done; on_done follows, with
 * SBX_E_ABORTED unless the machine says otherwise. */
void sbx_drive_cancel(struct sbx_drive* d);

/* Frees it and all it has open, from any state and any callback; no more events.
 * Also needed after on_done. */
void sbx_drive_close(struct sbx_drive* d);

#endif
