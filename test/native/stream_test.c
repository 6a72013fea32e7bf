/* The line-wise and part-wise readers: JSON lines, server-sent events, multipart
 * bodies. Any cut gives the same. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <uv.h>

#include "../fuzz/archive.h"
#include "../fuzz/multipart.h"
#include "../fuzz/ndjson.h"
#include "../fuzz/sse.h"

/* What a journal holds, as text: "name=value|..." */
static char* spell(const struct journal* j) {
  struct sbx_text t = {0};
  size_t at = 0;

  while (at < j->len) {
    const char* name = j->bytes + at;
    uint64_t len;
    int64_t number;
    char digits[32];

    at += strlen(name) + 1;
    memcpy(&len, j->bytes + at, sizeof(len));
    at += sizeof(len);
    sbx_text_puts(&t, name);
    sbx_text_puts(&t, "=");
    if (strcmp(name, "result") == 0 || strcmp(name, "value") == 0 ||
        strcmp(name, "length") == 0 || strcmp(name, "retry") == 0) {
      memcpy(&number, j->bytes + at, sizeof(number));
      snprintf(digits, sizeof(digits), "%lld", (long long) number);
      sbx_text_puts(&t, digits);
    } else {
      sbx_text_add(&t, j->bytes + at, len);
    }
    sbx_text_puts(&t, "|");
    at += len;
  }
  return sbx_text_take(&t, NULL);
}

static void gives(const struct cut_parser* p, const char* bytes, size_t len,
                  const char* want) {
  struct journal j = cuts_run(p, bytes, len, 0, len);
  char* text = spell(&j);

  assert_string_equal(text, want);
  free(text);
  free(j.bytes);
  assert_int_equal(cuts_check(p, bytes, len), -1);
}

#define GIVES(parser, text, want) gives(parser, text, sizeof(text) - 1, want)

static void json_lines(void** state) {
  (void) state;
  GIVES(&ndjson_parser, "{\"data\":\"a\"}\r\n\n  \r\n{\"x\":1,\"y\":2}\n[1]",
        "value=1|text=a|value=2|text=|value=1|text=|result=0|");
}

static void json_lines_of_any_kind(void** state) {
  (void) state;
  GIVES(&ndjson_parser, "1\n\"x\"\nnull\n",
        "value=0|text=|value=0|text=|value=0|text=|result=0|");
}

static void broken_json_lines(void** state) {
  (void) state;
  GIVES(&ndjson_parser, "{}\n<html>\n{}\n",
        "value=0|text=|error=Vercel's answer is not JSON: <html>|result=-1011|");
  GIVES(&ndjson_parser, "{}\n{\"data\":",
        "value=0|text=|error=Vercel's stream ended within a line|result=-1010|");
  GIVES(&ndjson_parser, "", "result=0|");
}

static void bounded_json_lines(void** state) {
  struct sbx_ndjson n = {.source = {"Vercel", "logs"}, .max = 64};
  struct sbx_error error;
  int rc = 0;

  (void) state;
  for (int i = 0; i < 65 && rc == 0; i++)
    rc = sbx_ndjson_feed(&n, " ", 1, &error);
  assert_int_equal(rc, SBX_E_PROVIDER);
  assert_string_equal(error.message,
                      "Vercel's stream has a line of more than 64 bytes");
  assert_int_equal(sbx_ndjson_finish(&n, &error), SBX_E_PROVIDER);
  sbx_ndjson_free(&n);
}

static void events(void** state) {
  (void) state;
  GIVES(&sse_parser, "\xef\xbb\xbf" "data: a\ndata:  b\n\n",
        "type=message|body=a\n b|id=|retry=0|result=0|");
  GIVES(&sse_parser, "event: x\rid: 1\rdata\r\rdata: c\r\n\r\n",
        "type=x|body=|id=1|type=message|body=c|id=1|retry=0|result=0|");
  GIVES(&sse_parser, "event: lost\n\n:c\nretry: 20\nretry: 2x\ndata: open\n",
        "retry=20|result=0|");
  GIVES(&sse_parser, "id: a\0b\ndata:x:y\nunknown: z\n\n",
        "type=message|body=x:y|id=|retry=0|result=0|");
  GIVES(&sse_parser, "\xef\xbb" "data: no\n\xef\xbb\xbf" "data: no\n\n",
        "retry=0|result=0|");
}

static void bounded_events(void** state) {
  struct journal j = {0};
  struct sbx_sse s = {.max = 100, .arg = &j, .on_event = sse_on_event};
  int rc = 0;

  (void) state;
  for (int i = 0; i < 200 && rc == 0; i++)
    rc = sbx_sse_feed(&s, "data: 0123456\n", 14);
  assert_int_equal(rc, UV_E2BIG);
  assert_int_equal(sbx_sse_feed(&s, "\n\n", 2), UV_E2BIG);
  assert_int_equal(j.len, 0);
  sbx_sse_free(&s);
}

#define B "DAYTONA-FILE-BOUNDARY"

static void parts(void** state) {
  (void) state;
  GIVES(&multipart_parser,
        "--" B "\r\nContent-Disposition: form-data; name=\"file\"; "
        "filename=\"/w/_.txt\"; filename*=utf-8''%2Fw%2F%C3%A4.txt\r\n"
        "Content-Length: 27\r\nContent-Type: text/plain\r\n\r\n\r\n--" B
        "\r\n\r\n--" B "\r\ncontent-disposition:form-data;name=error;"
        "filename=\"a\\\"b\"\r\n\r\n{}\r\n--" B "--\r\nepilogue",
        "name=file|filename=/w/\xc3\xa4.txt|type=text/plain|length=27|"
        "data=\r\n--" B "\r\n|end=|name=error|filename=a\"b|type=|length=-1|"
        "data={}|end=|result=0|");
  GIVES(&multipart_parser,
        "preamble\r\n--" B " \t\r\n\r\na\r\r\n\r\n--DAYTONA\r\n--" B
        "\r\nContent-Length: 0\r\n\r\n\r\n--" B "--",
        "name=|filename=|type=|length=-1|data=a\r\r\n\r\n--DAYTONA|end=|"
        "name=|filename=|type=|length=0|end=|result=0|");
}

