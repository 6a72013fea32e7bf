/* JSON of a service: what is read, what is refused and in which words; and the
 * writer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../native/parse/fault.h"
#include "../../native/parse/json.h"
#include "../../native/parse/json_write.h"

static const struct sbx_json_source e2b = {"E2B", "sandbox.create"};

/* The bytes lie in memory of their own, without a NUL behind them. */
static int parse_bytes(const char* bytes, size_t len, struct sbx_json** out,
                       struct sbx_error* error) {
  char* own = malloc(len > 0 ? len : 1);
  int rc;

  memcpy(own, bytes, len);
  rc = sbx_json_parse(own, len, &e2b, out, error);
  free(own);
  return rc;
}

static struct sbx_json* parse(const char* text) {
  struct sbx_error error;
  struct sbx_json* json;

  if (parse_bytes(text, strlen(text), &json, &error) != 0)
    fail_msg("%s: %s", text, error.message);
  return json;
}

static void refuses(const char* text, const char* message) {
  struct sbx_error error;
  struct sbx_json* json;

  assert_int_equal(parse_bytes(text, strlen(text), &json, &error),
                   SBX_E_PROVIDER);
  assert_null(json);
  assert_string_equal(error.message, message);
  assert_string_equal(error.operation, "sandbox.create");
}

static void reads_every_type(void** state) {
  struct sbx_json* json = parse(
      "\xef\xbb\xbf {\"s\":\"a\\u00e9\\ud83d\\ude00\\n\",\"n\":-2.5e3,\"i\":"
      "9007199254740991,\"big\":\"-9223372036854775808\",\"t\":true,\"o\":"
      "{\"x\":1},\"a\":[1,\"b\",null],\"z\":null} ");
  struct sbx_json_node root = sbx_json_root(json), at;
  const char* text;
  double number;
  int64_t integer;
  bool flag = false;

  (void) state;
  assert_int_equal(sbx_json_string(root, "s", &text, NULL), 0);
  assert_string_equal(text, "a\xc3\xa9\xf0\x9f\x98\x80\n");
  assert_int_equal(sbx_json_number(root, "n", &number, NULL), 0);
  assert_true(number == -2500);
  assert_int_equal(sbx_json_integer(root, "i", 0, INT64_MAX, &integer, NULL), 0);
  assert_true(integer == 9007199254740991);
  assert_int_equal(
      sbx_json_integer(root, "big", INT64_MIN, 0, &integer, NULL), 0);
  assert_true(integer == INT64_MIN);
  assert_int_equal(sbx_json_bool(root, "t", &flag, NULL), 0);
  assert_true(flag);
  assert_int_equal(sbx_json_object(root, "o", &at, NULL), 0);
  assert_int_equal(sbx_json_integer(at, "x", 1, 1, &integer, NULL), 0);
  assert_int_equal(sbx_json_array(root, "a", &at, NULL), 0);
  assert_int_equal(sbx_json_count(at), 3);
  at = sbx_json_next(sbx_json_first(at));
  assert_int_equal(sbx_json_string(at, NULL, &text, NULL), 0);
  assert_string_equal(text, "b");
  assert_null(sbx_json_key(at));
  assert_string_equal(sbx_json_key(sbx_json_first(root)), "s");
  assert_null(sbx_json_get(root, "z").item);
  sbx_json_free(json);
}

static void optional_members(void** state) {
  struct sbx_json* json = parse("{\"n\":null,\"s\":\"x\",\"i\":7,\"b\":false}");
  struct sbx_json_node root = sbx_json_root(json), at = {0};
  const char* text = "kept";
  int64_t integer = 5;
  bool flag = true;

  (void) state;
  assert_int_equal(sbx_json_opt_string(root, "n", &text, NULL), 0);
  assert_int_equal(sbx_json_opt_string(root, "none", &text, NULL), 0);
  assert_string_equal(text, "kept");
  assert_int_equal(sbx_json_opt_string(root, "s", &text, NULL), 0);
  assert_string_equal(text, "x");
  assert_int_equal(sbx_json_opt_integer(root, "none", 0, 9, &integer, NULL), 0);
  assert_int_equal(integer, 5);
  assert_int_equal(sbx_json_opt_integer(root, "i", 0, 9, &integer, NULL), 0);
  assert_int_equal(integer, 7);
  assert_int_equal(sbx_json_opt_bool(root, "b", &flag, NULL), 0);
  assert_false(flag);
  assert_int_equal(sbx_json_opt_object(root, "n", &at, NULL), 0);
  assert_int_equal(sbx_json_opt_array(root, "none", &at, NULL), 0);
  assert_null(at.item);
  assert_int_equal(sbx_json_opt_string(root, "i", &text, NULL), SBX_E_PROVIDER);
  /* An absent object has absent members. */
  assert_int_equal(sbx_json_opt_string(at, "x", &text, NULL), 0);
  sbx_json_free(json);
}

