/* The driver of a protocol machine: what the machine asks for is done while its
 * step runs; what comes of it is queued until the step is over.
 */
#include "drive.h"

#include <stdlib.h>
#include <string.h>

enum { LAST_WORDS_MS = 5000 /* for a machine that was told to end */ };

/* One exchange that is open. */
struct leg {
  struct leg* next;
  struct sbx_drive* drive;
  uint32_t id;
  struct sbx_exchange* exchange;
};

/* A machine's timer. */
struct alarm {
  struct alarm* next;
  struct sbx_drive* drive;
  uint32_t id;
  uv_timer_t timer;
};

/* An event that waits for the machine, or something emitted that waits for the
 * owner. */
struct pending {
  struct pending* next;
  enum sbx_step_event_type type; /* 0: emitted */
  uint32_t exchange;
  int64_t number;
  struct sbx_error* error;
  size_t len;
  char bytes[];
};

struct queue {
  struct pending* first;
  struct pending** last;
};

struct sbx_drive {
  uv_loop_t* loop;
  struct sbx_http* http;
  struct sbx_machine* machine;
  struct sbx_drive_events events;
  struct leg* legs;
  struct alarm* alarms;
  struct queue inputs;  /* for the machine */
  struct queue emitted; /* for the owner, from before start returned */
  uv_timer_t soon;      /* tells the owner what is queued for it */
  bool soon_open;
  uv_timer_t limit; /* the deadline, then the end of the last words */
  bool limit_open;
  bool starting;
  bool ending; /* CANCEL or DEADLINE was given */
  bool late;   /* it was DEADLINE */
  bool paused;
  bool done;
  bool told;
  bool closed;
  unsigned depth;   /* running steps and calls of the owner */
  unsigned handles; /* of the loop, and alarms */
  bool failed;   /* `error` is the end */
  struct sbx_error error;
};

/* ---- queues ---- */

static void queue_init(struct queue* q) {
  q->first = NULL;
  q->last = &q->first;
}

static struct pending* queue_take(struct queue* q) {
  struct pending* p = q->first;

  if (p == NULL) return NULL;
  q->first = p->next;
  if (q->first == NULL) q->last = &q->first;
  return p;
}

static void pending_free(struct pending* p) {
  free(p->error);
  free(p);
}

static void queue_clear(struct queue* q) {
  struct pending* p;

  while ((p = queue_take(q)) != NULL) pending_free(p);
}

/* A head is valid during its call only: transports bring it from the loop,
 * never inside a step. */
static int queue_put(struct queue* q, const struct sbx_step_event* event) {
  struct pending* p;

  if (event->head != NULL) return UV_EBUSY;
  p = malloc(sizeof(*p) + event->len);
  if (p == NULL) return UV_ENOMEM;
  *p = (struct pending){.type = event->type,
                        .exchange = event->exchange,
                        .number = event->number,
                        .len = event->len};
  if (event->len > 0) memcpy(p->bytes, event->bytes, event->len);
  if (event->error != NULL) {
    p->error = malloc(sizeof(*p->error));
    if (p->error == NULL) {
      free(p);
      return UV_ENOMEM;
    }
    *p->error = *event->error;
  }
  *q->last = p;
  q->last = &p->next;
  return 0;
}

/* ---- memory ---- */

static void drive_free(struct sbx_drive* d) {
  queue_clear(&d->inputs);
  queue_clear(&d->emitted);
  free(d);
}

static void release(struct sbx_drive* d) {
  if (d->closed && d->handles == 0 && d->depth == 0) drive_free(d);
}

static void on_handle_closed(uv_handle_t* handle) {
  struct sbx_drive* d = handle->data;

  d->handles--;
  release(d);
}

static void timer_close(uv_timer_t* timer, bool* open) {
  if (*open) uv_close((uv_handle_t*) timer, on_handle_closed);
  *open = false;
}

static void timer_start(struct sbx_drive* d, uv_timer_t* timer, bool* open,
                        uv_timer_cb cb, uint64_t ms) {
  if (!*open) {
    uv_timer_init(d->loop, timer);
    timer->data = d;
    d->handles++;
    *open = true;
  }
  /* The loop's time is that of its last turn, which may be long ago. */
  if (ms > 0) uv_update_time(d->loop);
  uv_timer_start(timer, cb, ms, 0);
}

static void on_alarm_closed(uv_handle_t* handle) {
  struct alarm* a = handle->data;
  struct sbx_drive* d = a->drive;

  free(a);
  d->handles--;
  release(d);
}

/* ---- what is open ---- */

static void leg_close(struct sbx_drive* d, struct leg* leg) {
  struct leg** at = &d->legs;

  while (*at != leg) at = &(*at)->next;
  *at = leg->next;
  sbx_exchange_close(leg->exchange);
  free(leg);
}

