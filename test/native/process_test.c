/* Commands through a real launcher: output, stdin, every way to end. */
#include "engine_kit.h"

#include <errno.h>

/* ---- results ---- */

static void echo_and_exit_code(void** state) {
  struct kit_run r;

  kit_shell(*state, &r, "echo out; echo err >&2; exit 42");
  assert_int_equal(r.result.exit_code, 42);
  assert_int_equal(r.result.signal, 0);
  assert_false(r.result.killed);
  assert_false(r.result.timed_out);
  assert_true(r.spawned);
  assert_true(r.pid > 1);
  assert_true(r.result.max_rss_bytes > 0);
  assert_true(r.result.duration_ms > 0);
  kit_assert_output(&r, SBX_STDOUT, "out\n");
  kit_assert_output(&r, SBX_STDERR, "err\n");
  kit_finish(&r);
}

static void argv_is_passed_as_it_is(void** state) {
  const char* argv[] = {"printf", "[%s]", "a b", "", "$HOME", "'\"\n"};
  struct sbx_process_spec spec = {.argv = argv, .argc = 6, KIT_SPEC};
  struct kit_run r;

  kit_spawn_spec(*state, &r, &spec);
  kit_wait(*state, &r);
  kit_assert_output(&r, SBX_STDOUT, "[a b][][$HOME]['\"\n]");
  kit_finish(&r);
}

static void only_the_given_environment(void** state) {
  const char* argv[] = {"/usr/bin/env"};
  struct sbx_process_spec spec = {.argv = argv, .argc = 1, KIT_SPEC};
  struct kit_run r;

  kit_spawn_spec(*state, &r, &spec);
  kit_wait(*state, &r);
  kit_assert_output(&r, SBX_STDOUT,
                    "PATH=/usr/local/bin:/usr/bin:/bin\nHOME=/tmp\n"
                    "LC_ALL=C.UTF-8\n");
  kit_finish(&r);
}

static void a_signal_is_128_and_its_number(void** state) {
  struct kit_run r;

  kit_shell(*state, &r, "kill -SEGV $$");
  assert_int_equal(r.result.exit_code, 128 + SIGSEGV);
  assert_int_equal(r.result.signal, SIGSEGV);
  assert_false(r.result.killed);
  kit_finish(&r);
}

static void stdin_is_at_its_end_without_a_pipe(void** state) {
  struct kit_run r;

  kit_shell(*state, &r, "cat; echo done");
  kit_assert_output(&r, SBX_STDOUT, "done\n");
  kit_finish(&r);
}

/* ---- what cannot be run ---- */

static void run_argv0(void** state, struct kit_run* r, const char* argv0) {
  const char* argv[] = {argv0};
  struct sbx_process_spec spec = {.argv = argv, .argc = 1, KIT_SPEC};

  kit_spawn_spec(*state, r, &spec);
  sbx_process_listen(r->process, SBX_STDERR, SBX_LISTEN_TEXT);
  kit_wait(*state, r);
}

static void a_missing_program_is_127(void** state) {
  struct kit_run r;

  run_argv0(state, &r, "no-such-tool");
  assert_int_equal(r.result.exit_code, 127);
  assert_false(r.failed);
  assert_string_equal(r.text[1], "sandbox: no-such-tool: command not found\n");
  kit_assert_output(&r, SBX_STDERR,
                    "sandbox: no-such-tool: command not found\n");
  kit_finish(&r);
  run_argv0(state, &r, "/no/such/tool");
  assert_int_equal(r.result.exit_code, 127);
  kit_finish(&r);
}

static void a_program_that_cannot_run_is_126(void** state) {
  struct kit_run r;

  run_argv0(state, &r, "/usr/bin");
  assert_int_equal(r.result.exit_code, 126);
  assert_non_null(strstr(r.text[1], "Permission denied"));
  kit_finish(&r);
}

