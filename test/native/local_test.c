/* The Local provider: options, folders, life from every state. */
#include "engine_kit.h"

#include <errno.h>
#include <sys/wait.h>

#include "../../native/remove.h"
#include "../../providers/provider.h"

/* ---- a sandbox under test ---- */

struct box {
  uv_loop_t* loop;
  struct sbx_sandbox* s;
  bool done, failed, found;
  struct sbx_error error;
};

static void on_done(void* arg, const struct sbx_error* error) {
  struct box* b = arg;

  assert_false(b->done);
  b->done = true;
  b->failed = error != NULL;
  if (error != NULL) b->error = *error;
}

static void on_found(void* arg, const struct sbx_error* error, bool found) {
  struct box* b = arg;

  assert_null(error);
  b->done = true;
  b->found = found;
}

static struct sbx_options* options(void) {
  struct sbx_options* o;

  assert_int_equal(sbx_options_new(&o), 0);
  sbx_options_add_string(o, "host.path", "/usr/bin:/bin", 13);
  sbx_options_add_string(o, "host.home", "/root", 5);
  sbx_options_add_string(o, "host.tmpdir", "/tmp", 4);
  return o;
}

static void add(struct sbx_options* o, const char* name, const char* value) {
  sbx_options_add_string(o, name, value, strlen(value));
}

/* Takes the options over. */
static void box_open(struct box* b, struct sbx_options* o) {
  static uv_loop_t loop;
  static bool made;
  struct sbx_error error;

  if (!made) uv_loop_init(&loop);
  made = true;
  memset(b, 0, sizeof(*b));
  b->loop = &loop;
  if (sbx_provider_local.open(&loop, o, &b->s, &error) != 0)
    fail_msg("%s", error.message);
  sbx_options_free(o);
}

static void box_call(struct box* b,
                     void (*verb)(struct sbx_sandbox*, sbx_done_cb, void*)) {
  b->done = false;
  verb(b->s, on_done, b);
  kit_until(b->loop, &b->done);
}

static void box_ok(struct box* b,
                   void (*verb)(struct sbx_sandbox*, sbx_done_cb, void*)) {
  box_call(b, verb);
  if (b->failed) fail_msg("%s", b->error.message);
}

static bool box_find(struct box* b) {
  b->done = false;
  sbx_provider_local.find(b->s, on_found, b);
  kit_until(b->loop, &b->done);
  return b->found;
}

static void box_close(struct box* b) {
  box_ok(b, sbx_provider_local.close);
  b->s = NULL;
}

struct fact {
  const char* key;
  char value[2048];
};

static void on_fact(void* arg, const char* key, const char* value) {
  struct fact* f = arg;

  if (strcmp(key, f->key) == 0)
    snprintf(f->value, sizeof(f->value), "%s", value);
}

static const char* box_fact(struct box* b, const char* key, struct fact* f) {
  *f = (struct fact){.key = key};
  sbx_provider_local.facts(b->s, on_fact, f);
  return f->value;
}

static int box_spawn(struct box* b, struct kit_run* r, const char* script,
                     const char* cwd, struct sbx_error* error) {
  const char* argv[] = {"/bin/sh", "-c", script};
  struct sbx_process_spec spec = {.argv = argv, .argc = 3, KIT_SPEC};
  struct sbx_process_events events = kit_events(r);

  memset(r, 0, sizeof(*r));
  spec.cwd = cwd;
  return sbx_provider_local.spawn(b->s, &spec, &events, &r->process, error);
}

/* Runs and compares standard output. */
static void box_sh(struct box* b, const char* script, const char* expected) {
  struct sbx_error error;
  struct kit_run r;

  if (box_spawn(b, &r, script, "/workspace", &error) != 0)
    fail_msg("%s", error.message);
  kit_until(b->loop, &r.done);
  if (r.failed) fail_msg("%s", r.error.message);
  kit_assert_output(&r, SBX_STDOUT, expected);
  kit_finish(&r);
}

static void on_file(void* arg, const struct sbx_error* error,
                    struct sbx_file_result* result) {
  struct box* b = arg;

  b->done = true;
  b->failed = error != NULL;
  if (error != NULL) b->error = *error;
  free(result == NULL ? NULL : result->data);
}

