/* The life of a sandbox at a cloud service: found, made, connected to, stopped
 * and destroyed, one verb at a time.
 *
 *   IDLE -> STARTING -> RUNNING -> ENDING -> IDLE
 *
 * RUNNING becomes LOST when the service says that the machine is gone; a start
 * leads from there to RUNNING again, with a new epoch.
 */
#include "remote.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../native/http/transport.h"
#include "internal.h"

enum {
  STOP_GRACE_MS = 2000,
  STOP_WAIT_MS = 6000,
  SYNC_MS = 10000,
  OTHERS_MS = 20000 /* for what the sandbox says that runs in it */
};

/* ---- small things ---- */

int sbx__remote_no_memory(struct sbx_error* error, const char* operation) {
  return sbx_error_set(error, SBX_E_INTERNAL, 0, operation, "Out of memory.");
}

struct soon {
  uv_timer_t timer;
  void (*cb)(void* arg);
  void* arg;
};

static void on_soon_closed(uv_handle_t* handle) {
  free(handle->data);
}

static void on_soon(uv_timer_t* timer) {
  struct soon* s = timer->data;

  s->cb(s->arg);
  uv_close((uv_handle_t*) timer, on_soon_closed);
}

void sbx__remote_soon(uv_loop_t* loop, void (*cb)(void* arg), void* arg) {
  struct soon* s = malloc(sizeof(*s));

  if (s == NULL) {
    cb(arg);
    return;
  }
  s->cb = cb;
  s->arg = arg;
  uv_timer_init(loop, &s->timer);
  s->timer.data = s;
  uv_timer_start(&s->timer, on_soon, 0, 0);
}

void sbx__remote_link(struct sbx_remote* r, struct sbx__remote_work* w) {
  w->next = r->works;
  if (w->next != NULL) w->next->previous = &w->next;
  w->previous = &r->works;
  w->age = r->age;
  w->round = r->round;
  r->works = w;
}

void sbx__remote_unlink(struct sbx__remote_work* w) {
  if (w->previous == NULL) return;
  *w->previous = w->next;
  if (w->next != NULL) w->next->previous = w->previous;
  w->previous = NULL;
}

static struct sbx__remote_work* older_than(const struct sbx_remote* r,
                                           uint64_t age) {
  struct sbx__remote_work* w = r->works;

  while (w != NULL && w->age >= age) w = w->next;
  return w;
}

/* Any of them may end others as it tells its owner, or begin new ones, such as
 * the next start: those go on. */
void sbx__remote_stop_works(struct sbx_remote* r,
                            const struct sbx_error* error) {
  struct sbx_error copy = *error;
  uint64_t age = ++r->age;
  struct sbx__remote_work* w;

  while ((w = older_than(r, age)) != NULL) w->stop(w, &copy);
}

/* All sandboxes of a host have one: its connections and TLS sessions serve them
 * all. */
static int open_client(struct sbx_remote* r) {
  const struct sbx_http_settings* settings = &r->settings;

  if (settings->host != NULL && settings->host->pool != NULL)
    return sbx_http_share(settings->host->pool, r->base.loop, settings,
                          &r->http);
  return sbx_http_new(r->base.loop, settings, &r->http);
}

int sbx__remote_drive(struct sbx_remote* r, struct sbx_machine* machine,
                      uint64_t deadline_ms,
                      const struct sbx_drive_events* events,
                      struct sbx_drive** out, struct sbx_error* error) {
  int rc = 0;

  if (r->http == NULL) rc = open_client(r);
  if (rc != 0 || machine == NULL) {
    if (machine != NULL) machine->free(machine);
    *out = NULL;
    return sbx__remote_no_memory(error, "request");
  }
  rc = sbx_drive_start(r->base.loop, r->http, machine, deadline_ms, events,
                       out);
  return rc == 0 ? 0 : sbx__remote_no_memory(error, "request");
}

int sbx__remote_check(const struct sbx_remote* r, const char* operation,
                      struct sbx_error* error) {
  if (r->state == SBX__REMOTE_RUNNING && r->paused)
    return sbx_error_set(error, SBX_E_CONFLICT, 0, operation,
                         "The sandbox is paused: resume() lets it go on.");
  if (r->state == SBX__REMOTE_RUNNING) return 0;
  return sbx_error_set(error, SBX_E_UNAVAILABLE, 0, operation, "%s",
                       r->state == SBX__REMOTE_LOST
                           ? r->error.message
                           : "The sandbox is not started.");
}