static void too_long_an_argument_is_126(void** state) {
  size_t len = 200 * 1024;
  char* text = malloc(len + 1);
  const char* argv[] = {"echo", text};
  struct sbx_process_spec spec = {.argv = argv, .argc = 2, KIT_SPEC};
  struct kit_run r;

  memset(text, 'x', len);
  text[len] = '\0';
  kit_spawn_spec(*state, &r, &spec);
  sbx_process_listen(r.process, SBX_STDERR, SBX_LISTEN_TEXT);
  kit_wait(*state, &r);
  assert_int_equal(r.result.exit_code, 126);
  assert_non_null(strstr(r.text[1], "argument list too long"));
  assert_non_null(strstr(r.text[1], "128 KiB"));
  kit_finish(&r);
  free(text);
}

static void large_requests_travel_in_a_memfd(void** state) {
  enum { N = 30, EACH = 50000 };
  static char texts[N][EACH + 1];
  const char* argv[N + 3] = {"sh", "-c", "shift 9; echo ${#1} $#"};
  struct sbx_process_spec spec = {.argv = argv, .argc = N + 3, KIT_SPEC};
  struct kit_run r;

  for (int i = 0; i < N; i++) {
    memset(texts[i], 'y', EACH);
    argv[3 + i] = texts[i];
  }
  kit_spawn_spec(*state, &r, &spec);
  kit_wait(*state, &r);
  kit_assert_output(&r, SBX_STDOUT, "50000 20\n");
  kit_finish(&r);
}

static void a_missing_cwd_is_an_error(void** state) {
  const char* argv[] = {"pwd"};
  struct sbx_process_spec spec = {.argv = argv, .argc = 1, KIT_SPEC};
  struct kit_run r;

  spec.cwd = "/workspace/missing";
  kit_spawn_spec(*state, &r, &spec);
  kit_wait(*state, &r);
  assert_true(r.failed);
  assert_int_equal(r.result.exit_code, -1);
  assert_int_equal(r.error.code, SBX_E_NOT_FOUND);
  assert_non_null(strstr(r.error.message, "/workspace/missing"));
  assert_non_null(strstr(r.error.message, "does not exist"));
  kit_finish(&r);
  spec.cwd = "/usr/bin/env";
  kit_spawn_spec(*state, &r, &spec);
  kit_wait(*state, &r);
  assert_non_null(strstr(r.error.message, "not a directory"));
  kit_finish(&r);
}

/* ---- output ---- */

static void text_is_cut_at_code_points(void** state) {
  struct kit* k = *state;
  struct kit_run r;

  kit_spawn(k, &r,
            "printf 'a\\342'; read x; printf '\\202'; read x;"
            "printf '\\254b\\377\\360\\237'",
            true, 0);
  sbx_process_listen(r.process, SBX_STDOUT, SBX_LISTEN_TEXT | SBX_LISTEN_BYTES);
  for (size_t seen = 2; seen <= 3; seen++) {
    while (r.bytes < seen && !r.done) uv_run(&k->loop, UV_RUN_ONCE);
    sbx_process_write(r.process, "\n", 1, NULL, NULL);
  }
  kit_wait(k, &r);
  assert_string_equal(r.text[0], "a\xe2\x82\xac" "b\xff\xf0\x9f");
  assert_int_equal(r.bytes, 8);
  assert_int_equal(r.calls[0], 4);
  kit_finish(&r);
}

static void megabytes_arrive_whole(void** state) {
  const char* argv[] = {"sh", "-c", "head -c 20000000 /dev/zero"};
  struct sbx_process_spec spec = {.argv = argv, .argc = 3, KIT_SPEC};
  struct sbx_retained kept;
  struct kit_run r;

  spec.retain = SIZE_MAX;
  kit_spawn_spec(*state, &r, &spec);
  sbx_process_listen(r.process, SBX_STDOUT, SBX_LISTEN_BYTES);
  kit_wait(*state, &r);
  assert_int_equal(r.bytes, 20000000);
  sbx_process_retained(r.process, SBX_STDOUT, &kept);
  assert_int_equal(kept.len, 20000000);
  assert_int_equal(kept.dropped, 0);
  kit_finish(&r);
}