static void box_write(struct box* b, const char* path, const char* text) {
  struct sbx_file_request request = {.verb = SBX_FILE_WRITE,
                                     .flags = SBX_FILE_PARENTS,
                                     .path = path,
                                     .data = text,
                                     .data_len = strlen(text),
                                     .expected_mtime_ms = INT64_MIN};

  b->done = false;
  assert_int_equal(
      sbx_provider_local.file(b->s, 0, &request, on_file, b), 0);
  kit_until(b->loop, &b->done);
  if (b->failed) fail_msg("%s", b->error.message);
}

static void uid_of(const char* path, uint32_t* uid, uint32_t* mode) {
  struct statx st;

  assert_int_equal(statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW,
                         STATX_UID | STATX_MODE, &st),
                   0);
  *uid = st.stx_uid;
  *mode = st.stx_mode;
}

/* A scratch folder for `directory` and `root`. */
static char* scratch(void) {
  char* path = strdup("/tmp/sbx-local-test-XXXXXX");

  assert_non_null(mkdtemp(path));
  return path;
}

static void scrap(char* path) {
  int fd = open("/tmp", O_PATH | O_DIRECTORY);

  assert_int_equal(sbx_remove_tree(fd, strrchr(path, '/') + 1), 0);
  close(fd);
  free(path);
}

/* ---- options ---- */

static void refuse(const char* name, const char* value, const char* word) {
  struct sbx_options* o = options();
  struct sbx_sandbox* s;
  struct sbx_error error;

  add(o, name, value);
  if (sbx_provider_local.open(NULL, o, &s, &error) == 0)
    fail_msg("%s = %s was taken", name, value);
  assert_int_equal(error.code, SBX_E_INVALID_INPUT);
  if (strstr(error.message, word) == NULL) fail_msg("%s", error.message);
  sbx_options_free(o);
}

static void bad_options(void** state) {
  char long_id[302];

  (void) state;
  memset(long_id, 'x', 301);
  long_id[301] = '\0';
  refuse("id", "", "1 to 200");
  refuse("id", long_id, "1 to 200");
  refuse("id", "../x", "without \"/\"");
  refuse("id", "..", "plain name");
  refuse("id", "a\nb", "control");
  refuse("isolation", "bwrap", "\"auto\", \"full\", \"landlock\" or \"none\"");
  refuse("network", "maybe", "\"deny\" or \"allow\"");
  refuse("cwd", "workspace", "absolute");
  refuse("cwd", "/usr/x", "/usr");
  refuse("directory", "x", "absolute");
  refuse("directory", "/etc/passwd", "system itself");
  refuse("directory", "/proc/self", "system itself");
  refuse("root", "/usr", "id");
  refuse("directory", "/no/such/folder", "create that first");
  refuse("directory", "/", "root of this machine");
  refuse("root", "/tmp", "id");
  refuse("shell", "bash", "absolute");
  refuse("shell", "/etc/passwd", "not a program");
  refuse("readOnlyPaths", "/srv", "list");
  refuse("limits.processes", "3", "whole number");
}

static void bad_lists_and_numbers(void** state) {
  struct sbx_options* o = options();
  struct sbx_sandbox* s;
  struct sbx_error error;

  (void) state;
  sbx_options_add_item(o, "readOnlyPaths", "/no/such/path", 13);
  assert_int_equal(sbx_provider_local.open(NULL, o, &s, &error),
                   SBX_E_INVALID_INPUT);
  assert_non_null(strstr(error.message, "/no/such/path"));
  sbx_options_free(o);
  o = options();
  sbx_options_add_number(o, "limits.processes", 2.5);
  assert_int_equal(sbx_provider_local.open(NULL, o, &s, &error),
                   SBX_E_INVALID_INPUT);
  sbx_options_free(o);
  o = options();
  add(o, "id", "x");
  add(o, "root", "/tmp");
  add(o, "directory", "/tmp");
  assert_int_equal(sbx_provider_local.open(NULL, o, &s, &error),
                   SBX_E_INVALID_INPUT);
  assert_non_null(strstr(error.message, "not both"));
  sbx_options_free(o);
}

/* ---- a temporary session ---- */

