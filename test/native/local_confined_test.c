/* Level landlock as the Local provider sees it: what counts as a refusal of
 * namespaces, and which absolute path is whose. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "providers/local/confined.h"

static void refusals(void** state) {
  (void) state;
  assert_true(sbx_confined_refused(SBX_SETUP_NAMESPACES, EPERM));
  assert_true(sbx_confined_refused(SBX_SETUP_NAMESPACES, ENOSPC));
  assert_true(sbx_confined_refused(SBX_SETUP_UID_MAP, EACCES));
  assert_true(sbx_confined_refused(SBX_SETUP_LOOPBACK, EPERM));
  assert_true(sbx_confined_refused(SBX_SETUP_PROC, EPERM));
  assert_false(sbx_confined_refused(SBX_SETUP_NAMESPACES, ENOMEM));
  assert_false(sbx_confined_refused(SBX_SETUP_NAMESPACES, EAGAIN));
  assert_false(sbx_confined_refused(SBX_SETUP_UID_MAP, EMFILE));
  assert_false(sbx_confined_refused(SBX_SETUP_WORKSPACE, EACCES));
  assert_false(sbx_confined_refused(SBX_SETUP_BINDS, EPERM));
  assert_false(sbx_confined_refused(SBX_SETUP_MOUNT_WORKSPACE, EACCES));
  assert_false(sbx_confined_refused(SBX_SETUP_SECCOMP, EPERM));
  assert_false(sbx_confined_refused(0, EPERM));
}

static void route(const char* path, int root, const char* rest) {
  char workspace[] = "/tmp/s/workspace", scratch[] = "/tmp/s/scratch";
  struct sbx_local_folder f = {.workspace = workspace, .scratch = scratch};
  const char* found;

  assert_int_equal(sbx_confined_route(&f, "/workspace", path, &found), root);
  if (root >= 0) assert_string_equal(found, rest);
}

static void routes(void** state) {
  (void) state;
  route("tmp/s/workspace/a/b", 0, "a/b");
  route("tmp/s/workspace", 0, "");
  route("workspace/a", 0, "a");
  route("tmp/s/scratch/home/x", 1, "home/x");
  route("tmp/s/workspaces/a", -1, NULL);
  route("tmp/s", -1, NULL);
  route("etc/passwd", -1, NULL);
  route("", -1, NULL);
}

static void reasons(void** state) {
  struct sbx_local_options o = {.level = SBX_LEVEL_LANDLOCK};
  struct sbx_local_folder f = {.run_uid = 1234};
  char text[2048], small[64];

  (void) state;
  sbx_confined_degraded(&o, &f, 0, 7, text, sizeof(text));
  assert_null(strstr(text, "user id of other processes"));
  assert_non_null(strstr(text, "ports option"));
  sbx_confined_degraded(&o, &f, SBX_READY_SHARED_IDS, 3, text, sizeof(text));
  assert_non_null(strstr(text, "no network sockets"));
  assert_non_null(strstr(text, "signals reach other processes"));
  sbx_confined_degraded(&o, &f, SBX_READY_SHARED_IDS, 1, small, sizeof(small));
  assert_int_equal(strlen(small), sizeof(small) - 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(refusals),
      cmocka_unit_test(routes),
      cmocka_unit_test(reasons),
  };

  return cmocka_run_group_tests(tests, NULL, NULL);
}