void sbx__remote_place(const struct sbx_remote* r, int scope,
                       struct sbx_kit_place* place) {
  const char* root = scope == 0 ? r->root : "/";

  *place = (struct sbx_kit_place){.root = root,
                                  .inside = root,
                                  .binary_output = r->service->binary_output};
}

static void replace(char** text, const char* with) {
  char* copy = strdup(with);

  if (copy == NULL) return; /* the old one is as good as any other */
  free(*text);
  *text = copy;
}

/* ---- one machine after another ---- */

struct life {
  struct sbx__remote_work work; /* first */
  struct sbx_remote* remote;
  struct sbx_drive* drive;
  void (*next)(struct life* l, const struct sbx_error* error);
  sbx_done_cb done;
  sbx_found_cb found_cb;
  void* arg;
  bool found;      /* the machine emitted it */
  bool made;       /* by this start, and nobody else's */
  bool late;       /* the grace of a stop is over */
  char* own;       /* id of what this start made */
  uv_timer_t timer;
  bool timed;
  bool over;
  struct sbx_error first; /* told when what follows does not help */
  struct sbx_kit_process* others; /* to end */
  size_t others_len, others_at;
  struct sbx__command* sync;
  void (*synced)(struct life* l);
  uint64_t others_due;
};

static void life_free(struct life* l) {
  free(l->own);
  free(l->others);
  free(l);
}

static void on_life_timer_closed(uv_handle_t* handle) {
  struct life* l = handle->data;

  l->timed = false;
  if (l->over) life_free(l);
}

/* Its memory stays until the handle is closed. */
static void life_timer_close(struct life* l) {
  uv_handle_t* timer = (uv_handle_t*) &l->timer;

  if (l->timed && !uv_is_closing(timer)) uv_close(timer, on_life_timer_closed);
}

/* The last touch. */
static void life_finish(struct life* l, const struct sbx_error* error) {
  sbx_done_cb done = l->done;
  sbx_found_cb found_cb = l->found_cb;
  void* arg = l->arg;
  bool found = l->found;
  struct sbx_error copy;

  error = sbx_error_keep(&copy, error);
  sbx__remote_unlink(&l->work);
  if (l->drive != NULL) sbx_drive_close(l->drive);
  if (l->sync != NULL) sbx__command_close(l->sync);
  l->over = true;
  if (!l->timed) life_free(l);
  if (done != NULL)
    done(arg, error);
  else if (found_cb != NULL)
    found_cb(arg, error, found);
}

static void life_stop(struct sbx__remote_work* w,
                      const struct sbx_error* error) {
  struct life* l = (struct life*) w;

  life_timer_close(l);
  if (error == NULL) {
    l->done = NULL;
    l->found_cb = NULL;
  }
  life_finish(l, error);
}

static void on_life_emit(void* data, int64_t what, const char* bytes,
                         size_t len) {
  (void) bytes;
  (void) len;
  if (what == SBX_EMIT_FOUND) ((struct life*) data)->found = true;
}

static void on_life_done(void* data, const struct sbx_error* error) {
  struct life* l = data;
  struct sbx_error copy;

  error = sbx_error_keep(&copy, error);
  sbx_drive_close(l->drive);
  l->drive = NULL;
  l->next(l, error);
}

static void life_run(struct life* l, struct sbx_machine* machine,
                     void (*next)(struct life*, const struct sbx_error*)) {
  struct sbx_remote* r = l->remote;
  uint64_t ms = r->account->request_ms;
  struct sbx_drive_events events = {l, on_life_emit, on_life_done};
  struct sbx_error error;

  l->found = false;
  l->next = next;
  if (sbx__remote_drive(r, machine, ms > 0 ? ms : SBX__REMOTE_LIFE_MS, &events,
                        &l->drive, &error) != 0)
    next(l, &error);
}

struct answer {
  sbx_done_cb done;
  sbx_found_cb found_cb;
  void* arg;
  bool found;
  bool failed;
  struct sbx_error error;
};

static void on_answer(void* arg) {
  struct answer* a = arg;
  const struct sbx_error* error = a->failed ? &a->error : NULL;

  if (a->done != NULL)
    a->done(a->arg, error);
  else
    a->found_cb(a->arg, error, a->found);
  free(a);
}