static struct leg* leg_find(struct sbx_drive* d, uint32_t id) {
  for (struct leg* l = d->legs; l != NULL; l = l->next)
    if (l->id == id) return l;
  return NULL;
}

static void alarm_close(struct sbx_drive* d, struct alarm* a) {
  struct alarm** at = &d->alarms;

  while (*at != a) at = &(*at)->next;
  *at = a->next;
  uv_close((uv_handle_t*) &a->timer, on_alarm_closed);
}

static struct alarm* alarm_find(struct sbx_drive* d, uint32_t id) {
  for (struct alarm* a = d->alarms; a != NULL; a = a->next)
    if (a->id == id) return a;
  return NULL;
}

static void close_all(struct sbx_drive* d) {
  while (d->legs != NULL) leg_close(d, d->legs);
  while (d->alarms != NULL) alarm_close(d, d->alarms);
  timer_close(&d->limit, &d->limit_open);
  queue_clear(&d->inputs);
}

/* ---- the owner ---- */

static void tell_emitted(struct sbx_drive* d, int64_t what, const char* bytes,
                         size_t len) {
  if (d->closed || d->events.on_emit == NULL) return;
  d->depth++;
  d->events.on_emit(d->events.data, what, bytes, len);
  d->depth--;
}

static void flush(struct sbx_drive* d) {
  struct pending* p;

  if (d->starting) return;
  d->depth++;
  while (!d->closed && (p = queue_take(&d->emitted)) != NULL) {
    tell_emitted(d, p->number, p->bytes, p->len);
    pending_free(p);
  }
  d->depth--;
}

/* on_done is the last touch, for the owner may close it there. */
static void tell_done(struct sbx_drive* d) {
  if (!d->done || d->told || d->closed || d->starting) return;
  flush(d);
  if (d->closed || d->told) return;
  d->told = true;
  close_all(d);
  timer_close(&d->soon, &d->soon_open);
  if (d->events.on_done == NULL) return;
  d->depth++;
  d->events.on_done(d->events.data, d->failed ? &d->error : NULL);
  d->depth--;
}

/* ---- the machine ---- */

static void end_with(struct sbx_drive* d, const struct sbx_error* error) {
  if (d->done) return;
  d->done = true;
  d->failed = error != NULL;
  if (error != NULL) d->error = *error;
}

static void fail(struct sbx_drive* d, int code) {
  struct sbx_error error;

  if (d->ending && !d->late)
    sbx_error_set(&error, SBX_E_ABORTED, 0, "request", "It was aborted.");
  else if (d->late)
    sbx_error_set(&error, SBX_E_TIMEOUT, 0, "request",
                  "The service did not answer in time.");
  else if (code == UV_ENOMEM)
    sbx_error_set(&error, SBX_E_INTERNAL, 0, "request", "Out of memory.");
  else
    sbx_error_set(&error, code <= SBX_E_INVALID_INPUT ? code : SBX_E_PROVIDER,
                  0, "request", "The service's answer cannot be understood.");
  end_with(d, &error);
}

static void on_action(void* arg, const struct sbx_action* action);
static void on_soon(uv_timer_t* timer);

static void give_one(struct sbx_drive* d, const struct sbx_step_event* event) {
  int rc;

  d->depth++;
  rc = d->machine->step(d->machine, event, on_action, d);
  d->depth--;
  if (rc < 0) fail(d, rc);
}

static void give_queued(struct sbx_drive* d) {
  struct pending* p;

  while (!d->done && !d->closed && (p = queue_take(&d->inputs)) != NULL) {
    struct sbx_step_event event = {.type = p->type,
                                   .exchange = p->exchange,
                                   .number = p->number,
                                   .error = p->error,
                                   .bytes = p->bytes,
                                   .len = p->len};

    give_one(d, &event);
    pending_free(p);
  }
}

/* One event (or none), those that it brings, and the end where it came to that.
 * With `soon` the owner hears of the end later. Afterwards the drive's memory
 * may be gone. */
static void feed_and(struct sbx_drive* d, const struct sbx_step_event* event,
                     bool soon) {
  if (d->done || d->closed) {
    event = NULL;
  } else if (d->depth > 0) {
    int rc = event != NULL ? queue_put(&d->inputs, event) : 0;

    if (rc != 0) fail(d, rc);
  }
  if (d->depth > 0) return;
  d->depth++;
  flush(d);
  if (event != NULL && !d->closed && !d->done) give_one(d, event);
  give_queued(d);
  if (soon && d->done && !d->told && !d->closed)
    timer_start(d, &d->soon, &d->soon_open, on_soon, 0);
  else
    tell_done(d);
  d->depth--;
  if (!d->closed) return;
  if (d->machine != NULL) d->machine->free(d->machine);
  d->machine = NULL;
  release(d);
}

