/* Commands wrapped by the remote kit, run for real under three shells by a
 * stand-in for a service: it hands bytes on and tells ends, no more. */
#include "kit_help.h"

#include <signal.h>
#include <sys/stat.h>

#include "providers/kit_run.h"

typedef void (*kit_body)(struct kit* k);

static void each_shell(kit_body body) {
  const char* only = getenv("SBX_SHELL");
  for (size_t i = 0; i < SHELLS; i++) {
    struct kit k;
    if (only && strcmp(only, shells[i].name) != 0) continue;
    kit_open(&k, i);
    body(&k);
    kit_close(&k);
  }
}

#define EACH(name)                 \
  static void name(void** state) { \
    (void)state;                   \
    each_shell(name##_body);       \
  }

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
  bool exited;
};

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
  return (struct sbx_kit_run_events){s, on_output, on_dropped, on_exit_of};
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

/* --- how it ends ----------------------------------------------------------- */

static void ends_body(struct kit* k) {
  for (int spool = 0; spool < 2; spool++) {
    k->piece = spool ? 1 : 0;
    expect(k, "echo out; echo err >&2; exit 42", spool, 42, "out\n", "err\n");
    expect(k, "kill -KILL $$", spool, 137, "", "");
    expect(k, "printf 'no line end'", spool, 0, "no line end", "");
    expect(k, "cat", spool, 0, "", "");
    expect(k, "sleep 300 & echo done; echo $! >&7", spool, 0, "done\n", "");
  }
}
EACH(ends)

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ends),
  };
  (void)kill_it;
  (void)signal_it;
  (void)service_wait_for;
  return cmocka_run_group_tests(tests, NULL, NULL);
}
