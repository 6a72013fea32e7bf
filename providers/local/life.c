/* The life of a Local sandbox. Blocking file-system work runs on the thread
 * pool.
 *
 *   IDLE -> PREPARING -> STARTING -> RUNNING -> ENDING -> CLEANING -> IDLE
 *
 * ENDING can be entered from every state; whoever asked for the start is then
 * told that it was aborted.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "confined.h"
#include "internal.h"

enum { STOP_GRACE_MS = 2000 };

/* One caller that waits for something to be over. */
struct sbx__local_waiter {
  struct sbx__local_waiter* next;
  sbx_done_cb cb;
  void* arg;
};

/* NULL without memory: `cb` has been told. */
static struct sbx__local_waiter* waiter_new(struct sbx__local* l,
                                            const char* operation,
                                            sbx_done_cb cb, void* arg) {
  struct sbx__local_waiter* w = malloc(sizeof(*w));
  struct sbx_error error;

  if (w == NULL) {
    sbx_error_set(&error, SBX_E_INTERNAL, ENOMEM, operation, "Out of memory.");
    sbx__local_answer(l, cb, arg, &error);
    return NULL;
  }
  *w = (struct sbx__local_waiter){NULL, cb, arg};
  return w;
}

/* ---- the end ---- */

static void finish_start(struct sbx__local* l, const struct sbx_error* error) {
  sbx_done_cb cb = l->start_cb;

  l->start_cb = NULL;
  if (cb != NULL) cb(l->start_arg, error);
}

static void abort_start(struct sbx__local* l) {
  struct sbx_error error;

  if (l->start_cb == NULL) return;
  sbx_error_set(&error, SBX_E_ABORTED, 0, "start",
                "The sandbox was ended while it was being started.");
  finish_start(l, &error);
}

static void on_ended(struct sbx__local* l, const struct sbx_error* error);

static void on_network_idle(void* arg) {
  struct sbx__local* l = arg;

  l->network.on_idle = NULL;
  /* Else the end that is under way will see that the network is gone. */
  if (l->state == SBX__LOCAL_IDLE)
    on_ended(l, l->late_failed ? &l->late : NULL);
}

/* Nothing of a closed sandbox may be left on the loop. */
static bool wait_for_network(struct sbx__local* l,
                             const struct sbx_error* error) {
  if (!l->closing || l->network.pending == 0) return false;
  l->late_failed = error != NULL;
  if (error != NULL) l->late = *error;
  l->network.idle_arg = l;
  l->network.on_idle = on_network_idle;
  l->state = SBX__LOCAL_IDLE;
  return true;
}

/* Everything is gone. The struct may go with the last waiter's call. */
static void on_ended(struct sbx__local* l, const struct sbx_error* error) {
  struct sbx__local_waiter* list = l->ending;
  bool closing = l->closing;

  if (wait_for_network(l, error)) return;
  l->ending = NULL;
  l->destroying = false;
  l->state = SBX__LOCAL_IDLE;
  if (closing) sbx__local_free(l);
  while (list != NULL) {
    struct sbx__local_waiter* w = list;

    list = w->next;
    w->cb(w->arg, error);
    free(w);
  }
}

static struct sbx__local* local_of(uv_work_t* work) {
  return (struct sbx__local*) ((char*) work -
                               offsetof(struct sbx__local, cleaning.work));
}

static void clean(uv_work_t* work) {
  struct sbx__local* l = local_of(work);
  struct sbx__local_cleaning* c = &l->cleaning;

  if (l->options.kind == SBX_LOCAL_TEMPORARY || c->destroying)
    c->err = sbx_local_folder_remove(&l->options, &c->folder, &c->error);
  sbx_local_folder_sweep(&c->folder);
  sbx_local_folder_release(&c->folder);
}

static void begin_clean(struct sbx__local* l);

/* A failed start is told here, when nothing is left of it. */
static void on_cleaned(uv_work_t* work, int status) {
  struct sbx__local* l = local_of(work);
  struct sbx_error error = l->cleaning.error;
  struct sbx_error why = l->error;
  bool failed = l->cleaning.err != 0;

  (void) status;
  if (l->destroying && !l->cleaning.destroying) {
    begin_clean(l);
    return;
  }
  l->state = SBX__LOCAL_IDLE;
  finish_start(l, &why);
  if (l->state != SBX__LOCAL_IDLE) return; /* the caller went on at once */
  if (l->ending != NULL) on_ended(l, failed ? &error : NULL);
}

