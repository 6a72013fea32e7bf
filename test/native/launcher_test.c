/* The launcher alone, over its protocol: commands, ends of trees, failures of
 * each set-up step, deaths at any moment, set-id files, attacks from inside.
 * Runs as root and as a plain user; SBX_LAUNCHER is the program.
 */
#include "launcher_kit.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include <cmocka.h>

static struct kit_session session;

static bool is_there(const char* path) {
  struct stat st;
  return lstat(path, &st) == 0;
}

static void remove_folder(const char* path) {
  char command[600];

  assert_memory_equal(path, "/tmp/sbx-", 9);
  snprintf(command, sizeof(command), "rm -rf %s", path);
  assert_int_equal(system(command), 0);
}

static int exit_code(const struct kit_result* r) {
  return r->started && r->exited && WIFEXITED(r->status)
             ? WEXITSTATUS(r->status)
             : -1;
}

static void nap(int ms) {
  struct timespec t = {ms / 1000, (long) (ms % 1000) * 1000000};
  nanosleep(&t, NULL);
}

static int start(void** state) {
  (void) state;
  if (kit_start(&session, NULL)) return 0;
  fprintf(stderr, "step %u, errno %u, %s\n", session.answer.a,
          session.answer.b, session.what);
  return -1;
}

static int stop(void** state) {
  (void) state;
  kit_stop(&session);
  return is_there(session.folder) ? -1 : 0;
}

/* ---- commands ---- */

static void test_output_and_exit_code(void** state) {
  struct kit_result* r = kit_sh(&session, "echo out; echo err >&2; exit 7");

  (void) state;
  assert_int_equal(exit_code(r), 7);
  assert_string_equal(r->out, "out\n");
  assert_string_equal(r->err, "err\n");
  assert_true(r->usage.max_rss_bytes > 0);
}

static void test_signal_is_the_wait_status(void** state) {
  struct kit_result* r = kit_sh(&session, "kill -USR1 $$");

  (void) state;
  assert_true(WIFSIGNALED(r->status));
  assert_int_equal(WTERMSIG(r->status), SIGUSR1);
}

static void test_clean_start_of_a_command(void** state) {
  const char* status[] = {"cat", "/proc/self/status", NULL};
  const char* fds[] = {"ls", "/proc/self/fd", NULL};
  struct kit_result* r;

  (void) state;
  r = kit_sh(&session, "umask; pwd; cat; env | cut -d= -f1 | sort");
  assert_int_equal(exit_code(r), 0);
  assert_memory_equal(r->out, "0022\n/workspace\n", 16);
  assert_non_null(strstr(r->out, "HOME\nLANG\nPATH\nPWD\n"));
  r = kit_run(&session, "/", status, NULL);
  assert_non_null(strstr(r->out, "SigBlk:\t0000000000000000"));
  assert_non_null(strstr(r->out, "SigIgn:\t0000000000000000"));
  assert_non_null(strstr(r->out, "NoNewPrivs:\t1"));
  assert_non_null(strstr(r->out, "CapBnd:\t0000000000000000"));
  assert_non_null(strstr(r->out, "CapEff:\t0000000000000000"));
  r = kit_run(&session, "/", fds, NULL);
  assert_string_equal(r->out, "0\n1\n2\n3\n"); /* 3 is the folder itself */
}

static void assert_refused(const char* cwd, const char* const* argv,
                           const char* const* env, uint32_t stage, int error) {
  struct kit_result* r = kit_run(&session, cwd, argv, env);

  assert_false(r->started);
  assert_int_equal(r->stage, stage);
  assert_int_equal(r->error, error);
}

static void test_what_cannot_start(void** state) {
  const char* missing[] = {"/no/such/program", NULL};
  const char* nowhere[] = {"no-such-program", NULL};
  const char* empty[] = {"", NULL};
  const char* folder[] = {"/usr", NULL};
  const char* good[] = {"/bin/true", NULL};
  const char* broken[] = {"./broken", NULL};
  const char* closed[] = {"./closed", NULL};

  (void) state;
  kit_sh(&session, "printf '#!/no/such/sh\\n' >broken; chmod 755 broken;"
                   "printf x >closed; chmod 644 closed");
  assert_refused("/workspace", missing, NULL, SBX_STAGE_EXEC, ENOENT);
  assert_refused("/workspace", nowhere, NULL, SBX_STAGE_EXEC, ENOENT);
  assert_refused("/workspace", empty, NULL, SBX_STAGE_EXEC, ENOENT);
  assert_refused("/workspace", folder, NULL, SBX_STAGE_EXEC, EACCES);
  assert_refused("/workspace", broken, NULL, SBX_STAGE_EXEC, ENOENT);
  assert_refused("/workspace", closed, NULL, SBX_STAGE_EXEC, EACCES);
  assert_refused("/none", good, NULL, SBX_STAGE_CWD, ENOENT);
  assert_refused("/etc/passwd", good, NULL, SBX_STAGE_CWD, ENOTDIR);
  assert_int_equal(exit_code(kit_run(&session, "/", good, NULL)), 0);
}

static void test_path_search(void** state) {
  const char* tool[] = {"tool", "a b", NULL};
  const char* plain[] = {"true", NULL};
  const char* none[] = {NULL};
  const char* relative[] = {"PATH=/none:/etc/passwd:bin:/usr/bin", NULL};
  const char* here[] = {"PATH=", NULL};
  struct kit_result* r;

  (void) state;
  /* No first line: execvp would hand it to a shell, and so do we. */
  kit_sh(&session, "mkdir -p bin; echo 'echo ran \"$1\"' >bin/tool;"
                   "chmod 755 bin/tool; cp bin/tool tool");
  r = kit_run(&session, "/workspace", tool, relative);
  assert_int_equal(exit_code(r), 0);
  assert_string_equal(r->out, "ran a b\n");
  r = kit_run(&session, "/workspace", tool, here);
  assert_string_equal(r->out, "ran a b\n");
  assert_int_equal(exit_code(kit_run(&session, "/", plain, none)), 0);
}

static void test_stdin(void** state) {
  const char* argv[] = {"cat", NULL};
  static struct kit_result r;
  struct kit_command c;

  (void) state;
  memset(&r, 0, sizeof(r));
  assert_true(kit_spawn(&session, &c, "/workspace", argv, NULL, true));
  assert_int_equal(write(c.in, "hello", 5), 5);
  close(c.in);
  c.in = -1;
  kit_finish(&session, &c, &r, 60000);
  assert_string_equal(r.out, "hello");
}

static void test_large_request(void** state) {
  char* big = malloc(100001);
  const char* argv[] = {"/bin/sh", "-c", "printf %s \"$1\" | wc -c",
                        "sh", big, big, NULL};
  struct kit_result* r;

  (void) state;
  memset(big, 'x', 100000);
  big[100000] = '\0';
  r = kit_run(&session, "/workspace", argv, NULL);
  assert_int_equal(exit_code(r), 0);
  assert_int_equal(atoi(r->out), 100000);
  free(big);
}

static void test_bad_requests_change_nothing(void** state) {
  static const struct {
    size_t len;
    char bytes[32];
  } bad[] = {{0, ""},
             {7, "\1\0\0\0\0\0"},
             {8, "\1\0\0\0\0\0\0"},
             {10, "\0\0\0\0\0\0\0\0/"},             /* no argv */
             {12, "\1\0\0\0\0\0\0\0/\0ab"},         /* no NUL */
             {14, "\1\0\0\0\0\0\0\0/\0ab\0c"},      /* more than said */
             {13, "\2\0\0\0\0\0\0\0/\0ab"},         /* less than said */
             {13, "\377\377\377\377\0\0\0\0/\0ab"}, /* huge counts */
             {13, "\1\0\0\0\377\377\377\377/\0ab"}};
  int fds[5] = {0, 1, 2, 1, 2};
  struct sbx_msg msg = {.type = SBX_MSG_SPAWN};
  struct kit_packet p;
  uint32_t type;
  size_t i;

  (void) state;
  for (i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
    msg.id = 90000 + (uint32_t) i;
    kit_send(&session, &msg, bad[i].bytes, bad[i].len, fds, 2);
    assert_true(kit_await(&session, SBX_MSG_REFUSED, msg.id, 60000, &p));
    assert_int_equal(p.msg.a, SBX_STAGE_REQUEST);
  }
  for (i = 0; i < 6; i++) { /* wrong descriptors, wrong flags */
    msg.id++;
    msg.a = i < 4 ? (uint32_t) i : 8;
    kit_send(&session, &msg, "\1\0\0\0\0\0\0\0/\0a", 12, fds, i == 3 ? 3 : 1);
    assert_true(kit_await(&session, SBX_MSG_REFUSED, msg.id, 60000, &p));
  }
  for (type = 0; type < 80; type++)
    if (type != SBX_MSG_END && type != SBX_MSG_SIGNAL)
      kit_post(&session, type, 88888, 0xffffffff, 0xffffffff);
  kit_post(&session, SBX_MSG_SIGNAL, 1, 9, 77);
  kit_post(&session, SBX_MSG_SIGNAL, 1, 0, SBX_SCOPE_ALL);
  kit_post(&session, SBX_MSG_SIGNAL, 424242, 9, SBX_SCOPE_PROCESS);
  kit_post(&session, SBX_MSG_END, 424242, 0, SBX_SCOPE_TREE);
  assert_int_equal(exit_code(kit_sh(&session, "exit 3")), 3);
}

