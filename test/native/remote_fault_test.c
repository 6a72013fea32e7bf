/* Every allocation of a cloud sandbox's life at E2B fails once, in turn: an error
 * comes back or the right result, everything that waits is told once, nothing
 * crashes and nothing leaks. The HTTP engine is replaced by canned answers.
 * Linked with --wrap for the names below. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../native/parse/base64.h"
#include "../../native/http/http.h"
#include "../../native/options.h"
#include "../../native/session/process.h"
#include "../../providers/provider.h"

/* The tests' own allocations do not count. */
static bool armed;

#include "alloc_fault.h"

/* ---- an engine of canned answers ---- */

#define ID "izxxon8hhxd6ssugudjex"
#define CREATED                                                           \
  "{\"envdAccessToken\":\"tok-envd\",\"envdVersion\":\"0.6.10\","         \
  "\"sandboxID\":\"" ID "\",\"templateID\":\"base\"}"
#define FACTS                                                             \
  "S81a4 5|2024-01-01 00:00:00|2024-01-01 00:00:00|2024-01-01 00:00:00|-|"

enum { BODY_MAX = 8192 };

struct sbx_http {
  uv_timer_t timer; /* only to be closed as the real one is */
  void (*cb)(void* arg);
  void* arg;
};

struct sbx_exchange {
  uv_timer_t timer;
  struct sbx_http_events events;
  int status;
  bool stream, closed;
  bool open; /* its stream goes on */
  bool cut;  /* it breaks */
  char body[BODY_MAX];
  size_t len;
};

static const char* payload; /* of the kit's next answer */
static bool cuts;           /* streams of the user's commands break */
static bool stays;          /* or go on */
static bool holds;          /* uploads wait for answer_held() */
static struct sbx_exchange* held;

static void put(struct sbx_exchange* x, const char* bytes, size_t len) {
  assert_true(x->len + len <= BODY_MAX);
  memcpy(x->body + x->len, bytes, len);
  x->len += len;
}

static void put_envelope(struct sbx_exchange* x, char flags, const char* text) {
  size_t len = strlen(text);
  char head[5] = {flags, 0, 0, (char) (len >> 8), (char) len};

  put(x, head, 5);
  put(x, text, len);
}

static void put_output(struct sbx_exchange* x, const char* stream,
                       const char* text) {
  char coded[4096], line[4200];

  coded[sbx_base64_encode(text, strlen(text), 0, coded)] = '\0';
  snprintf(line, sizeof(line), "{\"event\":{\"data\":{\"%s\":\"%s\"}}}", stream,
           coded);
  put_envelope(x, 0, line);
}

/* The first argument that is one: the kit's; others want no answer. */
static bool find_nonce(const char* body, size_t len, char nonce[33]) {
  static const char digits[] = "0123456789abcdef";

  for (const char* at = body; at + 34 <= body + len; at++)
    if (*at == '"' && at[33] == '"' && strspn(at + 1, digits) == 32) {
      snprintf(nonce, 33, "%.32s", at + 1);
      return true;
    }
  return false;
}

static bool has(const void* body, size_t len, const char* text) {
  return memmem(body, len, text, strlen(text)) != NULL;
}

static void answer_start(struct sbx_exchange* x, const char* body, size_t len) {
  char nonce[33], text[512];
  const char* said = payload;

  bool ours = find_nonce(body, len, nonce);

  put_envelope(x, 0, "{\"event\":{\"start\":{\"pid\":77}}}");
  if (ours && has(body, len, "\"sbx-kit\"")) {
    if (has(body, len, "P%s%s %s %s")) said = "P11 1000 /bin/bash\n/home/user";
    snprintf(text, sizeof(text), "SBX%s(%s)SBX%s", nonce, said, nonce);
    put_output(x, "stdout", text);
  } else if (ours && (cuts || stays)) {
    x->stream = true;
    x->cut = cuts;
    x->open = stays;
    return;
  } else if (ours) {
    snprintf(text, sizeof(text), "SBX%s=b000.SBX%s=x000.", nonce, nonce);
    put_output(x, "stderr", text);
    snprintf(text, sizeof(text), "out\nSBX%s=x000.", nonce);
    put_output(x, "stdout", text);
  }
  put_envelope(x, 0,
               "{\"event\":{\"end\":{\"exited\":true,"
               "\"status\":\"exit status 0\"}}}");
  put_envelope(x, 2, "{}");
  x->stream = true;
}

