/* Commands wrapped by the remote kit, run for real under three shells by a
 * stand-in for a service: it hands bytes on and tells ends, no more. */
#include "kit_help.h"

#include <glob.h>
#include <signal.h>
#include <sys/stat.h>

#include "providers/kit/run.h"

/* One process of the service. */
struct service {
  struct kit* k;
  struct sbx_kit_run* run;
  pid_t pid;
  int fds[2];
  int in; /* its stdin, -1: none */
  struct output out[2];
  uint64_t dropped[2];
  struct sbx_kit_run_exit exit;
  bool began;
  bool recorded; /* its record was there then */
  bool exited;
};

static void on_began(void* data) {
  struct service* s = data;
  assert_false(s->began || s->exited);
  s->began = true;
  char pattern[160];
  glob_t found;
  snprintf(pattern, sizeof(pattern), "%s/p.%d.*", s->k->folder, (int)s->pid);
  s->recorded = glob(pattern, 0, NULL, &found) == 0;
  if (s->recorded) globfree(&found);
}

static void on_output(void* data, int stream, const char* bytes, size_t len) {
  struct service* s = data;
  output_add(&s->out[stream], bytes, len);
}

static void on_dropped(void* data, int stream, uint64_t count) {
  ((struct service*)data)->dropped[stream] += count;
}

static void on_exit_of(void* data, const struct sbx_kit_run_exit* exit) {
  struct service* s = data;
  assert_false(s->exited);
  s->exited = true;
  s->exit = *exit;
}

static struct sbx_kit_run_events events_of(struct service* s) {
  return (struct sbx_kit_run_events){.data = s, .on_began = on_began,
                                     .on_output = on_output,
                                     .on_dropped = on_dropped,
                                     .on_exit = on_exit_of};
}

static void service_exec(struct service* s, int out, int err, int in,
                         bool leader) {
  size_t argc;
  const char* const* argv = sbx_kit_run_argv(s->run, &argc);
  dup2(in, 0);
  dup2(out, 1);
  dup2(err, 2);
  for (int fd = 3; fd < 64; fd++) close(fd);
  if (leader) setpgid(0, 0);
  execv(s->k->sh, (char* const*)argv);
  _exit(127);
}

static void service_spawn(struct service* s, bool input, bool leader) {
  int a[2], b[2], c[2];
  assert_int_equal(pipe(a) | pipe(b) | pipe(c), 0);
  s->pid = fork();
  if (s->pid == 0) {
    int null = open("/dev/null", O_RDONLY);
    service_exec(s, a[1], b[1], input ? c[0] : null, leader);
  }
  close(a[1]);
  close(b[1]);
  close(c[0]);
  s->in = c[1];
  if (!input) close(s->in), s->in = -1;
  s->fds[0] = a[0];
  s->fds[1] = b[0];
}

static void service_feed(struct service* s, int stream, const char* bytes,
                         size_t len) {
  size_t step = s->k->piece ? s->k->piece : len;
  for (size_t at = 0; at < len; at += step) {
    size_t n = len - at < step ? len - at : step;
    assert_int_equal(sbx_kit_run_feed(s->run, stream, bytes + at, n), 0);
  }
}

static void service_close(struct service* s) {
  for (int i = 0; i < 2; i++)
    if (s->fds[i] >= 0) close(s->fds[i]);
  if (s->in >= 0) close(s->in);
  s->fds[0] = s->fds[1] = s->in = -1;
}

/* One turn; false once both streams are at their end. */
static bool service_turn(struct service* s) {
  char bytes[65536];
  struct pollfd fds[2] = {{s->fds[0], POLLIN, 0}, {s->fds[1], POLLIN, 0}};
  if (s->fds[0] < 0 && s->fds[1] < 0) return false;
  if (poll(fds, 2, 60000) == 0) fail_msg("nothing comes");
  for (int i = 0; i < 2; i++) {
    if (s->fds[i] < 0 || !fds[i].revents) continue;
    ssize_t n = read(s->fds[i], bytes, sizeof(bytes));
    if (n > 0) {
      service_feed(s, i, bytes, (size_t)n);
    } else {
      close(s->fds[i]);
      s->fds[i] = -1;
    }
  }
  return true;
}

static void service_reap(struct service* s) {
  int status;
  waitpid(s->pid, &status, 0);
  int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  if (!s->exited)
    sbx_kit_run_ended(s->run, signal ? 128 + signal : WEXITSTATUS(status),
                      signal);
}

/* Until the marks came, or the end of the process. */
static void service_wait(struct service* s) {
  while (!s->exited && service_turn(s)) continue;
  service_close(s);
  service_reap(s);
  assert_true(s->exited);
}