static void create_run_destroy(void** state) {
  struct fact folder, f;
  struct box b;

  (void) state;
  box_open(&b, options());
  assert_false(box_find(&b));
  box_ok(&b, sbx_provider_local.create);
  assert_int_equal(b.s->epoch, 1);
  assert_string_equal(box_fact(&b, "level", &f), "full");
  assert_string_equal(b.s->place.inside, "/workspace");
  assert_null(b.s->place.host);
  box_sh(&b, "id -u; pwd; echo $HOME; cat /etc/hostname; git config --system -l",
         "1000\n/workspace\n/tmp\nsandbox\nsafe.directory=*\n");
  box_sh(&b, "ls /home /root 2>/dev/null; touch /home/user/x && echo writable",
         "/home:\nuser\nwritable\n");
  box_fact(&b, "folder", &folder);
  assert_true(kit_there(folder.value));
  box_ok(&b, sbx_provider_local.destroy);
  assert_false(kit_there(folder.value));
  box_close(&b);
}

static void both_sides_edit_each_others_files(void** state) {
  struct fact folder;
  struct box b;
  char path[2200];
  uint32_t uid, mode;

  (void) state;
  box_open(&b, options());
  box_ok(&b, sbx_provider_local.create);
  box_write(&b, "a/tool", "1");
  box_sh(&b, "echo 2 >>a/tool; cat a/tool; mkdir c; echo x >c/made; stat -c %U a",
         "12\nuser\n");
  box_write(&b, "c/made", "tool");
  box_write(&b, "c/new", "tool");
  box_sh(&b, "cat c/made; rm c/new c/made && ls c", "tool");
  snprintf(path, sizeof(path), "%s/workspace/a/tool",
           box_fact(&b, "folder", &folder));
  uid_of(path, &uid, &mode);
  if (geteuid() == 0) {
    assert_true(uid >= 0x70000000);
    assert_int_equal((uid - 1000) % 65536, 0x70000000 % 65536);
  } else {
    assert_int_equal(uid, geteuid());
  }
  uid_of(folder.value, &uid, &mode);
  assert_int_equal(mode & 0777, 0700);
  box_close(&b);
  assert_false(kit_there(folder.value));
}

static void stop_keeps_files_and_session(void** state) {
  struct sbx_error error;
  struct kit_run r;
  struct box b;

  (void) state;
  box_open(&b, options());
  box_ok(&b, sbx_provider_local.create);
  box_sh(&b, "echo kept >/tmp/f; echo kept >g", "");
  assert_int_equal(box_spawn(&b, &r, "sleep 100", "/workspace", &error), 0);
  box_ok(&b, sbx_provider_local.stop);
  assert_true(r.done);
  kit_finish(&r);
  assert_true(box_find(&b));
  box_ok(&b, sbx_provider_local.connect);
  assert_int_equal(b.s->epoch, 2);
  box_sh(&b, "cat /tmp/f g", "kept\nkept\n");
  box_ok(&b, sbx_provider_local.stop);
  box_ok(&b, sbx_provider_local.stop);
  box_ok(&b, sbx_provider_local.resume);
  assert_int_equal(b.s->epoch, 3);
  box_close(&b);
}

static void on_snapshot(void* arg, const struct sbx_error* error,
                        const struct sbx_snapshot* list, size_t count) {
  (void) arg;
  (void) error;
  (void) list;
  (void) count;
  fail_msg("a refused request was carried out");
}

static void a_restore_that_cannot_be_ends_nothing(void** state) {
  static const char* const bad[] = {"../x", "", NULL};
  struct box b;
  struct kit_run r;
  struct sbx_error error;

  (void) state;
  box_open(&b, options());
  box_ok(&b, sbx_provider_local.create);
  assert_int_equal(box_spawn(&b, &r, "sleep 1000", "/workspace", &error), 0);
  for (size_t i = 0; i < 3; i++)
    assert_int_equal(
        sbx_provider_local.snapshot(b.s, SBX_SNAPSHOT_RESTORE, "/tmp", bad[i],
                                    on_snapshot, NULL, &error),
        SBX_E_INVALID_INPUT);
  /* Without `root` it has no folder for snapshots of its own. */
  assert_int_equal(
      sbx_provider_local.snapshot(b.s, SBX_SNAPSHOT_RESTORE, "", "x",
                                  on_snapshot, NULL, &error),
      SBX_E_INTERNAL);
  box_sh(&b, "echo lives", "lives\n");
  assert_false(r.done);
  sbx_process_close(r.process);
  box_close(&b);
}

