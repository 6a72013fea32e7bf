/* Errors: codes, names, and messages that no hostile name can misuse. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>
#include <errno.h>

#include "../../native/error.h"
#include "../../native/launcher/protocol.h"
#include "../../native/session/setup.h"
#include "../../native/utf8.h"

static void fills_and_returns_the_code(void** state) {
  struct sbx_error e;

  (void) state;
  memset(&e, 0xff, sizeof(e));
  assert_int_equal(sbx_error_set(&e, SBX_E_CONFLICT, 5, "op", "a %d", 1),
                   SBX_E_CONFLICT);
  assert_int_equal(e.code, SBX_E_CONFLICT);
  assert_int_equal(e.sys, 5);
  assert_int_equal(e.step, 0);
  assert_false(e.retryable);
  assert_string_equal(e.operation, "op");
  assert_string_equal(e.message, "a 1");
  assert_int_equal(sbx_error_set(NULL, SBX_E_IO, 0, "op", "x"), SBX_E_IO);
}

static void replaces_controls(void** state) {
  struct sbx_error e;

  (void) state;
  sbx_error_set(&e, SBX_E_IO, 0, "op", "%s", "a\x1b[2J\n\x7f\xc2\x9bz\u00e9");
  assert_string_equal(e.message, "a?[2J????z\u00e9");
}

static void cuts_between_code_points(void** state) {
  struct sbx_error e;
  char text[SBX_MESSAGE_MAX * 2];

  (void) state;
  for (size_t i = 0; i + 3 < sizeof(text); i += 3)
    memcpy(text + i, "\u20ac", 4);
  for (int shift = 0; shift < 3; shift++) {
    sbx_error_set(&e, SBX_E_IO, 0, "op", "%.*s%s", shift, "xx", text);
    assert_true(strlen(e.message) > SBX_MESSAGE_MAX - 5);
    assert_true(sbx_utf8_valid(e.message, strlen(e.message)));
  }
}

static void names_every_code(void** state) {
  (void) state;
  assert_string_equal(sbx_code_name(SBX_E_INVALID_INPUT), "invalid_input");
  assert_string_equal(sbx_code_name(SBX_E_PROVIDER), "provider_error");
  assert_string_equal(sbx_code_name(SBX_E_DIRECTORY_NOT_FOUND), "ENOENT_DIR");
  assert_string_equal(sbx_code_name(SBX_E_SPECIAL_FILE), "ESPECIAL");
  for (int code = SBX_E_INVALID_INPUT; code > SBX_E_INTERNAL; code--)
    assert_string_not_equal(sbx_code_name(code), "internal");
  for (int code = SBX_E_FILE_NOT_FOUND; code >= SBX_E_SPECIAL_FILE; code--)
    assert_string_not_equal(sbx_code_name(code), "internal");
  assert_string_equal(sbx_code_name(-12345), "internal");
}

static void every_step_has_name_and_remedy(void** state) {
  struct sbx_setup_place place = {0};
  struct sbx_error e;

  (void) state;
  for (int step = 1; step < SBX_SETUP_COUNT; step++) {
    assert_non_null(sbx_setup_name(step));
    for (int sys = 1; sys < 40; sys++) {
      sbx_setup_error(&e, &place, step, sys, "/x");
      assert_int_equal(e.code, SBX_E_UNAVAILABLE);
      assert_int_equal(e.step, step);
      assert_int_equal(e.sys, sys);
      assert_non_null(strstr(e.message, sbx_setup_name(step)));
      assert_non_null(strstr(e.message, sbx_setup_remedy(&place, step, sys)));
    }
  }
  assert_null(sbx_setup_name(0));
  assert_null(sbx_setup_name(SBX_SETUP_COUNT));
  sbx_setup_error(&e, &place, 1000, EPERM, NULL);
  assert_int_equal(e.step, 0);
}

static void remedy_fits_the_place(void** state) {
  struct sbx_setup_place docker = {.container = true};
  struct sbx_setup_place ubuntu = {.apparmor_restricts = true};
  struct sbx_setup_place lambda = {.function = true, .container = true};
  struct sbx_setup_place off = {.userns_disabled = true};

  (void) state;
  assert_non_null(strstr(sbx_setup_remedy(&docker, SBX_SETUP_NAMESPACES, EPERM),
                         "seccomp=unconfined"));
  assert_non_null(strstr(sbx_setup_remedy(&docker, SBX_SETUP_PROC, EPERM),
                         "systempaths=unconfined"));
  assert_non_null(strstr(sbx_setup_remedy(&ubuntu, SBX_SETUP_UID_MAP, EACCES),
                         "apparmor_restrict_unprivileged_userns"));
  assert_non_null(strstr(sbx_setup_remedy(&lambda, SBX_SETUP_NAMESPACES, EPERM),
                         "cloud provider"));
  assert_non_null(strstr(sbx_setup_remedy(&off, SBX_SETUP_NAMESPACES, ENOSPC),
                         "max_user_namespaces"));
  assert_non_null(strstr(sbx_setup_remedy(&docker, SBX_SETUP_NAMESPACES, EMFILE),
                         "ulimit -n"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(fills_and_returns_the_code),
      cmocka_unit_test(replaces_controls),
      cmocka_unit_test(cuts_between_code_points),
      cmocka_unit_test(names_every_code),
      cmocka_unit_test(every_step_has_name_and_remedy),
      cmocka_unit_test(remedy_fits_the_place),
  };

  return cmocka_run_group_tests(tests, NULL, NULL);
}
