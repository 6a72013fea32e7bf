/* A toy machine for native/step.h: one request whose answer is lines of a size
 * and a payload, a poll by timer while the service says "wait", and cancelling.
 * It shows that the two headers' shapes are enough for a cloud verb. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../native/error.h"
#include "../../native/http/http.h"
#include "../../native/step.h"

enum { REQUEST = 1, POLL_TIMER = 1, EMIT_LINE = 1, LINE_MAX_LEN = 64 };

struct toy {
  struct sbx_machine machine; /* first */
  char line[LINE_MAX_LEN];
  size_t len;
  int polls;
};

static void act_simple(sbx_act_cb act, void* arg, enum sbx_action_type type,
                       int64_t number) {
  struct sbx_action action = {.type = type,
                              .exchange = REQUEST,
                              .number = number};

  act(arg, &action);
}

static void act_open(sbx_act_cb act, void* arg) {
  struct sbx_http_request request = {.method = "GET", .url = "http://toy/lines"};
  struct sbx_action action = {.type = SBX_ACTION_OPEN,
                              .exchange = REQUEST,
                              .request = &request};

  act(arg, &action);
}

static void act_done(sbx_act_cb act, void* arg, int code, const char* why) {
  struct sbx_error error;
  struct sbx_action action = {.type = SBX_ACTION_DONE};

  if (code != 0) {
    sbx_error_set(&error, code, 0, "toy", "%s", why);
    action.error = &error;
  }
  act(arg, &action);
}

static void toy_emit(struct toy* toy, sbx_act_cb act, void* arg) {
  struct sbx_action action = {.type = SBX_ACTION_EMIT,
                              .exchange = REQUEST,
                              .number = EMIT_LINE,
                              .bytes = toy->line,
                              .len = toy->len};

  act(arg, &action);
  toy->len = 0;
}

/* Bytes may be cut anywhere; a line may be hostile and never end. */
static int toy_bytes(struct toy* toy, const struct sbx_step_event* event,
                     sbx_act_cb act, void* arg) {
  for (size_t i = 0; i < event->len; i++) {
    if (event->bytes[i] == '\n') {
      toy_emit(toy, act, arg);
    } else if (toy->len == sizeof(toy->line)) {
      return SBX_E_PROVIDER;
    } else {
      toy->line[toy->len++] = event->bytes[i];
    }
  }
  return 0;
}

static int toy_head(struct toy* toy, const struct sbx_step_event* event,
                    sbx_act_cb act, void* arg) {
  if (event->number == 200) return 0;
  act_simple(act, arg, SBX_ACTION_CLOSE, 0);
  if (event->number == 202 && toy->polls++ < 3)
    act_simple(act, arg, SBX_ACTION_TIMER, 50);
  else
    act_done(act, arg, SBX_E_PROVIDER, "no answer");
  return 0;
}

static int toy_step(struct sbx_machine* m, const struct sbx_step_event* event,
                    sbx_act_cb act, void* arg) {
  struct toy* toy = (struct toy*) m;

  switch (event->type) {
    case SBX_STEP_BEGIN:
    case SBX_STEP_TIMER:
      act_open(act, arg);
      return 0;
    case SBX_STEP_HEAD: return toy_head(toy, event, act, arg);
    case SBX_STEP_BYTES: return toy_bytes(toy, event, act, arg);
    case SBX_STEP_END:
      act_done(act, arg, 0, NULL);
      return 0;
    case SBX_STEP_FAILED:
      act_done(act, arg, event->error->code, "cut off");
      return 0;
    default:
      act_simple(act, arg, SBX_ACTION_CLOSE, 0);
      act_done(act, arg, SBX_E_ABORTED, "cancelled");
      return 0;
  }
}

static void toy_free(struct sbx_machine* m) {
  free(m);
}

static struct sbx_machine* toy_new(void) {
  struct toy* toy = calloc(1, sizeof(*toy));

  assert_non_null(toy);
  toy->machine.step = toy_step;
  toy->machine.free = toy_free;
  return &toy->machine;
}