static void only_the_newest_is_kept(void** state) {
  struct sbx_retained kept;
  struct kit_run r;

  kit_shell(*state, &r, "seq 1 500000");
  sbx_process_retained(r.process, SBX_STDOUT, &kept);
  assert_int_equal(kept.len, 1 << 20);
  assert_int_equal(kept.dropped, 3388895 - (1 << 20));
  assert_memory_equal(kept.bytes + kept.len - 7, "500000\n", 7);
  kit_finish(&r);
}

static void a_daemon_does_not_hold_the_command(void** state) {
  struct kit_run r;

  kit_shell(*state, &r, "(sleep 600; echo late) & echo soon");
  kit_assert_output(&r, SBX_STDOUT, "soon\n");
  kit_finish(&r);
}

/* The read end moved to PID 1: no SIGPIPE, no block. */
static void a_daemon_may_go_on_writing(void** state) {
  struct kit_run r;

  kit_shell(*state, &r,
            "rm -f /tmp/ok; (sleep 0.2; head -c 300000 /dev/zero; echo >/tmp/ok) &");
  kit_finish(&r);
  kit_shell(*state, &r, "while ! test -e /tmp/ok; do sleep 0.02; done");
  assert_int_equal(r.result.exit_code, 0);
  kit_finish(&r);
}

static void a_paused_stream_blocks_the_command(void** state) {
  struct kit* k = *state;
  struct kit_run r;

  kit_spawn(k, &r, "head -c 3000000 /dev/zero; echo end >&2", false, 0);
  sbx_process_pause(r.process, SBX_STDOUT, true);
  sbx_process_listen(r.process, SBX_STDOUT, SBX_LISTEN_BYTES);
  kit_sleep(&k->loop, 200);
  assert_false(r.done);
  assert_int_equal(r.bytes, 0);
  sbx_process_pause(r.process, SBX_STDOUT, false);
  kit_wait(k, &r);
  assert_int_equal(r.bytes, 3000000);
  kit_finish(&r);
}

static void a_paused_stream_is_read_out_at_the_exit(void** state) {
  struct kit* k = *state;
  struct kit_run r;

  kit_spawn(k, &r, "echo late", false, 0);
  sbx_process_pause(r.process, SBX_STDOUT, true);
  sbx_process_listen(r.process, SBX_STDOUT, SBX_LISTEN_BYTES);
  kit_wait(k, &r);
  assert_int_equal(r.bytes, 5);
  kit_assert_output(&r, SBX_STDOUT, "late\n");
  kit_finish(&r);
}

static void on_count(uv_timer_t* timer) {
  ++*(int*) timer->data;
}

static void the_loop_stays_alive_with_yes(void** state) {
  struct kit* k = *state;
  uv_timer_t* timer = calloc(1, sizeof(*timer));
  int ticks = 0;
  struct kit_run r;

  uv_timer_init(&k->loop, timer);
  timer->data = &ticks;
  uv_timer_start(timer, on_count, 5, 5);
  kit_spawn(k, &r, "yes", false, 0);
  sbx_process_listen(r.process, SBX_STDOUT, SBX_LISTEN_BYTES);
  while ((ticks < 20 || r.bytes < 10000000) && !r.done)
    uv_run(&k->loop, UV_RUN_ONCE);
  assert_false(r.done);
  uv_close((uv_handle_t*) timer, kit_on_timer_closed);
  sbx_process_end(r.process, 0);
  kit_wait(k, &r);
  kit_finish(&r);
  kit_spawn(k, &r, "yes", false, 100);
  kit_wait(k, &r);
  assert_int_equal(r.result.exit_code, 124);
  kit_finish(&r);
}

/* ---- input ---- */

struct written {
  int calls;
  int status;
  bool done;
};

static void on_written(void* arg, int status) {
  struct written* w = arg;

  w->calls++;
  w->status = status;
  w->done = true;
}

