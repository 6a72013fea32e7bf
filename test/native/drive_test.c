/* The driver of protocol machines, on an HTTP engine that is made of a list: the
 * test says what each exchange answers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../native/drive.h"

/* ---- an engine without a network ---- */

struct sbx_exchange {
  struct sbx_http_events events;
  char url[64];
  char sent[64];
  bool finished, paused;
  struct sbx_exchange* next;
};

struct sbx_http {
  struct sbx_exchange* open;
  size_t count;
  bool refuse;
};

int sbx_http_open(struct sbx_http* http, const struct sbx_http_request* request,
                  const struct sbx_http_events* events,
                  struct sbx_exchange** out, struct sbx_error* error) {
  struct sbx_exchange* x;

  if (http->refuse)
    return sbx_error_set(error, SBX_E_INVALID_INPUT, 0, "http", "refused");
  x = calloc(1, sizeof(*x));
  x->events = *events;
  snprintf(x->url, sizeof(x->url), "%s", request->url);
  x->next = http->open;
  http->open = x;
  http->count++;
  *out = x;
  return 0;
}

int sbx_exchange_send(struct sbx_exchange* x, const void* bytes, size_t len,
                      bool text) {
  (void) text;
  strncat(x->sent, bytes, len);
  return 0;
}

int sbx_exchange_finish(struct sbx_exchange* x) {
  x->finished = true;
  return 0;
}

void sbx_exchange_no_retry(struct sbx_exchange* x) {
  (void) x;
}

void sbx_exchange_pause(struct sbx_exchange* x, bool paused) {
  x->paused = paused;
}

static struct sbx_http* engine; /* of the test that runs */

void sbx_exchange_close(struct sbx_exchange* x) {
  struct sbx_exchange** at = &engine->open;

  while (*at != x) at = &(*at)->next;
  *at = x->next;
  engine->count--;
  free(x);
}

static struct sbx_exchange* exchange(const char* url) {
  for (struct sbx_exchange* x = engine->open; x != NULL; x = x->next)
    if (strcmp(x->url, url) == 0) return x;
  fail_msg("no exchange with %s", url);
  return NULL;
}

static void say(const char* url, const char* bytes) {
  struct sbx_exchange* x = exchange(url);

  x->events.on_bytes(x->events.data, bytes, strlen(bytes));
}

static void end(const char* url, const struct sbx_error* error) {
  struct sbx_exchange* x = exchange(url);

  x->events.on_end(x->events.data, error);
}

/* ---- a machine that a test writes as a function ---- */

struct rig;
typedef int (*script)(struct rig* rig, const struct sbx_step_event* event,
                      sbx_act_cb act, void* arg);

struct scripted {
  struct sbx_machine machine;
  struct rig* rig;
};

struct rig {
  uv_loop_t loop;
  struct sbx_http http;
  struct sbx_drive* drive;
  script script;
  char trace[512]; /* events of the machine, and what the owner hears */
  bool in_step;
  unsigned freed;
  bool done;
  bool keep; /* it is closed later */
  int code;
  void (*on_emit)(struct rig* rig, int64_t what);
};

static void note(struct rig* rig, const char* format, ...) {
  size_t len = strlen(rig->trace);
  va_list args;

  va_start(args, format);
  vsnprintf(rig->trace + len, sizeof(rig->trace) - len, format, args);
  va_end(args);
}

static int scripted_step(struct sbx_machine* m,
                         const struct sbx_step_event* event, sbx_act_cb act,
                         void* arg) {
  static const char* const names[] = {
      "",     "begin",  "head",  "bytes", "message", "drain",
      "end",  "failed", "timer", "input", "cancel",  "deadline"};
  struct rig* rig = ((struct scripted*) m)->rig;
  int rc;

  assert_false(rig->in_step);
  rig->in_step = true;
  note(rig, "%s ", names[event->type]);
  rc = rig->script(rig, event, act, arg);
  rig->in_step = false;
  return rc;
}

static void scripted_free(struct sbx_machine* m) {
  ((struct scripted*) m)->rig->freed++;
  free(m);
}