/* Any bytes with any descriptors: PID 1 answers or drops, and goes on. */
static void test_random_messages(void** state) {
  struct kit_packet p;
  int fds[5], drained[2], i, j;
  char bytes[300];

  (void) state;
  assert_int_equal(pipe2(drained, O_CLOEXEC), 0);
  for (i = 0; i < 3000; i++) {
    struct sbx_msg msg = {(uint32_t) random() % 6, (uint32_t) random() % 50,
                          (uint32_t) random(), (uint32_t) random() % 4};
    size_t len = (size_t) random() % sizeof(bytes);

    if (random() % 2) msg.a %= 8;
    for (j = 0; j < (int) len; j++)
      bytes[j] = random() % 3 ? (char) (random() % 4) : (char) random();
    for (j = 0; j < 5; j++) fds[j] = random() % 2 ? drained[1] : 0;
    kit_send(&session, &msg, bytes, len, fds, (size_t) random() % 6);
    while (kit_receive(&session, 0, &p, fds)) {
    }
  }
  close(drained[0]);
  close(drained[1]);
  session.next_id = 1000000;
  assert_int_equal(exit_code(kit_sh(&session, "exit 3")), 3);
}

static void test_many_at_once(void** state) {
  enum { COUNT = 150 };
  static struct kit_command commands[COUNT];
  const char* argv[] = {"/bin/sh", "-c", "exit 5", NULL};
  struct kit_packet p;
  int i;

  (void) state;
  for (i = 0; i < COUNT; i++)
    kit_request(&session, &commands[i], "/workspace", argv, NULL, false);
  for (i = 0; i < COUNT; i++) {
    assert_true(
        kit_await(&session, SBX_MSG_EXIT, commands[i].id, 60000, &p));
    assert_int_equal(WEXITSTATUS((int) p.msg.a), 5);
    assert_true(
        kit_await(&session, SBX_MSG_SPAWNED, commands[i].id, 60000, &p));
    kit_close(&commands[i]);
  }
}

/* Orphans of a command that has gone are reaped, too. */
static void test_orphans_leave_no_zombies(void** state) {
  struct kit_result* r = kit_sh(
      &session, "for i in $(seq 300); do (sleep 0.1 &) ; done; exit 0");

  (void) state;
  assert_int_equal(exit_code(r), 0);
  r = kit_sh(&session, "while pgrep -x sleep >/dev/null || "
                       "cat /proc/[0-9]*/stat 2>/dev/null | grep -q ') Z '; "
                       "do sleep 0.05; done");
  assert_int_equal(exit_code(r), 0);
}

/* ---- the ends of trees ---- */

static struct kit_command background(const char* script) {
  const char* argv[] = {"/bin/bash", "-c", script, NULL};
  struct kit_command c;
  char line[64];

  assert_true(kit_spawn(&session, &c, "/workspace", argv, NULL, false));
  /* Scripts say a line when they are set up. */
  assert_true(read(c.out, line, sizeof(line)) > 0);
  return c;
}

static int count_inside(const char* name) {
  char script[128];

  snprintf(script, sizeof(script), "pgrep -xc '%s' || true", name);
  return atoi(kit_sh(&session, script)->out);
}

/* True once there are so many: a fork takes a moment to become its program. */
static bool are_between(const char* name, int least, int most) {
  int i, count;

  for (i = 0; i < 1000; i++) {
    count = count_inside(name);
    if (count >= least && count <= most) return true;
    nap(20);
  }
  return false;
}

static bool are_inside(const char* name, int count) {
  return are_between(name, count, count);
}

/* True once none is left. */
static bool are_gone(const char* name) {
  return are_inside(name, 0);
}

static void test_kill_takes_the_whole_tree(void** state) {
  struct kit_command c = background(
      "sleep 301 & "                                      /* child */
      "setsid sleep 301 & "                               /* holds stdout */
      "(setsid setsid sleep 301 >/dev/null 2>&1 &) & "    /* descendant or not */
      "setsid bash -c 'trap \"\" TERM HUP INT; echo; sleep 301; wait' & "
      "wait");
  struct kit_packet p;

  (void) state;
  assert_true(are_inside("sleep", 4));
  kit_post(&session, SBX_MSG_END, c.id, 0, SBX_SCOPE_TREE);
  assert_true(kit_await(&session, SBX_MSG_EXIT, c.id, 60000, &p));
  assert_true(WIFSIGNALED((int) p.msg.a));
  assert_int_equal(WTERMSIG((int) p.msg.a), SIGKILL);
  kit_close(&c);
  /* The one that left session, tree and pipes behind is a daemon now. */
  assert_true(are_between("sleep", 0, 1));
  kit_sh(&session, "pkill -x sleep");
  assert_true(are_gone("sleep"));
}

static void test_kill_finds_holders_of_either_stream(void** state) {
  struct kit_command c = background(
      "(setsid setsid sleep 302 >/dev/null &) ; "
      "(setsid setsid sleep 302 2>/dev/null &) ; sleep 0.1; echo; sleep 302");
  struct kit_packet p;

  (void) state;
  assert_true(are_inside("sleep", 3));
  kit_post(&session, SBX_MSG_END, c.id, 0, SBX_SCOPE_TREE);
  assert_true(kit_await(&session, SBX_MSG_EXIT, c.id, 60000, &p));
  assert_true(are_gone("sleep"));
  kit_close(&c);
}

static void test_grace_then_kill(void** state) {
  struct kit_command c = background(
      "trap 'echo got; exit 9' TERM; "
      "setsid bash -c 'trap \"\" TERM; sleep 303 & : >set; wait; wait; wait' "
      ">/dev/null 2>&1 & while ! test -e set; do sleep 0.02; done; echo; "
      "while :; do sleep 0.05; done");
  struct kit_packet p;

  (void) state;
  kit_post(&session, SBX_MSG_END, c.id, 2000, SBX_SCOPE_TREE);
  /* The command itself may use its grace and is reported at once ... */
  assert_true(kit_await(&session, SBX_MSG_EXIT, c.id, 2000, &p));
  assert_int_equal(WEXITSTATUS((int) p.msg.a), 9);
  /* ... while the rest of the tree is ended after the grace. */
  assert_true(count_inside("bash") >= 1);
  assert_true(are_gone("bash"));
  assert_true(are_gone("sleep"));
  kit_close(&c);
}

static void test_stopped_processes_end_as_well(void** state) {
  struct kit_command c = background("sleep 304 & echo; kill -STOP $$");
  struct kit_packet p;

  (void) state;
  nap(50);
  kit_post(&session, SBX_MSG_END, c.id, 30000, SBX_SCOPE_TREE);
  assert_true(kit_await(&session, SBX_MSG_EXIT, c.id, 60000, &p));
  assert_int_equal(WTERMSIG((int) p.msg.a), SIGTERM);
  assert_true(are_gone("sleep"));
  kit_close(&c);
}