static void answer(struct sbx_remote* r, sbx_done_cb done,
                   sbx_found_cb found_cb, void* arg, bool found,
                   const struct sbx_error* error) {
  struct answer* a = calloc(1, sizeof(*a));
  struct sbx_error none;

  if (a == NULL) {
    sbx__remote_no_memory(&none, "sandbox");
    if (done != NULL)
      done(arg, &none);
    else
      found_cb(arg, &none, false);
    return;
  }
  *a = (struct answer){.done = done, .found_cb = found_cb, .arg = arg,
                       .found = found, .failed = error != NULL};
  if (error != NULL) a->error = *error;
  sbx__remote_soon(r->base.loop, on_answer, a);
}

/* NULL: it has been answered. */
static struct life* life_new(struct sbx_remote* r, sbx_done_cb done,
                             sbx_found_cb found_cb, void* arg) {
  struct life* l = calloc(1, sizeof(*l));
  struct sbx_error error;

  if (l == NULL) {
    sbx__remote_no_memory(&error, "sandbox");
    answer(r, done, found_cb, arg, false, &error);
    return NULL;
  }
  *l = (struct life){.work = {.stop = life_stop}, .remote = r, .done = done,
                     .found_cb = found_cb, .arg = arg};
  sbx__remote_link(r, &l->work);
  return l;
}

/* ---- find ---- */

static void on_found(struct life* l, const struct sbx_error* error) {
  life_finish(l, error);
}

/* Without an id of the user's there is something to find only where this object
 * had made it before. */
void sbx_remote_find(struct sbx_sandbox* s, sbx_found_cb cb, void* arg) {
  struct sbx_remote* r = (struct sbx_remote*) s;
  bool may = r->id != NULL || r->account->id != NULL;
  struct life* l;

  if (r->state == SBX__REMOTE_RUNNING || !may) {
    answer(r, NULL, cb, arg, r->state == SBX__REMOTE_RUNNING, NULL);
    return;
  }
  l = life_new(r, NULL, cb, arg);
  if (l != NULL)
    life_run(l, r->service->find(r->account, r->session), on_found);
}

/* ---- starting ---- */

static void start_failed(struct life* l, const struct sbx_error* error) {
  l->remote->state = SBX__REMOTE_IDLE;
  life_finish(l, error);
}

/* Told what was wrong with it, whatever became of its removal. */
static void on_unmade(struct life* l, const struct sbx_error* error) {
  (void) error;
  free(l->remote->account->id);
  l->remote->account->id = NULL;
  start_failed(l, &l->first);
}

static void unmake(struct life* l, const struct sbx_error* error) {
  struct sbx_remote* r = l->remote;

  l->first = *error;
  if (l->made && r->account->id != NULL)
    life_run(l, r->service->destroy(r->account), on_unmade);
  else
    start_failed(l, error);
}

static void on_prepared(void* arg, const struct sbx_error* error,
                        const struct sbx_kit_job_result* result) {
  struct life* l = arg;
  struct sbx_remote* r = l->remote;

  if (error != NULL) {
    unmake(l, error);
    return;
  }
  if (result->home[0] == '/') replace(&r->home, result->home);
  if (result->shell[0] == '/') replace(&r->shell, result->shell);
  if (!result->made) replace(&r->root, r->home);
  r->base.place.inside = r->root;
  r->base.place.host = result->made ? NULL : r->cwd;
  r->base.epoch++;
  r->paused = false;
  r->touched = uv_now(r->base.loop);
  r->state = SBX__REMOTE_RUNNING;
  life_finish(l, NULL);
}

static void prepare(struct life* l) {
  struct sbx_remote* r = l->remote;
  struct sbx_kit_place place;
  struct sbx_kit_job* job = NULL;

  replace(&r->root, r->cwd);
  if (r->account->home != NULL && r->account->home[0] == '/')
    replace(&r->home, r->account->home);
  sbx__remote_place(r, 0, &place);
  if (sbx_kit_job_prepare(&place, &job) != 0) job = NULL;
  sbx__job_run(r, job, "start", on_prepared, l);
}

static void on_connected(struct life* l, const struct sbx_error* error) {
  if (error != NULL)
    start_failed(l, error);
  else
    prepare(l);
}

static void connect_it(struct life* l) {
  life_run(l, l->remote->service->connect(l->remote->account), on_connected);
}

