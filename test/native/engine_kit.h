/* Sessions and commands for the engine's tests, on a loop of their own. Header
 * only, so that each test program stays one file. */
#ifndef SBX_TEST_ENGINE_KIT_H
#define SBX_TEST_ENGINE_KIT_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#include "../../native/session/config.h"
#include "../../native/session/process.h"
#include "../../native/session/session.h"

#define KIT __attribute__((unused)) static

enum { KIT_BASE = 0x6e000000, KIT_INNER = 1000, KIT_PATIENCE_MS = 60000 };

struct kit {
  uv_loop_t loop;
  struct sbx_session* session;
  bool answered, lost, closed, emptied;
  bool failed;
  struct sbx_error error;
  struct sbx_session_ready ready;
  char folder[64];
  uint64_t fail_step, fail_errno;
  void (*more)(struct kit* k, struct sbx_config* c); /* adds to the config */
};

/* ---- loop ---- */

static void kit_on_late(uv_timer_t* timer) {
  *(bool*) timer->data = true;
}

static void kit_on_timer_closed(uv_handle_t* handle) {
  free(handle);
}

/* Turns the loop until *flag. Fails the test when that takes too long. */
KIT void kit_until(uv_loop_t* loop, const bool* flag) {
  uv_timer_t* timer = calloc(1, sizeof(*timer));
  bool late = false;

  uv_timer_init(loop, timer);
  timer->data = &late;
  uv_timer_start(timer, kit_on_late, KIT_PATIENCE_MS, 0);
  while (!*flag && !late) uv_run(loop, UV_RUN_ONCE);
  uv_close((uv_handle_t*) timer, kit_on_timer_closed);
  uv_run(loop, UV_RUN_NOWAIT);
  assert_true(*flag);
}

KIT void kit_sleep(uv_loop_t* loop, unsigned ms) {
  uv_timer_t* timer = calloc(1, sizeof(*timer));
  bool late = false;

  uv_timer_init(loop, timer);
  timer->data = &late;
  uv_timer_start(timer, kit_on_late, ms, 0);
  while (!late) uv_run(loop, UV_RUN_ONCE);
  uv_close((uv_handle_t*) timer, kit_on_timer_closed);
  uv_run(loop, UV_RUN_NOWAIT);
}

/* ---- what is left on the host ---- */

KIT int kit_open_fds(void) {
  DIR* dir = opendir("/proc/self/fd");
  int count = 0;

  assert_non_null(dir);
  while (readdir(dir) != NULL) count++;
  closedir(dir);
  return count;
}

KIT bool kit_there(const char* path) {
  return access(path, F_OK) == 0;
}

/* Children of this process: the monitors. */
KIT int kit_monitors(pid_t* first) {
  char path[64];
  char text[4096] = "";
  FILE* in;
  int count = 0;

  snprintf(path, sizeof(path), "/proc/self/task/%d/children", getpid());
  in = fopen(path, "r");
  assert_non_null(in);
  if (fgets(text, sizeof(text), in) != NULL)
    for (char* at = strtok(text, " "); at; at = strtok(NULL, " "))
      if (++count == 1 && first != NULL) *first = (pid_t) atoi(at);
  fclose(in);
  return count;
}

/* ---- sessions ---- */

static void kit_on_ready(void* data, const struct sbx_error* error,
                         const struct sbx_session_ready* ready) {
  struct kit* k = data;

  k->answered = true;
  k->failed = error != NULL;
  if (error != NULL)
    k->error = *error;
  else
    k->ready = *ready;
}

static void kit_on_lost(void* data, const struct sbx_error* error) {
  struct kit* k = data;

  k->error = *error;
  k->lost = true;
}

static void kit_on_closed(void* arg) {
  *(bool*) arg = true;
}

static struct sbx_config* kit_config(struct kit* k) {
  struct sbx_config* c;
  char workspace[96];

  strcpy(k->folder, "/tmp/sbx-engine-test-XXXXXX");
  assert_non_null(mkdtemp(k->folder));
  snprintf(workspace, sizeof(workspace), "%s/workspace", k->folder);
  assert_int_equal(mkdir(workspace, 0755), 0);
  assert_int_equal(sbx_config_new(&c), 0);
  if (geteuid() == 0) {
    unsigned id = KIT_BASE + KIT_INNER;

    assert_int_equal(chown(workspace, id, id), 0);
    sbx_config_add_number(c, SBX_CONFIG_UID_BASE, KIT_BASE);
  }
  sbx_config_add_text(c, SBX_CONFIG_WORKSPACE, workspace);
  sbx_config_add_text(c, SBX_CONFIG_MOUNTPOINT, "/workspace");
  sbx_config_add_number(c, SBX_CONFIG_LEVEL, SBX_LEVEL_FULL);
  sbx_config_add_number(c, SBX_CONFIG_INNER_ID, KIT_INNER);
  sbx_config_add_text(c, SBX_CONFIG_HOSTNAME, "kit");
  sbx_config_add_text(c, SBX_CONFIG_REMOVE, k->folder);
  sbx_config_add_pair(c, SBX_CONFIG_BIND_RO, "/usr", "/usr");
  sbx_config_add_pair(c, SBX_CONFIG_SYMLINK, "usr/bin", "/bin");
  sbx_config_add_pair(c, SBX_CONFIG_SYMLINK, "usr/lib", "/lib");
  sbx_config_add_pair(c, SBX_CONFIG_SYMLINK, "usr/lib64", "/lib64");
  if (k->fail_step != 0) {
    sbx_config_add_number(c, SBX_CONFIG_FAIL_STEP, k->fail_step);
    sbx_config_add_number(c, SBX_CONFIG_FAIL_ERRNO, k->fail_errno);
  }
  if (k->more != NULL) k->more(k, c);
  return c;
}