static void test_nothing_of_other_commands_is_ended(void** state) {
  struct kit_command other = background("echo; exec sleep 305");
  struct kit_command c;
  struct kit_packet p;

  (void) state;
  kit_sh(&session, "setsid sleep 306 >/dev/null 2>&1 &");
  c = background("sleep 307 & echo; wait");
  kit_post(&session, SBX_MSG_END, c.id, 0, SBX_SCOPE_TREE);
  assert_true(kit_await(&session, SBX_MSG_EXIT, c.id, 60000, &p));
  assert_true(are_inside("sleep", 2)); /* other, and the daemon */
  kit_post(&session, SBX_MSG_END, other.id, 0, SBX_SCOPE_TREE);
  assert_true(kit_await(&session, SBX_MSG_EXIT, other.id, 60000, &p));
  assert_true(are_inside("sleep", 1));
  kit_sh(&session, "pkill -x sleep");
  kit_close(&c);
  kit_close(&other);
}

/* A kill that crosses the exit on its way still ends what is left. */
static void test_kill_after_the_exit(void** state) {
  struct kit_command c =
      background("sleep 308 & sleep 308 >/dev/null 2>&1 & sleep 0.1; echo");
  struct kit_packet p;

  (void) state;
  assert_true(kit_await(&session, SBX_MSG_EXIT, c.id, 60000, &p));
  assert_true(are_inside("sleep", 2));
  kit_post(&session, SBX_MSG_END, c.id, 0, SBX_SCOPE_TREE);
  assert_true(are_gone("sleep"));
  kit_close(&c);
}

static void test_forking_tree_cannot_run_away(void** state) {
  struct kit_command c = background(
      "echo; f() { sleep 0.01; setsid bash -c \"$(declare -f f); f\" & "
      "setsid sleep 309 >/dev/null 2>&1 & wait -n; }; export -f f; "
      "while :; do f >/dev/null 2>&1 & sleep 0.02; done");
  struct kit_packet p;

  (void) state;
  nap(500);
  kit_post(&session, SBX_MSG_END, c.id, 0, SBX_SCOPE_TREE);
  assert_true(kit_await(&session, SBX_MSG_EXIT, c.id, 60000, &p));
  nap(100);
  kit_close(&c);
  /* What had become a daemon before is another matter. */
  kit_post(&session, SBX_MSG_END, 0, 0, SBX_SCOPE_ALL);
  assert_true(kit_await(&session, SBX_MSG_EMPTY, 0, 60000, &p));
}

static void test_signals(void** state) {
  struct kit_command c = background(
      "trap 'echo usr1' USR1; bash -c 'trap \"echo child\" USR1; echo;"
      " while :; do sleep 0.02; done' & while :; do sleep 0.02; done");
  char text[256] = "";
  struct kit_packet p;

  (void) state;
  kit_post(&session, SBX_MSG_SIGNAL, c.id, SIGUSR1, SBX_SCOPE_PROCESS);
  nap(300);
  assert_true(read(c.out, text, sizeof(text) - 1) > 0);
  assert_string_equal(text, "usr1\n");
  kit_post(&session, SBX_MSG_SIGNAL, c.id, SIGUSR1, SBX_SCOPE_TREE);
  memset(text, 0, sizeof(text));
  while (!strstr(text, "child\n") || !strstr(text, "usr1\n"))
    assert_true(read(c.out, text + strlen(text),
                     sizeof(text) - 1 - strlen(text)) > 0);
  kit_post(&session, SBX_MSG_END, c.id, 0, SBX_SCOPE_TREE);
  assert_true(kit_await(&session, SBX_MSG_EXIT, c.id, 60000, &p));
  kit_close(&c);
}

static void test_end_all(void** state) {
  struct kit_command a, b;
  struct kit_packet p;

  (void) state;
  kit_post(&session, SBX_MSG_END, 0, 2000, SBX_SCOPE_ALL);
  assert_true(kit_await(&session, SBX_MSG_EMPTY, 0, 60000, &p));
  a = background("setsid sleep 310 >/dev/null 2>&1 & echo; sleep 310");
  b = background("trap '' TERM; echo; while :; do sleep 0.05; done");
  kit_post(&session, SBX_MSG_END, 0, 300, SBX_SCOPE_ALL);
  assert_true(kit_await(&session, SBX_MSG_EXIT, a.id, 60000, &p));
  assert_int_equal(WTERMSIG((int) p.msg.a), SIGTERM);
  assert_true(kit_await(&session, SBX_MSG_EXIT, b.id, 60000, &p));
  assert_int_equal(WTERMSIG((int) p.msg.a), SIGKILL);
  assert_null(session.packets); /* EMPTY comes after both */
  assert_true(kit_await(&session, SBX_MSG_EMPTY, 0, 60000, &p));
  assert_int_equal(count_inside("sleep"), 0); /* and the session goes on */
  kit_close(&a);
  kit_close(&b);
}

static void test_fork_bomb(void** state) {
  struct kit_options o = {.nproc = 200};
  struct kit_session s;
  struct kit_command c;
  struct kit_packet p;
  const char* argv[] = {"/bin/bash", "-c",
                        "b() { b & b & sleep 100; }; b; wait", NULL};

  (void) state;
  assert_true(kit_start(&s, &o));
  assert_true(kit_spawn(&s, &c, "/workspace", argv, NULL, false));
  nap(500);
  kit_post(&s, SBX_MSG_END, 0, 0, SBX_SCOPE_ALL);
  assert_true(kit_await(&s, SBX_MSG_EMPTY, 0, 60000, &p));
  assert_int_equal(exit_code(kit_sh(&s, "exit 4")), 4);
  kit_close(&c);
  kit_stop(&s);
}

static void test_drain(void** state) {
  struct kit_command c = background(
      "(sleep 0.3; head -c 3000000 /dev/zero && echo fine >late) & echo");
  struct kit_packet p;
  struct sbx_msg msg = {.type = SBX_MSG_DRAIN};
  int fds[2] = {c.out, c.err};
  int i;

  (void) state;
  assert_true(kit_await(&session, SBX_MSG_EXIT, c.id, 60000, &p));
  kit_send(&session, &msg, NULL, 0, fds, 2);
  kit_close(&c);
  for (i = 0; i < 1000 && exit_code(kit_sh(&session, "test -s late")) != 0; i++)
    nap(20);
  assert_string_equal(kit_sh(&session, "cat late")->out, "fine\n");
}