/* What the engine would do, written down. */
struct seen {
  char trace[512];
  int64_t done;
};

static void on_action(void* arg, const struct sbx_action* a) {
  static const char* const names[] = {"?",     "open",  "send", "finish",
                                      "close", "timer", "emit", "done"};
  struct seen* seen = arg;

  strcat(seen->trace, names[a->type]);
  if (a->type == SBX_ACTION_EMIT) {
    strcat(seen->trace, "=");
    strncat(seen->trace, a->bytes, a->len);
  }
  strcat(seen->trace, " ");
  if (a->type == SBX_ACTION_DONE) seen->done = a->error ? a->error->code : 0;
}

static int give(struct sbx_machine* m, struct seen* seen,
                enum sbx_step_event_type type, int64_t number,
                const char* bytes, size_t len) {
  struct sbx_error error = {.code = (int) number};
  struct sbx_step_event event = {.type = type,
                                 .exchange = REQUEST,
                                 .number = number,
                                 .error = &error,
                                 .bytes = bytes,
                                 .len = len};

  return m->step(m, &event, on_action, seen);
}

static void lines_cut_anywhere(void** state) {
  static const char body[] = "one\ntwo\n\nthree\n";

  (void) state;
  for (size_t cut = 1; cut < sizeof(body); cut++) {
    struct sbx_machine* m = toy_new();
    struct seen seen = {.done = 1};

    give(m, &seen, SBX_STEP_BEGIN, 0, NULL, 0);
    give(m, &seen, SBX_STEP_HEAD, 200, NULL, 0);
    for (size_t at = 0; at < sizeof(body) - 1; at += cut) {
      size_t left = sizeof(body) - 1 - at;

      assert_int_equal(give(m, &seen, SBX_STEP_BYTES, 0, body + at,
                            left < cut ? left : cut),
                       0);
    }
    give(m, &seen, SBX_STEP_END, 0, NULL, 0);
    assert_string_equal(seen.trace,
                        "open emit=one emit=two emit= emit=three done ");
    assert_int_equal(seen.done, 0);
    m->free(m);
  }
}

static void polls_then_gives_up(void** state) {
  struct sbx_machine* m = toy_new();
  struct seen seen = {0};

  (void) state;
  give(m, &seen, SBX_STEP_BEGIN, 0, NULL, 0);
  for (int i = 0; i < 3; i++) {
    give(m, &seen, SBX_STEP_HEAD, 202, NULL, 0);
    give(m, &seen, SBX_STEP_TIMER, 0, NULL, 0);
  }
  give(m, &seen, SBX_STEP_HEAD, 202, NULL, 0);
  assert_string_equal(seen.trace, "open close timer open close timer open "
                                  "close timer open close done ");
  assert_int_equal(seen.done, SBX_E_PROVIDER);
  m->free(m);
}

static void cancel_closes(void** state) {
  struct sbx_machine* m = toy_new();
  struct seen seen = {0};

  (void) state;
  give(m, &seen, SBX_STEP_BEGIN, 0, NULL, 0);
  give(m, &seen, SBX_STEP_CANCEL, 0, NULL, 0);
  assert_string_equal(seen.trace, "open close done ");
  assert_int_equal(seen.done, SBX_E_ABORTED);
  m->free(m);
}

static void an_endless_line_is_refused(void** state) {
  struct sbx_machine* m = toy_new();
  struct seen seen = {0};
  char junk[LINE_MAX_LEN + 1];

  (void) state;
  memset(junk, 'x', sizeof(junk));
  give(m, &seen, SBX_STEP_BEGIN, 0, NULL, 0);
  assert_int_equal(give(m, &seen, SBX_STEP_BYTES, 0, junk, sizeof(junk)),
                   SBX_E_PROVIDER);
  m->free(m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(lines_cut_anywhere),
      cmocka_unit_test(polls_then_gives_up),
      cmocka_unit_test(cancel_closes),
      cmocka_unit_test(an_endless_line_is_refused),
  };

  return cmocka_run_group_tests(tests, NULL, NULL);
}
