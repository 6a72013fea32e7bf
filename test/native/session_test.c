/* The life of a launcher session: every way in and every way out. */
#include "engine_kit.h"

#include <errno.h>

#include "../../native/remove.h"
#include "../../native/session/setup.h"

static struct kit* kit_new(void) {
  struct kit* k = calloc(1, sizeof(*k));

  uv_loop_init(&k->loop);
  return k;
}

static void kit_free(struct kit* k) {
  assert_int_equal(uv_loop_close(&k->loop), 0);
  free(k);
}

static void starts_and_closes(void** state) {
  int before = 0;

  (void) state;
  /* The first round also opens what stays: libuv's and the launcher's. */
  for (int round = 0; round < 2; round++) {
    struct kit* k = kit_new();

    kit_start(k);
    assert_true(k->ready.workspace_fd >= 0);
    assert_true(k->ready.root_fd >= 0);
    assert_int_equal(kit_monitors(NULL), 1);
    kit_close(k);
    kit_free(k);
    assert_int_equal(kit_monitors(NULL), 0);
    if (round == 0) before = kit_open_fds();
  }
  assert_int_equal(kit_open_fds(), before);
}

static void the_workspace_descriptor_is_the_workspace(void** state) {
  struct kit* k = kit_new();
  struct kit_run r;
  char path[96];

  (void) state;
  kit_start(k);
  kit_shell(k, &r, "echo x >/workspace/made");
  assert_int_equal(r.result.exit_code, 0);
  kit_finish(&r);
  assert_int_equal(faccessat(k->ready.workspace_fd, "made", F_OK, 0), 0);
  assert_int_equal(faccessat(k->ready.root_fd, "workspace/made", F_OK, 0), 0);
  snprintf(path, sizeof(path), "%s/workspace/made", k->folder);
  assert_true(kit_there(path));
  kit_close(k);
  kit_free(k);
}

static void every_failing_step_is_named(void** state) {
  int before;

  (void) state;
  before = kit_open_fds();
  for (int step = 1; step < SBX_SETUP_COUNT; step++) {
    struct kit* k = kit_new();

    /* Only with IDMAP is there anything to do. */
    if (step == SBX_SETUP_IDMAP || (step == SBX_SETUP_SETID && geteuid() != 0)) {
      kit_free(k);
      continue;
    }
    k->fail_step = (uint64_t) step;
    k->fail_errno = EPERM;
    kit_begin(k);
    kit_until(&k->loop, &k->answered);
    if (!k->failed) fail_msg("step %s did not fail", sbx_setup_name(step));
    assert_int_equal(k->error.code, SBX_E_UNAVAILABLE);
    assert_int_equal(k->error.sys, EPERM);
    if (k->error.step != step) print_error("%s\n", k->error.message);
    assert_int_equal(k->error.step, step);
    assert_non_null(strstr(k->error.message, sbx_setup_name(step)));
    kit_close(k);
    kit_free(k);
  }
  assert_int_equal(kit_open_fds(), before);
}

static void spawning_before_ready_is_refused(void** state) {
  const char* argv[] = {"true"};
  struct sbx_process_spec spec = {.argv = argv, .argc = 1, KIT_SPEC};
  struct sbx_process_events events = {0};
  struct sbx_process* p;
  struct sbx_error error;
  struct kit* k = kit_new();

  (void) state;
  kit_begin(k);
  assert_int_equal(
      sbx_process_spawn(k->session, &spec, &events, &p, &error),
      SBX_E_UNAVAILABLE);
  kit_close(k);
  assert_false(k->answered);
  kit_free(k);
}

static void closing_settles_what_runs(void** state) {
  struct kit* k = kit_new();
  struct kit_run r, early;

  (void) state;
  kit_start(k);
  kit_spawn(k, &r, "echo up; sleep 100", false, 0);
  sbx_process_listen(r.process, SBX_STDOUT, SBX_LISTEN_TEXT);
  kit_until_text(k, &r);
  kit_spawn(k, &early, "echo never", false, 0);
  sbx_session_close(k->session, kit_on_closed, &k->closed);
  kit_until(&k->loop, &k->closed);
  assert_true(r.done);
  assert_int_equal(r.result.exit_code, 137);
  assert_true(r.result.killed);
  kit_assert_output(&r, SBX_STDOUT, "up\n");
  assert_true(early.done);
  /* It may have run already, and even to its end. */
  if (early.failed)
    assert_int_equal(early.error.code, SBX_E_UNAVAILABLE);
  else
    assert_true(early.result.exit_code == 0 || early.result.killed);
  kit_finish(&r);
  kit_finish(&early);
  close(k->ready.workspace_fd);
  close(k->ready.root_fd);
  uv_run(&k->loop, UV_RUN_DEFAULT);
  kit_free(k);
}

