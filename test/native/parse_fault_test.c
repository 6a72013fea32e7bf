/* Every allocation of the parsers and writers fails once, in turn: an error comes
 * back or the right result, nothing crashes and nothing leaks. Linked with --wrap
 * for the names below. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../native/parse/json_write.h"
#include "../../native/http/url.h"
#include "../fuzz/envelope.h"
#include "../fuzz/multipart.h"
#include "../fuzz/ndjson.h"
#include "../fuzz/sse.h"

/* The tests' own allocations do not count. */
static bool armed;

#include "alloc_fault.h"

/* True where it ended as it does with memory. */
typedef bool (*scenario)(void);

static bool parse_json(void) {
  static const char text[] =
      "{\"a\\u0000b\":\"\\u0000x\",\"list\":[1,{\"s\":\"\xff\"},null]}";
  static const struct sbx_json_source source = {"E2B", "test"};
  struct sbx_error error;
  struct sbx_json* json;
  size_t len = 0;
  char* bytes;
  bool good;

  if (sbx_json_parse(text, sizeof(text) - 1, &source, &json, &error) != 0) {
    assert_null(json);
    return false;
  }
  good = sbx_json_bytes(sbx_json_first(sbx_json_root(json)), NULL, &bytes, &len,
                        &error) == 0;
  if (good) {
    assert_int_equal(len, 2);
    free(bytes);
  }
  sbx_json_free(json);
  return good;
}

static bool write_json(void) {
  struct sbx_json_writer w = {0};
  char* text;

  sbx_json_write_object(&w, NULL);
  sbx_json_write_array(&w, "list");
  for (int i = 0; i < 100; i++) sbx_json_write_base64(&w, NULL, "abcdef", 6);
  sbx_json_write_end(&w);
  sbx_json_write_end(&w);
  text = sbx_json_write_take(&w, NULL);
  free(text);
  return text != NULL;
}

static bool build_url(void) {
  struct sbx_url_builder b = {0};
  char* url;

  sbx_url_base(&b, "https://api.example");
  for (int i = 0; i < 20; i++) sbx_url_segment(&b, "a segment / with blanks");
  url = sbx_url_take(&b);
  free(url);
  return url != NULL;
}

static bool encode_envelope(void) {
  size_t len;
  char* bytes = sbx_envelope_encode(0, "message", 7, &len);

  free(bytes);
  return bytes != NULL;
}

/* The body in pieces of seven bytes. */
static bool stream(const struct cut_parser* p, void* parser, const char* bytes,
                   size_t len) {
  int rc = 0;

  for (size_t at = 0; at < len && rc == 0; at += 7)
    rc = p->feed(parser, bytes + at, len - at < 7 ? len - at : 7);
  if (rc == 0) rc = p->finish(parser);
  return rc == 0;
}

static bool run_parser(const struct cut_parser* p, const char* bytes,
                       size_t len) {
  struct journal journal = {0};
  void* parser;
  bool good;

  /* Room for all that is written: growing it is not what fails. */
  journal.bytes = __real_malloc(4096);
  journal.size = 4096;
  armed = false;
  parser = p->make(&journal);
  armed = true;
  good = stream(p, parser, bytes, len);
  armed = false;
  p->free(parser);
  free(journal.bytes);
  armed = true;
  return good;
}

static bool read_envelopes(void) {
  static const char body[] =
      "\0\0\0\0\x0f{\"event\":\"one\"}\2\0\0\0\x1c{\"error\":{\"code\":\"aborted\"}}";

  return run_parser(&envelope_parser, body, sizeof(body) - 1);
}

static bool read_lines(void) {
  static const char body[] = "{\"data\":\"a\"}\n{\"data\":\"b\\u0000\"}";

  return run_parser(&ndjson_parser, body, sizeof(body) - 1);
}

static bool read_events(void) {
  static const char body[] = "event: x\ndata: a long line\ndata: b\n\n";

  return run_parser(&sse_parser, body, sizeof(body) - 1);
}

static bool read_parts(void) {
  static const char body[] =
      "--DAYTONA-FILE-BOUNDARY\r\nContent-Disposition: form-data; name=file\r\n"
      "\r\nhello\r\n--DAYTONA-FILE-BOUNDARY--";

  return run_parser(&multipart_parser, body, sizeof(body) - 1);
}

static void each_fails_once(scenario run) {
  int i = -1;

  do {
    bool good;

    fired = false;
    countdown = i++;
    armed = true;
    good = run();
    armed = false;
    if (good == fired) fail_msg("allocation %d: %d", i - 1, good);
  } while (fired || i == 0);
  assert_true(i > 1);
}

static void all(void** state) {
  static const scenario scenarios[] = {
      parse_json,     write_json, build_url,   encode_envelope,
      read_envelopes, read_lines, read_events, read_parts};

  (void) state;
  for (size_t i = 0; i < sizeof(scenarios) / sizeof(scenarios[0]); i++)
    each_fails_once(scenarios[i]);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(all)};

  return cmocka_run_group_tests(tests, NULL, NULL);
}