static void stdin_goes_through(void** state) {
  struct written w = {0};
  struct kit_run r;

  kit_spawn(*state, &r, "cat", true, 0);
  assert_int_equal(sbx_process_write(r.process, "one ", 4, on_written, &w), 0);
  assert_int_equal(w.calls, 0);
  assert_int_equal(sbx_process_write(r.process, "two", 3, on_written, &w), 0);
  assert_int_equal(sbx_process_close_stdin(r.process), 0);
  assert_int_equal(sbx_process_close_stdin(r.process), 0);
  assert_int_equal(sbx_process_write(r.process, "x", 1, NULL, NULL), UV_EPIPE);
  kit_wait(*state, &r);
  assert_int_equal(w.calls, 2);
  assert_int_equal(w.status, 0);
  kit_assert_output(&r, SBX_STDOUT, "one two");
  kit_finish(&r);
}

static void a_lot_of_stdin(void** state) {
  size_t len = 5000000;
  char* bytes = calloc(1, len);
  struct written w = {0};
  struct kit_run r;

  kit_spawn(*state, &r, "sleep 0.1; wc -c", true, 0);
  assert_int_equal(sbx_process_write(r.process, bytes, len, on_written, &w), 0);
  free(bytes);
  sbx_process_close_stdin(r.process);
  kit_wait(*state, &r);
  kit_assert_output(&r, SBX_STDOUT, "5000000\n");
  assert_int_equal(w.status, 0);
  kit_finish(&r);
}

static void writing_to_a_closed_stdin_is_epipe(void** state) {
  struct kit* k = *state;
  struct written w = {0};
  struct kit_run r;

  kit_spawn(k, &r, "exec <&-; echo closed; sleep 600", true, 0);
  sbx_process_listen(r.process, SBX_STDOUT, SBX_LISTEN_TEXT);
  kit_until_text(k, &r);
  /* PID 1 lets go of its own copy a moment after the start. */
  for (int tries = 0; tries < 1000 && w.status != UV_EPIPE; tries++) {
    w.done = false;
    assert_int_equal(sbx_process_write(r.process, "x", 1, on_written, &w), 0);
    kit_until(&k->loop, &w.done);
    if (w.status == 0) kit_sleep(&k->loop, 10);
  }
  assert_int_equal(w.status, UV_EPIPE);
  assert_int_equal(sbx_process_end(r.process, 0), 0);
  kit_wait(*state, &r);
  kit_finish(&r);
}

static void an_exit_fails_what_was_not_written(void** state) {
  size_t len = 1000000;
  char* bytes = calloc(1, len);
  struct written w = {0};
  struct kit_run r;

  kit_spawn(*state, &r, "exit 0", true, 0);
  assert_int_equal(sbx_process_write(r.process, bytes, len, on_written, &w), 0);
  kit_wait(*state, &r);
  assert_int_equal(w.calls, 1);
  assert_int_equal(w.status, UV_EPIPE);
  kit_finish(&r);
  free(bytes);
}

/* ---- ends ---- */

static void kill_is_137(void** state) {
  struct kit_run r;

  kit_spawn(*state, &r, "trap '' TERM; sleep 100 & sleep 100", false, 0);
  assert_int_equal(sbx_process_end(r.process, 0), 0);
  assert_int_equal(sbx_process_end(r.process, 0), 0);
  kit_wait(*state, &r);
  assert_int_equal(r.result.exit_code, 137);
  assert_true(r.result.killed);
  assert_false(r.result.timed_out);
  assert_int_equal(sbx_process_end(r.process, 0), SBX_E_NOT_FOUND);
  kit_finish(&r);
}

static void kill_takes_the_whole_tree(void** state) {
  struct kit* k = *state;
  struct kit_run r;

  kit_spawn(k, &r,
            "setsid sh -c 'sleep 77; sleep 77' & (sleep 77 &) ; echo up; wait",
            false, 0);
  sbx_process_listen(r.process, SBX_STDOUT, SBX_LISTEN_TEXT);
  kit_until_text(k, &r);
  sbx_process_end(r.process, 0);
  kit_wait(k, &r);
  kit_finish(&r);
  /* The kernel takes a moment to end what was killed. */
  kit_shell(k, &r, "while for p in /proc/[0-9]*; do tr '\\0' ' ' <$p/cmdline; "
                   "done 2>/dev/null | grep -q 'sleep 7[7]'; do sleep 0.02; "
                   "done");
  assert_int_equal(r.result.exit_code, 0);
  kit_finish(&r);
}