static void choose_answer(struct sbx_exchange* x,
                          const struct sbx_http_request* r) {
  const char* text = "{}";

  x->status = 200;
  if (strstr(r->url, "/process.Process/Start") != NULL) {
    answer_start(x, r->body, r->body_len);
    return;
  }
  if (strstr(r->url, "WatchDir") != NULL) {
    put_envelope(x, 0, "{\"start\":{}}");
    x->stream = x->open = true;
    return;
  }
  if (holds && strstr(r->url, "/files?") != NULL) held = x;
  if (strstr(r->url, "nextToken") == NULL && strcmp(r->method, "GET") == 0)
    text = strstr(r->url, "metadata") != NULL ? "[]" : "{\"state\":\"running\"}";
  else if (strstr(r->url, "/v2/sandboxes") != NULL)
    text = CREATED;
  put(x, text, strlen(text));
}

/* The engine itself never runs out of memory here: http_fault_test.c. */
static void* own(size_t size) {
  void* p = __real_calloc(1, size);

  assert_non_null(p);
  return p;
}

int sbx_http_new(uv_loop_t* loop, const struct sbx_http_settings* settings,
                 struct sbx_http** out) {
  (void) settings;
  if (fails()) return UV_ENOMEM;
  *out = own(sizeof(**out));
  uv_timer_init(loop, &(*out)->timer);
  (*out)->timer.data = *out;
  return 0;
}

int sbx_http_share(struct sbx_http_pool* pool, uv_loop_t* loop,
                   const struct sbx_http_settings* settings,
                   struct sbx_http** out) {
  (void) pool;
  return sbx_http_new(loop, settings, out);
}

bool sbx_http_leave(struct sbx_http* http) {
  (void) http;
  return true;
}

static void on_http_closed(uv_handle_t* handle) {
  struct sbx_http* http = handle->data;
  void (*cb)(void* arg) = http->cb;
  void* arg = http->arg;

  free(http);
  cb(arg);
}

void sbx_http_close(struct sbx_http* http, void (*cb)(void* arg), void* arg) {
  http->cb = cb;
  http->arg = arg;
  uv_close((uv_handle_t*) &http->timer, on_http_closed);
}

static void on_exchange(uv_timer_t* timer) {
  static const char* const names[] = {"content-type"};
  struct sbx_exchange* x = timer->data;
  const char* values[] = {x->stream ? "application/connect+json"
                                    : "application/json"};
  struct sbx_http_head head = {x->status, names, values, 1};

  struct sbx_error broke = {0};

  armed = true;
  if (!x->closed) x->events.on_head(x->events.data, &head);
  if (!x->closed && x->len > 0)
    x->events.on_bytes(x->events.data, x->body, x->len);
  if (x->closed || x->open) return;
  if (x->cut)
    sbx_error_set(&broke, SBX_E_UNAVAILABLE, ECONNRESET, "http", "it broke");
  x->events.on_end(x->events.data, x->cut ? &broke : NULL);
}

int sbx_http_open(struct sbx_http* http, const struct sbx_http_request* request,
                  const struct sbx_http_events* events,
                  struct sbx_exchange** out, struct sbx_error* error) {
  struct sbx_exchange* x;

  if (fails())
    return sbx_error_set(error, SBX_E_INTERNAL, 0, "http", "out of memory");
  x = own(sizeof(*x));
  x->events = *events;
  x->timer.data = x;
  uv_timer_init(http->timer.loop, &x->timer);
  choose_answer(x, request);
  if (x != held) uv_timer_start(&x->timer, on_exchange, 0, 0);
  *out = x;
  return 0;
}