static void nothing_works_before_the_start(void** state) {
  struct sbx_file_request request = {.verb = SBX_FILE_STAT, .path = ""};
  struct sbx_file_result result = {0};
  struct sbx_error error;
  struct kit_run r;
  struct box b;

  (void) state;
  box_open(&b, options());
  assert_int_equal(box_spawn(&b, &r, "true", "/workspace", &error),
                   SBX_E_UNAVAILABLE);
  assert_non_null(strstr(error.message, "not started"));
  assert_int_equal(
      sbx_provider_local.file_try(b.s, 0, &request, &result, &error),
      SBX_E_UNAVAILABLE);
  assert_int_equal(sbx_provider_local.file(b.s, 0, &request, on_file, &b),
                   SBX_E_UNAVAILABLE);
  box_ok(&b, sbx_provider_local.stop);
  box_ok(&b, sbx_provider_local.destroy);
  box_close(&b);
}

static void a_failed_start_leaves_nothing(void** state) {
  struct sbx_options* o = options();
  struct fact folder;
  struct box b;

  (void) state;
  sbx_options_add_number(o, "test.failStep", SBX_SETUP_SECCOMP);
  sbx_options_add_number(o, "test.failErrno", EACCES);
  box_open(&b, o);
  box_call(&b, sbx_provider_local.create);
  assert_true(b.failed);
  assert_int_equal(b.error.step, SBX_SETUP_SECCOMP);
  assert_int_equal(b.error.sys, EACCES);
  assert_string_equal(box_fact(&b, "folder", &folder), "");
  box_call(&b, sbx_provider_local.create);
  assert_true(b.failed);
  box_close(&b);
}

static void destroy_at_any_moment_of_the_start(void** state) {
  struct fact folder;
  int before;

  (void) state;
  before = kit_open_fds();
  for (unsigned i = 0; i < 200; i++) {
    struct box b, second;
    uint64_t until;

    box_open(&b, options());
    sbx_provider_local.create(b.s, on_done, &b);
    until = uv_hrtime() + i * 60000; /* 0 to 12 ms */
    while (uv_hrtime() < until) uv_run(b.loop, UV_RUN_NOWAIT);
    box_fact(&b, "folder", &folder);
    second = b;
    second.done = false;
    sbx_provider_local.destroy(b.s, on_done, &second);
    kit_until(b.loop, &second.done);
    assert_false(second.failed);
    assert_true(b.done);
    if (b.failed) assert_int_equal(b.error.code, SBX_E_ABORTED);
    if (folder.value[0] != '\0') assert_false(kit_there(folder.value));
    box_close(&b);
  }
  assert_int_equal(kit_open_fds(), before);
}

static void a_second_start_at_once_is_refused(void** state) {
  struct box b, second;

  (void) state;
  box_open(&b, options());
  second = b;
  sbx_provider_local.create(b.s, on_done, &b);
  sbx_provider_local.create(second.s, on_done, &second);
  kit_until(b.loop, &second.done);
  assert_int_equal(second.error.code, SBX_E_CONFLICT);
  kit_until(b.loop, &b.done);
  assert_false(b.failed);
  box_close(&b);
}

static void a_lost_session_is_told_and_starts_again(void** state) {
  struct sbx_error error;
  struct kit_run r;
  struct box b;
  pid_t monitor = 0;

  (void) state;
  box_open(&b, options());
  box_ok(&b, sbx_provider_local.create);
  assert_int_equal(box_spawn(&b, &r, "sleep 100", "/workspace", &error), 0);
  assert_int_equal(kit_monitors(&monitor), 1);
  kill(monitor, SIGKILL);
  kit_until(b.loop, &r.done);
  assert_true(r.result.killed);
  kit_finish(&r);
  kit_sleep(b.loop, 100);
  assert_int_equal(box_spawn(&b, &r, "true", "/workspace", &error),
                   SBX_E_UNAVAILABLE);
  assert_non_null(strstr(error.message, "ended from outside"));
  box_ok(&b, sbx_provider_local.create);
  assert_int_equal(b.s->epoch, 2);
  box_sh(&b, "echo again", "again\n");
  box_close(&b);
}

/* ---- directory ---- */