/* Ours was made after another host's of the same id: that one it is. */
static void on_loser_gone(struct life* l, const struct sbx_error* error) {
  struct sbx_remote* r = l->remote;

  (void) error; /* it ends by its time limit at the latest */
  free(r->account->id);
  r->account->id = l->own;
  l->own = NULL;
  connect_it(l);
}

static void on_raced(struct life* l, const struct sbx_error* error) {
  struct sbx_remote* r = l->remote;
  char* other = r->account->id;

  if (error != NULL || !l->found || other == NULL) {
    /* Not known: ours is there for certain. */
    free(r->account->id);
    r->account->id = l->own;
    l->own = NULL;
    prepare(l);
    return;
  }
  if (strcmp(other, l->own) == 0) {
    prepare(l);
    return;
  }
  l->made = false;
  r->account->id = l->own;
  l->own = other;
  life_run(l, r->service->destroy(r->account), on_loser_gone);
}

static void on_looked_up(struct life* l, const struct sbx_error* error) {
  if (error != NULL || !l->found) {
    start_failed(l, &l->first);
    return;
  }
  l->made = true;
  connect_it(l);
}

/* An answer that says that nothing was made. */
static bool is_refusal(const struct sbx_error* error) {
  switch (error->code) {
    case SBX_E_INVALID_INPUT:
    case SBX_E_AUTHENTICATION:
    case SBX_E_PERMISSION:
    case SBX_E_NOT_FOUND:
    case SBX_E_CONFLICT:
    case SBX_E_RATE_LIMITED:
    case SBX_E_UNSUPPORTED: return true;
    default: return false;
  }
}

static void on_created(struct life* l, const struct sbx_error* error) {
  struct sbx_remote* r = l->remote;

  if (error != NULL) {
    l->first = *error;
    if (is_refusal(error) || r->service->find == NULL)
      start_failed(l, error);
    else
      life_run(l, r->service->find(r->account, r->session), on_looked_up);
    return;
  }
  l->made = true;
  if (r->id == NULL) {
    prepare(l);
    return;
  }
  l->own = strdup(r->account->id != NULL ? r->account->id : "");
  if (l->own == NULL)
    prepare(l);
  else
    life_run(l, r->service->find(r->account, r->id), on_raced);
}

static struct life* start_new(struct sbx_remote* r, sbx_done_cb cb,
                              void* arg) {
  struct sbx_error error;
  struct life* l;

  if (r->state == SBX__REMOTE_STARTING || r->state == SBX__REMOTE_ENDING) {
    sbx_error_set(&error, SBX_E_CONFLICT, 0, "start",
                  "The sandbox is being started or ended already.");
    answer(r, cb, NULL, arg, false, &error);
    return NULL;
  }
  l = life_new(r, cb, NULL, arg);
  if (l != NULL) r->state = SBX__REMOTE_STARTING;
  return l;
}

void sbx_remote_create(struct sbx_sandbox* s, sbx_done_cb cb, void* arg) {
  struct sbx_remote* r = (struct sbx_remote*) s;
  struct life* l = start_new(r, cb, arg);

  if (l == NULL) return;
  free(r->account->id);
  r->account->id = NULL;
  life_run(l, r->service->create(r->account, r->session), on_created);
}

void sbx_remote_connect(struct sbx_sandbox* s, sbx_done_cb cb, void* arg) {
  struct sbx_remote* r = (struct sbx_remote*) s;
  struct life* l = start_new(r, cb, arg);

  if (l != NULL) connect_it(l);
}

/* ---- what is told may close the sandbox, or begin its end ---- */

/* It is out of reach meanwhile, for it tells its own end: linked, it would be
 * ended, and freed, by what a process brings about that goes on. */
static void go_on_all(struct life* l) {
  sbx__remote_unlink(&l->work);
  sbx__remote_hold_all(l->remote, false);
}

/* ---- stopping: first the processes, then the machine ---- */

static void on_stopped(struct life* l, const struct sbx_error* error) {
  struct sbx_remote* r = l->remote;

  /* One that is gone has stopped for good, which the next start finds out. */
  if (error != NULL && error->code == SBX_E_NOT_FOUND) error = NULL;
  r->state = error == NULL ? SBX__REMOTE_IDLE : SBX__REMOTE_RUNNING;
  life_finish(l, error);
}

static void end_next(struct life* l);

