/* The bag of options: types, lists, absent names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "../../native/options.h"

static void holds_every_type(void** state) {
  struct sbx_options* o;
  char name[16] = "x";
  char value[16] = "value";

  (void) state;
  assert_int_equal(sbx_options_new(&o), 0);
  sbx_options_add_string(o, name, value, 5);
  memset(name, '?', sizeof(name));
  memset(value, '?', sizeof(value));
  sbx_options_add_number(o, "limits.processes", 2.5);
  sbx_options_add_bool(o, "flag", true);
  assert_string_equal(sbx_options_string(o, "x"), "value");
  assert_true(sbx_options_number(o, "limits.processes", 0) == 2.5);
  assert_true(sbx_options_bool(o, "flag", false));
  assert_int_equal(sbx_options_type(o, "x"), SBX_OPTION_STRING);
  assert_int_equal(sbx_options_type(o, "limits.processes"), SBX_OPTION_NUMBER);
  assert_int_equal(sbx_options_type(o, "flag"), SBX_OPTION_BOOL);
  sbx_options_free(o);
}

static void another_type_is_absent(void** state) {
  struct sbx_options* o;

  (void) state;
  assert_int_equal(sbx_options_new(&o), 0);
  sbx_options_add_string(o, "x", "1", 1);
  assert_true(sbx_options_number(o, "x", 7) == 7);
  assert_true(sbx_options_bool(o, "x", true));
  assert_int_equal(sbx_options_count(o, "x"), 0);
  assert_null(sbx_options_item(o, "x", 0));
  assert_null(sbx_options_string(o, "y"));
  assert_int_equal(sbx_options_type(o, "y"), 0);
  assert_true(sbx_options_has(o, "x"));
  assert_false(sbx_options_has(o, "y"));
  sbx_options_free(o);
}

static void lists_grow(void** state) {
  struct sbx_options* o;

  (void) state;
  assert_int_equal(sbx_options_new(&o), 0);
  sbx_options_add_item(o, "empty", NULL, 0);
  sbx_options_add_item(o, "list", "a", 1);
  sbx_options_add_item(o, "list", "bcd", 2);
  assert_int_equal(sbx_options_count(o, "empty"), 0);
  assert_int_equal(sbx_options_type(o, "empty"), SBX_OPTION_LIST);
  assert_int_equal(sbx_options_count(o, "list"), 2);
  assert_string_equal(sbx_options_item(o, "list", 1), "bc");
  assert_null(sbx_options_item(o, "list", 2));
  sbx_options_free(o);
}

static void the_last_value_wins(void** state) {
  struct sbx_options* o;

  (void) state;
  assert_int_equal(sbx_options_new(&o), 0);
  sbx_options_add_item(o, "x", "a", 1);
  sbx_options_add_string(o, "x", "first", 5);
  sbx_options_add_string(o, "x", "second", 6);
  assert_string_equal(sbx_options_string(o, "x"), "second");
  sbx_options_free(o);
  sbx_options_free(NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(holds_every_type),
      cmocka_unit_test(another_type_is_absent),
      cmocka_unit_test(lists_grow),
      cmocka_unit_test(the_last_value_wins),
  };

  return cmocka_run_group_tests(tests, NULL, NULL);
}