static void a_directory_of_the_user(void** state) {
  char* top = scratch();
  char path[256], file[300];
  uint32_t uid, mode, owner = geteuid() == 0 ? 4321 : geteuid();
  struct fact f;
  struct box b;

  (void) state;
  snprintf(path, sizeof(path), "%s/project", top);
  for (int round = 0; round < 2; round++) {
    struct sbx_options* o = options();

    add(o, "directory", path);
    box_open(&b, o);
    assert_int_equal(box_find(&b), round == 1);
    if (round == 1 && geteuid() == 0)
      assert_int_equal(chown(path, owner, owner), 0);
    box_ok(&b, sbx_provider_local.create);
    assert_string_equal(b.s->place.host, path);
    if (round == 0) {
      box_close(&b);
      continue;
    }
    box_sh(&b, "echo x >by-command; git init -q . && git status --short; pwd",
           "?? by-command\n/workspace\n");
    box_write(&b, "by-tool", "y");
    box_sh(&b, "cat by-tool; rm by-tool; stat -c %u by-command", "y1000\n");
    print_message("uidMode %s\n", box_fact(&b, "uidMode", &f));
    snprintf(file, sizeof(file), "%s/by-command", path);
    uid_of(file, &uid, &mode);
    assert_int_equal(uid, owner);
    box_ok(&b, sbx_provider_local.destroy);
    assert_true(kit_there(file));
    box_close(&b);
  }
  scrap(top);
}

static void the_host_path_is_a_cwd(void** state) {
  struct sbx_options* o = options();
  char* top = scratch();
  struct sbx_error error;
  struct kit_run r;
  struct box b;
  char path[256];

  (void) state;
  add(o, "directory", top);
  box_open(&b, o);
  box_ok(&b, sbx_provider_local.create);
  box_sh(&b, "mkdir sub", "");
  snprintf(path, sizeof(path), "%s/sub", top);
  assert_int_equal(box_spawn(&b, &r, "pwd", path, &error), 0);
  kit_until(b.loop, &r.done);
  kit_assert_output(&r, SBX_STDOUT, "/workspace/sub\n");
  kit_finish(&r);
  box_close(&b);
  scrap(top);
}

/* ---- root ---- */

static struct sbx_options* rooted(const char* root, const char* id) {
  struct sbx_options* o = options();

  add(o, "root", root);
  add(o, "id", id);
  return o;
}

static void a_root_session_is_found_again(void** state) {
  char* top = scratch();
  struct box b, other;

  (void) state;
  box_open(&b, rooted(top, "an id \xc3\xa9"));
  assert_false(box_find(&b));
  box_ok(&b, sbx_provider_local.create);
  box_sh(&b, "echo kept >f", "");
  assert_true(kit_there(b.s->place.host));

  box_open(&other, rooted(top, "an id \xc3\xa9"));
  assert_true(box_find(&other));
  box_call(&other, sbx_provider_local.connect);
  assert_true(other.failed);
  assert_int_equal(other.error.code, SBX_E_CONFLICT);
  assert_non_null(strstr(other.error.message, "in use"));
  box_call(&other, sbx_provider_local.destroy);
  assert_true(other.failed);
  box_close(&b);

  box_ok(&other, sbx_provider_local.connect);
  box_sh(&other, "cat f; echo more >>f; rm f", "kept\n");
  assert_true(kit_there(other.s->place.host));
  box_ok(&other, sbx_provider_local.destroy);
  assert_false(kit_there(other.s->place.host));
  assert_false(box_find(&other));
  box_close(&other);
  assert_int_equal(rmdir(top), 0);
  free(top);
}

static void ids_have_folders_of_their_own(void** state) {
  char* top = scratch();
  struct box a, b;

  (void) state;
  box_open(&a, rooted(top, "a b"));
  box_open(&b, rooted(top, "a_b"));
  assert_string_not_equal(a.s->place.host, b.s->place.host);
  box_ok(&a, sbx_provider_local.create);
  box_ok(&b, sbx_provider_local.create);
  box_ok(&a, sbx_provider_local.destroy);
  box_sh(&b, "echo b", "b\n");
  box_ok(&b, sbx_provider_local.destroy);
  box_close(&a);
  box_close(&b);
  scrap(top);
}

/* ---- more of the view ---- */