/* PID 1 goes on while the host reads nothing. */
static void test_answers_are_queued(void** state) {
  enum { COUNT = 400 };
  struct sbx_msg msg = {.type = SBX_MSG_SPAWN};
  int small = 4096, fds[1] = {0};
  struct kit_session s;
  struct kit_packet p;
  uint32_t i;

  (void) state;
  assert_true(kit_start(&s, NULL));
  setsockopt(s.control, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
  for (i = 1; i <= COUNT; i++) {
    msg.id = i;
    kit_send(&s, &msg, "", 0, fds, 1);
  }
  nap(200);
  for (i = 1; i <= COUNT; i++) {
    assert_true(kit_await(&s, SBX_MSG_REFUSED, i, 60000, &p));
    assert_null(s.packets); /* in order */
  }
  kit_stop(&s);
}

/* ---- set-up ---- */

static void test_each_step_can_fail(void** state) {
  struct kit_options o = {.fail_errno = ENOTNAM};
  struct kit_session s;
  struct kit_packet p;
  int fds[2], status;

  (void) state;
  for (o.fail_step = SBX_SETUP_CONFIG; o.fail_step < SBX_SETUP_COUNT;
       o.fail_step++) {
    assert_false(kit_start(&s, &o));
    assert_int_equal(s.answer.type, SBX_MSG_FAIL);
    assert_int_equal(s.answer.a, o.fail_step);
    assert_int_equal(s.answer.b, ENOTNAM);
    /* Nothing follows but the end of the socket. */
    assert_false(kit_receive(&s, 5000, &p, fds));
    assert_true(is_there(s.folder));
    status = kit_stop(&s);
    assert_true(WIFEXITED(status));
    assert_int_equal(kit_count_launchers(), 0);
    assert_false(is_there(s.folder));
  }
}

static void bad_bind(void* arg, int config) {
  kit_pair(config, SBX_CONFIG_BIND_RW, arg, "/bound");
}

static void test_real_failures_name_the_thing(void** state) {
  struct kit_options o = {.extra = bad_bind, .arg = (void*) "/no/such/folder"};
  struct kit_options gone = {.directory = "/no/such/workspace", .owner = 1};
  struct kit_session s;

  (void) state;
  assert_false(kit_start(&s, &o));
  assert_int_equal(s.answer.a, SBX_SETUP_BINDS);
  assert_int_equal(s.answer.b, ENOENT);
  assert_string_equal(s.what, "/no/such/folder");
  kit_stop(&s);
  assert_false(kit_start(&s, &gone));
  assert_int_equal(s.answer.a, SBX_SETUP_WORKSPACE);
  assert_int_equal(s.answer.b, ENOENT);
  assert_string_equal(s.what, "/no/such/workspace");
  kit_stop(&s);
}

static void garbage(void* arg, int config) {
  size_t len = *(size_t*) arg;
  kit_item(config, len < 8 ? SBX_CONFIG_NPROC : 9999, "12345678", len);
}

static void test_bad_configuration(void** state) {
  size_t len;

  (void) state;
  for (len = 0; len < 9; len += 4) {
    struct kit_options o = {.extra = garbage, .arg = &len};
    struct kit_session s;
    assert_false(kit_start(&s, &o));
    assert_int_equal(s.answer.a, SBX_SETUP_CONFIG);
    assert_int_equal(s.answer.b, EINVAL);
    kit_stop(&s);
    /* What was not understood is not acted on. */
    remove_folder(s.folder);
  }
}

static void test_keep_the_folder(void** state) {
  struct kit_session s;

  (void) state;
  assert_true(kit_start(&s, NULL));
  assert_int_equal(write(s.life, "K", 1), 1);
  kit_stop(&s);
  assert_true(is_there(s.folder));
  remove_folder(s.folder);
}

static void name_a_folder(void* arg, int config) {
  char path[96];

  snprintf(path, sizeof(path), "%s/ws", (char*) arg);
  kit_string(config, SBX_CONFIG_WORKSPACE, path);
  kit_string(config, SBX_CONFIG_REMOVE, arg);
}

static void test_monitor_makes_the_folder(void** state) {
  struct kit_options o = {.make = true};
  struct kit_session s;
  struct stat st;
  char other[] = "/tmp/sbx-other-XXXXXX";

  (void) state;
  assert_true(kit_start(&s, &o));
  assert_int_equal(stat(s.folder, &st), 0);
  assert_int_equal(st.st_mode & 0777, 0700);
  assert_int_equal(st.st_uid, geteuid());
  assert_int_equal(exit_code(kit_sh(&s, "touch x")), 0);
  kit_stop(&s);
  assert_false(is_there(s.folder));

  /* One that is there is somebody's: neither used nor removed. */
  assert_non_null(mkdtemp(other));
  o.extra = name_a_folder;
  o.arg = other;
  assert_false(kit_start(&s, &o));
  assert_int_equal(s.answer.a, SBX_SETUP_WORKSPACE);
  assert_int_equal(s.answer.b, EEXIST);
  kit_stop(&s);
  assert_true(is_there(other));
  remove_folder(other);
}

static void view_extra(void* arg, int config) {
  (void) arg;
  kit_string(config, SBX_CONFIG_TMPFS, "/root");
  kit_pair(config, SBX_CONFIG_BIND_RO, "/usr/share", "/root/tools/share");
  kit_string(config, SBX_CONFIG_MASK, "/usr/bin/env");
  kit_string(config, SBX_CONFIG_MASK, "/usr/include");
  kit_string(config, SBX_CONFIG_MASK, "/not/there");
}

static void test_view(void** state) {
  struct kit_options o = {.extra = view_extra};
  struct kit_session s;
  struct kit_result* r;

  (void) state;
  assert_true(kit_start(&s, &o));
  r = kit_sh(&s, "test -d /root/tools/share/doc || echo bad1;"
                 "touch /root/x || echo bad2; test ! -s /usr/bin/env || echo bad3;"
                 "test -z \"$(ls /usr/include)\" || echo bad4;"
                 "touch /x /usr/x /etc/x /root/tools/x2/y /dev/x 2>/dev/null;"
                 "test -e /x -o -e /usr/x -o -e /etc/x -o -e /dev/x && echo bad5;"
                 "test -s /etc/passwd || echo bad6; hostname");
  assert_string_equal(r->err, "");
  assert_string_equal(r->out, "sandbox\n");
  /* The descriptors that the host got are the same folders. */
  kit_sh(&s, "echo hi >seen; echo ho >/tmp/seen");
  assert_int_equal(faccessat(s.workspace_fd, "seen", F_OK, 0), 0);
  assert_int_equal(faccessat(s.root_fd, "tmp/seen", F_OK, 0), 0);
  assert_int_equal(faccessat(s.root_fd, "workspace/seen", F_OK, 0), 0);
  kit_stop(&s);
}

static void closed_bind(void* arg, int config) {
  kit_pair(config, SBX_CONFIG_BIND_RO, arg, "/tools");
}

/* A tool manager in the home of the user who called sudo. */
static void test_source_in_a_closed_folder(void** state) {
  char folder[] = "/tmp/sbx-home-XXXXXX", inner[64], path[80];
  struct kit_options o = {.extra = closed_bind, .arg = inner};
  struct kit_session s;

  (void) state;
  assert_non_null(mkdtemp(folder));
  snprintf(inner, sizeof(inner), "%s/bin", folder);
  snprintf(path, sizeof(path), "%s/tool", inner);
  assert_int_equal(mkdir(inner, 0755), 0);
  close(open(path, O_CREAT | O_WRONLY, 0755));
  if (geteuid() == 0) assert_int_equal(chown(folder, 501, 501), 0);
  assert_true(kit_start(&s, &o));
  assert_int_equal(exit_code(kit_sh(&s, "test -x /tools/tool")), 0);
  assert_int_equal(exit_code(kit_sh(&s, "touch /tools/x")), 1);
  kit_stop(&s);
  remove_folder(folder);
}

static void test_tmp_is_limited(void** state) {
  struct kit_options o = {.tmp_bytes = 1 << 20};
  struct kit_session s;
  struct kit_result* r;

  (void) state;
  assert_true(kit_start(&s, &o));
  r = kit_sh(&s, "for d in /tmp /var/tmp /dev/shm; do"
                 " head -c 2000000 /dev/zero >$d/x && echo bad; done");
  assert_string_equal(r->out, "");
  kit_stop(&s);
}

static int set_id_files(const char* folder) {
  char command[256], text[32] = "";
  FILE* f;

  snprintf(command, sizeof(command),
           "find %s ! -type d -perm /6000 2>/dev/null | wc -l", folder);
  f = popen(command, "r");
  if (fgets(text, sizeof(text), f) == NULL) text[0] = '\0';
  pclose(f);
  return atoi(text);
}

static void make_owned_folder(char* folder, uid_t owner) {
  char path[128];

  strcpy(folder, "/tmp/sbx-given-XXXXXX");
  assert_non_null(mkdtemp(folder));
  snprintf(path, sizeof(path), "%s/old", folder);
  close(open(path, O_CREAT | O_WRONLY, 0644));
  if (geteuid() != 0) return;
  assert_int_equal(chown(path, owner, owner), 0);
  assert_int_equal(chown(folder, owner, owner), 0);
}

/* What the launcher finds on kernels that lack the newer calls. */
static void test_old_kernels(void** state) {
  static const int calls[][8] = {
      {442},                /* mount_setattr */
      {428, 429},           /* open_tree, move_mount */
      {436, 437},           /* close_range, openat2 */
      {444, 445, 446},      /* Landlock */
      {428, 429, 436, 437, 442, 444, 452}};
  size_t i;

  (void) state;
  for (i = 0; i < 5; i++) {
    char folder[64];
    struct kit_options o = {.directory = folder,
                            .owner = geteuid() == 0 ? 501 : geteuid(),
                            .missing = calls[i]};
    struct kit_session s;
    struct kit_result* r;

    make_owned_folder(folder, o.owner);
    assert_true(kit_start(&s, &o));
    r = kit_sh(&s, "touch /usr/x /usr/lib/x 2>/dev/null && echo bad1;"
                   "echo x >>old || echo bad2; chmod 4755 old; mkdir d;"
                   "chmod g+s d; ls /proc/self/fd | wc -l;"
                   "grep -c ' /usr ro,nosuid,nodev' /proc/self/mountinfo");
    assert_string_equal(r->out, "4\n1\n");
    assert_int_equal(set_id_files(folder), 0);
    if (i == 2 || i == 4)
      assert_false(s.answer.b & SBX_READY_NOTIFIER);
    if (i == 3 || i == 4) assert_int_equal(s.answer.a, 0);
    if (i == 1) assert_false(s.answer.b & SBX_READY_IDMAPPED);
    kit_stop(&s);
    remove_folder(folder);
  }
}

/* As in a container that refuses user namespaces. */
static void test_refused_namespaces(void** state) {
  static const int calls[8] = {-SYS_clone};
  struct kit_options o = {.missing = calls};
  struct kit_session s;

  (void) state;
  assert_false(kit_start(&s, &o));
  assert_int_equal(s.answer.a, SBX_SETUP_NAMESPACES);
  assert_int_equal(s.answer.b, EPERM);
  kit_stop(&s);
  assert_false(is_there(s.folder));
}

static void test_given_directory_keeps_its_owner(void** state) {
  static const uid_t owners[] = {0, 1000, 501, 70000};
  size_t i;

  (void) state;
  for (i = 0; i < 4; i++) {
    uid_t owner = geteuid() == 0 ? owners[i] : geteuid();
    char folder[64], path[128];
    struct kit_options o = {.directory = folder, .owner = owner};
    struct kit_session s;
    struct stat st;

    make_owned_folder(folder, owner);
    assert_true(kit_start(&s, &o));
    assert_int_equal(
        exit_code(kit_sh(&s, "echo x >>old && mv old new && mkdir made &&"
                             "test \"$(stat -c %u-%g . new made | sort -u)\" = "
                             "1000-1000")),
        0);
    snprintf(path, sizeof(path), "%s/made", folder);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_uid, owner);
    kit_stop(&s);
    assert_true(is_there(folder)); /* never ours to remove */
    remove_folder(folder);
  }
}