/* Nobody but us is left to do it when the monitor was killed. */
static void remove_folder(struct kit* k) {
  int fd = open("/tmp", O_PATH | O_DIRECTORY);

  assert_int_equal(sbx_remove_tree(fd, strrchr(k->folder, '/') + 1), 0);
  close(fd);
}

static void a_killed_monitor_is_a_lost_session(void** state) {
  struct kit* k = kit_new();
  struct kit_run r;
  pid_t pid = 0;

  (void) state;
  kit_start(k);
  kit_spawn(k, &r, "sleep 600", false, 0);
  kit_until(&k->loop, &r.spawned);
  assert_int_equal(kit_monitors(&pid), 1);
  kill(pid, SIGKILL);
  kit_until(&k->loop, &k->lost);
  assert_true(r.done);
  assert_int_equal(r.result.exit_code, 137);
  assert_true(r.result.killed);
  assert_int_equal(k->error.code, SBX_E_UNAVAILABLE);
  kit_finish(&r);
  close(k->ready.workspace_fd);
  close(k->ready.root_fd);
  sbx_session_close(k->session, kit_on_closed, &k->closed);
  kit_until(&k->loop, &k->closed);
  remove_folder(k);
  kit_free(k);
  assert_int_equal(kit_monitors(NULL), 0);
}

/* From the outside: the child of the monitor. */
static pid_t first_process(void) {
  char path[64];
  pid_t monitor = 0;
  int pid = 0;
  FILE* in;

  assert_int_equal(kit_monitors(&monitor), 1);
  snprintf(path, sizeof(path), "/proc/%d/task/%d/children", monitor, monitor);
  in = fopen(path, "r");
  assert_non_null(in);
  assert_int_equal(fscanf(in, "%d", &pid), 1);
  fclose(in);
  return pid;
}

static void a_killed_pid_1_is_a_lost_session(void** state) {
  struct kit* k = kit_new();
  struct kit_run r;

  (void) state;
  kit_start(k);
  kit_spawn(k, &r, "sleep 600", false, 0);
  kit_until(&k->loop, &r.spawned);
  kill(first_process(), SIGKILL);
  kit_until(&k->loop, &k->lost);
  assert_true(r.done);
  assert_true(r.result.killed);
  kit_finish(&r);
  kit_close(k);
  kit_free(k);
}

static void a_hung_monitor_is_killed(void** state) {
  struct kit* k = kit_new();
  pid_t pid = 0;

  (void) state;
  kit_start(k);
  close(k->ready.workspace_fd);
  close(k->ready.root_fd);
  assert_int_equal(kit_monitors(&pid), 1);
  kill(pid, SIGSTOP);
  sbx_session_close(k->session, kit_on_closed, &k->closed);
  kit_until(&k->loop, &k->closed);
  assert_int_equal(kit_monitors(NULL), 0);
  remove_folder(k);
  kit_free(k);
}

static void closing_at_any_moment_of_the_start(void** state) {
  int before = kit_open_fds();
  struct kit* k = kit_new();

  (void) state;
  for (unsigned i = 0; i < 100; i++) {
    uint64_t until;

    kit_begin(k);
    until = uv_hrtime() + i * 100000; /* 0 to 10 ms */
    while (uv_hrtime() < until) uv_run(&k->loop, UV_RUN_NOWAIT);
    kit_close(k);
  }
  kit_free(k);
  assert_int_equal(kit_monitors(NULL), 0);
  assert_int_equal(kit_open_fds(), before);
}

