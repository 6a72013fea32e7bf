/* Pausing a session, by signals and, where one can be had, by the freezer of a
 * control group; and commands with a terminal. */
#include "engine_kit.h"

/* ---- pausing ---- */

static void set_paused(struct kit* k, bool paused) {
  bool done = false;

  sbx_session_pause(k->session, paused, kit_on_closed, &done);
  kit_until(&k->loop, &done);
}

/* No control group can be made there, so signals it is. */
static void with_signals(struct kit* k, struct sbx_config* c) {
  (void) k;
  sbx_config_add_text(c, SBX_CONFIG_CGROUP, "/tmp/sbx-no-such-folder");
}

static int setup_signals(void** state) {
  struct kit* k = calloc(1, sizeof(*k));

  signal(SIGPIPE, SIG_IGN);
  uv_loop_init(&k->loop);
  k->more = with_signals;
  kit_start(k);
  *state = k;
  return 0;
}

#define TICKER "while :; do echo x; sleep 0.02; done"

static size_t printed(struct kit_run* r) {
  struct sbx_retained kept;

  sbx_process_retained(r->process, SBX_STDOUT, &kept);
  return kept.len + kept.dropped;
}

static void until_more(struct kit* k, struct kit_run* r, size_t than) {
  int tries;

  for (tries = 0; printed(r) <= than && tries < 6000; tries++)
    kit_sleep(&k->loop, 10);
  assert_true(printed(r) > than);
}

/* What was on its way may still come; then nothing does for a while. */
static size_t until_still(struct kit* k, struct kit_run* r) {
  size_t before = printed(r);
  int tries;

  for (tries = 0; tries < 20; tries++, before = printed(r)) {
    kit_sleep(&k->loop, 200);
    if (printed(r) == before) return before;
  }
  fail_msg("it goes on printing");
  return 0;
}

static void everything_stands_still(void** state) {
  struct kit* k = *state;
  struct kit_run r;
  size_t before;

  kit_spawn(k, &r, TICKER, false, 0);
  until_more(k, &r, 0);
  set_paused(k, true);
  set_paused(k, true); /* changes nothing */
  before = until_still(k, &r);
  set_paused(k, false);
  until_more(k, &r, before);
  sbx_process_end(r.process, 0);
  kit_wait(k, &r);
  kit_finish(&r);
}

/* Whether a new and an old command of that time limit outlive a pause that is
 * longer. */
static bool limits_wait(struct kit* k, unsigned limit) {
  struct kit_run r, old;
  bool waited;

  kit_spawn(k, &old, "read x; echo got $x", true, limit);
  set_paused(k, true);
  kit_spawn(k, &r, "echo later", false, limit);
  waited = !old.done;
  kit_sleep(&k->loop, limit + 200);
  assert_false(r.spawned);
  assert_true(!waited || !old.done);
  set_paused(k, false);
  sbx_process_write(old.process, "it\n", 3, NULL, NULL);
  kit_wait(k, &r);
  kit_wait(k, &old);
  waited = waited && !r.result.timed_out && !old.result.timed_out;
  if (waited) {
    kit_assert_output(&r, SBX_STDOUT, "later\n");
    kit_assert_output(&old, SBX_STDOUT, "got it\n");
  }
  kit_finish(&r);
  kit_finish(&old);
  return waited;
}

/* On a slow machine the rest of a short limit may be too short for them. */
static void a_command_waits_and_its_time_limit_too(void** state) {
  assert_true(limits_wait(*state, 300) || limits_wait(*state, 1500) ||
              limits_wait(*state, 8000));
}

static void a_time_limit_goes_on_after_it(void** state) {
  struct kit* k = *state;
  struct kit_run r;

  kit_spawn(k, &r, "sleep 1000", false, 100);
  set_paused(k, true);
  set_paused(k, false);
  kit_wait(k, &r);
  assert_true(r.result.timed_out);
  kit_finish(&r);
}

static void a_kill_reaches_the_paused(void** state) {
  struct kit* k = *state;
  struct kit_run r, other;

  kit_spawn(k, &r, "sleep 1000 & sleep 1000", false, 0);
  kit_spawn(k, &other, TICKER, false, 0);
  until_more(k, &other, 0);
  set_paused(k, true);
  sbx_process_end(r.process, 0);
  kit_wait(k, &r);
  assert_true(r.result.killed);
  assert_false(other.done);
  set_paused(k, false);
  until_more(k, &other, printed(&other));
  sbx_process_end(other.process, 0);
  kit_wait(k, &other);
  kit_finish(&r);
  kit_finish(&other);
}