static void begin_clean(struct sbx__local* l) {
  l->state = SBX__LOCAL_CLEANING;
  l->cleaning = (struct sbx__local_cleaning){.folder = l->folder,
                                             .destroying = l->destroying};
  sbx_local_folder_init(&l->folder);
  sbx__local_place(l);
  uv_queue_work(l->base.loop, &l->cleaning.work, clean, on_cleaned);
}

static void queue_prepare(struct sbx__local* l);

/* Nothing is left of the first try but a lock and the user's own folders. */
static void fall(struct sbx__local* l) {
  sbx_local_folder_release(&l->folder);
  sbx_view_free(&l->view);
  l->falling = false;
  l->level = SBX_LEVEL_LANDLOCK;
  queue_prepare(l);
}

static void on_session_closed(void* arg) {
  struct sbx__local* l = arg;

  if (l->falling && l->ending == NULL)
    fall(l);
  else
    begin_clean(l);
}

static void begin_end(struct sbx__local* l) {
  struct sbx_session* session = l->session;

  if (l->state == SBX__LOCAL_ENDING || l->state == SBX__LOCAL_CLEANING) return;
  /* The worker cannot be stopped: its end goes on from here. */
  if (l->state == SBX__LOCAL_PREPARING) return;
  l->state = SBX__LOCAL_ENDING;
  sbx_local_network_end(&l->network);
  sbx__local_drop_roots(l);
  l->session = NULL;
  if (session != NULL)
    sbx_session_close(session, on_session_closed, l);
  else
    begin_clean(l);
}

static void end(struct sbx__local* l, sbx_done_cb cb, void* arg) {
  struct sbx__local_waiter* w = waiter_new(l, "destroy", cb, arg);

  if (w == NULL) return;
  w->next = l->ending;
  l->ending = w;
  if (l->state == SBX__LOCAL_STARTING) abort_start(l);
  begin_end(l);
}

void sbx__local_destroy(struct sbx_sandbox* s, sbx_done_cb cb, void* arg) {
  struct sbx__local* l = (struct sbx__local*) s;

  l->destroying = true;
  end(l, cb, arg);
}

void sbx__local_close(struct sbx_sandbox* s, sbx_done_cb cb, void* arg) {
  struct sbx__local* l = (struct sbx__local*) s;

  l->closing = true;
  end(l, cb, arg);
}

/* ---- the start ---- */

/* The first failure is the one with a remedy; the second is told along. */
static void tell_both(struct sbx__local* l, const struct sbx_error* second) {
  char first[sizeof(l->error.message)];

  snprintf(first, sizeof(first), "%s", l->error.message);
  snprintf(l->error.message, sizeof(l->error.message),
           "%.*s Level \"landlock\" does not work here either: %.*s",
           (int) sizeof(first) / 2, first, (int) sizeof(first) / 2 - 64,
           second->message);
}

static void fail_start(struct sbx__local* l, const struct sbx_error* error) {
  if (l->level != l->options.level && error != &l->error)
    tell_both(l, error);
  else if (error != &l->error)
    l->error = *error;
  begin_end(l);
}

static bool may_fall(const struct sbx__local* l,
                     const struct sbx_error* error) {
  return l->options.may_fall && l->level == SBX_LEVEL_FULL &&
         sbx_confined_refused(error->step, error->sys);
}

static void on_ready(void* data, const struct sbx_error* error,
                     const struct sbx_session_ready* ready) {
  struct sbx__local* l = data;

  if (error != NULL) {
    bool falls = may_fall(l, error);

    fail_start(l, error);
    l->falling = falls;
    return;
  }
  l->ready = *ready;
  if (sbx__local_open_roots(l) != 0) {
    sbx_error_set(&l->error, SBX_E_INTERNAL, 0, "start",
                  "The sandbox's folders could not be taken over.");
    fail_start(l, &l->error);
    return;
  }
  if (sbx_local_network_start(&l->network, l->session, &l->error) != 0) {
    fail_start(l, &l->error);
    return;
  }
  l->state = SBX__LOCAL_RUNNING;
  l->base.epoch++;
  finish_start(l, NULL);
}

static void on_lost(void* data, const struct sbx_error* error) {
  struct sbx__local* l = data;

  l->error = *error;
  l->lost = true;
  begin_end(l);
}