/* Runs a script until its time limit; the limit is raised, if it came before the
 * script said that it was set up. */
static void run_into_limit(struct kit* k, struct kit_run* r,
                           const char* script) {
  for (uint64_t limit = 100;; limit *= 4) {
    kit_spawn(k, r, script, false, limit);
    sbx_process_listen(r->process, SBX_STDOUT, SBX_LISTEN_TEXT);
    kit_wait(k, r);
    if (r->text[0] != NULL || limit > 20000) break;
    kit_finish(r);
  }
  assert_int_equal(r->result.exit_code, 124);
  assert_true(r->result.timed_out);
}

static void a_timeout_is_124(void** state) {
  struct kit_run r;

  run_into_limit(*state, &r, "echo before; sleep 600");
  assert_true(r.result.killed);
  kit_assert_output(&r, SBX_STDOUT, "before\n");
  kit_finish(&r);
}

static void a_timeout_kills_what_ignores_term(void** state) {
  struct kit_run r;

  run_into_limit(*state, &r,
                 "trap '' TERM; echo up; while :; do sleep 1; done");
  assert_int_equal(r.result.signal, SIGKILL);
  kit_finish(&r);
}

static void a_blocked_loop_is_no_timeout(void** state) {
  struct kit_run r;

  /* Long enough for the command to end meanwhile. */
  for (useconds_t blocked = 400000;; blocked *= 4) {
    kit_spawn(*state, &r, "exit 5", false, 150);
    usleep(blocked);
    kit_wait(*state, &r);
    if (!r.result.timed_out || blocked > 6000000) break;
    kit_finish(&r);
  }
  assert_int_equal(r.result.exit_code, 5);
  assert_false(r.result.timed_out);
  kit_finish(&r);
}

static void term_leaves_time_to_clean_up(void** state) {
  struct kit_run r;
  struct kit* k = *state;

  kit_spawn(k, &r, "trap 'echo bye; exit 3' TERM; echo up; "
                   "while :; do sleep 0.02; done",
            false, 0);
  sbx_process_listen(r.process, SBX_STDOUT, SBX_LISTEN_TEXT);
  kit_until_text(k, &r);
  sbx_process_end(r.process, 30000);
  kit_wait(k, &r);
  assert_int_equal(r.result.exit_code, 3);
  assert_true(r.result.killed);
  kit_assert_output(&r, SBX_STDOUT, "up\nbye\n");
  kit_finish(&r);
}

static void a_signal_goes_to_the_command(void** state) {
  struct kit* k = *state;
  struct kit_run r;

  kit_spawn(k, &r, "trap 'echo got; exit 0' USR1; echo up; "
                   "while :; do sleep 0.02; done",
            false, 0);
  sbx_process_listen(r.process, SBX_STDOUT, SBX_LISTEN_TEXT);
  kit_until_text(k, &r);
  assert_int_equal(sbx_process_signal(r.process, 0), SBX_E_INVALID_INPUT);
  assert_int_equal(sbx_process_signal(r.process, SIGUSR1), 0);
  kit_wait(k, &r);
  assert_false(r.result.killed);
  kit_assert_output(&r, SBX_STDOUT, "up\ngot\n");
  kit_finish(&r);
}

/* ---- closing at odd moments ---- */