static void answer_held(void) {
  struct sbx_exchange* x = held;

  held = NULL;
  uv_timer_start(&x->timer, on_exchange, 0, 0);
}

int sbx_exchange_send(struct sbx_exchange* x, const void* bytes, size_t len,
                      bool text) {
  (void) x, (void) bytes, (void) len, (void) text;
  return 0;
}

int sbx_exchange_finish(struct sbx_exchange* x) {
  (void) x;
  return 0;
}

void sbx_exchange_no_retry(struct sbx_exchange* x) {
  (void) x;
}

void sbx_exchange_pause(struct sbx_exchange* x, bool paused) {
  (void) x, (void) paused;
}

static void on_exchange_closed(uv_handle_t* handle) {
  free(handle->data);
}

void sbx_exchange_close(struct sbx_exchange* x) {
  x->closed = true;
  uv_close((uv_handle_t*) &x->timer, on_exchange_closed);
}

/* The first of that name. */
const char* sbx_http_header(const struct sbx_http_head* head,
                            const char* name) {
  for (size_t i = 0; i < head->count; i++)
    if (strcmp(head->names[i], name) == 0) return head->values[i];
  return NULL;
}

/* ---- one whole life ---- */

struct life {
  uv_loop_t loop;
  struct sbx_sandbox* s;
  bool strict;   /* nothing may fail */
  unsigned told; /* ends, each of which comes once */
  bool failed;
  struct sbx_process* process;
  bool close_early; /* by who is told that its input has left */
  unsigned written;
};

static void check(struct life* l, const struct sbx_error* error) {
  l->told++;
  l->failed = error != NULL;
  if (error == NULL) return;
  if (l->strict) fail_msg("%s", error->message);
  assert_true(error->code < 0);
  assert_true(error->message[0] != '\0');
}

static void on_done(void* arg, const struct sbx_error* error) {
  check(arg, error);
}

static void on_file(void* arg, const struct sbx_error* error,
                    struct sbx_file_result* result) {
  check(arg, error);
  if (result != NULL) free(result->data);
}

static void on_listed(void* arg, const struct sbx_error* error,
                      const struct sbx_listed* list, size_t count) {
  (void) list;
  check(arg, error);
  if (error == NULL) assert_int_equal(count, 0);
}

static void on_exit_event(void* arg, const struct sbx_process_result* result) {
  struct life* l = arg;

  check(l, result->error);
  if (result->error == NULL && !result->killed)
    assert_int_equal(result->exit_code, 0);
}

static void on_written(void* arg, int status) {
  struct life* l = arg;

  (void) status;
  l->written++;
  if (!l->close_early || l->process == NULL) return;
  sbx_process_close(l->process);
  l->process = NULL;
  l->told++;
}

/* Once per call, however it went. */
static void wait_told(struct life* l, unsigned before) {
  while (l->told == before) {
    armed = true;
    assert_true(uv_run(&l->loop, UV_RUN_ONCE) || l->told > before);
  }
  armed = false;
  assert_int_equal(l->told, before + 1);
}

static bool open_life(struct life* l) {
  struct sbx_options* o;
  struct sbx_error error;
  int err;

  assert_int_equal(sbx_options_new(&o), 0);
  sbx_options_add_string(o, "apiKey", "e2b_0123", 8);
  sbx_options_add_string(o, "id", "mine", 4);
  sbx_options_add_string(o, "session", "mine", 4);
  armed = true;
  err = sbx_provider_e2b.open(&l->loop, o, &l->s, &error);
  armed = false;
  sbx_options_free(o);
  return err == 0;
}

static bool verb(struct life* l, void (*call)(struct sbx_sandbox* s,
                                              sbx_done_cb cb, void* arg)) {
  unsigned before = l->told;

  armed = true;
  call(l->s, on_done, l);
  wait_told(l, before);
  return !l->failed;
}