/* From here on everything belongs to the sandbox, and its end cleans it up. */
static void take_prepared(struct sbx__local* l,
                          struct sbx__local_preparing* p) {
  bool fell = l->level != l->options.level;

  l->folder = p->folder;
  l->view = p->view;
  free(l->protected);
  l->protected = p->protected;
  l->repository = p->repository;
  if (l->existing == NULL) l->existing = p->existing;
  else free(p->existing);
  if (fell && p->err != 0)
    tell_both(l, &p->error);
  else if (!fell)
    l->error = p->error;
  sbx__local_place(l);
}

static void on_prepared(uv_work_t* work, int status) {
  struct sbx__local_preparing* p = work->data;
  struct sbx__local* l = p->local;
  struct sbx_session_events events = {l, on_ready, on_lost};
  int err = p->err;

  (void) status;
  l->state = SBX__LOCAL_STARTING;
  take_prepared(l, p);
  if (l->ending != NULL) {
    abort_start(l);
    begin_end(l);
  } else {
    if (err == 0)
      err = sbx_local_network_prepare(&l->network, l->level, p->config,
                                      &l->error);
    if (err == 0)
      err = sbx_session_start(l->base.loop, p->config, &events, &l->session,
                              &l->error);
    if (err != 0) fail_start(l, &l->error);
  }
  sbx_config_free(p->config);
  free(p);
}

static void queue_prepare(struct sbx__local* l) {
  struct sbx__local_preparing* p = calloc(1, sizeof(*p));

  if (p == NULL) {
    l->state = SBX__LOCAL_STARTING;
    sbx_error_set(&l->error, SBX_E_INTERNAL, ENOMEM, "start",
                  "Out of memory.");
    begin_end(l);
    return;
  }
  l->state = SBX__LOCAL_PREPARING;
  p->local = l;
  p->layer = l->layer;
  p->own = l->options;
  p->own.level = l->level;
  p->options = &p->own;
  p->work.data = p;
  sbx_local_folder_init(&p->folder);
  uv_queue_work(l->base.loop, &p->work, sbx__local_prepare, on_prepared);
}

static void begin_prepare(struct sbx__local* l, sbx_done_cb cb, void* arg) {
  sbx_view_free(&l->view);
  l->lost = false;
  l->falling = false;
  l->level = l->options.level;
  l->start_cb = cb;
  l->start_arg = arg;
  queue_prepare(l);
}

void sbx__local_start(struct sbx_sandbox* s, sbx_done_cb cb, void* arg) {
  struct sbx__local* l = (struct sbx__local*) s;
  struct sbx_error error;

  if (l->state == SBX__LOCAL_RUNNING) {
    l->base.epoch++;
    sbx__local_answer(l, cb, arg, NULL);
    return;
  }
  if (l->state != SBX__LOCAL_IDLE) {
    sbx_error_set(&error, SBX_E_CONFLICT, 0, "start",
                  "The sandbox is being started or ended already.");
    sbx__local_answer(l, cb, arg, &error);
    return;
  }
  begin_prepare(l, cb, arg);
}

/* ---- calls of a session that runs ---- */

/* The session may have ended meanwhile. */
static void on_waited(void* arg) {
  struct sbx__local_waiter* w = arg;

  w->cb(w->arg, NULL);
  free(w);
}

void sbx__local_stop(struct sbx_sandbox* s, sbx_done_cb cb, void* arg) {
  struct sbx__local* l = (struct sbx__local*) s;
  struct sbx__local_waiter* w;

  if (l->state != SBX__LOCAL_RUNNING) {
    sbx__local_answer(l, cb, arg, NULL);
    return;
  }
  w = waiter_new(l, "stop", cb, arg);
  if (w == NULL) return;
  sbx_local_network_unexpose_all(&l->network);
  sbx_session_end_all(l->session, STOP_GRACE_MS, on_waited, w);
}

static void set_paused(struct sbx__local* l, bool paused, sbx_done_cb cb,
                       void* arg) {
  const char* operation = paused ? "pause" : "unpause";
  struct sbx__local_waiter* w;
  struct sbx_error error;

  if (l->state != SBX__LOCAL_RUNNING) {
    sbx__local_not_started(l, operation, &error);
    sbx__local_answer(l, cb, arg, &error);
    return;
  }
  w = waiter_new(l, operation, cb, arg);
  if (w != NULL) sbx_session_pause(l->session, paused, on_waited, w);
}

void sbx__local_pause(struct sbx_sandbox* s, sbx_done_cb cb, void* arg) {
  set_paused((struct sbx__local*) s, true, cb, arg);
}

void sbx__local_unpause(struct sbx_sandbox* s, sbx_done_cb cb, void* arg) {
  set_paused((struct sbx__local*) s, false, cb, arg);
}
