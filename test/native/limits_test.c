/* Limits: their words, their options, and what they do to real commands. */
#include "engine_kit.h"

#include <glob.h>

#include "../../native/session/limits.h"
#include "../../native/session/rate.h"
#include "../../providers/local/limits.h"

/* ---- words ---- */

static void bytes_in_words(void** state) {
  char text[SBX_BYTES_TEXT_MAX];

  (void) state;
  assert_string_equal(sbx_bytes_text(100, text), "100 bytes");
  assert_string_equal(sbx_bytes_text(1536, text), "1.5 KiB");
  assert_string_equal(sbx_bytes_text(512u << 20, text), "512 MiB");
  assert_string_equal(sbx_bytes_text(UINT64_MAX, text), "16777216 TiB");
}

static void reasons_name_limit_and_option(void** state) {
  char text[SBX_REASON_MAX];

  (void) state;
  assert_string_equal(sbx_limit_reason(SBX_LIMIT_MEMORY, 512u << 20, text),
                      "killed: the sandbox used more than its memory limit of "
                      "512 MiB (limits.memory)");
  assert_non_null(sbx_limit_reason(SBX_LIMIT_WORKSPACE, 1, text));
  assert_non_null(sbx_limit_reason(SBX_LIMIT_FILE_SIZE, 1, text));
  assert_non_null(strstr(sbx_limit_reason(SBX_LIMIT_PROCESSES, 64, text),
                         "64 processes"));
  assert_null(sbx_limit_reason(77, 1, text));
}

/* ---- the rate ---- */

static const uint64_t SECOND = 1000000000;

static void a_rate_gives_a_second_at_once(void** state) {
  struct sbx_rate r;

  (void) state;
  sbx_rate_init(&r, 1000, SECOND);
  assert_int_equal(sbx_rate_allow(&r, SECOND, 5000), 1000);
  assert_int_equal(sbx_rate_allow(&r, SECOND, 10), 10);
  sbx_rate_take(&r, SECOND, 1000);
  assert_int_equal(sbx_rate_allow(&r, SECOND, 5000), 0);
  assert_int_equal(sbx_rate_allow(&r, SECOND + SECOND / 2, 5000), 500);
  assert_int_equal(sbx_rate_allow(&r, 9 * SECOND, 5000), 1000);
  assert_true(sbx_rate_wait(&r, SECOND) > 0);
}

static void a_rate_is_never_in_debt_for_ever(void** state) {
  struct sbx_rate r;

  (void) state;
  sbx_rate_init(&r, 1000, SECOND);
  sbx_rate_take(&r, SECOND, 3000);
  assert_int_equal(sbx_rate_allow(&r, 2 * SECOND, 100), 0);
  assert_true(sbx_rate_wait(&r, SECOND) >= 2000);
  assert_int_equal(sbx_rate_allow(&r, 4 * SECOND, 100), 100);
}

static void no_rate_is_no_limit(void** state) {
  struct sbx_rate r;

  (void) state;
  sbx_rate_init(&r, 0, SECOND);
  sbx_rate_take(&r, SECOND, 1u << 30);
  assert_int_equal(sbx_rate_allow(&r, SECOND, 1u << 30), 1u << 30);
}

/* ---- options and facts ---- */

static void refuse(const char* name, double value, const char* why) {
  struct sbx_local_limits l;
  struct sbx_options* o;
  struct sbx_error error;

  sbx_options_new(&o);
  sbx_options_add_number(o, name, value);
  assert_int_equal(sbx_local_limits_read(o, &l, &error), SBX_E_INVALID_INPUT);
  assert_non_null(strstr(error.message, name));
  assert_non_null(strstr(error.message, why));
  sbx_options_free(o);
}

static void bad_limits(void** state) {
  (void) state;
  refuse("limits.processes", 3, "from 8");
  refuse("limits.memory", 1024, "16 MiB");
  refuse("limits.memory", 1e30, "whole number");
  refuse("limits.cpu", 0, "cores");
  refuse("limits.openFiles", 100.5, "whole number");
  refuse("limits.fileSize", -1, "bytes");
  refuse("limits.workspaceSize", 0.0 / 0.0, "bytes");
  refuse("limits.outputRate", 10, "per second");
}