static void on_emit(void* data, int64_t what, const char* bytes, size_t len) {
  struct rig* rig = data;

  note(rig, "(%d%.*s) ", (int) what, (int) len, bytes == NULL ? "" : bytes);
  if (rig->on_emit != NULL) rig->on_emit(rig, what);
}

static void on_done(void* data, const struct sbx_error* error) {
  struct rig* rig = data;

  rig->done = true;
  rig->code = error != NULL ? error->code : 0;
  note(rig, "done ");
  if (rig->keep) return;
  sbx_drive_close(rig->drive);
  rig->drive = NULL;
}

static void rig_start(struct rig* rig, script text, uint64_t deadline_ms) {
  struct scripted* m = calloc(1, sizeof(*m));
  struct sbx_drive_events events = {rig, on_emit, on_done};

  uv_loop_init(&rig->loop);
  engine = &rig->http;
  rig->script = text;
  m->machine.step = scripted_step;
  m->machine.free = scripted_free;
  m->rig = rig;
  assert_int_equal(sbx_drive_start(&rig->loop, &rig->http, &m->machine,
                                   deadline_ms, &events, &rig->drive),
                   0);
}

static void rig_end(struct rig* rig) {
  if (rig->drive != NULL) sbx_drive_close(rig->drive);
  uv_run(&rig->loop, UV_RUN_DEFAULT);
  assert_int_equal(uv_loop_close(&rig->loop), 0);
  assert_int_equal(rig->freed, 1);
  assert_int_equal(rig->http.count, 0);
}

/* ---- actions ---- */

static void do_open(sbx_act_cb act, void* arg, uint32_t id, const char* url) {
  struct sbx_http_request request = {.method = "GET", .url = url};
  struct sbx_action a = {.type = SBX_ACTION_OPEN, .exchange = id,
                         .request = &request};

  act(arg, &a);
}

static void do_emit(sbx_act_cb act, void* arg, int64_t what, const char* text) {
  struct sbx_action a = {.type = SBX_ACTION_EMIT, .number = what,
                         .bytes = text, .len = strlen(text)};

  act(arg, &a);
}

static void do_timer(sbx_act_cb act, void* arg, uint32_t id, int64_t ms) {
  struct sbx_action a = {.type = SBX_ACTION_TIMER, .exchange = id,
                         .number = ms};

  act(arg, &a);
}

static void do_done(sbx_act_cb act, void* arg, int code) {
  struct sbx_action a = {.type = SBX_ACTION_DONE};
  struct sbx_error error;

  sbx_error_set(&error, code, 0, "test", "over");
  if (code != 0) a.error = &error;
  act(arg, &a);
}

/* ---- what is told at once comes later, in order ---- */

static int eager(struct rig* rig, const struct sbx_step_event* event,
                 sbx_act_cb act, void* arg) {
  (void) rig;
  (void) event;
  do_emit(act, arg, 1, "a");
  do_emit(act, arg, 2, "b");
  do_done(act, arg, 0);
  do_emit(act, arg, 3, "never");
  return 0;
}

static void nothing_comes_before_start_returns(void** state) {
  struct rig rig = {0};

  (void) state;
  rig_start(&rig, eager, 0);
  assert_string_equal(rig.trace, "begin ");
  uv_run(&rig.loop, UV_RUN_DEFAULT);
  assert_string_equal(rig.trace, "begin (1a) (2b) done ");
  assert_int_equal(rig.code, 0);
  rig_end(&rig);
}

/* ---- an exchange ---- */

static int reader(struct rig* rig, const struct sbx_step_event* event,
                  sbx_act_cb act, void* arg) {
  char text[32];

  (void) rig;
  switch (event->type) {
    case SBX_STEP_BEGIN: do_open(act, arg, 1, "first"); break;
    case SBX_STEP_BYTES:
      snprintf(text, sizeof(text), "%.*s", (int) event->len, event->bytes);
      do_emit(act, arg, 1, text);
      break;
    case SBX_STEP_END:
      if (event->exchange == 1 && rig->http.count == 0 && rig->code != 7) {
        rig->code = 7;
        do_open(act, arg, 1, "second"); /* the id is free again */
      } else {
        do_done(act, arg, 0);
      }
      break;
    case SBX_STEP_FAILED: do_done(act, arg, event->error->code); break;
    case SBX_STEP_INPUT: do_emit(act, arg, 9, ""); break;
    default: break;
  }
  return 0;
}