static void given_paths_are_visible(void** state) {
  struct sbx_options* o = options();
  char* top = scratch();
  char script[512], ro[128], rw[128];
  struct box b;

  (void) state;
  snprintf(ro, sizeof(ro), "%s/ro", top);
  snprintf(rw, sizeof(rw), "%s/rw", top);
  assert_int_equal(mkdir(ro, 0755), 0);
  assert_int_equal(mkdir(rw, 0777), 0);
  assert_int_equal(chmod(rw, 0777), 0);
  assert_int_equal(chmod(top, 0755), 0);
  sbx_options_add_item(o, "readOnlyPaths", ro, strlen(ro));
  sbx_options_add_item(o, "readWritePaths", rw, strlen(rw));
  box_open(&b, o);
  box_ok(&b, sbx_provider_local.create);
  snprintf(script, sizeof(script),
           "touch %s/x 2>/dev/null || echo ro; touch %s/x && echo rw", ro, rw);
  box_sh(&b, script, "ro\nrw\n");
  box_close(&b);
  scrap(top);
}

static void the_network_is_denied_unless_allowed(void** state) {
  struct sbx_options* o = options();
  struct box b;

  (void) state;
  box_open(&b, options());
  box_ok(&b, sbx_provider_local.create);
  box_sh(&b, "ls /sys/class/net 2>/dev/null; grep -c : /proc/net/dev", "1\n");
  box_close(&b);
  add(o, "network", "allow");
  box_open(&b, o);
  box_ok(&b, sbx_provider_local.create);
  box_sh(&b, "test $(grep -c : /proc/net/dev) -gt 1 && echo more", "more\n");
  box_close(&b);
}

static void cwd_is_where_the_workspace_appears(void** state) {
  struct sbx_options* o = options();
  struct sbx_error error;
  struct kit_run r;
  struct box b;

  (void) state;
  add(o, "cwd", "/home/user");
  box_open(&b, o);
  box_ok(&b, sbx_provider_local.create);
  assert_string_equal(b.s->place.inside, "/home/user");
  assert_int_equal(box_spawn(&b, &r, "pwd; touch x", "/home/user", &error), 0);
  kit_until(b.loop, &r.done);
  kit_assert_output(&r, SBX_STDOUT, "/home/user\n");
  assert_int_equal(r.result.exit_code, 0);
  kit_finish(&r);
  box_close(&b);
}

static void level_none_by_name(void** state) {
  struct sbx_options* o = options();
  struct fact folder, f;
  struct sbx_error error;
  struct kit_run r;
  char expected[2200];
  struct box b;

  (void) state;
  add(o, "isolation", "none");
  box_open(&b, o);
  box_ok(&b, sbx_provider_local.create);
  box_fact(&b, "folder", &folder);
  assert_string_equal(box_fact(&b, "level", &f), "none");
  assert_non_null(strstr(box_fact(&b, "degraded", &f), "none"));
  snprintf(expected, sizeof(expected), "%s/workspace\n", folder.value);
  box_sh(&b, "pwd", expected);
  box_write(&b, "a", "tool");
  box_sh(&b, "cat a; id -u >/dev/null", "tool");
  assert_int_equal(box_spawn(&b, &r, "sleep 100", "/workspace", &error), 0);
  kit_sleep(b.loop, 50);
  box_ok(&b, sbx_provider_local.destroy);
  assert_true(r.done);
  kit_finish(&r);
  assert_false(kit_there(folder.value));
  box_close(&b);
}

/* ---- the host dies ---- */

/* What the killed host of the next test runs. */
static int be_the_host(void) {
  char script[160];
  struct sbx_error error;
  struct fact folder;
  struct kit_run r;
  struct box b;

  snprintf(script, sizeof(script),
           "setsid sh -c 'trap \"\" TERM; sleep 4321.%d; :' & "
           "sleep 4321.%d & echo up; wait", getppid(), getppid());
  box_open(&b, options());
  box_ok(&b, sbx_provider_local.create);
  if (box_spawn(&b, &r, script, "/workspace", &error) != 0) return 1;
  sbx_process_listen(r.process, SBX_STDOUT, SBX_LISTEN_TEXT);
  while (r.text[0] == NULL) uv_run(b.loop, UV_RUN_ONCE);
  printf("%s\n", box_fact(&b, "folder", &folder));
  fflush(stdout);
  uv_run(b.loop, UV_RUN_DEFAULT);
  return 0;
}