static void service_wait_for(struct service* s, const char* text) {
  while (!s->out[0].data || !strstr(s->out[0].data, text))
    if (s->exited || !service_turn(s)) fail_msg("ended without %s", text);
}

static void service_free(struct service* s) {
  sbx_kit_run_free(s->run);
  free(s->out[0].data);
  free(s->out[1].data);
}

static const char* text_of(struct service* s, int stream) {
  return s->out[stream].data ? s->out[stream].data : "";
}

static void start_spec(struct kit* k, struct service* s,
                       const struct sbx_kit_run_spec* spec, bool input) {
  struct sbx_error error;
  memset(s, 0, sizeof(*s));
  s->k = k;
  struct sbx_kit_run_events events = events_of(s);
  int rc = sbx_kit_run_new(&k->place, spec, &events, &s->run, &error);
  if (rc < 0) fail_msg("%s", error.message);
  service_spawn(s, input, false);
}

static struct sbx_kit_run_spec line_spec(struct kit* k, const char** argv,
                                         const char* line) {
  argv[0] = "/bin/sh";
  argv[1] = "-c";
  argv[2] = line;
  return (struct sbx_kit_run_spec){.argv = argv, .argc = 3, .cwd = k->path};
}

static void start(struct kit* k, struct service* s, const char* line,
                  bool spool) {
  const char* argv[3];
  struct sbx_kit_run_spec spec = line_spec(k, argv, line);
  spec.spool = spool;
  start_spec(k, s, &spec, false);
}

static void expect(struct kit* k, const char* line, bool spool, int code,
                   const char* out, const char* err) {
  struct service s;
  start(k, &s, line, spool);
  service_wait(&s);
  if (s.exit.end != SBX_KIT_EXITED || s.exit.exit_code != code)
    fail_msg("%s: %s: end %d, code %d: %s", k->shell->name, line, s.exit.end,
             s.exit.exit_code, text_of(&s, 1));
  assert_string_equal(text_of(&s, 0), out);
  assert_string_equal(text_of(&s, 1), err);
  assert_int_equal(s.began, spool);
  assert_int_equal(s.recorded, spool);
  service_free(&s);
}

static int job_result(struct kit* k, struct sbx_kit_job* job,
                      struct sbx_kit_job_result* result) {
  struct output out = {0}, err = {0};
  struct sbx_error error = {0};
  size_t argc;
  const char* const* argv = sbx_kit_job_argv(job, &argc);
  int code = run_wait(k, argv, argc, &out, &err);
  for (size_t at = 0; at < out.len; at++)
    sbx_kit_job_feed(job, out.data + at, 1);
  int rc = sbx_kit_job_result(job, code, err.data ? err.data : "", err.len,
                              result, &error);
  if (rc < 0 && getenv("SBX_SHOW")) fprintf(stderr, "%s\n", error.message);
  free(out.data);
  free(err.data);
  return rc;
}

static int job_run(struct kit* k, struct sbx_kit_job* job) {
  struct sbx_kit_job_result result;
  int rc = job_result(k, job, &result);
  sbx_kit_job_free(job);
  return rc;
}

static int kill_it(struct kit* k, pid_t pid, uint64_t grace_ms) {
  struct sbx_kit_job* job;
  assert_int_equal(
      sbx_kit_job_kill(&k->place, (uint32_t)pid, 0, grace_ms, &job), 0);
  return job_run(k, job);
}

static int signal_it(struct kit* k, pid_t pid, int signo) {
  struct sbx_kit_job* job;
  assert_int_equal(
      sbx_kit_job_signal(&k->place, (uint32_t)pid, 0, signo, &job), 0);
  return job_run(k, job);
}

/* --- how it ends ---------------------------------------------------------- */

static void ends_body(struct kit* k) {
  for (int spool = 0; spool < 2; spool++) {
    k->piece = spool ? 1 : 0;
    expect(k, "echo out; echo err >&2; exit 42", spool, 42, "out\n", "err\n");
    expect(k, "kill -KILL $$", spool, 137, "", "");
    expect(k, "kill -SEGV $$", spool, 139, "", "");
    expect(k, "printf 'no line end'", spool, 0, "no line end", "");
    expect(k, "cat", spool, 0, "", "");
    expect(k, "exit 255", spool, 255, "", "");
  }
}
EACH(ends)