/* ---- deaths ---- */

static bool none_left(void) {
  int i;

  for (i = 0; i < 12000; i++) {
    if (kit_count_launchers() == 0) return true;
    nap(5);
  }
  return false;
}

static bool is_removed(const char* folder) {
  int i;

  /* A disk under load may keep a removal waiting for a minute. */
  for (i = 0; i < 60000 && is_there(folder); i++) nap(5);
  return !is_there(folder);
}

/* Whether the other end closes, after whatever it still had to say. */
static bool ends(struct kit_session* s) {
  struct pollfd polled = {s->control, POLLIN, 0};
  char bytes[1024];

  while (poll(&polled, 1, 60000) == 1)
    if (recv(s->control, bytes, sizeof(bytes), MSG_CMSG_CLOEXEC) <= 0)
      return true;
  return false;
}

static void busy(struct kit_session* s) {
  const char* argv[] = {"/bin/bash", "-c",
                        "trap '' TERM; setsid bash -c 'trap \"\" TERM HUP; "
                        "while :; do sleep 0.01; done' & wait", NULL};
  struct kit_command c;

  kit_request(s, &c, "/workspace", argv, NULL, false);
}

/* The host: starts a session, says which, and waits to be killed. */
static pid_t fork_host(struct kit_session* s) {
  struct kit_options o = {.no_wait = true, .make = true};
  int told[2];
  pid_t pid;

  assert_int_equal(pipe(told), 0);
  pid = fork();
  if (pid == 0) {
    kit_start(s, &o);
    if (write(told[1], s, sizeof(*s)) < 0) _exit(1);
    kit_await_ready(s);
    busy(s);
    for (;;) pause();
  }
  close(told[1]);
  assert_int_equal(read(told[0], s, sizeof(*s)), sizeof(*s));
  close(told[0]);
  return pid;
}

static void test_host_dies_at_any_moment(void** state) {
  int i;

  (void) state;
  for (i = 0; i < 100; i++) {
    struct kit_session s;
    pid_t host = fork_host(&s);

    usleep((useconds_t) (random() % 12000));
    kill(host, SIGKILL);
    waitpid(host, NULL, 0);
    /* It may have been killed before its launcher was even executed. */
    assert_true(is_removed(s.folder));
    assert_true(none_left());
  }
}

static void test_monitor_dies_at_any_moment(void** state) {
  struct kit_options o = {.no_wait = true};
  int i;

  (void) state;
  for (i = 0; i < 100; i++) {
    struct kit_session s;

    kit_start(&s, &o);
    if (i % 2 == 0 && kit_await_ready(&s)) busy(&s);
    usleep((useconds_t) (random() % 10000));
    kill(s.launcher, SIGKILL);
    assert_true(ends(&s)); /* PID 1 goes by itself, not because we do */
    kit_stop(&s);
    assert_true(none_left());
    /* Its folder is the host's to remove, that is alive. */
    remove_folder(s.folder);
  }
}

static void test_init_dies_at_any_moment(void** state) {
  struct kit_options o = {.no_wait = true};
  int i;

  (void) state;
  for (i = 0; i < 100; i++) {
    struct kit_session s;
    pid_t init = 0;

    kit_start(&s, &o);
    while ((init = kit_init_pid(&s)) == 0) usleep(50);
    if (i % 2 == 0 && kit_await_ready(&s)) busy(&s);
    usleep((useconds_t) (random() % 6000));
    /* It may have been the helper that holds a namespace. */
    if ((init = kit_init_pid(&s)) > 1) kill(init, SIGKILL);
    assert_true(ends(&s));
    kit_stop(&s);
    assert_true(none_left());
    assert_false(is_there(s.folder));
  }
}

/* ---- set-id files ---- */

static void test_set_id_by_programs(void** state) {
  struct kit_result* r = kit_sh(
      &session,
      "set -e; echo x >f; mkdir d; "
      "chmod u+s f; chmod g+s f; chmod 6755 f; test $(stat -c %a f) = 755;"
      "chmod g+s d; test $(stat -c %a d) = 2755; mkdir d/e;"
      "test $(stat -c %a d/e) = 2755; chmod 6775 d; test $(stat -c %a d) = 2775;"
      "cp -p /usr/bin/passwd p1; cp -p /usr/bin/su p2; test -s p1;"
      "install -m 4755 f i; test $(stat -c %a i) = 755; mkdir -m 2755 m;"
      "cp -a d d2; test $(stat -c %a d2) = 2775;"
      "tar -C /usr/bin -cf t.tar passwd su; tar -xpf t.tar; test -x su;"
      "cd d; chmod 4711 ../f; test $(stat -c %a ../f) = 711; cd ..;"
      "ln -s f l; chmod u+s l; test -L l;"
      "cp -p --preserve=mode /usr/bin/passwd q; rm -rf d2");

  (void) state;
  assert_string_equal(r->err, "");
  assert_int_equal(exit_code(r), 0);
  assert_int_equal(set_id_files(session.workspace), 0);
}

static void test_set_id_by_interpreters(void** state) {
  struct kit_result* r = kit_sh(
      &session,
      "echo x >g; command -v python3 >/dev/null && python3 -c '\n"
      "import os, stat\n"
      "os.chmod(\"g\", 0o6755); assert os.stat(\"g\").st_mode & 0o7777 == 0o755\n"
      "fd = os.open(\"g\", os.O_RDWR); os.fchmod(fd, 0o4700)\n"
      "assert os.stat(\"g\").st_mode & 0o7777 == 0o700\n"
      "d = os.open(\"/workspace\", os.O_RDONLY)\n"
      "os.chmod(\"g\", 0o4711, dir_fd=d)\n"
      "assert os.stat(\"g\").st_mode & 0o7777 == 0o711\n"
      "os.chmod(\"/proc/self/fd/%d\" % fd, 0o4755)\n"
      "os.chmod(\"/dev/fd/%d\" % fd, 0o4754)\n"
      "assert os.stat(\"g\").st_mode & 0o7777 == 0o754\n"
      "def no(f, *a):\n"
      "    try: f(*a)\n"
      "    except OSError as e: return e.errno\n"
      "    return 0\n"
      "assert no(os.open, \"h\", os.O_CREAT | os.O_WRONLY, 0o4755) == 1\n"
      "assert no(os.mknod, \"h\", 0o106755) == 1\n"
      "assert no(os.chmod, \"/none\", 0o4755) == 2\n"
      "assert no(os.chmod, \"/usr/bin/su\", 0o4755) in (1, 30)\n"
      "assert no(os.chmod, \"/proc/1/fd/3\", 0o4755) != 0\n"
      "assert no(os.chmod, \"/proc/1/status\", 0o4755) != 0\n"
      "assert no(os.chmod, \"\", 0o4755) == 2\n"
      "assert no(os.fchmod, 77, 0o4755) == 9\n"
      "os.mkdir(\"k\", 0o2755)\n"
      "'; command -v node >/dev/null && node -e '\n"
      "const fs = require(\"fs\"); fs.writeFileSync(\"n\", \"\");\n"
      "fs.chmodSync(\"n\", 0o4755); fs.chmodSync(\"n\", 0o2755);\n"
      "const fd = fs.openSync(\"n\"); fs.fchmodSync(fd, 0o6711);\n"
      "if ((fs.statSync(\"n\").mode & 0o7777) !== 0o711) throw 1;\n"
      "try { fs.writeFileSync(\"o\", \"\", { mode: 0o4755 }); throw 2 }\n"
      "catch (e) { if (e.code !== \"EPERM\") throw e }'");

  (void) state;
  assert_string_equal(r->err, "");
  assert_int_equal(exit_code(r), 0);
  assert_int_equal(set_id_files(session.workspace), 0);
}

