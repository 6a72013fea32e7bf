/* Drives whose owner has let go: one whose stream is about to end, so that its
 * connection can be used again, and one of a command that was given up before
 * the service told its pid: what comes into being all the same is ended. */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

enum { LINGER_MS = 1000, ORPHAN_MS = 30000 };

struct leftover {
  struct sbx__remote_work work; /* first */
  struct sbx_remote* remote;
  struct sbx_drive* drive;
  uv_timer_t timer;
};

static void on_timer_closed(uv_handle_t* handle) {
  free(handle->data);
}

static void finish(struct leftover* l) {
  sbx__remote_unlink(&l->work);
  sbx_drive_close(l->drive);
  uv_close((uv_handle_t*) &l->timer, on_timer_closed);
}

static void on_stop(struct sbx__remote_work* w, const struct sbx_error* error) {
  (void) error;
  finish((struct leftover*) w);
}

static void on_late(uv_timer_t* timer) {
  finish(timer->data);
}

static void on_done(void* data, const struct sbx_error* error) {
  (void) error;
  finish(data);
}

/* Its timer keeps no loop alive. */
static void take_over(struct sbx_remote* r, struct sbx_drive* drive,
                      uint64_t ms,
                      void (*on_emit)(void*, int64_t, const char*, size_t)) {
  struct leftover* l = calloc(1, sizeof(*l));
  struct sbx_drive_events events = {l, on_emit, on_done};

  if (l == NULL) {
    sbx_drive_close(drive);
    return;
  }
  l->work.stop = on_stop;
  l->remote = r;
  l->drive = drive;
  uv_timer_init(r->base.loop, &l->timer);
  l->timer.data = l;
  uv_timer_start(&l->timer, on_late, ms, 0);
  uv_unref((uv_handle_t*) &l->timer);
  sbx__remote_link(r, &l->work);
  sbx_drive_retell(drive, &events);
  sbx_drive_pause(drive, false);
}

void sbx__remote_linger(struct sbx_remote* r, struct sbx_drive* drive) {
  take_over(r, drive, LINGER_MS, NULL);
}

/* ---- orphans ---- */

/* Nobody waits for it. */
static void on_killed(void* arg, const struct sbx_error* error,
                      const struct sbx_kit_job_result* result) {
  (void) arg;
  (void) error;
  (void) result;
}

void sbx__remote_kill_leftover(struct sbx_remote* r, uint32_t pid) {
  struct sbx_kit_place place;
  struct sbx_kit_job* job = NULL;

  sbx__remote_place(r, 0, &place);
  if (sbx_kit_job_kill(&place, pid, 0, 0, &job) != 0) job = NULL;
  sbx__job_run(r, job, "processes.kill", on_killed, NULL);
}

static void on_born(void* data, int64_t what, const char* bytes, size_t len) {
  struct leftover* l = data;
  struct sbx_remote* r = l->remote;
  uint32_t pid;

  if (what != SBX_EMIT_PID || len < sizeof(pid)) return;
  memcpy(&pid, bytes, sizeof(pid));
  finish(l);
  sbx__remote_kill_leftover(r, pid);
}

void sbx__remote_orphan(struct sbx_remote* r, struct sbx_drive* drive) {
  sbx_drive_no_retry(drive);
  take_over(r, drive, ORPHAN_MS, on_born);
}