static void errors_name_the_path(void** state) {
  struct sbx_json* json = parse(
      "{\"steps\":[{\"id\":\"a\"},{\"id\":\"b\"},{\"id\":3,\"odd key\":{}}],"
      "\"half\":1.5,\"huge\":9007199254740993,\"inf\":1e999,\"minus\":-1,"
      "\"digits\":\"007\",\"nul\":\"a\\u0000b\",\"k\\u0000\\u00e9y\":{}}");
  struct sbx_json_node root = sbx_json_root(json), at;
  struct sbx_error error;
  const char* text;
  double number;
  int64_t integer;

  (void) state;
#define SAYS(call, words)                 \
  assert_int_equal(call, SBX_E_PROVIDER); \
  assert_string_equal(error.message, words)
  SAYS(sbx_json_string(root, "sandboxID", &text, &error),
       "E2B's answer has no string sandboxID");
  SAYS(sbx_json_array(root, "half", &at, &error),
       "E2B's answer: half is a number, not an array");
  assert_int_equal(sbx_json_array(root, "steps", &at, NULL), 0);
  at = sbx_json_next(sbx_json_next(sbx_json_first(at)));
  SAYS(sbx_json_string(at, "id", &text, &error),
       "E2B's answer: steps[2].id is a number, not a string");
  SAYS(sbx_json_string(at, "name", &text, &error),
       "E2B's answer has no string steps[2].name");
  SAYS(sbx_json_string(at, NULL, &text, &error),
       "E2B's answer: steps[2] is an object, not a string");
  SAYS(sbx_json_bool(sbx_json_get(at, "odd key"), "x", &(bool){0}, &error),
       "E2B's answer has no boolean steps[2][\"odd key\"].x");
  for (at = sbx_json_first(root); sbx_json_next(at).item != NULL;)
    at = sbx_json_next(at);
  SAYS(sbx_json_string(at, "id", &text, &error),
       "E2B's answer has no string "
       "[\"k\xef\xbf\xbd\xef\xbf\xbd\xc3\xa9y\"].id");
  at = sbx_json_get(root, "steps");
  at = sbx_json_next(sbx_json_next(sbx_json_first(at)));
  SAYS(sbx_json_refuse(at, "id", "is no id", &error),
       "E2B's answer: steps[2].id is no id");
  for (const char* const* name =
           (const char* const[]){"half", "huge", "inf", "minus", "digits", NULL};
       *name != NULL; name++)
    if (sbx_json_integer(root, *name, 0, INT64_MAX, &integer, &error) !=
        SBX_E_PROVIDER)
      fail_msg("%s", *name);
  SAYS(sbx_json_integer(root, "minus", 0, 9, &integer, &error),
       "E2B's answer: minus is no integer from 0 to 9");
  SAYS(sbx_json_number(root, "inf", &number, &error),
       "E2B's answer: inf is too large a number");
  SAYS(sbx_json_string(root, "nul", &text, &error),
       "E2B's answer: nul holds a NUL");
  sbx_json_free(json);
  json = parse("[1]");
  SAYS(sbx_json_string(sbx_json_root(json), "id", &text, &error),
       "E2B's answer is an array, not an object");
#undef SAYS
  sbx_json_free(json);
}

static void bytes_are_exact(void** state) {
  struct sbx_json* json = parse(
      "{\"s\":\"\\u0000a\\\\u0000\\u0000\",\"k\\u0000\":1,\"broken\":\"a\xff"
      "\xe2\x82z\\ud800\\udc00\\udc00\\ud800x\",\"mark\":\"\xc0\x80\"}");
  struct sbx_json_node root = sbx_json_root(json);
  const char* text;
  char* bytes;
  size_t len;

  (void) state;
  assert_int_equal(sbx_json_bytes(root, "s", &bytes, &len, NULL), 0);
  assert_int_equal(len, 9);
  assert_memory_equal(bytes, "\0a\\u0000\0", 10);
  free(bytes);
  assert_int_equal(sbx_json_string(root, "broken", &text, NULL), 0);
  assert_string_equal(text,
                      "a\xef\xbf\xbd\xef\xbf\xbdz\xf0\x90\x80\x80"
                      "\xef\xbf\xbd\xef\xbf\xbdx");
  /* Our own mark for a NUL cannot be smuggled in. */
  assert_int_equal(sbx_json_string(root, "mark", &text, NULL), 0);
  assert_string_equal(text, "\xef\xbf\xbd\xef\xbf\xbd");
  assert_string_equal(sbx_json_key(sbx_json_next(sbx_json_first(root))), "");
  sbx_json_free(json);
}