static bool is_alive(const char* pid_text) {
  char path[64], line[512] = "";
  snprintf(path, sizeof(path), "/proc/%ld/stat", atol(pid_text));
  int fd = open(path, O_RDONLY);
  if (fd < 0) return false;
  ssize_t n = read(fd, line, sizeof(line) - 1);
  close(fd);
  return n > 0 && !strstr(line, ") Z ");
}

/* The kernel takes a moment to end what was killed. */
static bool dies(const char* pid_text) {
  for (int i = 0; i < 3000 && is_alive(pid_text); i++) usleep(20000);
  return !is_alive(pid_text);
}

static void children_do_not_hold_it_body(struct kit* k) {
  for (int spool = 0; spool < 2; spool++) {
    struct service s;
    start(k, &s, "sleep 300 & echo $!", spool);
    service_wait(&s);
    assert_int_equal(s.exit.end, SBX_KIT_EXITED);
    assert_true(is_alive(text_of(&s, 0)));
    assert_int_equal(kill_it(k, s.pid, 0), 0);
    assert_true(dies(text_of(&s, 0)));
    assert_int_equal(kill_it(k, s.pid, 0), SBX_E_NOT_FOUND);
    service_free(&s);
  }
}
EACH(children_do_not_hold_it)

static void expect_start(struct kit* k, const char* program, const char* cwd,
                         enum sbx_kit_run_end end, int code,
                         const char* err) {
  const char* argv[] = {program, "x"};
  struct sbx_kit_run_spec spec = {.argv = argv, .argc = 2, .cwd = cwd};
  struct service s;
  start_spec(k, &s, &spec, false);
  service_wait(&s);
  if (s.exit.end != end || s.exit.exit_code != code)
    fail_msg("%s: %s in %s: end %d, code %d", k->shell->name, program, cwd,
             s.exit.end, s.exit.exit_code);
  assert_string_equal(text_of(&s, 1), err);
  assert_string_equal(text_of(&s, 0), "");
  service_free(&s);
}

static void what_cannot_start_body(struct kit* k) {
  char cwd[128];
  kit_shell(k, "touch plain; printf '#!/bin/sh\\n' > run; chmod 755 run");
  expect_start(k, "no-such-program", k->path, SBX_KIT_NOT_FOUND, 127,
               "sandbox: no-such-program: command not found\n");
  expect_start(k, "./nope", k->path, SBX_KIT_NOT_FOUND, 127,
               "sandbox: ./nope: no such file or directory\n");
  expect_start(k, "./plain", k->path, SBX_KIT_NOT_EXECUTABLE, 126,
               "sandbox: ./plain: permission denied\n");
  expect_start(k, "/tmp", k->path, SBX_KIT_NOT_EXECUTABLE, 126,
               "sandbox: /tmp: permission denied\n");
  expect_start(k, "", k->path, SBX_KIT_NOT_FOUND, 127,
               "sandbox: : command not found\n");
  expect_start(k, "./run", k->path, SBX_KIT_EXITED, 0, "");
  snprintf(cwd, sizeof(cwd), "%s/no\nwhere", k->path);
  expect_start(k, "true", cwd, SBX_KIT_NO_CWD, 127, "");
  snprintf(cwd, sizeof(cwd), "%s/plain", k->path);
  expect_start(k, "true", cwd, SBX_KIT_CWD_NOT_FOLDER, 127, "");
}
EACH(what_cannot_start)

/* --- bytes ---------------------------------------------------------------- */

static void marks_of_others_pass_body(struct kit* k) {
  const char* texts[] = {
      "S", "SB", "SBX", "SSBSBXSBX", "SBX0", "SBX00000000000000000000000000000000=",
      "SBX00000000000000000000000000000000=x000.",
      ")SBX00000000000000000000000000000000"};
  const size_t pieces[] = {0, 1, 7};
  for (size_t p = 0; p < 3; p++) {
    k->piece = pieces[p];
    for (size_t i = 0; i < 8; i++) {
      char line[128];
      snprintf(line, sizeof(line), "printf '%%s' '%s'; printf '%%s' '%s' >&2",
               texts[i], texts[7 - i]);
      expect(k, line, i % 2, 0, texts[i], texts[7 - i]);
    }
  }
}
EACH(marks_of_others_pass)