static void what_was_stopped_before_stays_so(void** state) {
  struct kit* k = *state;
  struct kit_run r, s;

  kit_spawn(k, &r, TICKER, false, 0);
  until_more(k, &r, 0);
  sbx_process_signal(r.process, SIGSTOP);
  kit_shell(k, &s, "sleep 0.2"); /* a process that pausing has to stop */
  kit_finish(&s);
  set_paused(k, true);
  set_paused(k, false);
  size_t before = until_still(k, &r);
  sbx_process_signal(r.process, SIGCONT);
  until_more(k, &r, before);
  sbx_process_end(r.process, 0);
  kit_wait(k, &r);
  kit_finish(&r);
}

static void stop_ends_a_pause(void** state) {
  struct kit* k = *state;
  struct kit_run r, waiting;
  bool empty = false;

  kit_spawn(k, &r, TICKER, false, 0);
  until_more(k, &r, 0);
  set_paused(k, true);
  kit_spawn(k, &waiting, "sleep 1000", false, 0);
  sbx_session_end_all(k->session, 200, kit_on_closed, &empty);
  kit_until(&k->loop, &empty);
  assert_true(r.done);
  assert_true(waiting.done);
  kit_finish(&r);
  kit_finish(&waiting);
  kit_shell(k, &r, "echo again");
  kit_assert_output(&r, SBX_STDOUT, "again\n");
  kit_finish(&r);
}

static void quick_turns_are_answered_in_order(void** state) {
  struct kit* k = *state;
  bool done[6] = {false};
  struct kit_run r;
  int i;

  kit_spawn(k, &r, TICKER, false, 0);
  until_more(k, &r, 0);
  for (i = 0; i < 6; i++)
    sbx_session_pause(k->session, i % 2 == 0, kit_on_closed, &done[i]);
  kit_until(&k->loop, &done[5]);
  for (i = 0; i < 6; i++) assert_true(done[i]);
  until_more(k, &r, printed(&r));
  sbx_process_end(r.process, 0);
  kit_wait(k, &r);
  kit_finish(&r);
}

static void close_while_paused(void** state) {
  struct kit_run r, waiting;
  struct kit k;

  (void) state;
  memset(&k, 0, sizeof(k));
  uv_loop_init(&k.loop);
  kit_start(&k);
  kit_spawn(&k, &r, TICKER, false, 0);
  until_more(&k, &r, 0);
  set_paused(&k, true);
  kit_spawn(&k, &waiting, "echo never", false, 0);
  kit_close(&k);
  assert_true(r.done);
  assert_true(waiting.done);
  assert_true(waiting.failed);
  kit_finish(&r);
  kit_finish(&waiting);
  assert_int_equal(uv_loop_close(&k.loop), 0);
}

/* ---- terminals ---- */

static void spawn_terminal(struct kit* k, struct kit_run* r,
                           const char* script) {
  const char* argv[] = {"/bin/sh", "-c", script};
  struct sbx_process_spec spec = {.argv = argv,
                                  .argc = 3,
                                  .columns = 100,
                                  .rows = 30,
                                  KIT_SPEC};

  kit_spawn_spec(k, r, &spec);
}

static void until_text(struct kit* k, struct kit_run* r, const char* text) {
  struct sbx_retained kept;
  int tries;

  for (tries = 0; tries < 6000; tries++) {
    sbx_process_retained(r->process, SBX_STDOUT, &kept);
    if (kept.len > 0 && memmem(kept.bytes, kept.len, text, strlen(text)))
      return;
    kit_sleep(&k->loop, 10);
  }
  fail_msg("no \"%s\" in \"%.*s\"", text, (int) kept.len, kept.bytes);
}

static void a_terminal_of_that_size(void** state) {
  struct kit* k = *state;
  struct kit_run r;

  spawn_terminal(k, &r, "test -t 0 && test -t 1 && test -t 2 && stty size "
                        "&& echo err >&2 && : </dev/tty");
  kit_wait(k, &r);
  assert_int_equal(r.result.exit_code, 0);
  kit_assert_output(&r, SBX_STDOUT, "30 100\r\nerr\r\n");
  kit_assert_output(&r, SBX_STDERR, "");
  kit_finish(&r);
}

static void a_new_size_is_told(void** state) {
  struct kit* k = *state;
  struct kit_run r;

  spawn_terminal(k, &r, "trap 'stty size' WINCH; echo ready; "
                        "while :; do sleep 0.02; done");
  until_text(k, &r, "ready");
  assert_int_equal(sbx_process_resize(r.process, 0, 5), SBX_E_INVALID_INPUT);
  assert_int_equal(sbx_process_resize(r.process, 5, 70000),
                   SBX_E_INVALID_INPUT);
  assert_int_equal(sbx_process_resize(r.process, 44, 33), 0);
  until_text(k, &r, "33 44");
  sbx_process_end(r.process, 0);
  kit_wait(k, &r);
  assert_int_equal(sbx_process_resize(r.process, 44, 33), SBX_E_NOT_FOUND);
  kit_finish(&r);
}

