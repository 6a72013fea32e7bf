/* Every allocation and every descriptor-making call of the engine fails once, in
 * turn: an error comes back, nothing crashes, no descriptor and no memory is
 * left. Linked with --wrap for the names below. */
#include "engine_kit.h"

#include <errno.h>
#include <spawn.h>
#include <sys/socket.h>

#include "../../providers/provider.h"

/* The engine's thread-pool work counts, too. */
static const bool armed = true;

#include "alloc_fault.h"

int __real_pipe2(int* fds, int flags);
int __real_memfd_create(const char* name, unsigned flags);
int __real_socketpair(int domain, int type, int protocol, int* fds);
int __real_uv_poll_init(uv_loop_t* loop, uv_poll_t* poll, int fd);
int __real_posix_spawn(pid_t* pid, const char* path,
                       const posix_spawn_file_actions_t* actions,
                       const posix_spawnattr_t* attr, char* const* argv,
                       char* const* env);

static int too_many(void) {
  errno = EMFILE;
  return -1;
}

int __wrap_pipe2(int* fds, int flags) {
  return fails() ? too_many() : __real_pipe2(fds, flags);
}

int __wrap_memfd_create(const char* name, unsigned flags) {
  return fails() ? too_many() : __real_memfd_create(name, flags);
}

int __wrap_socketpair(int domain, int type, int protocol, int* fds) {
  return fails() ? too_many() : __real_socketpair(domain, type, protocol, fds);
}

int __wrap_uv_poll_init(uv_loop_t* loop, uv_poll_t* poll, int fd) {
  return fails() ? UV_ENOMEM : __real_uv_poll_init(loop, poll, fd);
}

int __wrap_posix_spawn(pid_t* pid, const char* path,
                       const posix_spawn_file_actions_t* actions,
                       const posix_spawnattr_t* attr, char* const* argv,
                       char* const* env) {
  if (fails()) return EAGAIN;
  return __real_posix_spawn(pid, path, actions, attr, argv, env);
}

/* ---- one whole life ---- */

struct life {
  uv_loop_t loop;
  char folder[32]; /* where session folders go */
  struct sbx_sandbox* s;
  bool done, failed;
  struct sbx_error error;
};

static void on_done(void* arg, const struct sbx_error* error) {
  struct life* l = arg;

  l->done = true;
  l->failed = error != NULL;
  if (error == NULL) return;
  l->error = *error;
  assert_true(error->code < 0);
  assert_true(error->message[0] != '\0');
}

static bool open_life(struct life* l) {
  struct sbx_options* o;
  struct sbx_error error;
  int err;

  if (sbx_options_new(&o) != 0) return false;
  err = sbx_options_add_string(o, "host.path", "/usr/bin", 8);
  if (err == 0)
    err = sbx_options_add_string(o, "host.tmpdir", l->folder,
                                 strlen(l->folder));
  if (err == 0) err = sbx_provider_local.open(&l->loop, o, &l->s, &error);
  sbx_options_free(o);
  return err == 0;
}

static void turn_until(struct life* l, const bool* flag) {
  while (!*flag) uv_run(&l->loop, UV_RUN_ONCE);
}

static void run_command(struct life* l, bool terminal) {
  const char* argv[] = {"/bin/sh", "-c", "cat; seq 1 20000; echo x >&2"};
  struct sbx_process_spec spec = {
      .argv = argv, .argc = 3, .stdin_pipe = true, .timeout_ms = 10000,
      .columns = terminal ? 80 : 0, .rows = 24, KIT_SPEC};
  struct kit_run r = {0};
  struct sbx_process_events events = {&r, kit_on_spawn, kit_on_bytes, NULL,
                                      kit_on_exit};
  struct sbx_error error;

  if (sbx_provider_local.spawn(l->s, &spec, &events, &r.process, &error) != 0) {
    assert_true(error.message[0] != '\0');
    assert_null(r.process);
    return;
  }
  if (terminal) turn_until(l, &r.spawned);
  sbx_process_write(r.process, "in\n", 3, NULL, NULL);
  if (sbx_process_close_stdin(r.process) != 0)
    assert_int_equal(sbx_process_close_stdin(r.process), 0);
  turn_until(l, &r.done);
  assert_false(r.result.timed_out);
  sbx_process_close(r.process);
}