static bool file(struct life* l, struct sbx_file_request request,
                 const char* said) {
  unsigned before = l->told;
  int rc;

  payload = said;
  request.expected_mtime_ms = INT64_MIN;
  request.path = "a";
  armed = true;
  rc = sbx_provider_e2b.file(l->s, 0, &request, on_file, l);
  if (rc == 0) wait_told(l, before);
  armed = false;
  return rc == 0 && !l->failed;
}

static bool list(struct life* l) {
  unsigned before = l->told;

  payload = "J";
  armed = true;
  sbx_provider_e2b.list(l->s, on_listed, l);
  wait_told(l, before);
  return !l->failed;
}

static void run(struct life* l, bool background) {
  static const char* const argv[] = {"/bin/sh", "-c", "cat"};
  struct sbx_process_spec spec = {.argv = argv, .argc = 3, .cwd = "/x",
                                  .stdin_pipe = true, .background = background,
                                  .timeout_ms = 10000};
  struct sbx_process_events events = {.data = l, .on_exit = on_exit_event};
  unsigned before = l->told, writes = l->written;
  struct sbx_error error;
  int rc;

  armed = true;
  rc = sbx_provider_e2b.spawn(l->s, &spec, &events, &l->process, &error);
  if (rc == 0) {
    rc = sbx_process_write(l->process, "in", 2, on_written, l);
    if (rc == 0 && l->process != NULL) sbx_process_close_stdin(l->process);
    wait_told(l, before);
    if (rc == 0) assert_int_equal(l->written, writes + 1);
    if (l->process != NULL) sbx_process_close(l->process);
    l->process = NULL;
  } else {
    assert_true(error.message[0] != '\0');
  }
  armed = false;
}

static void use(struct life* l) {
  struct sbx_file_request write = {.verb = SBX_FILE_WRITE, .data = "hello",
                                   .data_len = 5};
  struct sbx_file_request read = {.verb = SBX_FILE_READ};

  file(l, write, FACTS);
  file(l, read, FACTS "\nDhello");
  run(l, false);
  run(l, true);
  l->close_early = true;
  run(l, false);
  l->close_early = false;
  list(l);
}

static void live_on(struct life* l) {
  if (!verb(l, sbx_provider_e2b.create)) return;
  use(l);
  payload = "J";
  if (verb(l, sbx_provider_e2b.pause)) verb(l, sbx_provider_e2b.unpause);
  if (verb(l, sbx_provider_e2b.stop)) verb(l, sbx_provider_e2b.resume);
  verb(l, sbx_provider_e2b.destroy);
}

/* Fails the n-th call; -1: none. */
static bool live(int n) {
  struct life l = {.strict = n < 0};
  unsigned before;

  uv_loop_init(&l.loop);
  fired = false;
  countdown = n;
  if (open_life(&l)) {
    live_on(&l);
    if (n < 0) assert_int_equal(l.told, 12);
    before = l.told;
    armed = true;
    sbx_provider_e2b.close(l.s, on_done, &l);
    wait_told(&l, before);
  }
  countdown = -1;
  uv_run(&l.loop, UV_RUN_DEFAULT);
  assert_int_equal(uv_loop_close(&l.loop), 0);
  return fired;
}

static void each_call_fails_once(void** state) {
  int n = 0;

  (void) state;
  live(-1);
  while (live(n)) n++;
  print_message("%d calls failed in turn\n", n);
  assert_true(n > 100);
}

/* ---- the owner closes while something is under way ---- */

static void close_now(struct life* l) {
  unsigned before = l->told;

  sbx_provider_e2b.close(l->s, on_done, l);
  while (l->told < before + 2) uv_run(&l->loop, UV_RUN_ONCE);
  uv_run(&l->loop, UV_RUN_DEFAULT);
  assert_int_equal(l->told, before + 2);
}