/* ---- attacks ---- */

static const char* secret_path;

static void tell(const char* name, bool succeeded) {
  printf("%s %s\n", succeeded ? "R" : ".", name);
}

static bool can_open(const char* path, int flags) {
  int fd = open(path, flags);
  if (fd >= 0) close(fd);
  return fd >= 0;
}

static bool can_socket(int domain, int type, int protocol) {
  int fd = socket(domain, type, protocol);
  if (fd >= 0) close(fd);
  return fd >= 0;
}

static bool can_make_namespace(int flags) {
  pid_t pid = fork();
  int status = 0;

  if (pid == 0) _exit(unshare(flags) == 0 ? 0 : 1);
  waitpid(pid, &status, 0);
  return status == 0;
}

static bool can_clone(unsigned long flags) {
  pid_t pid = (pid_t) syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0);

  if (pid == 0) _exit(0);
  if (pid > 0) waitpid(pid, NULL, 0);
  return pid > 0;
}

static bool can_clone3(void) {
  uint64_t args[8] = {CLONE_NEWUSER, 0, 0, 0, SIGCHLD, 0, 0, 0};
  long pid = syscall(435, args, sizeof(args));

  if (pid == 0) _exit(0);
  return pid > 0 || errno != ENOSYS;
}

static void attack_files(void) {
  char path[600];

  snprintf(path, sizeof(path), "/proc/self/root%s", secret_path);
  tell("read a host file", can_open(secret_path, O_RDONLY));
  tell("through /proc/self/root", can_open(path, O_RDONLY));
  snprintf(path, sizeof(path), "/proc/1/root%s", secret_path);
  tell("through /proc/1/root", can_open(path, O_RDONLY));
  snprintf(path, sizeof(path), "../../../../../..%s", secret_path);
  tell("through ../..", can_open(path, O_RDONLY));
  tell("/etc/shadow", can_open("/etc/shadow", O_RDONLY));
  tell("write to /usr", can_open("/usr/pwned", O_WRONLY | O_CREAT));
  tell("write to /", can_open("/pwned", O_WRONLY | O_CREAT));
  tell("mknod block", mknod("blk", S_IFBLK | 0600, 0xfe00) == 0);
  tell("mknod char", mknod("chr", S_IFCHR | 0600, 0x0101) == 0);
  tell("/dev/mem", can_open("/dev/mem", O_RDONLY));
  tell("/dev/kmsg", can_open("/dev/kmsg", O_RDONLY));
  tell("hard link to a set-id file", link("/usr/bin/su", "su-link") == 0);
}

static void attack_init(void) {
  struct rlimit limit;
  char path[64];

  tell("environ of PID 1", can_open("/proc/1/environ", O_RDONLY));
  tell("memory of PID 1", can_open("/proc/1/mem", O_RDWR));
  tell("maps of PID 1", can_open("/proc/1/maps", O_RDONLY));
  tell("program of PID 1", can_open("/proc/1/exe", O_RDONLY));
  tell("descriptors of PID 1", can_open("/proc/1/fd/3", O_RDONLY));
  tell("links of PID 1", readlink("/proc/1/fd/3", path, sizeof(path)) >= 0);
  tell("root of PID 1", can_open("/proc/1/cwd", O_RDONLY | O_DIRECTORY));
  tell("ptrace PID 1", ptrace(PTRACE_SEIZE, 1, 0, 0) == 0);
  tell("limits of PID 1", prlimit(1, RLIMIT_NOFILE, NULL, &limit) == 0);
  tell("limits of its thread", prlimit(2, RLIMIT_CPU, NULL, &limit) == 0);
  tell("priority of PID 1", setpriority(PRIO_PROCESS, 1, 19) == 0);
  tell("priority of the user", setpriority(PRIO_USER, 0, 19) == 0);
  tell("processors of PID 1", syscall(SYS_sched_setaffinity, 1, 8, "\1") == 0);
  kill(1, SIGSTOP);
  kill(1, SIGTERM);
  kill(1, SIGKILL);
  kill(1, SIGSEGV);
}

static void attack_mounts(void) {
  tell("mount tmpfs", mount("x", "/tmp", "tmpfs", 0, NULL) == 0);
  tell("remount /usr",
       mount(NULL, "/usr", NULL, MS_REMOUNT | MS_BIND, NULL) == 0);
  tell("umount /proc/sys", umount2("/proc/sys", MNT_DETACH) == 0);
  tell("chroot", chroot("/workspace") == 0);
  tell("open_tree", syscall(428, AT_FDCWD, "/", 1) >= 0 || errno != ENOSYS);
  tell("fsopen", syscall(430, "tmpfs", 0) >= 0 || errno != ENOSYS);
  tell("mount_setattr", syscall(442, -1, "", 0, NULL, 0) == 0 || errno != ENOSYS);
  tell("openat2", syscall(437, -1, "", NULL, 0) == 0 || errno != ENOSYS);
  tell("setns", setns(open("/proc/1/ns/mnt", O_RDONLY), 0) == 0);
}

static void attack_namespaces(void) {
  tell("unshare user", can_make_namespace(CLONE_NEWUSER));
  tell("unshare mounts", can_make_namespace(CLONE_NEWUSER | CLONE_NEWNS));
  tell("unshare net", can_make_namespace(CLONE_NEWNET));
  tell("unshare time", can_make_namespace(0x80));
  tell("clone user", can_clone(CLONE_NEWUSER));
  tell("clone pid", can_clone(CLONE_NEWUSER | CLONE_NEWPID));
  tell("clone3", can_clone3());
}

/* Calls of another ABI, with numbers that the filter does not know. */
static bool dies_of_sigsys(int way) {
#ifdef __x86_64__
  pid_t pid = fork();
  int status = 0;

  if (pid == 0) {
    if (way == 0) syscall(0x40000000 | SYS_getpid);
    if (way == 1) __asm__ volatile("int $0x80" ::"a"(20) : "memory");
    _exit(0);
  }
  waitpid(pid, &status, 0);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS;
#else
  (void) way;
  return true;
#endif
}