static void a_text_is_no_number(void** state) {
  struct sbx_local_limits l;
  struct sbx_options* o;
  struct sbx_error error;

  (void) state;
  sbx_options_new(&o);
  sbx_options_add_string(o, "limits.memory", "512mb", 5);
  assert_int_equal(sbx_local_limits_read(o, &l, &error), SBX_E_INVALID_INPUT);
  sbx_options_free(o);
}

struct told {
  char text[2048];
};

static void on_fact(void* arg, const char* key, const char* value) {
  struct told* t = arg;
  size_t len = strlen(t->text);

  snprintf(t->text + len, sizeof(t->text) - len, "%s=%s\n", key, value);
}

static const struct sbx_local_limits all = {.processes = 100,
                                            .memory = 1u << 30,
                                            .cpu = 1500,
                                            .file_size = 4096,
                                            .output_rate = 2048};

static void facts_say_what_enforces(void** state) {
  struct told t = {""};
  char text[512];

  (void) state;
  sbx_local_limits_tell(&all, SBX_LEVEL_FULL, 0, on_fact, &t);
  assert_non_null(strstr(t.text, "limits.memory=1073741824\n"));
  assert_non_null(strstr(t.text, "limits.memory.enforcedBy=watcher\n"));
  assert_non_null(strstr(t.text, "limits.processes.enforcedBy=rlimit\n"));
  assert_non_null(strstr(t.text, "limits.fileSize.enforcedBy=rlimit\n"));
  assert_non_null(strstr(t.text, "limits.outputRate.enforcedBy=engine\n"));
  assert_null(strstr(t.text, "limits.cpu"));
  assert_null(strstr(t.text, "openFiles"));
  sbx_local_limits_degraded(&all, SBX_LEVEL_FULL, 0, text, sizeof(text));
  assert_non_null(strstr(text, "limits.cpu is not enforced"));
}

static void facts_of_a_control_group(void** state) {
  uint32_t ready = SBX_READY_CGROUP_MEMORY | SBX_READY_CGROUP_CPU |
                   SBX_READY_CGROUP_PIDS;
  struct told t = {""};
  char text[512];

  (void) state;
  sbx_local_limits_tell(&all, SBX_LEVEL_FULL, ready, on_fact, &t);
  assert_non_null(strstr(t.text, "limits.memory.enforcedBy=cgroup v2\n"));
  assert_non_null(strstr(t.text, "limits.cpu=1.5\n"));
  assert_non_null(strstr(t.text, "limits.cpu.enforcedBy=cgroup v2\n"));
  assert_int_equal(
      sbx_local_limits_degraded(&all, SBX_LEVEL_FULL, ready, text, 512), 0);
}

static void processes_of_none_are_not_claimed(void** state) {
  struct told t = {""};
  char text[512];

  (void) state;
  sbx_local_limits_tell(&all, SBX_LEVEL_NONE, 0, on_fact, &t);
  assert_null(strstr(t.text, "limits.processes"));
  sbx_local_limits_degraded(&all, SBX_LEVEL_NONE, 0, text, sizeof(text));
  assert_non_null(strstr(text, "limits.processes is not enforced"));
}

/* ---- sessions with limits ---- */

static void session(struct kit* k,
                    void (*more)(struct kit*, struct sbx_config*)) {
  memset(k, 0, sizeof(*k));
  uv_loop_init(&k->loop);
  k->more = more;
  kit_start(k);
}

static void over(struct kit* k) {
  kit_close(k);
  assert_int_equal(uv_loop_close(&k->loop), 0);
}

static void assert_reason(const struct kit_run* r, const char* text) {
  assert_non_null(r->result.reason);
  assert_non_null(strstr(r->result.reason, text));
}

static void with_memory(struct kit* k, struct sbx_config* c) {
  (void) k;
  sbx_config_add_number(c, SBX_CONFIG_MEMORY, 64 << 20);
}

/* tail keeps in memory what it may have to print. */
#define HOG "head -c 300000000 /dev/zero | tail -c 300000000"