static void the_last_of_equal_keys(void** state) {
  struct sbx_json* json = parse("{\"a\":1,\"A\":5,\"a\":2}");
  int64_t integer;

  (void) state;
  assert_int_equal(
      sbx_json_integer(sbx_json_root(json), "a", 0, 9, &integer, NULL), 0);
  assert_int_equal(integer, 2);
  sbx_json_free(json);
}

static void what_is_no_json(void** state) {
  (void) state;
  refuses("", "E2B's answer is empty; JSON was expected");
  refuses(" \r\n", "E2B's answer is empty; JSON was expected");
  refuses("<!doctype html>\n<html><head><TITLE>\n 502 Bad Gateway </TITLE>",
          "E2B's answer is not JSON: 502 Bad Gateway");
  refuses("404 page not found\nsecond line",
          "E2B's answer is not JSON: 404 page not found");
  refuses("\x1b[31mred\x1b[0m \xff",
          "E2B's answer is not JSON: ?[31mred?[0m ?");
  /* A cut answer may hold a token: it is not quoted. */
  refuses("{\"envdAccessToken\":\"secret\"",
          "E2B's answer of 27 bytes is not valid JSON: it holds an open "
          "bracket");
  refuses("{\"a\" 1}",
          "E2B's answer of 7 bytes is not valid JSON: it is malformed");
  refuses("{\"envdAccessToken\":\"sec",
          "E2B's answer of 23 bytes is not valid JSON: it holds an open string");
}

static void strict_syntax(void** state) {
  static const char* const bad[] = {
      "[01]", "[1.]", "[.5]", "[-]", "[1e]", "[+1]", "[1 2]", "{} {}", "[1,]",
      "{\"a\":1,}", "{a:1}", "['a']", "[\"\x01\"]", "[\"\\x\"]", "[\"\\u12\"]",
      "[tru]", "[nul]", "]", "[\v1]", "{\"a\"}", "[\"a", "\"\\", "\xff[]",
      "[1]\xef\xbb\xbf", "{\"a\":1,", "[[{\"a\":2,", "// x\n1", "NaN"};

  (void) state;
  for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
    struct sbx_json* json;

    if (parse_bytes(bad[i], strlen(bad[i]), &json, NULL) == 0)
      fail_msg("accepted %s", bad[i]);
  }
  assert_int_not_equal(parse_bytes("[\0]", 3, &(struct sbx_json*){0}, NULL), 0);
  assert_int_not_equal(parse_bytes("\"\0\"", 3, &(struct sbx_json*){0}, NULL),
                       0);
  sbx_json_free(parse("0"));
  sbx_json_free(parse("\"\""));
}

static char* repeat(const char* piece, size_t count, size_t* len) {
  size_t n = strlen(piece);
  char* bytes = malloc(n * count + 1);

  for (size_t i = 0; i < count; i++) memcpy(bytes + i * n, piece, n);
  *len = n * count;
  return bytes;
}

static void bounds(void** state) {
  struct sbx_error error;
  struct sbx_json* json;
  size_t len;
  char* bytes = repeat("[", 100000, &len);

  (void) state;
  assert_int_not_equal(sbx_json_parse(bytes, len, &e2b, &json, &error), 0);
  assert_non_null(strstr(error.message, "too deep"));
  free(bytes);
  bytes = repeat("[],", SBX_JSON_VALUES_MAX, &len);
  bytes[0] = '[';
  assert_int_not_equal(sbx_json_parse(bytes, len, &e2b, &json, &error), 0);
  assert_non_null(strstr(error.message, "too many values"));
  free(bytes);
  bytes = repeat(" ", SBX_JSON_BYTES_MAX + 1, &len);
  assert_int_not_equal(sbx_json_parse(bytes, len, &e2b, &json, &error), 0);
  assert_non_null(strstr(error.message, "longer than 64 MiB"));
  free(bytes);
}

/* ---- refusals ---- */