static void control_c_interrupts(void** state) {
  struct kit* k = *state;
  struct kit_run r;

  spawn_terminal(k, &r, "echo ready; exec sleep 1000");
  until_text(k, &r, "ready");
  sbx_process_write(r.process, "\3", 1, NULL, NULL);
  kit_wait(k, &r);
  assert_int_equal(r.result.signal, SIGINT);
  kit_finish(&r);
}

static void a_signal_goes_to_the_foreground(void** state) {
  struct kit* k = *state;
  struct kit_run r;

  spawn_terminal(k, &r, "trap 'echo survived' INT; "
                        "sh -c 'echo ready; exec sleep 1000'; echo after");
  until_text(k, &r, "ready");
  assert_int_equal(sbx_process_signal(r.process, SIGINT), 0);
  kit_wait(k, &r);
  until_text(k, &r, "survived");
  until_text(k, &r, "after");
  kit_finish(&r);
}

static void input_comes_back_and_ends(void** state) {
  struct kit* k = *state;
  struct kit_run r;

  spawn_terminal(k, &r, "echo ready; cat; echo end");
  until_text(k, &r, "ready");
  sbx_process_write(r.process, "line\n", 5, NULL, NULL);
  until_text(k, &r, "line\r\nline\r\n");
  sbx_process_close_stdin(r.process);
  assert_int_equal(sbx_process_write(r.process, "x", 1, NULL, NULL), UV_EPIPE);
  kit_wait(k, &r);
  until_text(k, &r, "end\r\n");
  assert_int_equal(r.result.exit_code, 0);
  kit_finish(&r);
}

static void much_output_arrives_whole(void** state) {
  struct kit* k = *state;
  struct kit_run r;

  spawn_terminal(k, &r, "stty -opost; head -c 700000 /dev/zero | tr '\\0' a");
  kit_wait(k, &r);
  assert_int_equal(printed(&r), 700000);
  kit_finish(&r);
}

static void a_missing_program_in_a_terminal(void** state) {
  const char* argv[] = {"no-such-program"};
  struct sbx_process_spec spec = {
      .argv = argv, .argc = 1, .columns = 80, .rows = 24, KIT_SPEC};
  struct kit_run r;
  int before = kit_open_fds();

  kit_spawn_spec(*state, &r, &spec);
  kit_wait(*state, &r);
  assert_int_equal(r.result.exit_code, 127);
  kit_finish(&r);
  kit_sleep(&((struct kit*) *state)->loop, 0);
  assert_int_equal(kit_open_fds(), before);
}

static void what_stays_behind_keeps_its_terminal(void** state) {
  struct kit* k = *state;
  struct kit_run r;

  spawn_terminal(k, &r, "trap '' HUP; (while echo x; do sleep 0.02; done; "
                        "touch /workspace/broken) & exit 3");
  kit_wait(k, &r);
  assert_int_equal(r.result.exit_code, 3);
  kit_finish(&r);
  kit_shell(k, &r, "sleep 0.3; ls /workspace");
  kit_assert_output(&r, SBX_STDOUT, "");
  kit_finish(&r);
}

static void no_terminal_no_size(void** state) {
  struct kit* k = *state;
  struct kit_run r;

  kit_spawn(k, &r, "test -t 0 || test -t 1", false, 0);
  assert_int_equal(sbx_process_resize(r.process, 10, 10), SBX_E_INVALID_INPUT);
  kit_wait(k, &r);
  assert_int_equal(r.result.exit_code, 1);
  kit_finish(&r);
}

#define T(name) cmocka_unit_test(name)

int main(void) {
  const struct CMUnitTest pauses[] = {
      T(everything_stands_still),
      T(a_command_waits_and_its_time_limit_too),
      T(a_time_limit_goes_on_after_it),
      T(a_kill_reaches_the_paused),
      T(what_was_stopped_before_stays_so),
      T(stop_ends_a_pause),
      T(quick_turns_are_answered_in_order),
      T(close_while_paused),
  };
  const struct CMUnitTest terminals[] = {
      T(a_terminal_of_that_size),
      T(a_new_size_is_told),
      T(control_c_interrupts),
      T(a_signal_goes_to_the_foreground),
      T(input_comes_back_and_ends),
      T(much_output_arrives_whole),
      T(a_missing_program_in_a_terminal),
      T(what_stays_behind_keeps_its_terminal),
      T(no_terminal_no_size),
  };
  int failed = 0;

  failed += cmocka_run_group_tests_name("pause, signals", pauses,
                                        setup_signals, kit_teardown);
  failed += cmocka_run_group_tests_name("pause, freezer or signals", pauses,
                                        kit_setup, kit_teardown);
  failed += cmocka_run_group_tests_name("terminals", terminals, kit_setup,
                                        kit_teardown);
  return failed;
}
