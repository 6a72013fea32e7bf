/* Whether the machine is still there, asked once for all who want to know.
 * Where it is not, the sandbox is LOST. */
#include <stdlib.h>

#include "internal.h"

struct sbx__remote_waiter {
  struct sbx__remote_waiter* next;
  uint64_t probe; /* the one that answers it */
  sbx__probe_cb cb;
  void* arg;
};

static void lose(struct sbx_remote* r) {
  if (r->state != SBX__REMOTE_RUNNING) return;
  r->state = SBX__REMOTE_LOST;
  sbx_error_set(&r->error, SBX_E_UNAVAILABLE, 0, "sandbox",
                "The sandbox \"%.100s\" at %s has ended: its time was over, or "
                "somebody paused or removed it.",
                r->account->id != NULL ? r->account->id : r->session,
                r->service->title);
  sbx__remote_stop_works(r, &r->error);
}

/* Who asks meanwhile waits for an answer of its own. */
static void tell_probed(struct sbx_remote* r, enum sbx__remote_life life) {
  uint64_t probe = r->probes;
  struct sbx__remote_waiter** at;

  if (life == SBX__REMOTE_DEAD) lose(r);
  for (at = &r->probe_waiters; *at != NULL;) {
    struct sbx__remote_waiter* w = *at;

    if (w->probe > probe) {
      at = &w->next;
      continue;
    }
    *at = w->next;
    w->cb(w->arg, life);
    free(w);
    at = &r->probe_waiters; /* any of them may have come or gone */
  }
}

static void on_probe_emit(void* data, int64_t what, const char* bytes,
                          size_t len) {
  (void) bytes;
  (void) len;
  if (what == SBX_EMIT_FOUND) ((struct sbx_remote*) data)->probe_found = true;
}

static void on_probe_done(void* data, const struct sbx_error* error) {
  struct sbx_remote* r = data;
  enum sbx__remote_life life = SBX__REMOTE_UNKNOWN;

  if (error == NULL)
    life = r->probe_found ? SBX__REMOTE_ALIVE : SBX__REMOTE_DEAD;
  else if (error->code == SBX_E_AUTHENTICATION)
    r->stale = true;
  sbx_drive_close(r->probing);
  r->probing = NULL;
  tell_probed(r, life);
}

void sbx__remote_probe(struct sbx_remote* r, sbx__probe_cb cb, void* arg) {
  struct sbx_drive_events events = {r, on_probe_emit, on_probe_done};
  struct sbx__remote_waiter* w;
  struct sbx_error error;

  if (r->state != SBX__REMOTE_RUNNING && r->state != SBX__REMOTE_ENDING) {
    cb(arg, SBX__REMOTE_DEAD);
    return;
  }
  w = malloc(sizeof(*w));
  if (w == NULL) {
    cb(arg, SBX__REMOTE_UNKNOWN);
    return;
  }
  if (r->probing == NULL) r->probes++;
  *w = (struct sbx__remote_waiter){r->probe_waiters, r->probes, cb, arg};
  r->probe_waiters = w;
  if (r->probing != NULL) return;
  r->probe_found = false;
  if (sbx__remote_drive(r, r->service->probe(r->account), SBX__REMOTE_LIFE_MS,
                        &events, &r->probing, &error) != 0)
    tell_probed(r, SBX__REMOTE_UNKNOWN);
}

void sbx__remote_forget_probe(struct sbx_remote* r, void* arg) {
  struct sbx__remote_waiter** at = &r->probe_waiters;

  while (*at != NULL) {
    struct sbx__remote_waiter* w = *at;

    if (w->arg == arg) {
      *at = w->next;
      free(w);
    } else {
      at = &w->next;
    }
  }
}