static void bytes_are_exact_body(struct kit* k) {
  kit_shell(k, "head -c 3000000 /dev/urandom > f; head -c 99999 f > g");
  for (int spool = 0; spool < 2; spool++) {
    struct service s;
    char path[128];
    k->piece = spool ? 4099 : 0;
    start(k, &s, "cat f; cat g >&2", spool);
    service_wait(&s);
    assert_int_equal(s.out[0].len, 3000000);
    assert_int_equal(s.out[1].len, 99999);
    assert_memory_equal(s.out[0].data, s.out[1].data, 99999);
    snprintf(path, sizeof(path), "%s/seen", k->path);
    FILE* f = fopen(path, "w");
    assert_int_equal(fwrite(s.out[0].data, 1, s.out[0].len, f), s.out[0].len);
    fclose(f);
    kit_shell(k, "cmp f seen");
    assert_true(sbx_kit_run_offset(s.run, 0) == 3000000);
    service_free(&s);
  }
}
EACH(bytes_are_exact)

static void input_reaches_it_body(struct kit* k) {
  const char* argv[3];
  for (int spool = 0; spool < 2; spool++) {
    struct sbx_kit_run_spec spec =
        line_spec(k, argv, "read a; echo got $a; cat");
    struct service s;
    spec.spool = spool;
    start_spec(k, &s, &spec, true);
    assert_int_equal(write(s.in, "one\n", 4), 4);
    service_wait_for(&s, "got one\n");
    assert_int_equal(write(s.in, "two", 3), 3);
    close(s.in);
    s.in = -1;
    service_wait(&s);
    assert_string_equal(text_of(&s, 0), "got one\ntwo");
    service_free(&s);
  }
}
EACH(input_reaches_it)

/* --- what it is given ----------------------------------------------------- */

static void variables_body(struct kit* k) {
  const char* argv[] = {"/usr/bin/env"};
  const char* env[] = {"A=1\n2", "sbx_x=y", "N=n", "IFS=a", "EMPTY=",
                       "PATH=/nowhere:/usr/bin"};
  const char* unset[] = {"HOME", "USER"};
  struct sbx_kit_run_spec spec = {.argv = argv, .argc = 1, .cwd = k->path,
                                  .env = env, .envc = 6, .unset = unset,
                                  .unset_len = 2};
  struct service s;
  start_spec(k, &s, &spec, false);
  service_wait(&s);
  const char* out = text_of(&s, 0);
  assert_non_null(strstr(out, "A=1\n2\n"));
  assert_non_null(strstr(out, "\nsbx_x=y\n"));
  assert_non_null(strstr(out, "N=n\n"));
  assert_non_null(strstr(out, "EMPTY=\n"));
  assert_non_null(strstr(out, "PATH=/nowhere:/usr/bin\n"));
  assert_null(strstr(out, "HOME="));
  assert_null(strstr(out, "\nUSER="));
  assert_null(strstr(out, "LC_ALL=C\nTZ"));
  service_free(&s);
  spec.env = unset;
  spec.envc = 1;
  struct sbx_error error;
  struct sbx_kit_run_events events = events_of(&s);
  assert_int_equal(sbx_kit_run_new(&k->place, &spec, &events, &s.run, &error),
                   SBX_E_INVALID_INPUT);
}
EACH(variables)

static void arguments_are_exact_body(struct kit* k) {
  const char* argv[] = {"/bin/sh", "-c",
                        "for a; do printf '[%s]' \"$a\"; done", "-n", "", " a ",
                        "$(touch pwned)", "'\"\\", "*", "new\nline", "--", "-e",
                        "\xc3\xa9"};
  struct sbx_kit_run_spec spec = {.argv = argv, .argc = 13, .cwd = k->path};
  struct service s;
  start_spec(k, &s, &spec, false);
  service_wait(&s);
  assert_string_equal(text_of(&s, 0),
                      "[][ a ][$(touch pwned)]['\"\\][*][new\nline][--][-e]"
                      "[\xc3\xa9]");
  service_free(&s);
  kit_shell(k, "test ! -e pwned");
}
EACH(arguments_are_exact)

static void many_arguments(void** state) {
  struct kit k;
  (void)state;
  kit_open(&k, 0);
  const char* argv[1003] = {"/bin/sh", "-c", "echo $#"};
  for (int i = 3; i < 1003; i++) argv[i] = "x";
  struct sbx_kit_run_spec spec = {.argv = argv, .argc = 1003, .cwd = k.path};
  struct service s;
  start_spec(&k, &s, &spec, false);
  service_wait(&s);
  assert_string_equal(text_of(&s, 0), "999\n");
  service_free(&s);
  char* big = malloc(140000);
  memset(big, 'x', 139999);
  big[139999] = 0;
  argv[3] = big;
  struct sbx_error error;
  struct sbx_kit_run_events events = events_of(&s);
  assert_int_equal(sbx_kit_run_new(&k.place, &spec, &events, &s.run, &error),
                   SBX_E_INVALID_INPUT);
  free(big);
  kit_close(&k);
}