static void closing_a_running_command_ends_it(void** state) {
  struct kit* k = *state;
  struct kit_run r;

  kit_spawn(k, &r, "echo $$ >/tmp/closed; echo up; sleep 600", false, 0);
  sbx_process_listen(r.process, SBX_STDOUT, SBX_LISTEN_TEXT);
  kit_until_text(k, &r);
  kit_finish(&r);
  kit_sleep(&k->loop, 100);
  assert_false(r.done);
  kit_shell(k, &r, "while kill -0 $(cat /tmp/closed) 2>/dev/null; do "
                   "sleep 0.02; done; test -s /tmp/closed");
  assert_int_equal(r.result.exit_code, 0);
  kit_finish(&r);
}

static void close_in_text(void* data, int stream, const char* bytes,
                          size_t len) {
  struct kit_run* r = data;

  (void) stream;
  (void) bytes;
  (void) len;
  sbx_process_close(r->process);
  r->done = true;
}

static void exit_must_not_come(void* data,
                               const struct sbx_process_result* result) {
  (void) data;
  (void) result;
  fail_msg("on_exit after close");
}

static void closing_in_a_listener(void** state) {
  const char* scripts[] = {"echo x; sleep 9", "echo x", "printf '\\342'"};
  struct kit* k = *state;

  for (int i = 0; i < 3; i++) {
    const char* argv[] = {"/bin/sh", "-c", scripts[i]};
    struct sbx_process_spec spec = {.argv = argv, .argc = 3, KIT_SPEC};
    struct kit_run r = {0};
    struct sbx_process_events events = {.data = &r,
                                        .on_text = close_in_text,
                                        .on_exit = exit_must_not_come};
    struct sbx_error error;

    assert_int_equal(
        sbx_process_spawn(k->session, &spec, &events, &r.process, &error), 0);
    sbx_process_listen(r.process, SBX_STDOUT, SBX_LISTEN_TEXT);
    kit_wait(k, &r);
    kit_sleep(&k->loop, 20);
  }
}

static void close_in_exit(void* data,
                          const struct sbx_process_result* result) {
  struct kit_run* r = data;

  (void) result;
  sbx_process_close(r->process);
  r->done = true;
}

static void closing_in_on_exit(void** state) {
  const char* argv[] = {"true"};
  struct sbx_process_spec spec = {.argv = argv, .argc = 1, KIT_SPEC};
  struct kit_run r = {0};
  struct sbx_process_events events = {.data = &r, .on_exit = close_in_exit};
  struct sbx_error error;
  struct kit* k = *state;

  assert_int_equal(
      sbx_process_spawn(k->session, &spec, &events, &r.process, &error), 0);
  kit_wait(k, &r);
}

static void look_while_it_comes(void* data, int stream, const char* bytes,
                                size_t len) {
  struct kit_run* r = data;
  struct sbx_retained kept;
  char last = bytes[len - 1];

  sbx_process_retained(r->process, stream, &kept);
  assert_int_equal(kept.bytes[kept.len - 1], last);
  assert_int_equal(bytes[len - 1], last);
  r->bytes += len;
}

static void looking_at_the_output_in_a_listener(void** state) {
  const char* argv[] = {"seq", "1", "500000"};
  struct sbx_process_spec spec = {.argv = argv, .argc = 3, KIT_SPEC};
  struct kit_run r = {0};
  struct sbx_process_events events = {&r, NULL, look_while_it_comes,
                                      look_while_it_comes, kit_on_exit};
  struct sbx_error error;
  struct kit* k = *state;

  spec.retain = 100000;
  assert_int_equal(
      sbx_process_spawn(k->session, &spec, &events, &r.process, &error), 0);
  sbx_process_listen(r.process, SBX_STDOUT, SBX_LISTEN_TEXT | SBX_LISTEN_BYTES);
  kit_wait(k, &r);
  assert_int_equal(r.bytes, 2 * 3388895);
  kit_finish(&r);
}

/* ---- many ---- */