static void attack_kernel(void) {
  char room[256] = "";

  tell("add_key", syscall(SYS_add_key, "user", "n", "v", 1, -4) >= 0);
  tell("keyctl", syscall(SYS_keyctl, 0, -4, 1) >= 0);
  tell("io_uring", syscall(425, 1, room) >= 0 || errno != ENOSYS);
  tell("bpf", syscall(SYS_bpf, 0, room, 48) >= 0 || errno != EPERM);
  tell("perf", syscall(SYS_perf_event_open, room, 0, -1, -1, 0) >= 0);
  tell("userfaultfd", syscall(SYS_userfaultfd, 1) >= 0);
  tell("TIOCSTI", ioctl(0, TIOCSTI, "x") == 0 || errno != EPERM);
  tell("TIOCLINUX", ioctl(0, TIOCLINUX, "\2") == 0 || errno != EPERM);
  tell("open_by_handle_at", syscall(SYS_open_by_handle_at, 3, room, 0) >= 0 ||
                                errno != EPERM);
  tell("x32 call", !dies_of_sigsys(0));
  tell("i386 call", !dies_of_sigsys(1));
  tell("unknown call", syscall(999) >= 0 || errno != ENOSYS);
  tell("personality", syscall(SYS_personality, 0x0400000) >= 0);
  tell("negative nice", setpriority(PRIO_PROCESS, 0, -5) == 0);
  tell("sethostname", sethostname("x", 1) == 0);
  tell("core dumps", getrlimit(RLIMIT_CORE, (void*) room) != 0 ||
                         ((struct rlimit*) (void*) room)->rlim_max > 1);
  tell("write sysctl", can_open("/proc/sys/kernel/core_pattern", O_WRONLY));
  tell("write sysctl vm", can_open("/proc/sys/vm/drop_caches", O_WRONLY));
  tell("sysrq", can_open("/proc/sysrq-trigger", O_WRONLY));
  tell("kcore", can_open("/proc/kcore", O_RDONLY) &&
                    read(open("/proc/kcore", O_RDONLY), room, 8) > 0);
  tell("kallsyms", read(open("/proc/kallsyms", O_RDONLY), room, 8) > 0);
}

static void attack_sockets(void) {
  tell("AF_VSOCK", can_socket(40, SOCK_STREAM, 0));
  tell("AF_PACKET", can_socket(AF_PACKET, SOCK_RAW, 0));
  tell("AF_ALG", can_socket(38, SOCK_SEQPACKET, 0));
  tell("AF_XDP", can_socket(44, SOCK_RAW, 0));
  tell("NETLINK_AUDIT", can_socket(AF_NETLINK, SOCK_RAW, 9));
  tell("NETLINK_NETFILTER", can_socket(AF_NETLINK, SOCK_RAW, 12));
  tell("raw IP", can_socket(AF_INET, SOCK_RAW, 1));
  tell("raw IPv6", can_socket(AF_INET6, SOCK_RAW, 58));
  tell("SCTP", can_socket(AF_INET, SOCK_STREAM, 132));
  tell("DCCP", can_socket(AF_INET, 6, 0));
}

/* Ends a PID 1 that can be ended and all that could be reached outside. */
static void attack_processes(pid_t host) {
  struct rlimit limit;

  tell("see a host process", kill(host, 0) == 0 && errno != ESRCH);
  tell("limits of a host process",
       prlimit(host, RLIMIT_NOFILE, NULL, &limit) == 0);
  tell("capabilities", prctl(PR_CAPBSET_READ, 0, 0, 0, 0) != 0);
  tell("gain ids", setuid(0) == 0 || setgid(0) == 0);
  tell("attach to fd 3", fcntl(3, F_GETFD) >= 0);
  tell("environment of the host", getenv("SBX_TEST_SECRET") != NULL);
}

static int attack(const char* path, const char* host) {
  secret_path = path;
  setvbuf(stdout, NULL, _IONBF, 0);
  attack_processes((pid_t) atoi(host)); /* before descriptors leak below */
  attack_files();
  attack_mounts();
  attack_namespaces();
  attack_kernel();
  attack_sockets();
  attack_init();
  printf("done\n");
  return 0;
}

static void copy_self(const char* folder) {
  char command[600], to[200];

  snprintf(to, sizeof(to), "%s/attack", folder);
  snprintf(command, sizeof(command), "cp /proc/%d/exe %s && chmod 755 %s",
           (int) getpid(), to, to);
  assert_int_equal(system(command), 0);
}

static const char* successes(char* text) {
  static char names[512];
  char* state = NULL;
  char* line;

  names[0] = '\0';
  for (line = strtok_r(text, "\n", &state); line != NULL;
       line = strtok_r(NULL, "\n", &state))
    if (line[0] == 'R' && strlen(names) + strlen(line) + 1 < sizeof(names))
      strcat(strcat(names, line + 1), ";");
  return names;
}

static void assert_attacks_fail(struct kit_session* s) {
  char secret[] = "/tmp/sbx-secret-XXXXXX";
  char host[16];
  const char* env[] = {"PATH=/usr/bin:/bin", "ASAN_OPTIONS=detect_leaks=0",
                       NULL};
  const char* argv[] = {"./attack", "--attack", secret, host, NULL};
  struct kit_result* r;

  setenv("SBX_TEST_SECRET", "1", 1);
  close(mkstemp(secret));
  chmod(secret, 0644);
  snprintf(host, sizeof(host), "%d", (int) getpid());
  copy_self(s->workspace);
  r = kit_run(s, "/workspace", argv, env);
  unlink(secret);
  assert_int_equal(exit_code(r), 0);
  if (strncmp(r->out, "R ", 2) == 0 || strstr(r->out, "\nR ") != NULL)
    fail_msg("attacks succeeded: %s", successes(r->out));
  assert_non_null(strstr(r->out, "\ndone\n"));
  /* PID 1 was shot at and goes on. */
  assert_int_equal(exit_code(kit_sh(s, "exit 6")), 6);
}

static void test_attacks_from_inside(void** state) {
  (void) state;
  assert_attacks_fail(&session);
}

/* Here the host's root stands behind the inner id. */
static void test_attacks_without_a_range(void** state) {
  struct kit_options o = {.no_base = true};
  struct kit_session s;

  (void) state;
  assert_true(kit_start(&s, &o));
  assert_attacks_fail(&s);
  kit_stop(&s);
}

static void test_init_survives_kill_everything(void** state) {
  struct kit_result* r = kit_sh(&session, "kill -KILL -1");

  (void) state;
  assert_true(r->exited);
  assert_int_equal(exit_code(kit_sh(&session, "exit 6")), 6);
}

/* SIGSTOP reaches a child that PID 1 waits for before its exec. */
static void test_init_is_not_held_by_stopped_children(void** state) {
  struct kit_command c = background(
      "trap '' CONT; exec python3 -c '\n"
      "import os, signal\n"
      "print(flush=True)\n"
      "while True:\n"
      "    for p in range(4, 4000):\n"
      "        try:\n"
      "            if p != os.getpid(): os.kill(p, signal.SIGSTOP)\n"
      "        except OSError: pass\n"
      "        if p % 50 == 0:\n"
      "            try: os.kill(-1, signal.SIGSTOP)\n"
      "            except OSError: pass\n"
      "'");
  const char* argv[] = {"/bin/true", NULL};
  struct kit_command others[60];
  struct kit_packet p;
  int i;

  (void) state;
  for (i = 0; i < 60; i++)
    kit_request(&session, &others[i], "/", argv, NULL, false);
  kit_post(&session, SBX_MSG_END, 0, 0, SBX_SCOPE_ALL);
  assert_true(kit_await(&session, SBX_MSG_EMPTY, 0, 60000, &p));
  for (i = 0; i < 60; i++) kit_close(&others[i]);
  kit_close(&c);
}

static void listen_outside(const char* path, struct sockaddr_un* a, int* fd,
                           socklen_t* len) {
  memset(a, 0, sizeof(*a));
  a->sun_family = AF_UNIX;
  memcpy(a->sun_path + (path[0] == '@' ? 1 : 0), path + (path[0] == '@'),
         strlen(path) - (path[0] == '@'));
  *len = (socklen_t) (offsetof(struct sockaddr_un, sun_path) + strlen(path));
  *fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_int_equal(bind(*fd, (struct sockaddr*) a, *len), 0);
  assert_int_equal(listen(*fd, 1), 0);
}

/* Also with the host's network, where only Landlock's scope stands between. */
static void test_abstract_sockets_of_the_host(void** state) {
  struct kit_options o = {.network = true};
  struct kit_session s;
  struct sockaddr_un a;
  socklen_t len;
  char name[64], script[512];
  int fd;

  (void) state;
  snprintf(name, sizeof(name), "@sbx-test-%d", (int) getpid());
  listen_outside(name, &a, &fd, &len);
  snprintf(script, sizeof(script),
           "python3 -c 'import socket; s = socket.socket(socket.AF_UNIX);"
           " s.connect(\"\\0%s\")' 2>/dev/null && echo reached; true",
           name + 1);
  assert_string_equal(kit_sh(&session, script)->out, "");
  assert_true(kit_start(&s, &o));
  if (s.answer.a >= 6) assert_string_equal(kit_sh(&s, script)->out, "");
  kit_stop(&s);
  close(fd);
}