/* --- signals -------------------------------------------------------------- */

static void signals_reach_it_body(struct kit* k) {
  const int signals[] = {SIGINT, SIGTERM, SIGUSR1, SIGQUIT};
  for (size_t i = 0; i < 4; i++) {
    struct service s;
    start(k, &s, "ulimit -c 0; echo ready; exec sleep 300", i % 2);
    service_wait_for(&s, "ready");
    assert_int_equal(signal_it(k, s.pid, signals[i]), 0);
    service_wait(&s);
    assert_int_equal(s.exit.end, SBX_KIT_EXITED);
    assert_int_equal(s.exit.exit_code, 128 + signals[i]);
    assert_string_equal(text_of(&s, 1), "");
    assert_int_equal(signal_it(k, s.pid, SIGTERM), SBX_E_NOT_FOUND);
    service_free(&s);
  }
  assert_int_equal(signal_it(k, 1, SIGCONT), SBX_E_NOT_FOUND);
}
EACH(signals_reach_it)

/* A tree of several kinds of children: each says its pid. */
static const char tree_line[] =
    "trap '' TERM; : > pids; sleep 301 & echo $! >> pids;"
    "(sleep 302 & echo $! >> pids; wait) &"
    "setsid sh -c 'sleep 303 & echo $! >> pids; wait' &"
    "(setsid sh -c 'sleep 304 & echo $! >> pids; wait' &);"
    "sleep 305 & echo $! >> pids;"
    "while [ $(wc -l < pids) -lt 5 ]; do sleep 0.05; done;"
    "cat pids; echo ready; wait; sleep 306";

static void tree_ends(struct kit* k, bool spool, bool leader,
                      uint64_t grace) {
  const char* argv[3];
  struct sbx_kit_run_spec spec = line_spec(k, argv, tree_line);
  struct sbx_error error;
  struct service s = {.k = k}, other;
  spec.spool = spool;
  struct sbx_kit_run_events events = events_of(&s);
  assert_int_equal(
      sbx_kit_run_new(&k->place, &spec, &events, &s.run, &error), 0);
  service_spawn(&s, false, leader);
  start(k, &other, "echo ready; read x; sleep 306", false);
  service_wait_for(&s, "ready");
  assert_int_equal(kill_it(k, s.pid, grace), 0);
  service_wait(&s);
  assert_int_equal(s.exit.end, SBX_KIT_EXITED);
  assert_int_equal(s.exit.exit_code, 137);
  int count = 0;
  for (char* line = s.out[0].data; line && *line;
       line = strchr(line, '\n') + 1) {
    if (*line == 'r') break;
    assert_true(dies(line));
    count++;
  }
  assert_int_equal(count, 5);
  assert_int_equal(kill(other.pid, 0), 0);
  assert_int_equal(kill_it(k, other.pid, 0), 0);
  service_wait(&other);
  service_free(&other);
  service_free(&s);
}

static void trees_end_whole_body(struct kit* k) {
  tree_ends(k, false, false, 0);
  tree_ends(k, true, false, 300);
  tree_ends(k, false, true, 0);
}
EACH(trees_end_whole)

static void a_killed_wrapper_body(struct kit* k) {
  struct service s;
  start(k, &s, "echo ready; exec sleep 300", false);
  service_wait_for(&s, "ready\n");
  kill(s.pid, SIGKILL);
  service_reap(&s);
  assert_int_equal(s.exit.end, SBX_KIT_UNTOLD);
  assert_int_equal(s.exit.exit_code, 137);
  assert_int_equal(s.exit.signal, SIGKILL);
  assert_int_equal(kill_it(k, s.pid, 0), 0);
  service_close(&s);
  service_free(&s);
}
EACH(a_killed_wrapper)

static void time_is_limited_body(struct kit* k) {
  const char* argv[3];
  struct sbx_kit_run_spec spec = line_spec(
      k, argv, "(trap '' TERM; sleep 300 & echo $!; wait; sleep 301) & "
               "sleep 302; echo late");
  spec.timeout_ms = 900;
  spec.grace_ms = 1;
  struct service s;
  start_spec(k, &s, &spec, false);
  service_wait(&s);
  assert_int_equal(s.exit.end, SBX_KIT_TIMED_OUT);
  assert_int_equal(s.exit.exit_code, 124);
  assert_true(dies(text_of(&s, 0)));
  assert_null(strstr(text_of(&s, 0), "late"));
  service_free(&s);
  spec = line_spec(k, argv, "echo quick; exit 3");
  spec.timeout_ms = 300000;
  start_spec(k, &s, &spec, false);
  service_wait(&s);
  assert_int_equal(s.exit.exit_code, 3);
  /* The watcher has gone with it. */
  while (kill_it(k, s.pid, 0) == 0) continue;
  service_free(&s);
}
EACH(time_is_limited)

