/* What spellings of a path mean. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "native/path.h"

static const struct sbx_place place = {"/workspace", "/srv/project"};

static void same(const struct sbx_place* p, const char* path,
                 const char* expected) {
  char out[4096];
  struct sbx_error error;
  int rc = sbx_path_relative(p, path, strlen(path), out, sizeof(out), &error);
  assert_int_equal(rc, 0);
  assert_string_equal(out, expected);
}

static void refused(const char* path) {
  char out[4096];
  struct sbx_error error;
  int rc =
      sbx_path_relative(&place, path, strlen(path), out, sizeof(out), &error);
  assert_int_equal(rc, SBX_E_ACCESS);
  assert_int_equal(error.code, SBX_E_ACCESS);
  assert_non_null(strstr(error.message, "workspace"));
}

static void one_file_in_all_spellings(void** state) {
  (void)state;
  const char* spellings[] = {"a/b",  "/a/b",       "./a//b/",  "//a/./b",
                             "a/x/../b", "/workspace/a/b", "/srv/project/a/b",
                             "//workspace//a/b/", "/x/../workspace/a/b"};
  for (size_t i = 0; i < sizeof(spellings) / sizeof(*spellings); i++)
    same(&place, spellings[i], "a/b");
}

static void the_root(void** state) {
  (void)state;
  const char* spellings[] = {"", ".", "/", "//", "./", "a/..", "/workspace",
                             "/workspace/", "/srv/project", "/./workspace/."};
  for (size_t i = 0; i < sizeof(spellings) / sizeof(*spellings); i++)
    same(&place, spellings[i], "");
}

static void prefixes_of_absolute_paths_once(void** state) {
  (void)state;
  same(&place, "workspace/x", "workspace/x");
  same(&place, "/workspace/workspace/x", "workspace/x");
  same(&place, "/workspace/srv/project/x", "srv/project/x");
  same(&place, "/workspacex/y", "workspacex/y");
  same(&place, "/srv/projects", "srv/projects");
  same(&place, "srv/project/x", "srv/project/x");
  same(&place, "~/x", "~/x");
  same(&place, "...", "...");
  same(&place, "/etc/passwd", "etc/passwd");
}

static void leaving_is_refused(void** state) {
  (void)state;
  refused("..");
  refused("../x");
  refused("a/../../x");
  refused("/..");
  refused("/workspace/..");
  refused("/workspace/../etc");
  refused("/workspace/a/../../workspace/b");
  refused("/srv/project/../other");
}

static void other_places(void** state) {
  (void)state;
  struct sbx_place root = {"/", NULL};
  same(&root, "/etc/passwd", "etc/passwd");
  same(&root, "/", "");
  struct sbx_place both = {"/home/u/p", "/home/u/p"};
  same(&both, "/home/u/p/x", "x");
  struct sbx_place slashes = {"/workspace/", NULL};
  same(&slashes, "/workspace/x", "x");
}

static void odd_bytes_and_lengths(void** state) {
  (void)state;
  char out[16];
  struct sbx_error error;
  assert_int_equal(
      sbx_path_relative(&place, "ok\0.png", 7, out, sizeof(out), &error),
      SBX_E_INVALID_INPUT);
  assert_int_equal(sbx_path_relative(&place, "0123456789abcde", 15, out,
                                     sizeof(out), &error), 0);
  assert_int_equal(sbx_path_relative(&place, "0123456789abcdef", 16, out,
                                     sizeof(out), &error),
                   SBX_E_INVALID_INPUT);
  assert_int_equal(sbx_path_relative(&place, "x", 1, out, 0, &error),
                   SBX_E_INVALID_INPUT);
  same(&place, "a\nb/\xff", "a\nb/\xff");
}

static void media_types(void** state) {
  (void)state;
  assert_string_equal(sbx_path_mime("a/b.PNG"), "image/png");
  assert_string_equal(sbx_path_mime("x.d.ts"), "application/typescript");
  assert_string_equal(sbx_path_mime("a.7z"), "application/x-7z-compressed");
  assert_string_equal(sbx_path_mime("z.zsh"), "text/x-sh");
  assert_null(sbx_path_mime(".env"));
  assert_null(sbx_path_mime("d.ts/Makefile"));
  assert_null(sbx_path_mime("a."));
  assert_null(sbx_path_mime(".."));
  assert_null(sbx_path_mime("x.averyveryverylongextension"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_file_in_all_spellings),
      cmocka_unit_test(the_root),
      cmocka_unit_test(prefixes_of_absolute_paths_once),
      cmocka_unit_test(leaving_is_refused),
      cmocka_unit_test(other_places),
      cmocka_unit_test(odd_bytes_and_lengths),
      cmocka_unit_test(media_types),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
