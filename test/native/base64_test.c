/* Base64: the vectors of RFC 4648, what is refused, and any cut. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <uv.h>

#include "../fuzz/base64.h"

static void vectors(void** state) {
  static const char* const pairs[][2] = {
      {"", ""}, {"f", "Zg=="}, {"fo", "Zm8="}, {"foo", "Zm9v"},
      {"foob", "Zm9vYg=="}, {"fooba", "Zm9vYmE="}, {"foobar", "Zm9vYmFy"},
      {"\xfb\xff\xbf", "+/+/"}};
  char out[64];
  size_t len;

  (void) state;
  for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
    const char* plain = pairs[i][0];
    const char* text = pairs[i][1];

    len = sbx_base64_encode(plain, strlen(plain), 0, out);
    assert_int_equal(len, strlen(text));
    assert_memory_equal(out, text, len);
    assert_int_equal(sbx_base64_decode(text, strlen(text), 0, out, &len), 0);
    assert_int_equal(len, strlen(plain));
    assert_memory_equal(out, plain, len);
  }
  len = sbx_base64_encode("\xfb\xff\xbf\xfb", 4, SBX_BASE64_URL, out);
  assert_int_equal(len, 6);
  assert_memory_equal(out, "-_-_-w", 6);
}

static int decode(const char* text, unsigned flags) {
  char* out = malloc(SBX_BASE64_DECODED(strlen(text)) + 1);
  size_t len;
  int rc = sbx_base64_decode(text, strlen(text), flags, out, &len);

  free(out);
  return rc;
}

static void what_is_refused(void** state) {
  static const char* const bad[] = {
      "Z", "Zg", "Zg=", "Zm8", "Zg===", "=", "Zg==Zg==", "Zm9=v", "Z=m9",
      "Zh==", "Zm9=", "Zm9v\n", "Zm 9v", "Zm9v-_-_", "Zm9*", "====", "Zg=a",
      "\xff\xff\xff\xff"};

  (void) state;
  for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
    if (decode(bad[i], 0) != UV_EINVAL) fail_msg("took %s", bad[i]);
}

static void what_flags_allow(void** state) {
  (void) state;
  assert_int_equal(decode("Zg", SBX_BASE64_BARE), 0);
  assert_int_equal(decode("Zm8", SBX_BASE64_BARE), 0);
  assert_int_equal(decode("Zm8=", SBX_BASE64_BARE), 0);
  assert_int_equal(decode("Z", SBX_BASE64_BARE), UV_EINVAL);
  assert_int_equal(decode("Zh", SBX_BASE64_BARE), UV_EINVAL);
  assert_int_equal(decode("Zg=", SBX_BASE64_BARE), UV_EINVAL);
  assert_int_equal(decode("-_+/", SBX_BASE64_URL), 0);
  assert_int_equal(decode("Zm\r\n9v\nZg\n=\n= \t\n", SBX_BASE64_LINES), 0);
  assert_int_equal(decode("Zg==\nZg==", SBX_BASE64_LINES), UV_EINVAL);
}

static void any_cut(void** state) {
  static const char text[] = "Zm9v\nYmFyZm9v\r\nYmFyZm9vYmFyZg==\n";

  (void) state;
  assert_int_equal(cuts_check(&base64_parser, text, sizeof(text) - 1), -1);
  assert_true(cuts_corpus(&base64_parser, "base64") > 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(vectors),
      cmocka_unit_test(what_is_refused),
      cmocka_unit_test(what_flags_allow),
      cmocka_unit_test(any_cut),
  };

  return cmocka_run_group_tests(tests, NULL, NULL);
}