static void closed_at_each_turn(void** state) {
  (void) state;
  for (int turns = 0, more = 1; more; turns++) {
    struct life l = {0};

    uv_loop_init(&l.loop);
    assert_true(open_life(&l));
    sbx_provider_e2b.create(l.s, on_done, &l);
    for (int i = 0; i < turns && l.told == 0; i++)
      uv_run(&l.loop, UV_RUN_ONCE);
    more = l.told == 0;
    if (more) {
      close_now(&l);
    } else {
      sbx_provider_e2b.close(l.s, on_done, &l);
      uv_run(&l.loop, UV_RUN_DEFAULT);
    }
    assert_int_equal(uv_loop_close(&l.loop), 0);
  }
}

static void setup_life(struct life* l) {
  *l = (struct life){.strict = true};
  uv_loop_init(&l->loop);
  assert_true(open_life(l));
  assert_true(verb(l, sbx_provider_e2b.create));
  armed = false;
  l->strict = false;
}

static void run_until(struct life* l, const unsigned* count, unsigned want) {
  while (*count < want)
    assert_true(uv_run(&l->loop, UV_RUN_ONCE) || *count >= want);
}

static void teardown_life(struct life* l) {
  armed = false;
  uv_run(&l->loop, UV_RUN_DEFAULT);
  assert_int_equal(uv_loop_close(&l->loop), 0);
}

static void close_in_callback(struct life* l) {
  sbx_provider_e2b.close(l->s, on_done, l);
}

static void on_spawn_close(void* arg, uint32_t pid) {
  assert_int_equal(pid, 77);
  close_in_callback(arg);
}

/* A command whose stream breaks while the sandbox is paused. */
static void pause_broken(struct life* l,
                         void (*on_spawn)(void* data, uint32_t pid)) {
  static const char* const argv[] = {"/bin/sh", "-c", "cat"};
  struct sbx_process_spec spec = {.argv = argv, .argc = 3, .cwd = "/x",
                                  .background = true};
  struct sbx_process_events events = {.data = l, .on_spawn = on_spawn,
                                      .on_exit = on_exit_event};
  struct sbx_error error;

  cuts = true;
  assert_int_equal(
      sbx_provider_e2b.spawn(l->s, &spec, &events, &l->process, &error), 0);
  assert_true(verb(l, sbx_provider_e2b.pause));
  cuts = false;
}

/* What goes on tells its owner of it, who closes the sandbox: the call that lets
 * it go on, the command and the close are told, each once. */
static void closed_as_it_goes_on(void (*call)(struct sbx_sandbox* s,
                                              sbx_done_cb cb, void* arg)) {
  struct life l;
  unsigned before;

  setup_life(&l);
  pause_broken(&l, on_spawn_close);
  before = l.told;
  call(l.s, on_done, &l);
  run_until(&l, &l.told, before + 3);
  sbx_process_close(l.process);
  teardown_life(&l);
  assert_int_equal(l.told, before + 3);
}

static void closed_in_unpause(void** state) {
  (void) state;
  closed_as_it_goes_on(sbx_provider_e2b.unpause);
}

static void closed_in_stop_of_a_paused_one(void** state) {
  (void) state;
  closed_as_it_goes_on(sbx_provider_e2b.stop);
}

/* Nothing was cut, so nothing comes back: what waited leaves all the same. */
static void input_waits_for_unpause(void** state) {
  struct sbx_process_spec spec = {.stdin_pipe = true};
  struct life l;
  struct sbx_process_events events = {.data = &l, .on_exit = on_exit_event};
  struct sbx_error error;

  (void) state;
  setup_life(&l);
  stays = true;
  assert_int_equal(sbx_provider_e2b.attach(l.s, 77, &spec, &events, &l.process,
                                           &error), 0);
  assert_true(verb(&l, sbx_provider_e2b.pause));
  stays = false;
  assert_int_equal(sbx_process_write(l.process, "in", 2, on_written, &l), 0);
  assert_int_equal(l.written, 0);
  assert_true(verb(&l, sbx_provider_e2b.unpause));
  run_until(&l, &l.written, 1);
  sbx_process_close(l.process);
  l.process = NULL;
  sbx_provider_e2b.close(l.s, on_done, &l);
  teardown_life(&l);
}

