/* Commands that were given up before the service told their pid: the owner has
 * been told, and what comes into being all the same is ended.
 */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

enum { ORPHAN_MS = 30000 };

struct orphan {
  struct sbx__remote_work work; /* first */
  struct sbx_remote* remote;
  struct sbx_drive* drive;
  uv_timer_t timer;
};

static void on_timer_closed(uv_handle_t* handle) {
  free(handle->data);
}

static void finish(struct orphan* o) {
  sbx__remote_unlink(&o->work);
  sbx_drive_close(o->drive);
  uv_close((uv_handle_t*) &o->timer, on_timer_closed);
}

static void on_stop(struct sbx__remote_work* w, const struct sbx_error* error) {
  (void) error;
  finish((struct orphan*) w);
}

static void on_late(uv_timer_t* timer) {
  finish(timer->data);
}

static void on_done(void* data, const struct sbx_error* error) {
  (void) error;
  finish(data);
}

/* Nobody waits for it. */
static void on_killed(void* arg, const struct sbx_error* error,
                      const struct sbx_kit_job_result* result) {
  (void) arg;
  (void) error;
  (void) result;
}

static void end_it(struct orphan* o, uint32_t pid) {
  struct sbx_remote* r = o->remote;
  struct sbx_kit_place place;
  struct sbx_kit_job* job = NULL;

  finish(o);
  sbx__remote_place(r, 0, &place);
  if (sbx_kit_job_kill(&place, pid, 0, 0, &job) != 0) job = NULL;
  sbx__job_run(r, job, "processes.kill", on_killed, NULL);
}

static void on_emit(void* data, int64_t what, const char* bytes, size_t len) {
  uint32_t pid;

  if (what != SBX_EMIT_PID || len < sizeof(pid)) return;
  memcpy(&pid, bytes, sizeof(pid));
  end_it(data, pid);
}

void sbx__remote_orphan(struct sbx_remote* r, struct sbx_drive* drive) {
  struct orphan* o = calloc(1, sizeof(*o));
  struct sbx_drive_events events = {o, on_emit, on_done};

  if (o == NULL) {
    sbx_drive_close(drive);
    return;
  }
  o->work.stop = on_stop;
  o->remote = r;
  o->drive = drive;
  uv_timer_init(r->base.loop, &o->timer);
  o->timer.data = o;
  uv_timer_start(&o->timer, on_late, ORPHAN_MS, 0);
  uv_unref((uv_handle_t*) &o->timer);
  sbx__remote_link(r, &o->work);
  sbx_drive_no_retry(drive);
  sbx_drive_retell(drive, &events);
  sbx_drive_pause(drive, false);
}