/* Told to start in `folder`, killed at some moment of it. */
static int be_the_starter(const char* folder) {
  struct sbx_options* o = options();
  char script[64];
  struct box b;

  snprintf(script, sizeof(script), "sleep 4322.%d", getppid());
  add(o, "host.tmpdir", folder);
  box_open(&b, o);
  printf("now\n");
  fflush(stdout);
  box_ok(&b, sbx_provider_local.create);
  box_sh(&b, script, "");
  return 0;
}

/* Runs this program again and reads its first line. */
static pid_t run_again(const char* role, const char* folder, char* line,
                       size_t size) {
  int ends[2];
  pid_t pid;
  FILE* in;

  assert_int_equal(pipe(ends), 0);
  pid = fork();
  if (pid == 0) {
    dup2(ends[1], 1);
    execl("/proc/self/exe", "local_test", role, folder, NULL);
    _exit(127);
  }
  close(ends[1]);
  in = fdopen(ends[0], "r");
  assert_non_null(fgets(line, (int) size, in));
  line[strcspn(line, "\n")] = '\0';
  fclose(in);
  return pid;
}

static void end_host(pid_t pid) {
  kill(pid, SIGKILL);
  waitpid(pid, NULL, 0);
}

/* Of this program: others may run at the same time. */
static bool any_sleeper(void) {
  char line[160];

  snprintf(line, sizeof(line),
           "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | "
           "grep -aq '[s]leep 432[12].%d'", getpid());
  return system(line) == 0;
}

/* A disk under load may keep a removal waiting for a minute. */
static bool is_removed(const char* folder) {
  for (int i = 0; i < 30000 && kit_there(folder); i++) usleep(10000);
  return !kit_there(folder);
}

static void nothing_outlives_a_killed_host(void** state) {
  char folder[256] = "";
  pid_t pid = run_again("host", "", folder, sizeof(folder));

  (void) state;
  assert_true(kit_there(folder));
  assert_true(any_sleeper());
  end_host(pid);
  assert_true(is_removed(folder));
  assert_false(any_sleeper());
}

static void a_host_killed_while_it_starts_leaves_nothing(void** state) {
  char* top = scratch();
  char line[16];
  int gone = -1;

  (void) state;
  for (unsigned i = 0; i < 60; i++) {
    pid_t pid = run_again("starter", top, line, sizeof(line));

    usleep(i * 250); /* 0 to 15 ms */
    end_host(pid);
  }
  /* rmdir works once the folder is empty. */
  for (int i = 0; i < 30000 && gone != 0; i++) {
    gone = rmdir(top);
    if (gone != 0) usleep(10000);
  }
  assert_int_equal(gone, 0);
  assert_false(any_sleeper());
  free(top);
}

int main(int argc, char** argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bad_options),
      cmocka_unit_test(bad_lists_and_numbers),
      cmocka_unit_test(create_run_destroy),
      cmocka_unit_test(both_sides_edit_each_others_files),
      cmocka_unit_test(stop_keeps_files_and_session),
      cmocka_unit_test(a_restore_that_cannot_be_ends_nothing),
      cmocka_unit_test(nothing_works_before_the_start),
      cmocka_unit_test(a_failed_start_leaves_nothing),
      cmocka_unit_test(destroy_at_any_moment_of_the_start),
      cmocka_unit_test(a_second_start_at_once_is_refused),
      cmocka_unit_test(a_lost_session_is_told_and_starts_again),
      cmocka_unit_test(a_directory_of_the_user),
      cmocka_unit_test(the_host_path_is_a_cwd),
      cmocka_unit_test(a_root_session_is_found_again),
      cmocka_unit_test(ids_have_folders_of_their_own),
      cmocka_unit_test(given_paths_are_visible),
      cmocka_unit_test(the_network_is_denied_unless_allowed),
      cmocka_unit_test(cwd_is_where_the_workspace_appears),
      cmocka_unit_test(level_none_by_name),
      cmocka_unit_test(nothing_outlives_a_killed_host),
      cmocka_unit_test(a_host_killed_while_it_starts_leaves_nothing),
  };

  signal(SIGPIPE, SIG_IGN);
  if (argc > 1 && strcmp(argv[1], "host") == 0) return be_the_host();
  if (argc > 2 && strcmp(argv[1], "starter") == 0)
    return be_the_starter(argv[2]);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