/* ---- watches ---- */

struct watching {
  struct life life;
  unsigned ready, ended;
  bool closes;
};

static void on_watching(void* data) {
  ((struct watching*) data)->ready++;
}

static void on_change(void* data, enum sbx_change change, const char* name,
                      size_t len) {
  (void) data, (void) change, (void) name, (void) len;
}

static void on_watch_end(void* data, const struct sbx_error* error) {
  struct watching* w = data;

  w->ended++;
  assert_int_equal(error->code, SBX_E_ABORTED);
  if (w->closes) close_in_callback(&w->life);
}

static void begin_watch(struct watching* w) {
  struct sbx_watch_events events = {w, on_watching, on_change, on_watch_end};
  struct sbx_watch* watch;
  struct sbx_error error;

  w->ready = w->ended = 0;
  setup_life(&w->life);
  assert_int_equal(sbx_provider_e2b.watch(w->life.s, 0, "", false, &events,
                                          &watch, &error), 0);
  run_until(&w->life, &w->ready, 1);
}

static void closed_by_a_watch_that_a_stop_ends(void** state) {
  struct watching w = {.closes = true};
  unsigned before;

  (void) state;
  begin_watch(&w);
  before = w.life.told;
  sbx_provider_e2b.stop(w.life.s, on_done, &w.life);
  run_until(&w.life, &w.life.told, before + 2);
  teardown_life(&w.life);
  assert_int_equal(w.life.told, before + 2);
  assert_int_equal(w.ended, 1);
}

static void a_close_ends_watches(void** state) {
  struct watching w = {.closes = false};

  (void) state;
  begin_watch(&w);
  sbx_provider_e2b.close(w.life.s, on_done, &w.life);
  teardown_life(&w.life);
  assert_int_equal(w.ended, 1);
}

/* ---- a call that a stop and the next start overtake ---- */

static void a_write_outlives_a_start(void** state) {
  static char data[200 * 1024];
  struct sbx_file_request write = {.verb = SBX_FILE_WRITE, .path = "a",
                                   .data = data, .data_len = sizeof(data),
                                   .expected_mtime_ms = INT64_MIN};
  struct life l;
  unsigned before;

  (void) state;
  setup_life(&l);
  holds = true;
  assert_int_equal(sbx_provider_e2b.file(l.s, 0, &write, on_file, &l), 0);
  holds = false;
  assert_non_null(held);
  payload = "J";
  assert_true(verb(&l, sbx_provider_e2b.stop));
  assert_true(verb(&l, sbx_provider_e2b.resume));
  payload = FACTS;
  before = l.told;
  answer_held();
  run_until(&l, &l.told, before + 1);
  assert_false(l.failed);
  sbx_provider_e2b.close(l.s, on_done, &l);
  teardown_life(&l);
}

/* ---- a close that has no memory ---- */

static void closed_without_memory(void** state) {
  struct life l = {0};

  (void) state;
  uv_loop_init(&l.loop);
  assert_true(open_life(&l));
  fired = false;
  countdown = 0;
  armed = true;
  sbx_provider_e2b.close(l.s, on_done, &l);
  assert_int_equal(l.told, 0); /* not in the call itself */
  countdown = -1;
  teardown_life(&l);
  assert_int_equal(l.told, 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_call_fails_once),
      cmocka_unit_test(closed_at_each_turn),
      cmocka_unit_test(closed_in_unpause),
      cmocka_unit_test(closed_in_stop_of_a_paused_one),
      cmocka_unit_test(input_waits_for_unpause),
      cmocka_unit_test(closed_by_a_watch_that_a_stop_ends),
      cmocka_unit_test(a_close_ends_watches),
      cmocka_unit_test(a_write_outlives_a_start),
      cmocka_unit_test(closed_without_memory),
  };

  return cmocka_run_group_tests(tests, NULL, NULL);
}