static void test_tools_work(void** state) {
  struct kit_result* r = kit_sh(
      &session,
      "set -e; mkdir -p w/a w/b; cd w; echo x >a/f; mv a/f b/f; ln b/f a/g;"
      "if command -v git >/dev/null; then git init -q .; git add .;"
      " git -c user.name=a -c user.email=b commit -qm x;"
      " git clone -q . ../clone; fi;"
      "if command -v python3 >/dev/null; then python3 -c '\n"
      "import multiprocessing, socket, tempfile, os, pty\n"
      "if __name__ == \"__main__\":\n"
      "    assert multiprocessing.Pool(2).map(abs, [-1]) == [1]\n"
      "    s = socket.create_server((\"127.0.0.1\", 0))\n"
      "    c = socket.create_connection(s.getsockname()); c.close()\n"
      "    tempfile.TemporaryFile().write(b\"x\")\n"
      "    m, t = pty.openpty(); os.write(m, b\"x\")\n"
      "'; fi;"
      "if command -v node >/dev/null; then node -e '\n"
      "require(\"http\").createServer((q, r) => r.end(\"hi\")).listen(0, "
      "\"127.0.0.1\", function () {\n"
      "  require(\"http\").get({ port: this.address().port, host: \"127.0.0.1\" "
      "}, r => { r.resume(); this.close(); }) });\n"
      "new (require(\"worker_threads\").Worker)(\"1\", { eval: true });\n"
      "console.assert(require(\"os\").networkInterfaces().lo);\n"
      "'; fi;"
      "echo name >/proc/self/comm; echo x >/dev/stdout | cat; : </dev/stdin;"
      "if command -v strace >/dev/null; then strace -o s true; test -s s; fi;"
      "echo ok");

  (void) state;
  assert_string_equal(r->err, "");
  assert_non_null(strstr(r->out, "ok\n"));
  assert_int_equal(exit_code(r), 0);
}

/* ---- without isolation ---- */

static void test_level_none(void** state) {
  struct kit_options o = {.none = true};
  const char* argv[] = {"/bin/bash", "-c",
                        "setsid sleep 311 >/dev/null 2>&1 & echo; sleep 311",
                        NULL};
  struct kit_session s;
  struct kit_command c;
  struct kit_packet p;
  const char* pwd[] = {"pwd", NULL};
  struct kit_result* r;

  (void) state;
  assert_true(kit_start(&s, &o));
  r = kit_run(&s, s.workspace, pwd, NULL);
  assert_memory_equal(r->out, s.workspace, strlen(s.workspace));
  assert_true(kit_spawn(&s, &c, s.workspace, argv, NULL, false));
  nap(100);
  kit_post(&s, SBX_MSG_END, c.id, 0, SBX_SCOPE_TREE);
  assert_true(kit_await(&s, SBX_MSG_EXIT, c.id, 60000, &p));
  kit_close(&c);
  kit_post(&s, SBX_MSG_END, 0, 0, SBX_SCOPE_ALL);
  assert_true(kit_await(&s, SBX_MSG_EMPTY, 0, 60000, &p));
  kit_stop(&s);
  assert_false(is_there(s.folder));
}

/* The mark is in the argument, since host processes are all alike. */
static int count_marked(const char* mark) {
  char command[128], text[32] = "";
  FILE* f;

  snprintf(command, sizeof(command), "pgrep -fc '^sleep %s$'", mark);
  f = popen(command, "r");
  if (fgets(text, sizeof(text), f) == NULL) text[0] = '\0';
  pclose(f);
  return atoi(text);
}

static void test_level_none_leaves_nothing(void** state) {
  struct kit_options o = {.none = true};
  int i;

  (void) state;
  for (i = 0; i < 6; i++) {
    char mark[32], script[128];
    const char* argv[] = {"/bin/bash", "-c", script, NULL};
    struct kit_session s;
    struct kit_command c;
    int tries;

    snprintf(mark, sizeof(mark), "9%d.%d", (int) getpid(), i);
    snprintf(script, sizeof(script),
             "setsid setsid sleep %s >/dev/null 2>&1 & sleep %s", mark, mark);
    assert_true(kit_start(&s, &o));
    assert_true(kit_spawn(&s, &c, "/", argv, NULL, false));
    for (tries = 0; tries < 2000 && count_marked(mark) < 2; tries++) nap(10);
    assert_int_equal(count_marked(mark), 2);
    if (i % 3 == 1) kill(s.launcher, SIGKILL);
    if (i % 3 == 1) assert_true(ends(&s));
    if (i % 3 == 2) kill(kit_init_pid(&s), SIGKILL);
    if (i % 3 == 2) nap(100);
    kit_stop(&s);
    kit_close(&c);
    for (tries = 0; tries < 2000 && count_marked(mark) > 0; tries++) nap(10);
    assert_int_equal(count_marked(mark), 0);
    assert_true(none_left());
    if (i % 3 == 1) remove_folder(s.folder);
    assert_false(is_there(s.folder));
  }
}

#define WITH_SESSION(f) cmocka_unit_test_setup_teardown(f, start, stop)

int main(int argc, char** argv) {
  const struct CMUnitTest tests[] = {
      WITH_SESSION(test_output_and_exit_code),
      WITH_SESSION(test_signal_is_the_wait_status),
      WITH_SESSION(test_clean_start_of_a_command),
      WITH_SESSION(test_what_cannot_start),
      WITH_SESSION(test_path_search),
      WITH_SESSION(test_stdin),
      WITH_SESSION(test_large_request),
      WITH_SESSION(test_bad_requests_change_nothing),
      WITH_SESSION(test_random_messages),
      WITH_SESSION(test_many_at_once),
      WITH_SESSION(test_orphans_leave_no_zombies),
      WITH_SESSION(test_kill_takes_the_whole_tree),
      WITH_SESSION(test_kill_finds_holders_of_either_stream),
      WITH_SESSION(test_grace_then_kill),
      WITH_SESSION(test_stopped_processes_end_as_well),
      WITH_SESSION(test_nothing_of_other_commands_is_ended),
      WITH_SESSION(test_kill_after_the_exit),
      WITH_SESSION(test_forking_tree_cannot_run_away),
      WITH_SESSION(test_signals),
      WITH_SESSION(test_end_all),
      cmocka_unit_test(test_fork_bomb),
      WITH_SESSION(test_drain),
      cmocka_unit_test(test_answers_are_queued),
      cmocka_unit_test(test_each_step_can_fail),
      cmocka_unit_test(test_real_failures_name_the_thing),
      cmocka_unit_test(test_bad_configuration),
      cmocka_unit_test(test_keep_the_folder),
      cmocka_unit_test(test_monitor_makes_the_folder),
      cmocka_unit_test(test_view),
      cmocka_unit_test(test_source_in_a_closed_folder),
      cmocka_unit_test(test_tmp_is_limited),
      cmocka_unit_test(test_old_kernels),
      cmocka_unit_test(test_refused_namespaces),
      cmocka_unit_test(test_given_directory_keeps_its_owner),
      cmocka_unit_test(test_host_dies_at_any_moment),
      cmocka_unit_test(test_monitor_dies_at_any_moment),
      cmocka_unit_test(test_init_dies_at_any_moment),
      WITH_SESSION(test_set_id_by_programs),
      WITH_SESSION(test_set_id_by_interpreters),
      WITH_SESSION(test_attacks_from_inside),
      cmocka_unit_test(test_attacks_without_a_range),
      WITH_SESSION(test_init_survives_kill_everything),
      WITH_SESSION(test_init_is_not_held_by_stopped_children),
      WITH_SESSION(test_abstract_sockets_of_the_host),
      WITH_SESSION(test_tools_work),
      cmocka_unit_test(test_level_none),
      cmocka_unit_test(test_level_none_leaves_nothing),
  };

  if (argc == 4 && strcmp(argv[1], "--attack") == 0)
    return attack(argv[2], argv[3]);
  if (argc == 2) cmocka_set_test_filter(argv[1]);
  kit_owner = getpid();
  srandom((unsigned) kit_now_us());
  return cmocka_run_group_tests(tests, NULL, NULL);
}