static void on_other_ended(void* arg, const struct sbx_error* error,
                           const struct sbx_kit_job_result* result) {
  (void) error; /* it ended by itself, or ends with the machine */
  (void) result;
  end_next(arg);
}

static int on_sync_bytes(void* data, const char* bytes, size_t len) {
  (void) data;
  (void) bytes;
  (void) len;
  return 0;
}

static void on_synced(void* data, const struct sbx__command_end* end) {
  struct life* l = data;

  (void) end; /* it is a precaution */
  l->sync = NULL;
  l->synced(l);
}

/* Services have lost files that a machine had not written when it was paused. */
static void sync_then(struct life* l, void (*next)(struct life* l)) {
  static const char* const argv[] = {"/bin/sync"};
  struct sbx__command_spec spec = {.argv = argv, .argc = 1,
                                   .timeout_ms = SYNC_MS,
                                   .operation = "stop"};
  struct sbx__command_events events = {l, on_sync_bytes, on_synced};
  struct sbx_error error;

  l->synced = next;
  if (sbx__command_start(l->remote, &spec, &events, &l->sync, &error) == 0)
    return;
  l->sync = NULL;
  next(l);
}

static void stop_machine(struct life* l) {
  struct sbx_remote* r = l->remote;

  life_run(l, r->service->stop(r->account), on_stopped);
}

static void end_next(struct life* l) {
  struct sbx_kit_place place;
  struct sbx_kit_job* job = NULL;

  while (l->others_at < l->others_len && !l->others[l->others_at].running)
    l->others_at++;
  if (l->others_at == l->others_len ||
      uv_now(l->remote->base.loop) > l->others_due) {
    sync_then(l, stop_machine);
    return;
  }
  sbx__remote_place(l->remote, 0, &place);
  if (sbx_kit_job_kill(&place, l->others[l->others_at].pid,
                       l->others[l->others_at].start, STOP_GRACE_MS,
                       &job) != 0)
    job = NULL;
  l->others_at++;
  sbx__job_run(l->remote, job, "stop", on_other_ended, l);
}

static void on_others_listed(void* arg, const struct sbx_error* error,
                             const struct sbx_kit_job_result* result) {
  struct life* l = arg;

  if (error == NULL && result->count > 0) {
    l->others = malloc(result->count * sizeof(*l->others));
    if (l->others != NULL) {
      memcpy(l->others, result->list, result->count * sizeof(*l->others));
      l->others_len = result->count;
    }
  }
  end_next(l);
}

/* Commands that other hosts have started, and those that were given up. */
static void end_others(struct life* l) {
  struct sbx_kit_place place;
  struct sbx_kit_job* job = NULL;

  l->others_due = uv_now(l->remote->base.loop) + OTHERS_MS;
  sbx__remote_place(l->remote, 0, &place);
  if (sbx_kit_job_list(&place, &job) != 0) job = NULL;
  sbx__job_run(l->remote, job, "stop", on_others_listed, l);
}

/* The one that waits; a find, for one, may be under way beside it. */
static struct life* stopping_of(struct sbx_remote* r) {
  for (struct sbx__remote_work* w = r->works; w != NULL; w = w->next)
    if (w->stop == life_stop && ((struct life*) w)->timed)
      return (struct life*) w;
  return NULL;
}

static void on_quiet(struct sbx_remote* r) {
  struct life* l = stopping_of(r);

  r->on_quiet = NULL;
  if (l == NULL || uv_is_closing((uv_handle_t*) &l->timer)) return;
  life_timer_close(l);
  end_others(l);
}

static void on_stop_late(uv_timer_t* timer) {
  struct life* l = timer->data;

  on_quiet(l->remote);
}

static void end_processes(struct life* l) {
  struct sbx_remote* r = l->remote;

  if (r->processes == 0) {
    end_others(l);
    return;
  }
  uv_timer_init(r->base.loop, &l->timer);
  l->timer.data = l;
  l->timed = true;
  uv_timer_start(&l->timer, on_stop_late, STOP_WAIT_MS, 0);
  r->on_quiet = on_quiet;
  sbx__remote_end_all(r, STOP_GRACE_MS);
}