static void feed(struct sbx_drive* d, const struct sbx_step_event* event) {
  feed_and(d, event, false);
}

/* ---- events of exchanges and timers ---- */

static void on_head(void* data, const struct sbx_http_head* head) {
  struct leg* leg = data;
  struct sbx_step_event event = {.type = SBX_STEP_HEAD,
                                 .exchange = leg->id,
                                 .number = head->status,
                                 .head = head};

  feed(leg->drive, &event);
}

static void on_bytes(void* data, const char* bytes, size_t len) {
  struct leg* leg = data;
  struct sbx_step_event event = {.type = SBX_STEP_BYTES,
                                 .exchange = leg->id,
                                 .bytes = bytes,
                                 .len = len};

  feed(leg->drive, &event);
}

static void on_message(void* data, bool text) {
  struct leg* leg = data;
  struct sbx_step_event event = {.type = SBX_STEP_MESSAGE,
                                 .exchange = leg->id,
                                 .number = text};

  feed(leg->drive, &event);
}

static void on_drain(void* data) {
  struct leg* leg = data;
  struct sbx_step_event event = {.type = SBX_STEP_DRAIN, .exchange = leg->id};

  feed(leg->drive, &event);
}

/* The id is free again when the machine hears of it. */
static void on_end(void* data, const struct sbx_error* error) {
  struct leg* leg = data;
  struct sbx_drive* d = leg->drive;
  struct sbx_step_event event = {.type = SBX_STEP_END, .exchange = leg->id};
  struct sbx_error copy;

  if (error != NULL) {
    copy = *error;
    event.type = SBX_STEP_FAILED;
    event.error = &copy;
  }
  leg_close(d, leg);
  feed(d, &event);
}

static void on_alarm(uv_timer_t* timer) {
  struct alarm* a = timer->data;
  struct sbx_step_event event = {.type = SBX_STEP_TIMER, .exchange = a->id};
  struct sbx_drive* d = a->drive;

  alarm_close(d, a);
  feed(d, &event);
}

static void on_last_words(uv_timer_t* timer) {
  struct sbx_drive* d = timer->data;

  if (!d->done) fail(d, SBX_E_PROVIDER);
  feed(d, NULL);
}

static void on_deadline(uv_timer_t* timer) {
  struct sbx_drive* d = timer->data;
  struct sbx_step_event event = {.type = SBX_STEP_DEADLINE};

  d->ending = d->late = true;
  uv_timer_start(timer, on_last_words, LAST_WORDS_MS, 0);
  feed(d, &event);
}

static void on_soon(uv_timer_t* timer) {
  feed(timer->data, NULL);
}

/* ---- actions ---- */

static void act_failed(struct sbx_drive* d, uint32_t id,
                       const struct sbx_error* error) {
  struct sbx_step_event event = {.type = SBX_STEP_FAILED,
                                 .exchange = id,
                                 .error = error};

  if (queue_put(&d->inputs, &event) != 0) fail(d, UV_ENOMEM);
}

static void act_open(struct sbx_drive* d, const struct sbx_action* action) {
  struct leg* leg = calloc(1, sizeof(*leg));
  struct sbx_http_events events = {leg,        on_head,  on_bytes,
                                   on_message, on_drain, on_end};
  struct sbx_error error = {0};

  if (leg == NULL) {
    fail(d, UV_ENOMEM);
    return;
  }
  *leg = (struct leg){.drive = d, .id = action->exchange};
  if (sbx_http_open(d->http, action->request, &events, &leg->exchange,
                    &error) != 0) {
    free(leg);
    act_failed(d, action->exchange, &error);
    return;
  }
  leg->next = d->legs;
  d->legs = leg;
  if (d->paused) sbx_exchange_pause(leg->exchange, true);
}

static void act_send(struct sbx_drive* d, const struct sbx_action* action) {
  struct leg* leg = leg_find(d, action->exchange);

  /* Where it takes no more, its end says why. */
  if (leg != NULL)
    (void) sbx_exchange_send(leg->exchange, action->bytes, action->len,
                             action->number == 1);
}

static void act_finish(struct sbx_drive* d, const struct sbx_action* action) {
  struct leg* leg = leg_find(d, action->exchange);

  if (leg != NULL) (void) sbx_exchange_finish(leg->exchange);
}

static void act_close(struct sbx_drive* d, const struct sbx_action* action) {
  struct leg* leg = leg_find(d, action->exchange);

  if (leg != NULL) leg_close(d, leg);
}