static void reads_faults(void** state) {
  static const struct {
    const char* body;
    bool found;
    int64_t number;
    const char* code;
    const char* message;
  } cases[] = {
      {"{\"code\":404,\"message\":\"gone\\nsecond\"}", true, 404, "", "gone"},
      {"{\"code\":503,\"message\":\"m\",\"error_code\":\"no_room\"}", true, 503,
       "no_room", "m"},
      {"{\"code\":\"not_found\",\"message\":\"no pid 3\"}", true, 0, "not_found",
       "no pid 3"},
      {"{\"error\":{\"code\":\"unavailable\",\"message\":\"x\"},\"metadata\":{}}",
       true, 0, "unavailable", "x"},
      {"{\"error\":\"unauthorized\"}", true, 0, "", "unauthorized"},
      {"{\"statusCode\":400,\"message\":[\"first\",\"second\"],\"error\":\"Bad\"}",
       true, 400, "", "first"},
      {"{}", false, 0, "", ""},
      {"[]", false, 0, "", ""},
      {"\"text\"", false, 0, "", ""},
      {"{\"token\":\"sec", false, 0, "", ""},
      {"<html><title>Oops</title>", false, 0, "", "Oops"},
      {"", false, 0, "", ""}};
  struct sbx_fault fault;

  (void) state;
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    bool found = sbx_fault_read(cases[i].body, strlen(cases[i].body), &fault);

    if (found != cases[i].found || fault.number != cases[i].number ||
        strcmp(fault.code, cases[i].code) != 0 ||
        strcmp(fault.message, cases[i].message) != 0)
      fail_msg("%s: %d %lld '%s' '%s'", cases[i].body, found,
               (long long) fault.number, fault.code, fault.message);
  }
}

/* ---- writing ---- */

static void writes_every_type(void** state) {
  struct sbx_json_writer w = {0};
  size_t len;
  char* text;

  (void) state;
  sbx_json_write_object(&w, NULL);
  sbx_json_write_string(&w, "q\"", "a\\\"\n\x01\x7f/\xc3\xa9");
  sbx_json_write_bytes(&w, "b", "\0\xff\xe2\x82z", 5);
  sbx_json_write_array(&w, "a");
  sbx_json_write_integer(&w, NULL, INT64_MIN);
  sbx_json_write_number(&w, NULL, 0.1);
  sbx_json_write_number(&w, NULL, 1e300 * 1e300);
  sbx_json_write_bool(&w, NULL, true);
  sbx_json_write_null(&w, NULL);
  sbx_json_write_object(&w, NULL);
  sbx_json_write_end(&w);
  sbx_json_write_end(&w);
  sbx_json_write_base64(&w, "e", "hello", 5);
  sbx_json_write_base64(&w, "n", "", 0);
  sbx_json_write_end(&w);
  text = sbx_json_write_take(&w, &len);
  assert_string_equal(
      text,
      "{\"q\\\"\":\"a\\\\\\\"\\n\\u0001\\u007f/\xc3\xa9\",\"b\":\"\\u0000"
      "\xef\xbf\xbd\xef\xbf\xbdz\",\"a\":[-9223372036854775808,0.1,null,true,"
      "null,{}],\"e\":\"aGVsbG8=\",\"n\":\"\"}");
  assert_int_equal(len, strlen(text));
  sbx_json_free(parse(text));
  free(text);
}

static void refuses_what_is_no_document(void** state) {
  struct sbx_json_writer w = {0};

  (void) state;
  assert_null(sbx_json_write_take(&w, NULL));
  sbx_json_write_object(&w, NULL);
  assert_null(sbx_json_write_take(&w, NULL));
  sbx_json_write_end(&w);
  assert_null(sbx_json_write_take(&w, NULL));
  sbx_json_write_object(&w, NULL);
  sbx_json_write_string(&w, NULL, "no key");
  sbx_json_write_end(&w);
  assert_null(sbx_json_write_take(&w, NULL));
  sbx_json_write_integer(&w, NULL, 1);
  sbx_json_write_integer(&w, NULL, 2);
  assert_null(sbx_json_write_take(&w, NULL));
  for (int i = 0; i < 40; i++) sbx_json_write_array(&w, NULL);
  for (int i = 0; i < 40; i++) sbx_json_write_end(&w);
  assert_null(sbx_json_write_take(&w, NULL));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reads_every_type),
      cmocka_unit_test(optional_members),
      cmocka_unit_test(errors_name_the_path),
      cmocka_unit_test(bytes_are_exact),
      cmocka_unit_test(the_last_of_equal_keys),
      cmocka_unit_test(what_is_no_json),
      cmocka_unit_test(strict_syntax),
      cmocka_unit_test(bounds),
      cmocka_unit_test(reads_faults),
      cmocka_unit_test(writes_every_type),
      cmocka_unit_test(refuses_what_is_no_document),
  };

  return cmocka_run_group_tests(tests, NULL, NULL);
}