static void too_much_memory(void** state) {
  struct kit_run quiet, r;
  struct kit k;

  (void) state;
  session(&k, with_memory);
  kit_spawn(&k, &quiet, "sleep 1000", false, 0);
  kit_shell(&k, &r, HOG " >/dev/null; sleep 1000");
  assert_true(r.result.killed);
  assert_int_equal(r.result.exit_code, 137);
  assert_reason(&r, "memory limit of 64 MiB (limits.memory)");
  kit_finish(&r);
  assert_false(quiet.done); /* which used least */
  kit_shell(&k, &r, "echo fine");
  assert_null(r.result.reason);
  kit_finish(&r);
  kit_finish(&quiet);
  over(&k);
}

/* Its command is over, so there is nobody to tell; it goes all the same. */
static void memory_of_a_left_process(void** state) {
  struct kit_run r;
  struct kit k;

  (void) state;
  session(&k, with_memory);
  kit_shell(&k, &r,
            "(setsid sh -c '" HOG " | sleep 1000' >/dev/null 2>&1 </dev/null &)");
  kit_finish(&r);
  kit_shell(&k, &r, "while pgrep -x tail >/dev/null; do sleep 0.1; done");
  assert_int_equal(r.result.exit_code, 0);
  kit_finish(&r);
  over(&k);
}

static void with_sizes(struct kit* k, struct sbx_config* c) {
  (void) k;
  sbx_config_add_number(c, SBX_CONFIG_WORKSPACE_SIZE, 8 << 20);
  sbx_config_add_number(c, SBX_CONFIG_FILE_SIZE, 4 << 20);
  sbx_config_add_number(c, SBX_CONFIG_NOFILE, 40);
}

static void too_large_a_file(void** state) {
  struct kit_run r;
  struct kit k;

  (void) state;
  session(&k, with_sizes);
  kit_shell(&k, &r, "exec head -c 5000000 /dev/zero > big");
  assert_int_equal(r.result.exit_code, 128 + SIGXFSZ);
  assert_reason(&r, "4 MiB for one file (limits.fileSize)");
  kit_finish(&r);
  kit_shell(&k, &r, "rm big; ulimit -n");
  kit_assert_output(&r, SBX_STDOUT, "40\n");
  kit_finish(&r);
  over(&k);
}

static void too_large_a_workspace(void** state) {
  struct kit_run quiet, r;
  struct kit k;

  (void) state;
  session(&k, with_sizes);
  kit_spawn(&k, &quiet, "sleep 1000", false, 0);
  kit_shell(&k, &r,
            "mkdir d; i=0; while :; do head -c 2000000 /dev/urandom > d/$i; "
            "i=$((i + 1)); sleep 0.1; done");
  assert_true(r.result.killed);
  assert_reason(&r, "8 MiB (limits.workspaceSize)");
  kit_finish(&r);
  assert_false(quiet.done);
  kit_shell(&k, &r, "rm -r d && sleep 0.5 && echo cleaned");
  kit_assert_output(&r, SBX_STDOUT, "cleaned\n");
  assert_null(r.result.reason);
  kit_finish(&r);
  kit_finish(&quiet);
  over(&k);
}

static void with_processes(struct kit* k, struct sbx_config* c) {
  (void) k;
  sbx_config_add_number(c, SBX_CONFIG_NPROC, 30);
}

static void too_many_processes(void** state) {
  struct kit_run r;
  struct kit k;

  (void) state;
  session(&k, with_processes);
  kit_shell(&k, &r,
            "i=0; while [ $i -lt 60 ]; do sleep 1000 & i=$((i + 1)); done");
  assert_int_not_equal(r.result.exit_code, 0);
  assert_reason(&r, "30 processes (limits.processes)");
  kit_finish(&r);
  over(&k);
}

/* ---- the control group, in an ordinary folder ---- */

static char fake[64];

static void with_group(struct kit* k, struct sbx_config* c) {
  with_memory(k, c);
  sbx_config_add_number(c, SBX_CONFIG_CPU, 1500);
  sbx_config_add_number(c, SBX_CONFIG_NPROC, 100);
  sbx_config_add_text(c, SBX_CONFIG_CGROUP, fake);
}