static void act_timer(struct sbx_drive* d, const struct sbx_action* action) {
  struct alarm* a = alarm_find(d, action->exchange);

  if (action->number <= 0) {
    if (a != NULL) alarm_close(d, a);
    return;
  }
  if (a == NULL) {
    a = calloc(1, sizeof(*a));
    if (a == NULL) {
      fail(d, UV_ENOMEM);
      return;
    }
    *a = (struct alarm){.next = d->alarms, .drive = d, .id = action->exchange};
    uv_timer_init(d->loop, &a->timer);
    a->timer.data = a;
    d->handles++;
    d->alarms = a;
  }
  uv_update_time(d->loop);
  uv_timer_start(&a->timer, on_alarm, (uint64_t) action->number, 0);
}

static void act_emit(struct sbx_drive* d, const struct sbx_action* action) {
  struct sbx_step_event kept = {.number = action->number,
                                .bytes = action->bytes,
                                .len = action->len};

  if (!d->starting && d->emitted.first == NULL)
    tell_emitted(d, action->number, action->bytes, action->len);
  else if (queue_put(&d->emitted, &kept) != 0)
    fail(d, UV_ENOMEM);
}

static void on_action(void* arg, const struct sbx_action* action) {
  struct sbx_drive* d = arg;

  if (d->done || d->closed) return;
  switch (action->type) {
    case SBX_ACTION_OPEN: act_open(d, action); break;
    case SBX_ACTION_SEND: act_send(d, action); break;
    case SBX_ACTION_FINISH: act_finish(d, action); break;
    case SBX_ACTION_CLOSE: act_close(d, action); break;
    case SBX_ACTION_TIMER: act_timer(d, action); break;
    case SBX_ACTION_EMIT: act_emit(d, action); break;
    case SBX_ACTION_DONE: end_with(d, action->error); break;
  }
}

/* ---- the surface ---- */

int sbx_drive_start(uv_loop_t* loop, struct sbx_http* http,
                    struct sbx_machine* machine, uint64_t deadline_ms,
                    const struct sbx_drive_events* events,
                    struct sbx_drive** out) {
  struct sbx_drive* d = machine == NULL ? NULL : calloc(1, sizeof(*d));
  struct sbx_step_event begin = {.type = SBX_STEP_BEGIN};

  *out = NULL;
  if (d == NULL) {
    if (machine != NULL) machine->free(machine);
    return UV_ENOMEM;
  }
  d->loop = loop;
  d->http = http;
  d->machine = machine;
  d->events = *events;
  queue_init(&d->inputs);
  queue_init(&d->emitted);
  if (deadline_ms > 0)
    timer_start(d, &d->limit, &d->limit_open, on_deadline, deadline_ms);
  d->starting = true;
  feed_and(d, &begin, true);
  d->starting = false;
  if (d->emitted.first != NULL)
    timer_start(d, &d->soon, &d->soon_open, on_soon, 0);
  *out = d;
  return 0;
}

void sbx_drive_retell(struct sbx_drive* d,
                      const struct sbx_drive_events* events) {
  d->events = *events;
}

void sbx_drive_input(struct sbx_drive* d, int64_t number, const void* bytes,
                     size_t len) {
  struct sbx_step_event event = {.type = SBX_STEP_INPUT,
                                 .number = number,
                                 .bytes = bytes,
                                 .len = len};

  feed_and(d, &event, true);
}

void sbx_drive_pause(struct sbx_drive* d, bool paused) {
  if (d->paused == paused) return;
  d->paused = paused;
  for (struct leg* l = d->legs; l != NULL; l = l->next)
    sbx_exchange_pause(l->exchange, paused);
}

void sbx_drive_unref(struct sbx_drive* d) {
  if (d->limit_open) uv_unref((uv_handle_t*) &d->limit);
}

void sbx_drive_no_retry(struct sbx_drive* d) {
  struct leg* next;

  d->depth++; /* what ends is told to the machine afterwards */
  for (struct leg* l = d->legs; l != NULL; l = next) {
    next = l->next;
    sbx_exchange_no_retry(l->exchange);
  }
  d->depth--;
  feed_and(d, NULL, true);
}

/* The machine may answer at once, but the owner hears of it later: it need not
 * expect its end inside its own call. */
void sbx_drive_cancel(struct sbx_drive* d) {
  struct sbx_step_event event = {.type = SBX_STEP_CANCEL};

  if (d->done || d->closed || d->ending) return;
  d->ending = true;
  timer_start(d, &d->limit, &d->limit_open, on_last_words, LAST_WORDS_MS);
  sbx_drive_pause(d, false);
  feed_and(d, &event, true);
}

void sbx_drive_close(struct sbx_drive* d) {
  if (d->closed) return;
  d->closed = true;
  close_all(d);
  timer_close(&d->soon, &d->soon_open);
  feed(d, NULL);
}