static void end_all_keeps_the_session(void** state) {
  struct kit* k = kit_new();
  struct kit_run term, deaf, after;

  (void) state;
  kit_start(k);
  kit_spawn(k, &term, "sleep 100", false, 0);
  kit_spawn(k, &deaf, "trap '' TERM; echo up; while :; do sleep 1; done", false,
            0);
  sbx_process_listen(deaf.process, SBX_STDOUT, SBX_LISTEN_TEXT);
  kit_until_text(k, &deaf);
  sbx_session_end_all(k->session, 300, kit_on_closed, &k->emptied);
  kit_until(&k->loop, &k->emptied);
  assert_true(term.done);
  assert_true(deaf.done);
  assert_int_equal(term.result.exit_code, 128 + SIGTERM);
  assert_int_equal(deaf.result.exit_code, 128 + SIGKILL);
  kit_shell(k, &after, "echo alive");
  kit_assert_output(&after, SBX_STDOUT, "alive\n");
  kit_finish(&term);
  kit_finish(&deaf);
  kit_finish(&after);
  kit_close(k);
  kit_free(k);
}

static void end_all_of_nothing(void** state) {
  struct kit* k = kit_new();
  bool twice = false;

  (void) state;
  kit_start(k);
  sbx_session_end_all(k->session, 2000, kit_on_closed, &k->emptied);
  sbx_session_end_all(k->session, 2000, kit_on_closed, &twice);
  kit_until(&k->loop, &k->emptied);
  kit_until(&k->loop, &twice);
  kit_close(k);
  kit_free(k);
}

static void closing_answers_end_all(void** state) {
  struct kit* k = kit_new();
  struct kit_run r;

  (void) state;
  kit_start(k);
  kit_spawn(k, &r, "trap '' TERM; echo up; while :; do sleep 1; done", false,
            0);
  sbx_process_listen(r.process, SBX_STDOUT, SBX_LISTEN_TEXT);
  kit_until_text(k, &r);
  sbx_session_end_all(k->session, 10000, kit_on_closed, &k->emptied);
  kit_close(k);
  assert_true(k->emptied);
  assert_true(r.done);
  kit_finish(&r);
  uv_run(&k->loop, UV_RUN_DEFAULT);
  kit_free(k);
}

static void an_idle_session_keeps_no_loop_alive(void** state) {
  struct kit* k = kit_new();

  (void) state;
  kit_start(k);
  assert_int_equal(uv_run(&k->loop, UV_RUN_DEFAULT), 0);
  kit_close(k);
  kit_free(k);
}

static void a_running_command_keeps_it_alive(void** state) {
  struct kit* k = kit_new();
  struct kit_run r;

  (void) state;
  kit_start(k);
  kit_spawn(k, &r, "sleep 0.2; echo x", false, 0);
  uv_run(&k->loop, UV_RUN_DEFAULT);
  assert_true(r.done);
  kit_finish(&r);
  kit_close(k);
  kit_free(k);
}

static void many_sessions_at_once(void** state) {
  enum { N = 10 };
  struct kit* k[N];
  int before = kit_open_fds();

  (void) state;
  for (int i = 0; i < N; i++) {
    k[i] = kit_new();
    kit_begin(k[i]);
  }
  for (int i = 0; i < N; i++) {
    struct kit_run r;

    kit_until(&k[i]->loop, &k[i]->answered);
    assert_false(k[i]->failed);
    kit_shell(k[i], &r, "echo $(ls /proc | grep -c '^[0-9]')");
    assert_int_equal(r.result.exit_code, 0);
    kit_finish(&r);
  }
  for (int i = 0; i < N; i++) {
    kit_close(k[i]);
    kit_free(k[i]);
  }
  assert_int_equal(kit_open_fds(), before);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(starts_and_closes),
      cmocka_unit_test(the_workspace_descriptor_is_the_workspace),
      cmocka_unit_test(every_failing_step_is_named),
      cmocka_unit_test(spawning_before_ready_is_refused),
      cmocka_unit_test(closing_settles_what_runs),
      cmocka_unit_test(a_killed_monitor_is_a_lost_session),
      cmocka_unit_test(a_killed_pid_1_is_a_lost_session),
      cmocka_unit_test(a_hung_monitor_is_killed),
      cmocka_unit_test(closing_at_any_moment_of_the_start),
      cmocka_unit_test(end_all_keeps_the_session),
      cmocka_unit_test(end_all_of_nothing),
      cmocka_unit_test(closing_answers_end_all),
      cmocka_unit_test(an_idle_session_keeps_no_loop_alive),
      cmocka_unit_test(a_running_command_keeps_it_alive),
      cmocka_unit_test(many_sessions_at_once),
  };

  signal(SIGPIPE, SIG_IGN);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