/* Fails the n-th call from `from` on (0: the start, 1: the command, 2: one with
 * a terminal). */
static bool live(int n, int from) {
  struct life l = {0};

  uv_loop_init(&l.loop);
  strcpy(l.folder, "/tmp/sbx-fault-test-XXXXXX");
  assert_non_null(mkdtemp(l.folder));
  fired = false;
  if (from == 0) countdown = n;
  if (open_life(&l)) {
    sbx_provider_local.create(l.s, on_done, &l);
    turn_until(&l, &l.done);
    if (from > 0) {
      assert_false(l.failed);
      countdown = n;
    }
    if (!l.failed) run_command(&l, from == 2);
    countdown = -1;
    l.done = false;
    sbx_provider_local.close(l.s, on_done, &l);
    kit_until(&l.loop, &l.done);
  }
  countdown = -1;
  uv_run(&l.loop, UV_RUN_DEFAULT);
  assert_int_equal(uv_loop_close(&l.loop), 0);
  if (rmdir(l.folder) != 0) fail_msg("call %d leaves a folder", n);
  return fired;
}

static void each_call_fails_once(int from) {
  int before;
  int n = 0;

  live(-1, 0);
  before = kit_open_fds();
  while (live(n, from)) {
    if (kit_open_fds() != before) fail_msg("call %d leaves a descriptor", n);
    assert_int_equal(kit_monitors(NULL), 0);
    n++;
  }
  print_message("%d calls failed in turn\n", n);
  assert_true(n > 5);
}

/* ---- the ways out ---- */

/* Fails the n-th call of `verb` on a sandbox in which a command runs; that call
 * may fail, the next one does not. */
static bool leave(int n, void (*verb)(struct sbx_sandbox*, sbx_done_cb, void*)) {
  const char* argv[] = {"/bin/sleep", "1000"};
  struct sbx_process_spec spec = {.argv = argv, .argc = 2, KIT_SPEC};
  struct kit_run r = {0};
  struct sbx_process_events events = {&r, kit_on_spawn, NULL, NULL,
                                      kit_on_exit};
  struct sbx_error error;
  struct life l = {0};

  uv_loop_init(&l.loop);
  strcpy(l.folder, "/tmp/sbx-fault-test-XXXXXX");
  assert_non_null(mkdtemp(l.folder));
  assert_true(open_life(&l));
  sbx_provider_local.create(l.s, on_done, &l);
  turn_until(&l, &l.done);
  assert_false(l.failed);
  assert_int_equal(
      sbx_provider_local.spawn(l.s, &spec, &events, &r.process, &error), 0);
  fired = false;
  countdown = n;
  for (int i = 0; i == 0 || l.failed; i++) {
    assert_true(i < 2);
    l.done = false;
    verb(l.s, on_done, &l);
    turn_until(&l, &l.done);
    countdown = -1;
  }
  kit_until(&l.loop, &r.done); /* no success that leaves it running */
  sbx_process_close(r.process);
  l.done = false;
  sbx_provider_local.close(l.s, on_done, &l);
  kit_until(&l.loop, &l.done);
  uv_run(&l.loop, UV_RUN_DEFAULT);
  assert_int_equal(uv_loop_close(&l.loop), 0);
  if (rmdir(l.folder) != 0) fail_msg("call %d leaves a folder", n);
  return fired;
}

static void in_a_stop(void** state) {
  int n = 0;

  (void) state;
  while (leave(n, sbx_provider_local.stop)) n++;
  print_message("%d calls failed in turn\n", n);
  assert_true(n > 1);
}

static void in_a_destroy(void** state) {
  int n = 0;

  (void) state;
  while (leave(n, sbx_provider_local.destroy)) n++;
  print_message("%d calls failed in turn\n", n);
  assert_true(n > 1);
}

static void in_the_start(void** state) {
  (void) state;
  each_call_fails_once(0);
}

static void in_a_command(void** state) {
  (void) state;
  each_call_fails_once(1);
}

static void in_a_command_with_a_terminal(void** state) {
  (void) state;
  each_call_fails_once(2);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(in_the_start),
      cmocka_unit_test(in_a_command),
      cmocka_unit_test(in_a_command_with_a_terminal),
      cmocka_unit_test(in_a_stop),
      cmocka_unit_test(in_a_destroy),
  };

  signal(SIGPIPE, SIG_IGN);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