static void exchanges_follow_each_other(void** state) {
  struct rig rig = {0};

  (void) state;
  rig_start(&rig, reader, 0);
  say("first", "x");
  end("first", NULL);
  say("second", "y");
  end("second", NULL);
  assert_string_equal(rig.trace,
                      "begin bytes (1x) end bytes (1y) end done ");
  rig_end(&rig);
}

static void failures_reach_the_machine(void** state) {
  struct sbx_error cut = {.code = SBX_E_UNAVAILABLE};
  struct rig rig = {0};

  (void) state;
  rig_start(&rig, reader, 0);
  end("first", &cut);
  assert_int_equal(rig.code, SBX_E_UNAVAILABLE);
  rig_end(&rig);
}

static void a_refused_request_is_a_failure(void** state) {
  struct rig rig = {.http = {.refuse = true}};

  (void) state;
  rig_start(&rig, reader, 0);
  uv_run(&rig.loop, UV_RUN_DEFAULT);
  assert_string_equal(rig.trace, "begin failed done ");
  assert_int_equal(rig.code, SBX_E_INVALID_INPUT);
  rig_end(&rig);
}

/* ---- the owner in the midst of it ---- */

static void close_it(struct rig* rig, int64_t what) {
  (void) what;
  sbx_drive_close(rig->drive);
  rig->drive = NULL;
}

static void the_owner_closes_while_it_is_told(void** state) {
  struct rig rig = {.on_emit = close_it};

  (void) state;
  rig_start(&rig, reader, 0);
  say("first", "x");
  assert_string_equal(rig.trace, "begin bytes (1x) ");
  assert_int_equal(rig.http.count, 0);
  rig_end(&rig);
}

static void answer_it(struct rig* rig, int64_t what) {
  if (what == 1) sbx_drive_input(rig->drive, 5, "in", 2);
}

static void input_waits_for_the_step(void** state) {
  struct rig rig = {.on_emit = answer_it};

  (void) state;
  rig_start(&rig, reader, 0);
  say("first", "x");
  assert_string_equal(rig.trace, "begin bytes (1x) input (9) ");
  rig_end(&rig);
}

static int ender(struct rig* rig, const struct sbx_step_event* event,
                 sbx_act_cb act, void* arg) {
  (void) rig;
  if (event->type == SBX_STEP_BEGIN) do_open(act, arg, 1, "first");
  if (event->type == SBX_STEP_INPUT) do_done(act, arg, SBX_E_CONFLICT);
  return 0;
}

static void an_end_by_input_comes_after_the_call(void** state) {
  struct rig rig = {0};

  (void) state;
  rig_start(&rig, ender, 0);
  sbx_drive_input(rig.drive, 1, NULL, 0);
  assert_string_equal(rig.trace, "begin input ");
  uv_run(&rig.loop, UV_RUN_DEFAULT);
  assert_string_equal(rig.trace, "begin input done ");
  assert_int_equal(rig.code, SBX_E_CONFLICT);
  rig_end(&rig);
}

/* ---- back-pressure ---- */

static int opener(struct rig* rig, const struct sbx_step_event* event,
                  sbx_act_cb act, void* arg) {
  (void) rig;
  if (event->type == SBX_STEP_BEGIN) do_open(act, arg, 1, "first");
  if (event->type == SBX_STEP_INPUT) do_open(act, arg, 2, "second");
  return 0;
}

static void pause_is_for_all_exchanges(void** state) {
  struct rig rig = {0};

  (void) state;
  rig_start(&rig, opener, 0);
  sbx_drive_pause(rig.drive, true);
  sbx_drive_input(rig.drive, 1, NULL, 0);
  assert_true(exchange("first")->paused);
  assert_true(exchange("second")->paused);
  sbx_drive_pause(rig.drive, false);
  assert_false(exchange("first")->paused);
  assert_false(exchange("second")->paused);
  rig_end(&rig);
}

/* ---- time ---- */