/* --- later hosts ---------------------------------------------------------- */

static void follow(struct kit* k, struct service* s, pid_t pid,
                   const uint64_t offsets[2]) {
  struct sbx_error error;
  memset(s, 0, sizeof(*s));
  s->k = k;
  struct sbx_kit_run_events events = events_of(s);
  assert_int_equal(sbx_kit_run_follow(&k->place, (uint32_t)pid, 0, offsets,
                                      &events, &s->run, &error), 0);
  service_spawn(s, false, false);
}

static void a_later_host_goes_on_body(struct kit* k) {
  struct service s, f;
  start(k, &s, "i=0; while [ $i -lt 3 ]; do echo $i; echo e$i >&2; "
               "i=$((i + 1)); done; while [ ! -e go ]; do sleep 0.1; done; "
               "while [ $i -lt 6 ]; do echo $i; echo e$i >&2; i=$((i + 1)); "
               "done; exit 7", true);
  service_wait_for(&s, "2\n");
  uint64_t offsets[2] = {sbx_kit_run_offset(s.run, 0), 3};
  assert_int_equal(offsets[0], 6);
  service_close(&s); /* the host is gone */
  follow(k, &f, s.pid, offsets);
  kit_shell(k, "touch go");
  service_wait(&f);
  assert_int_equal(f.exit.end, SBX_KIT_EXITED);
  assert_int_equal(f.exit.exit_code, 7);
  assert_string_equal(text_of(&f, 0), "3\n4\n5\n");
  assert_string_equal(text_of(&f, 1), "e1\ne2\ne3\ne4\ne5\n");
  assert_true(sbx_kit_run_offset(f.run, 0) == 12);
  assert_true(f.began);
  service_free(&f);
  /* And once more, after its end. */
  offsets[0] = offsets[1] = 0;
  k->piece = 1;
  follow(k, &f, s.pid, offsets);
  service_wait(&f);
  assert_int_equal(f.exit.exit_code, 7);
  assert_string_equal(text_of(&f, 0), "0\n1\n2\n3\n4\n5\n");
  service_free(&f);
  waitpid(s.pid, NULL, 0);
  service_free(&s);
}
EACH(a_later_host_goes_on)

/* The spool is behind what the first host has heard; the later one waits. */
static void a_spool_that_is_late_body(struct kit* k) {
  const uint64_t offsets[2] = {4, 0};
  struct service s, f;
  char script[512];
  start(k, &s, "while [ ! -e first ]; do sleep 0.05; done; echo one; "
               "while [ ! -e go ]; do sleep 0.05; done; echo two", true);
  /* Of the helpers in its record the first is the pump of stdout. */
  snprintf(script, sizeof(script),
           "i=0; until pump=$(cat %s/p.%d.* | sed -n '1s/[^:]*:\\([0-9]*\\).*/\\1/p')"
           " && [ \"$pump\" ] && pkill -STOP -P $pump; do sleep 0.05; "
           "i=$((i + 1)); [ $i -lt 400 ] || exit 1; done 2>/dev/null; "
           "echo $pump >pump; touch first", k->folder, (int)s.pid);
  kit_shell(k, script);
  service_wait_for(&s, "one\n");
  service_close(&s);
  follow(k, &f, s.pid, offsets);
  kit_shell(k, "sleep 0.5; pkill -CONT -P $(cat pump); touch go");
  service_wait(&f);
  assert_int_equal(f.exit.end, SBX_KIT_EXITED);
  assert_string_equal(text_of(&f, 0), "two\n");
  service_free(&f);
  waitpid(s.pid, NULL, 0);
  service_free(&s);
}
EACH(a_spool_that_is_late)

static void what_is_not_spooled_body(struct kit* k) {
  const uint64_t offsets[2] = {5, 0};
  struct service s, f;
  start(k, &s, "echo ready; while [ ! -e go ]; do sleep 0.1; done; exit 9",
        false);
  service_wait_for(&s, "ready\n");
  follow(k, &f, s.pid, offsets);
  kit_shell(k, "touch go");
  service_wait(&f);
  assert_int_equal(f.exit.end, SBX_KIT_EXITED);
  assert_int_equal(f.exit.exit_code, 9);
  assert_string_equal(text_of(&f, 0), "");
  assert_true(f.began);
  service_free(&f);
  service_wait(&s);
  service_free(&s);
  follow(k, &f, 4194303, offsets);
  service_wait(&f);
  assert_int_equal(f.exit.end, SBX_KIT_LOST);
  assert_false(f.began);
  service_free(&f);
}
EACH(what_is_not_spooled)