static bool find_in_group(const char* name, char* path, size_t size) {
  char pattern[128];
  glob_t found;
  bool is_there;

  snprintf(pattern, sizeof(pattern), "%s/sbx-*/%s", fake, name);
  is_there = glob(pattern, 0, NULL, &found) == 0 && found.gl_pathc == 1;
  if (is_there) snprintf(path, size, "%s", found.gl_pathv[0]);
  globfree(&found);
  return is_there;
}

static void assert_in_group(const char* name, const char* text) {
  char path[128], got[64] = "";
  FILE* in;

  assert_true(find_in_group(name, path, sizeof(path)));
  in = fopen(path, "r");
  assert_non_null(in);
  if (fgets(got, sizeof(got), in) == NULL) got[0] = '\0';
  fclose(in);
  assert_string_equal(got, text);
}

static void a_control_group_is_made_and_removed(void** state) {
  char path[128];
  struct kit k;

  (void) state;
  strcpy(fake, "/tmp/sbx-fake-group-XXXXXX");
  assert_non_null(mkdtemp(fake));
  session(&k, with_group);
  assert_in_group("memory.max", "67108864");
  assert_in_group("memory.swap.max", "0");
  assert_in_group("cpu.max", "150000 100000");
  assert_in_group("pids.max", "116");
  assert_true(find_in_group("run/cgroup.procs", path, sizeof(path)));
  assert_int_equal(k.ready.flags & SBX_READY_CGROUP_MEMORY,
                   SBX_READY_CGROUP_MEMORY);
  assert_int_equal(k.ready.flags & SBX_READY_CGROUP_CPU, SBX_READY_CGROUP_CPU);
  over(&k);
  assert_int_equal(rmdir(fake), 0);
}

static void the_kernel_killed_for_memory(void** state) {
  struct kit_run r;
  char path[128];
  struct kit k;
  FILE* out;

  (void) state;
  strcpy(fake, "/tmp/sbx-fake-group-XXXXXX");
  assert_non_null(mkdtemp(fake));
  session(&k, with_group);
  kit_shell(&k, &r, "kill -KILL $$");
  assert_null(r.result.reason);
  kit_finish(&r);
  assert_true(find_in_group("memory.events", path, sizeof(path)));
  out = fopen(path, "w");
  fputs("low 0\nhigh 0\nmax 9\noom 1\noom_kill 1\n", out);
  fclose(out);
  kit_shell(&k, &r, "kill -KILL $$");
  assert_reason(&r, "limits.memory");
  kit_finish(&r);
  kit_shell(&k, &r, "kill -KILL $$"); /* told once */
  assert_null(r.result.reason);
  kit_finish(&r);
  over(&k);
  assert_int_equal(rmdir(fake), 0);
}

static void without_a_group_all_goes_on(void** state) {
  struct kit_run r;
  struct kit k;

  (void) state;
  strcpy(fake, "/tmp/sbx-no-such-folder");
  session(&k, with_group);
  assert_int_equal(k.ready.flags & SBX_READY_CGROUP_MEMORY, 0);
  kit_shell(&k, &r, "echo fine");
  kit_assert_output(&r, SBX_STDOUT, "fine\n");
  kit_finish(&r);
  over(&k);
}

#define T(name) cmocka_unit_test(name)

int main(void) {
  const struct CMUnitTest tests[] = {
      T(bytes_in_words),
      T(reasons_name_limit_and_option),
      T(a_rate_gives_a_second_at_once),
      T(a_rate_is_never_in_debt_for_ever),
      T(no_rate_is_no_limit),
      T(bad_limits),
      T(a_text_is_no_number),
      T(facts_say_what_enforces),
      T(facts_of_a_control_group),
      T(processes_of_none_are_not_claimed),
      T(too_much_memory),
      T(memory_of_a_left_process),
      T(too_large_a_file),
      T(too_large_a_workspace),
      T(too_many_processes),
      T(a_control_group_is_made_and_removed),
      T(the_kernel_killed_for_memory),
      T(without_a_group_all_goes_on),
  };

  signal(SIGPIPE, SIG_IGN);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