static void broken_parts(void** state) {
  char eproto[32], eof[32], want[128];

  (void) state;
  snprintf(eproto, sizeof(eproto), "result=%d|", UV_EPROTO);
  snprintf(eof, sizeof(eof), "result=%d|", UV_EOF);
  GIVES(&multipart_parser, "", eof);
  GIVES(&multipart_parser, "{\"error\":\"x\"}", eof);
  GIVES(&multipart_parser, "--" B "\r\nno colon\r\n\r\n", eproto);
  GIVES(&multipart_parser, "--" B "x", eof);
  GIVES(&multipart_parser, "--" B "xy", eproto);
  GIVES(&multipart_parser, "--" B "\r\nContent-Length: -1\r\n\r\n", eproto);
  GIVES(&multipart_parser,
        "--" B "\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n", eproto);
  GIVES(&multipart_parser,
        "--" B "\r\nContent-Length: 9999999999999999999\r\n\r\n", eproto);
  snprintf(want, sizeof(want),
           "name=|filename=|type=|length=3|data=abc|%s", eproto);
  GIVES(&multipart_parser, "--" B "\r\nContent-Length: 3\r\n\r\nabcd\r\n--" B,
        want);
  snprintf(want, sizeof(want), "name=|filename=|type=|length=3|data=ab|%s",
           eof);
  GIVES(&multipart_parser, "--" B "\r\nContent-Length: 3\r\n\r\nab", want);
}

static void bounded_part_heads(void** state) {
  struct journal j = {0};
  struct sbx_multipart* m = multipart_make(&j);
  int rc = sbx_multipart_feed(m, "--" B "\r\n", sizeof("--" B "\r\n") - 1);

  (void) state;
  for (int i = 0; i < SBX_MULTIPART_HEAD_MAX && rc == 0; i++)
    rc = sbx_multipart_feed(m, "a: b\r\n", 6);
  assert_int_equal(rc, UV_E2BIG);
  sbx_multipart_free(m);
}

static void content_types(void** state) {
  static const struct sbx_multipart_events none;
  static const char* const bad[] = {
      "", "application/json", "multipart/form-data",
      "multipart/form-data; boundary=", "multipart/form-data; boundary=\"a ",
      "multipart/mixed; boundary=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
      "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};
  struct sbx_multipart* m;

  (void) state;
  for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
    if (sbx_multipart_new(bad[i], &none, &m) != UV_EINVAL)
      fail_msg("%s", bad[i]);
  assert_int_equal(
      sbx_multipart_new("Multipart/Mixed; charset=x; Boundary=\"a b\"", &none,
                        &m),
      0);
  sbx_multipart_free(m);
}

static void writes_parts(void** state) {
  struct sbx_multipart_frame f, other;
  char want[512], type[SBX_MULTIPART_TYPE_MAX];
  struct sbx_text t = {0};
  char* text;

  (void) state;
  assert_int_equal(sbx_multipart_begin(&f), 0);
  assert_int_equal(sbx_multipart_begin(&other), 0);
  assert_string_not_equal(f.boundary, other.boundary);
  sbx_multipart_head(&f, &t, "files[0].path", NULL, NULL);
  sbx_text_puts(&t, "/w/a.txt");
  sbx_multipart_head(&f, &t, "file", "a\"\r\nX: y", "text/plain");
  sbx_text_puts(&t, "hello");
  sbx_multipart_tail(&f, &t);
  text = sbx_text_take(&t, NULL);
  snprintf(want, sizeof(want),
           "--%s\r\nContent-Disposition: form-data; name=\"files[0].path\""
           "\r\n\r\n/w/a.txt\r\n--%s\r\nContent-Disposition: form-data; "
           "name=\"file\"; filename=\"a%%22%%0D%%0AX: y\"\r\nContent-Type: "
           "text/plain\r\n\r\nhello\r\n--%s--\r\n",
           f.boundary, f.boundary, f.boundary);
  assert_string_equal(text, want);
  assert_non_null(strstr(sbx_multipart_type(&f, type), f.boundary));
  free(text);
}

static void corpora(void** state) {
  (void) state;
  assert_true(cuts_corpus(&archive_parser, "archive") > 0);
  assert_true(cuts_corpus(&ndjson_parser, "ndjson") > 0);
  assert_true(cuts_corpus(&sse_parser, "sse") > 0);
  assert_true(cuts_corpus(&multipart_parser, "multipart") > 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(json_lines),
      cmocka_unit_test(json_lines_of_any_kind),
      cmocka_unit_test(broken_json_lines),
      cmocka_unit_test(bounded_json_lines),
      cmocka_unit_test(events),
      cmocka_unit_test(bounded_events),
      cmocka_unit_test(parts),
      cmocka_unit_test(broken_parts),
      cmocka_unit_test(bounded_part_heads),
      cmocka_unit_test(content_types),
      cmocka_unit_test(writes_parts),
      cmocka_unit_test(corpora),
  };

  return cmocka_run_group_tests(tests, NULL, NULL);
}