static int ticker(struct rig* rig, const struct sbx_step_event* event,
                  sbx_act_cb act, void* arg) {
  (void) rig;
  switch (event->type) {
    case SBX_STEP_BEGIN:
      do_timer(act, arg, 1, 1);
      do_timer(act, arg, 2, 1);
      do_timer(act, arg, 2, 0); /* stopped */
      break;
    case SBX_STEP_TIMER:
      assert_int_equal(event->exchange, 1);
      do_timer(act, arg, 3, 3600000);
      do_done(act, arg, 0);
      break;
    default: break;
  }
  return 0;
}

static void timers_fire_and_stop(void** state) {
  struct rig rig = {0};

  (void) state;
  rig_start(&rig, ticker, 0);
  uv_run(&rig.loop, UV_RUN_DEFAULT);
  assert_string_equal(rig.trace, "begin timer done ");
  rig_end(&rig);
}

static int patient(struct rig* rig, const struct sbx_step_event* event,
                   sbx_act_cb act, void* arg) {
  (void) rig;
  if (event->type == SBX_STEP_BEGIN) do_open(act, arg, 1, "first");
  if (event->type == SBX_STEP_DEADLINE) return SBX_E_PROVIDER;
  if (event->type == SBX_STEP_CANCEL) do_done(act, arg, SBX_E_ABORTED);
  return 0;
}

static void the_deadline_ends_it(void** state) {
  struct rig rig = {0};

  (void) state;
  rig_start(&rig, patient, 1);
  uv_run(&rig.loop, UV_RUN_DEFAULT);
  assert_string_equal(rig.trace, "begin deadline done ");
  assert_int_equal(rig.code, SBX_E_TIMEOUT);
  rig_end(&rig);
}

static void cancel_is_told_to_the_machine(void** state) {
  struct rig rig = {0};

  (void) state;
  rig_start(&rig, patient, 3600000);
  sbx_drive_cancel(rig.drive);
  assert_false(rig.done);
  uv_run(&rig.loop, UV_RUN_DEFAULT);
  assert_string_equal(rig.trace, "begin cancel done ");
  assert_int_equal(rig.code, SBX_E_ABORTED);
  rig_end(&rig);
}

/* ---- answers that are none ---- */

static int confused(struct rig* rig, const struct sbx_step_event* event,
                    sbx_act_cb act, void* arg) {
  (void) rig;
  if (event->type == SBX_STEP_BEGIN) do_open(act, arg, 1, "first");
  return event->type == SBX_STEP_BYTES ? -1 : 0;
}

static void what_a_machine_cannot_take_ends_it(void** state) {
  struct rig rig = {0};

  (void) state;
  rig_start(&rig, confused, 0);
  say("first", "?");
  assert_string_equal(rig.trace, "begin bytes done ");
  assert_int_equal(rig.code, SBX_E_PROVIDER);
  rig_end(&rig);
}

/* As a caller does that has not heard of the end yet. */
static void input_after_the_end_does_nothing(void** state) {
  struct rig rig = {.keep = true};

  (void) state;
  rig_start(&rig, confused, 0);
  say("first", "?");
  assert_int_equal(rig.code, SBX_E_PROVIDER);
  sbx_drive_input(rig.drive, 1, "x", 1);
  sbx_drive_cancel(rig.drive);
  sbx_drive_pause(rig.drive, true);
  assert_string_equal(rig.trace, "begin bytes done ");
  rig_end(&rig);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nothing_comes_before_start_returns),
      cmocka_unit_test(exchanges_follow_each_other),
      cmocka_unit_test(failures_reach_the_machine),
      cmocka_unit_test(a_refused_request_is_a_failure),
      cmocka_unit_test(the_owner_closes_while_it_is_told),
      cmocka_unit_test(input_waits_for_the_step),
      cmocka_unit_test(an_end_by_input_comes_after_the_call),
      cmocka_unit_test(pause_is_for_all_exchanges),
      cmocka_unit_test(timers_fire_and_stop),
      cmocka_unit_test(the_deadline_ends_it),
      cmocka_unit_test(cancel_is_told_to_the_machine),
      cmocka_unit_test(what_a_machine_cannot_take_ends_it),
      cmocka_unit_test(input_after_the_end_does_nothing),
  };

  return cmocka_run_group_tests(tests, NULL, NULL);
}