static void on_woken(struct life* l, const struct sbx_error* error) {
  struct sbx_remote* r = l->remote;
  struct sbx_error closed;

  if (error != NULL && error->code != SBX_E_NOT_FOUND) {
    r->state = SBX__REMOTE_RUNNING;
    life_finish(l, error);
    return;
  }
  r->paused = false;
  go_on_all(l);
  if (r->closing) {
    sbx_error_set(&closed, SBX_E_ABORTED, 0, "stop", "The sandbox was closed.");
    life_finish(l, &closed);
    return;
  }
  sbx__remote_link(r, &l->work);
  end_processes(l);
}

/* What is paused has to run to be ended. */
void sbx_remote_stop(struct sbx_sandbox* s, sbx_done_cb cb, void* arg) {
  struct sbx_remote* r = (struct sbx_remote*) s;
  struct sbx_error stopped;
  struct life* l;

  if (r->state != SBX__REMOTE_RUNNING) {
    answer(r, cb, NULL, arg, false, NULL);
    return;
  }
  l = life_new(r, cb, NULL, arg);
  if (l == NULL) return;
  r->state = SBX__REMOTE_ENDING;
  sbx_error_set(&stopped, SBX_E_ABORTED, 0, "files.watch",
                "The sandbox was stopped.");
  if (r->paused)
    life_run(l, r->service->connect(r->account), on_woken);
  else
    end_processes(l);
  /* Afterwards, for whoever is told may close the sandbox, and that ends `l`. */
  sbx__remote_end_watches(r, &stopped);
}

/* ---- pausing ---- */

static void on_paused(struct life* l, const struct sbx_error* error) {
  struct sbx_remote* r = l->remote;

  if (error != NULL) {
    r->paused = false;
    go_on_all(l);
  } else {
    sbx__remote_unlink(&l->work); /* as in go_on_all */
    sbx__remote_pause_watches(r);
  }
  life_finish(l, error);
}

static void on_unpaused(struct life* l, const struct sbx_error* error) {
  struct sbx_remote* r = l->remote;

  if (error == NULL) {
    r->paused = false;
    r->touched = uv_now(r->base.loop);
    go_on_all(l);
  }
  life_finish(l, error);
}

static void pause_machine(struct life* l) {
  life_run(l, l->remote->service->stop(l->remote->account), on_paused);
}

static struct life* pausing_new(struct sbx_remote* r, const char* operation,
                                bool paused, sbx_done_cb cb, void* arg) {
  struct sbx_error error;

  if (r->state != SBX__REMOTE_RUNNING) {
    sbx__remote_check(r, operation, &error);
    answer(r, cb, NULL, arg, false, &error);
    return NULL;
  }
  if (r->paused == paused) {
    answer(r, cb, NULL, arg, false, NULL);
    return NULL;
  }
  return life_new(r, cb, NULL, arg);
}

void sbx_remote_pause(struct sbx_sandbox* s, sbx_done_cb cb, void* arg) {
  struct sbx_remote* r = (struct sbx_remote*) s;
  struct life* l = pausing_new(r, "pause", true, cb, arg);

  if (l == NULL) return;
  r->paused = true; /* streams may be cut before the answer comes */
  sbx__remote_hold_all(r, true);
  sync_then(l, pause_machine);
}

void sbx_remote_unpause(struct sbx_sandbox* s, sbx_done_cb cb, void* arg) {
  struct sbx_remote* r = (struct sbx_remote*) s;
  struct life* l = pausing_new(r, "unpause", false, cb, arg);

  if (l != NULL)
    life_run(l, r->service->connect(r->account), on_unpaused);
}

/* ---- the end ---- */

static void on_destroyed(struct life* l, const struct sbx_error* error) {
  struct sbx_remote* r = l->remote;

  if (error != NULL && error->code == SBX_E_NOT_FOUND) error = NULL;
  r->state = SBX__REMOTE_IDLE;
  if (error == NULL) {
    free(r->account->id);
    r->account->id = NULL;
  }
  life_finish(l, error);
}

void sbx_remote_destroy(struct sbx_sandbox* s, sbx_done_cb cb, void* arg) {
  struct sbx_remote* r = (struct sbx_remote*) s;
  struct sbx_error ended;
  struct life* l;

  sbx_error_set(&ended, SBX_E_ABORTED, 0, "destroy",
                "The sandbox was destroyed meanwhile.");
  if (r->state == SBX__REMOTE_STARTING || r->state == SBX__REMOTE_ENDING) {
    sbx_error_set(&ended, SBX_E_CONFLICT, 0, "destroy",
                  "The sandbox is being started or stopped.");
    answer(r, cb, NULL, arg, false, &ended);
    return;
  }
  sbx__remote_stop_works(r, &ended);
  if (r->account->id == NULL) {
    r->state = SBX__REMOTE_IDLE;
    answer(r, cb, NULL, arg, false, NULL);
    return;
  }
  l = life_new(r, cb, NULL, arg);
  if (l == NULL) return;
  r->state = SBX__REMOTE_ENDING;
  life_run(l, r->service->destroy(r->account), on_destroyed);
}