static void much_output_is_bounded_body(struct kit* k) {
  const uint64_t offsets[2] = {0, 0};
  struct service s, f;
  start(k, &s, "head -c 40000000 /dev/zero; echo; echo end", true);
  service_wait(&s);
  assert_int_equal(s.out[0].len, 40000005);
  follow(k, &f, s.pid, offsets);
  service_wait(&f);
  assert_int_equal(f.exit.end, SBX_KIT_EXITED);
  assert_true(f.dropped[0] > 20000000);
  assert_true(f.dropped[0] + f.out[0].len == 40000005);
  assert_true(f.out[0].len <= (16 << 20) + 100);
  assert_true(f.out[0].len >= 12000000);
  assert_string_equal(f.out[0].data + f.out[0].len - 5, "\nend\n");
  service_free(&f);
  service_free(&s);
}
EACH(much_output_is_bounded)

/* The client goes away; what runs goes on, children too. */
static void nobody_dies_of_a_closed_pipe_body(struct kit* k) {
  struct service s;
  start(k, &s, "(while [ ! -e go ]; do sleep 0.1; done; "
               "for i in 1 2 3 4 5 6 7 8; do echo $i; echo $i >&2; done; "
               "touch done) & echo ready", true);
  service_wait(&s);
  kit_shell(k, "touch go; i=0; while [ ! -e done ]; do sleep 0.05; "
               "i=$((i + 1)); [ $i -lt 1000 ] || exit 1; done");
  service_free(&s);
}
EACH(nobody_dies_of_a_closed_pipe)

static struct sbx_kit_process* find(struct sbx_kit_job_result* r, pid_t pid) {
  for (size_t i = 0; i < r->count; i++)
    if (r->list[i].pid == (uint32_t)pid)
      return (struct sbx_kit_process*)&r->list[i];
  fail_msg("no such command in the list");
  return NULL;
}

static void lists_body(struct kit* k) {
  struct service runs, ended, killed;
  struct sbx_kit_job* job;
  struct sbx_kit_job_result r;
  assert_int_equal(sbx_kit_job_list(&k->place, &job), 0);
  assert_int_equal(job_result(k, job, &r), 0);
  assert_int_equal(r.count, 0);
  sbx_kit_job_free(job);
  start(k, &runs, "echo 'a\nb'; read x; sleep 307", true);
  start(k, &ended, "exit 3", false);
  start(k, &killed, "echo ready; exec sleep 308", false);
  service_wait_for(&runs, "b\n");
  service_wait_for(&killed, "ready");
  service_wait(&ended);
  assert_int_equal(sbx_kit_job_list(&k->place, &job), 0);
  assert_int_equal(job_result(k, job, &r), 0);
  assert_int_equal(r.count, 3);
  struct sbx_kit_process* p = find(&r, ended.pid);
  assert_false(p->running);
  assert_int_equal(p->exit_code, 3);
  p = find(&r, runs.pid);
  assert_true(p->running == true || p->exit_code == 0);
  assert_true(p->spooled);
  assert_string_equal(p->command, "/bin/sh -c echo 'a\nb'; read x; sleep 307");
  assert_true(find(&r, killed.pid)->running);
  assert_true(p->started_ms > 1000000000000 && p->start > 0);
  uint64_t start = p->start;
  sbx_kit_job_free(job);
  /* A start time that is another's. */
  assert_int_equal(
      sbx_kit_job_kill(&k->place, (uint32_t)runs.pid, start + 1, 0, &job), 0);
  assert_int_equal(job_run(k, job), SBX_E_NOT_FOUND);
  assert_int_equal(
      sbx_kit_job_kill(&k->place, (uint32_t)runs.pid, start, 0, &job), 0);
  assert_int_equal(job_run(k, job), 0);
  assert_int_equal(kill_it(k, killed.pid, 100), 0);
  service_wait(&runs);
  service_wait(&killed);
  service_free(&runs);
  service_free(&ended);
  service_free(&killed);
}
EACH(lists)