static void a_thousand_at_once(void** state) {
  enum { N = 1000 };
  struct kit_run* runs = calloc(N, sizeof(*runs));
  struct kit* k = *state;
  int before = kit_open_fds();

  for (int i = 0; i < N; i++) kit_spawn(k, &runs[i], "echo hi", false, 0);
  for (int i = 0; i < N; i++) {
    kit_wait(k, &runs[i]);
    assert_false(runs[i].failed);
    assert_int_equal(runs[i].result.exit_code, 0);
    kit_assert_output(&runs[i], SBX_STDOUT, "hi\n");
    kit_finish(&runs[i]);
  }
  free(runs);
  assert_int_equal(kit_open_fds(), before);
}

static void no_descriptor_is_inherited(void** state) {
  int fd = open("/etc/passwd", O_RDONLY); /* not close-on-exec */
  struct kit_run r;

  kit_shell(*state, &r, "ls /proc/$$/fd; true");
  kit_assert_output(&r, SBX_STDOUT, "0\n1\n2\n");
  kit_finish(&r);
  close(fd);
}

static void no_signal_is_ignored_or_blocked(void** state) {
  struct kit_run r;

  kit_shell(*state, &r, "grep -E 'SigBlk|SigIgn' /proc/self/status");
  kit_assert_output(&r, SBX_STDOUT,
                    "SigBlk:\t0000000000000000\n"
                    "SigIgn:\t0000000000000000\n");
  kit_finish(&r);
}

static void bad_arguments(void** state) {
  struct sbx_process_spec spec = {.argc = 0, KIT_SPEC};
  struct sbx_process_events events = {0};
  struct sbx_process* p;
  struct sbx_error error;

  assert_int_equal(sbx_process_spawn(((struct kit*) *state)->session, &spec,
                                     &events, &p, &error),
                   SBX_E_INVALID_INPUT);
  assert_null(p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(echo_and_exit_code),
      cmocka_unit_test(argv_is_passed_as_it_is),
      cmocka_unit_test(only_the_given_environment),
      cmocka_unit_test(a_signal_is_128_and_its_number),
      cmocka_unit_test(stdin_is_at_its_end_without_a_pipe),
      cmocka_unit_test(a_missing_program_is_127),
      cmocka_unit_test(a_program_that_cannot_run_is_126),
      cmocka_unit_test(too_long_an_argument_is_126),
      cmocka_unit_test(large_requests_travel_in_a_memfd),
      cmocka_unit_test(a_missing_cwd_is_an_error),
      cmocka_unit_test(text_is_cut_at_code_points),
      cmocka_unit_test(megabytes_arrive_whole),
      cmocka_unit_test(only_the_newest_is_kept),
      cmocka_unit_test(a_daemon_does_not_hold_the_command),
      cmocka_unit_test(a_daemon_may_go_on_writing),
      cmocka_unit_test(a_paused_stream_blocks_the_command),
      cmocka_unit_test(a_paused_stream_is_read_out_at_the_exit),
      cmocka_unit_test(the_loop_stays_alive_with_yes),
      cmocka_unit_test(stdin_goes_through),
      cmocka_unit_test(a_lot_of_stdin),
      cmocka_unit_test(writing_to_a_closed_stdin_is_epipe),
      cmocka_unit_test(an_exit_fails_what_was_not_written),
      cmocka_unit_test(kill_is_137),
      cmocka_unit_test(kill_takes_the_whole_tree),
      cmocka_unit_test(a_timeout_is_124),
      cmocka_unit_test(a_timeout_kills_what_ignores_term),
      cmocka_unit_test(a_blocked_loop_is_no_timeout),
      cmocka_unit_test(term_leaves_time_to_clean_up),
      cmocka_unit_test(a_signal_goes_to_the_command),
      cmocka_unit_test(closing_a_running_command_ends_it),
      cmocka_unit_test(closing_in_a_listener),
      cmocka_unit_test(closing_in_on_exit),
      cmocka_unit_test(looking_at_the_output_in_a_listener),
      cmocka_unit_test(a_thousand_at_once),
      cmocka_unit_test(no_descriptor_is_inherited),
      cmocka_unit_test(no_signal_is_ignored_or_blocked),
      cmocka_unit_test(bad_arguments),
  };

  return cmocka_run_group_tests(tests, kit_setup, kit_teardown);
}