static void remote_free(struct sbx_remote* r) {
  if (r->account != NULL) r->service->free(r->account);
  free(r->ca_file);
  free(r->id);
  free(r->session);
  free(r->cwd);
  free(r->root);
  free(r->home);
  free(r->shell);
  free(r);
}

static void finish_close(struct sbx_remote* r) {
  sbx_done_cb cb = r->on_closed;
  void* arg = r->closed_arg;

  if (!r->http_closed || r->pools > 0) return;
  remote_free(r);
  cb(arg, NULL);
}

void sbx__remote_pool(struct sbx_remote* r, bool begins) {
  if (begins) {
    r->pools++;
    return;
  }
  r->pools--;
  finish_close(r);
}

static void on_http_closed(void* arg) {
  struct sbx_remote* r = arg;

  r->http_closed = true;
  finish_close(r);
}

static void on_last_closed(uv_handle_t* handle) {
  on_http_closed(handle->data);
}

/* In a later turn of the loop, and without memory: who calls close may be
 * called by what still needs the sandbox. */
static void close_later(struct sbx_remote* r) {
  uv_timer_init(r->base.loop, &r->last);
  r->last.data = r;
  uv_close((uv_handle_t*) &r->last, on_last_closed);
}

/* The machine is left to itself: that a host goes away ends nothing there. */
void sbx_remote_close(struct sbx_sandbox* s, sbx_done_cb cb, void* arg) {
  struct sbx_remote* r = (struct sbx_remote*) s;
  struct sbx_error closed;

  sbx_error_set(&closed, SBX_E_ABORTED, 0, "close", "The sandbox was closed.");
  r->state = SBX__REMOTE_ENDING;
  r->closing = true;
  r->on_quiet = NULL;
  while (r->works != NULL) sbx__remote_stop_works(r, &closed);
  if (r->touching != NULL) sbx_drive_close(r->touching);
  if (r->probing != NULL) sbx_drive_close(r->probing);
  r->touching = r->probing = NULL;
  r->on_closed = cb;
  r->closed_arg = arg;
  if (r->http != NULL && sbx_http_leave(r->http))
    sbx_http_close(r->http, on_http_closed, r);
  else
    close_later(r);
}

/* ---- the account ---- */

int sbx_remote_use_layer(struct sbx_sandbox* s, const char* id) {
  struct sbx_remote* r = (struct sbx_remote*) s;

  if (r->service->set_template == NULL) return SBX_E_UNSUPPORTED;
  return r->service->set_template(r->account, id);
}

int sbx_remote_set_secret(struct sbx_sandbox* s, const char* secret,
                          struct sbx_error* error) {
  struct sbx_remote* r = (struct sbx_remote*) s;
  int rc;

  if (r->service->set_secret == NULL)
    return sbx_error_set(error, SBX_E_UNSUPPORTED, 0, "open",
                         "%s has no secret that could change.",
                         r->service->title);
  rc = r->service->set_secret(r->account, secret, error);
  if (rc != 0 || !r->stale) return rc;
  r->stale = false;
  r->touched = 0; /* the next use extends its time */
  return 0;
}

bool sbx_remote_is_stale(struct sbx_sandbox* s) {
  return ((struct sbx_remote*) s)->stale;
}

/* ---- its time ---- */

static void on_touched(void* data, const struct sbx_error* error) {
  struct sbx_remote* r = data;

  /* Otherwise the next use tries again. */
  if (error != NULL && error->code == SBX_E_AUTHENTICATION) r->stale = true;
  sbx_drive_close(r->touching);
  r->touching = NULL;
}