static void bad_records_body(struct kit* k) {
  struct service s;
  struct sbx_kit_job* job;
  struct sbx_kit_job_result r;
  start(k, &s, "true", false);
  service_wait(&s);
  service_free(&s);
  const char* lines[] = {"n f -1 -1 :", "n f 1 1 :", "", "n f 0 0 0",
                         "n f $(touch /tmp/pwned) 1 :", "n f 99999999999999999999 5 :",
                         "x\\ny"};
  for (size_t i = 0; i < 7; i++) {
    char script[512];
    snprintf(script, sizeof(script),
             "printf '%%s' '%s' > %s/p.77.5; mkdir -p %s/p.a.b %s/p.-1.4; "
             ": > '%s/p.78.*'", lines[i], k->folder, k->folder, k->folder,
             k->folder);
    kit_shell(k, script);
    assert_int_equal(
        sbx_kit_job_signal(&k->place, 77, 5, SIGTERM, &job), 0);
    assert_int_equal(job_run(k, job), SBX_E_NOT_FOUND);
    assert_int_equal(sbx_kit_job_kill(&k->place, 77, 5, 0, &job), 0);
    assert_int_equal(job_run(k, job), SBX_E_NOT_FOUND);
    assert_int_equal(sbx_kit_job_list(&k->place, &job), 0);
    assert_int_equal(job_result(k, job, &r), 0);
    assert_int_equal(r.count, 1);
    sbx_kit_job_free(job);
  }
}
EACH(bad_records)

static void prepares_body(struct kit* k) {
  struct sbx_kit_job* job;
  struct sbx_kit_job_result r;
  char root[128];
  snprintf(root, sizeof(root), "%s/a/b", k->path);
  k->place.root = root;
  for (int i = 0; i < 2; i++) {
    k->place.binary_output = i == 0;
    assert_int_equal(sbx_kit_job_prepare(&k->place, &job), 0);
    assert_int_equal(job_result(k, job, &r), 0);
    assert_true(r.made);
    assert_int_equal(r.uid, getuid());
    assert_int_equal(r.shell[0], '/');
    sbx_kit_job_free(job);
  }
  kit_shell(k, "test -d a/b");
  struct stat st;
  assert_int_equal(stat(k->folder, &st), 0);
  assert_int_equal(st.st_mode & 0777, 0700);
  assert_int_equal(rmdir(k->folder), 0);
  /* A link of ours makes room, is not followed; what is another's stays. */
  assert_int_equal(symlink("/tmp", k->folder), 0);
  assert_int_equal(sbx_kit_job_prepare(&k->place, &job), 0);
  assert_int_equal(job_run(k, job), 0);
  assert_int_equal(lstat(k->folder, &st), 0);
  assert_true(S_ISDIR(st.st_mode));
  if (chown(k->folder, 12345, (gid_t) -1) == 0) {
    assert_int_equal(sbx_kit_job_prepare(&k->place, &job), 0);
    assert_int_equal(job_run(k, job), SBX_E_UNAVAILABLE);
  }
  assert_int_equal(rmdir(k->folder), 0);
}
EACH(prepares)

static void a_terminal_body(struct kit* k) {
  const char* argv[3];
  struct sbx_kit_run_spec spec = line_spec(k, argv, "echo $$; exit 5");
  struct service s;
  spec.terminal = true;
  start_spec(k, &s, &spec, false);
  service_wait(&s);
  assert_int_equal(s.exit.end, SBX_KIT_UNTOLD);
  assert_int_equal(s.exit.exit_code, 5);
  assert_int_equal(atoi(text_of(&s, 0)), s.pid);
  service_free(&s);
  spec.cwd = "/no/where";
  start_spec(k, &s, &spec, false);
  service_wait(&s);
  assert_int_equal(s.exit.end, SBX_KIT_NO_CWD);
  service_free(&s);
}
EACH(a_terminal)

#define T(name) cmocka_unit_test(name)

int main(int argc, char** argv) {
  const struct CMUnitTest tests[] = {
      T(ends),
      T(children_do_not_hold_it),
      T(what_cannot_start),
      T(marks_of_others_pass),
      T(bytes_are_exact),
      T(input_reaches_it),
      T(variables),
      T(arguments_are_exact),
      T(many_arguments),
      T(signals_reach_it),
      T(trees_end_whole),
      T(a_killed_wrapper),
      T(time_is_limited),
      T(a_later_host_goes_on),
      T(a_spool_that_is_late),
      T(what_is_not_spooled),
      T(much_output_is_bounded),
      T(nobody_dies_of_a_closed_pipe),
      T(lists),
      T(bad_records),
      T(prepares),
      T(a_terminal),
  };

  /* A shell that starts this in the background ignores them for us. */
  signal(SIGINT, SIG_DFL);
  signal(SIGQUIT, SIG_DFL);
  if (argc == 2) cmocka_set_test_filter(argv[1]);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