/* Starts without waiting. */
KIT void kit_begin(struct kit* k) {
  struct sbx_session_events events = {k, kit_on_ready, kit_on_lost};
  struct sbx_config* config = kit_config(k);
  struct sbx_error error;

  k->answered = k->lost = k->closed = false;
  k->ready.workspace_fd = k->ready.root_fd = -1;
  assert_int_equal(
      sbx_session_start(&k->loop, config, &events, &k->session, &error), 0);
  sbx_config_free(config);
}

KIT void kit_start(struct kit* k) {
  kit_begin(k);
  kit_until(&k->loop, &k->answered);
  if (k->failed) print_error("%s\n", k->error.message);
  assert_false(k->failed);
}

KIT void kit_close(struct kit* k) {
  if (k->ready.workspace_fd >= 0) close(k->ready.workspace_fd);
  if (k->ready.root_fd >= 0) close(k->ready.root_fd);
  k->ready.workspace_fd = k->ready.root_fd = -1;
  sbx_session_close(k->session, kit_on_closed, &k->closed);
  kit_until(&k->loop, &k->closed);
  assert_false(kit_there(k->folder));
}

/* ---- commands ---- */

struct kit_run {
  struct sbx_process* process;
  struct sbx_process_result result;
  struct sbx_error error;
  bool failed; /* result.error was set */
  bool done, spawned;
  uint32_t pid;
  char* text[2]; /* what the listeners got */
  size_t len[2];
  size_t calls[2];
  size_t bytes; /* by the bytes listener */
};

static void kit_on_spawn(void* data, uint32_t pid) {
  struct kit_run* r = data;

  assert_false(r->spawned);
  r->spawned = true;
  r->pid = pid;
}

static void kit_on_bytes(void* data, int stream, const char* bytes,
                         size_t len) {
  struct kit_run* r = data;

  (void) stream;
  (void) bytes;
  assert_false(r->done);
  r->bytes += len;
}

static void kit_on_text(void* data, int stream, const char* bytes, size_t len) {
  struct kit_run* r = data;

  assert_false(r->done);
  r->text[stream] = realloc(r->text[stream], r->len[stream] + len + 1);
  memcpy(r->text[stream] + r->len[stream], bytes, len);
  r->len[stream] += len;
  r->text[stream][r->len[stream]] = '\0';
  r->calls[stream]++;
}

static void kit_on_exit(void* data, const struct sbx_process_result* result) {
  struct kit_run* r = data;

  assert_false(r->done);
  r->done = true;
  r->result = *result;
  r->failed = result->error != NULL;
  if (r->failed) r->error = *result->error;
  r->result.error = NULL;
}

KIT const char* const kit_env[] = {"PATH=/usr/local/bin:/usr/bin:/bin",
                                   "HOME=/tmp", "LC_ALL=C.UTF-8"};

#define KIT_SPEC                                                     \
  .cwd = "/workspace", .env = kit_env, .envc = 3, .retain = 1 << 20, \
  .grace_ms = 200

KIT struct sbx_process_events kit_events(struct kit_run* r) {
  return (struct sbx_process_events){r, kit_on_spawn, kit_on_bytes,
                                     kit_on_text, kit_on_exit};
}

KIT void kit_spawn_spec(struct kit* k, struct kit_run* r,
                        const struct sbx_process_spec* spec) {
  struct sbx_process_events events = kit_events(r);
  struct sbx_error error;

  memset(r, 0, sizeof(*r));
  if (sbx_process_spawn(k->session, spec, &events, &r->process, &error) != 0)
    fail_msg("%s", error.message);
}

/* A shell command; `in`: with a stdin pipe. */
KIT void kit_spawn(struct kit* k, struct kit_run* r, const char* script,
                   bool in, uint64_t timeout_ms) {
  const char* argv[] = {"/bin/sh", "-c", script};
  struct sbx_process_spec spec = {.argv = argv,
                                  .argc = 3,
                                  .stdin_pipe = in,
                                  .timeout_ms = timeout_ms,
                                  KIT_SPEC};

  kit_spawn_spec(k, r, &spec);
}

KIT void kit_finish(struct kit_run* r) {
  if (r->process != NULL) sbx_process_close(r->process);
  free(r->text[0]);
  free(r->text[1]);
  r->process = NULL;
  r->text[0] = r->text[1] = NULL;
}

KIT void kit_wait(struct kit* k, struct kit_run* r) {
  kit_until(&k->loop, &r->done);
}

KIT void kit_shell(struct kit* k, struct kit_run* r, const char* script) {
  kit_spawn(k, r, script, false, 0);
  kit_wait(k, r);
}

/* Until its stdout, which has to be listened to, begins. */
KIT void kit_until_text(struct kit* k, const struct kit_run* r) {
  while (r->text[0] == NULL && !r->done) uv_run(&k->loop, UV_RUN_ONCE);
  assert_non_null(r->text[0]);
}

KIT void kit_assert_output(struct kit_run* r, int stream, const char* text) {
  struct sbx_retained kept;

  sbx_process_retained(r->process, stream, &kept);
  if (kept.len != strlen(text) || memcmp(kept.bytes, text, kept.len) != 0)
    fail_msg("got \"%.*s\"", (int) kept.len, kept.bytes);
}

/* One session for a whole group of tests. */
KIT int kit_setup(void** state) {
  struct kit* k = calloc(1, sizeof(*k));

  signal(SIGPIPE, SIG_IGN);
  uv_loop_init(&k->loop);
  kit_start(k);
  *state = k;
  return 0;
}

KIT int kit_teardown(void** state) {
  struct kit* k = *state;

  kit_close(k);
  assert_int_equal(uv_loop_close(&k->loop), 0);
  free(k);
  return 0;
}

#endif