void sbx__remote_use(struct sbx_remote* r) {
  struct sbx_drive_events events = {r, NULL, on_touched};
  uint64_t now = uv_now(r->base.loop);
  struct sbx_error error;

  if (r->state != SBX__REMOTE_RUNNING || r->paused ||
      r->account->timeout_ms == 0 ||
      r->service->touch == NULL || r->touching != NULL ||
      now - r->touched < r->account->timeout_ms / 4)
    return;
  r->touched = now;
  if (sbx__remote_drive(r, r->service->touch(r->account), SBX__REMOTE_LIFE_MS,
                        &events, &r->touching, &error) == 0)
    sbx_drive_unref(r->touching);
}

void sbx_remote_touch(struct sbx_sandbox* s) {
  sbx__remote_use((struct sbx_remote*) s);
}

/* ---- the network ---- */

static void on_network_set(struct life* l, const struct sbx_error* error) {
  life_finish(l, error);
}

void sbx_remote_network(struct sbx_sandbox* s, const char* const* hosts,
                        size_t count, sbx_done_cb cb, void* arg) {
  struct sbx_remote* r = (struct sbx_remote*) s;
  struct sbx_error error;
  struct life* l;

  if (r->service->set_network == NULL)
    sbx_error_set(&error, SBX_E_UNSUPPORTED, 0, "setNetworkPolicy",
                  "%s cannot change the network of a sandbox that runs.",
                  r->service->title);
  if (r->service->set_network == NULL ||
      sbx__remote_check(r, "setNetworkPolicy", &error) != 0) {
    answer(r, cb, NULL, arg, false, &error);
    return;
  }
  l = life_new(r, cb, NULL, arg);
  if (l != NULL)
    life_run(l, r->service->set_network(r->account, hosts, count),
             on_network_set);
}

/* ---- facts ---- */

void sbx_remote_facts(struct sbx_sandbox* s, sbx_fact_cb cb, void* arg) {
  struct sbx_remote* r = (struct sbx_remote*) s;

  if (r->account->id != NULL) cb(arg, "sandboxId", r->account->id);
  cb(arg, "workspaceInside", r->root);
  if (r->home != NULL) cb(arg, "home", r->home);
  if (r->shell != NULL) cb(arg, "shell", r->shell);
  if (r->account->user != NULL && r->account->user[0] != '\0')
    cb(arg, "user", r->account->user);
  if (r->base.place.host != NULL)
    cb(arg, "degraded",
       "the workspace folder that was asked for could not be made: the home "
       "folder is the workspace");
  if (r->service->facts != NULL) r->service->facts(r->account, cb, arg);
}

const struct sbx_capability* sbx_remote_capabilities(struct sbx_sandbox* s,
                                                     size_t* count) {
  struct sbx_remote* r = (struct sbx_remote*) s;

  return r->service->capabilities(r->account, count);
}

/* ---- open ---- */

static int copy_options(struct sbx_remote* r,
                        const struct sbx_options* options) {
  const char* id = sbx_options_string(options, "id");
  int rc = 0;

  if (rc == 0) rc = sbx_options_copy(options, "caFile", NULL, &r->ca_file);
  if (rc == 0) rc = sbx_options_copy(options, "id", NULL, &r->id);
  if (rc == 0)
    rc = sbx_options_copy(options, "session", id != NULL ? id : "sandbox",
                          &r->session);
  if (rc == 0) rc = sbx_options_copy(options, "cwd", "/workspace", &r->cwd);
  if (rc == 0) rc = sbx_options_copy(options, "cwd", "/workspace", &r->root);
  return rc;
}

int sbx_remote_open(uv_loop_t* loop, const struct sbx_service* service,
                    const struct sbx_provider* provider,
                    const struct sbx_options* options,
                    struct sbx_sandbox** out, struct sbx_error* error) {
  struct sbx_remote* r = calloc(1, sizeof(*r));
  int rc;

  *out = NULL;
  if (r == NULL) return sbx__remote_no_memory(error, "open");
  r->base.provider = provider;
  r->base.loop = loop;
  r->service = service;
  rc = copy_options(r, options);
  if (rc != 0) rc = sbx__remote_no_memory(error, "open");
  if (rc == 0) rc = service->open(options, &r->account, error);
  if (rc != 0) {
    r->account = NULL;
    remote_free(r);
    return rc;
  }
  r->base.place.inside = r->root;
  r->settings.provider = service->title;
  r->settings.host = sbx_options_host(options);
  r->settings.ca_file = r->ca_file;
  r->settings.proxy = service->proxy != NULL ? service->proxy(r->account)
                                             : NULL;
  *out = &r->base;
  return 0;
}
