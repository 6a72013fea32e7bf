/* Connect envelopes: any cut gives the same messages; what breaks the protocol
 * is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../fuzz/envelope.h"

/* Several envelopes in a row; each is flags and a text. */
struct piece {
  unsigned flags;
  const char* text;
};

static struct sbx_text stream(const struct piece* pieces, size_t count) {
  struct sbx_text t = {0};

  for (size_t i = 0; i < count; i++) {
    size_t len;
    char* one = sbx_envelope_encode(pieces[i].flags, pieces[i].text,
                                    strlen(pieces[i].text), &len);

    sbx_text_add(&t, one, len);
    free(one);
  }
  return t;
}

struct seen {
  int messages;
  int ends;
  int stop;
  struct sbx_fault fault;
};

static int on_message(void* data, const char* bytes, size_t len,
                      struct sbx_error* error) {
  struct seen* seen = data;

  (void) bytes;
  (void) len;
  seen->messages++;
  if (seen->stop == 0) return 0;
  return sbx_error_set(error, seen->stop, 0, "test", "stopped");
}

static int on_end(void* data, const struct sbx_fault* fault,
                  struct sbx_error* error) {
  struct seen* seen = data;

  (void) error;
  seen->ends++;
  if (fault != NULL) seen->fault = *fault;
  return 0;
}

static struct sbx_envelope_reader reader(struct seen* seen) {
  return (struct sbx_envelope_reader){.source = {"E2B", "process.start"},
                                      .data = seen,
                                      .on_message = on_message,
                                      .on_end = on_end};
}

static int run(const char* bytes, size_t len, struct seen* seen,
               struct sbx_error* error) {
  struct sbx_envelope_reader r = reader(seen);
  int rc = sbx_envelope_feed(&r, bytes, len, error);

  if (rc == 0) rc = sbx_envelope_finish(&r, error);
  assert_int_equal(sbx_envelope_finish(&r, NULL), rc);
  sbx_envelope_free(&r);
  return rc;
}

static void reads_a_run(void** state) {
  static const struct piece pieces[] = {
      {0, "{\"event\":{\"start\":{\"pid\":1}}}"}, {0, ""}, {0, "x"}, {2, "{}"}};
  struct sbx_text t = stream(pieces, 4);
  struct sbx_error error;
  struct seen seen = {0};

  (void) state;
  assert_int_equal(run(t.bytes, t.len, &seen, &error), 0);
  assert_int_equal(seen.messages, 3);
  assert_int_equal(seen.ends, 1);
  assert_int_equal(cuts_check(&envelope_parser, t.bytes, t.len), -1);
  sbx_text_free(&t);
}

static void trailers(void** state) {
  struct piece piece = {
      2, "{\"error\":{\"code\":\"unavailable\",\"message\":\"gone\"}}"};
  struct sbx_text t = stream(&piece, 1);
  struct sbx_error error;
  struct seen seen = {0};

  (void) state;
  assert_int_equal(run(t.bytes, t.len, &seen, &error), 0);
  assert_string_equal(seen.fault.code, "unavailable");
  assert_string_equal(seen.fault.message, "gone");
  sbx_text_free(&t);
  piece.text = "[]";
  t = stream(&piece, 1);
  assert_int_equal(run(t.bytes, t.len, &seen, &error), SBX_E_PROVIDER);
  sbx_text_free(&t);
  piece.text = "";
  t = stream(&piece, 1);
  assert_int_equal(run(t.bytes, t.len, &seen, &error), SBX_E_PROVIDER);
  sbx_text_free(&t);
}

static void says(const char* bytes, size_t len, int code, const char* words) {
  struct sbx_error error;
  struct seen seen = {0};

  assert_int_equal(run(bytes, len, &seen, &error), code);
  if (strstr(error.message, words) == NULL) fail_msg("%s", error.message);
  assert_string_equal(error.operation, "process.start");
}

static void what_breaks_the_protocol(void** state) {
  (void) state;
  says("", 0, SBX_E_UNAVAILABLE, "ended before it was complete");
  says("\0\0\0\0\1x", 6, SBX_E_UNAVAILABLE, "ended before");
  says("\0\0\0", 3, SBX_E_UNAVAILABLE, "ended before");
  says("\0\xff\xff\xff\xff", 5, SBX_E_PROVIDER, "4294967295 bytes");
  says("\1\0\0\0\1x", 6, SBX_E_PROVIDER, "compressed");
  says("\3\0\0\0\1x", 6, SBX_E_PROVIDER, "compressed");
  says("\4\0\0\0\1x", 6, SBX_E_PROVIDER, "unknown flags");
  says("\2\0\0\0\2{}\0", 8, SBX_E_PROVIDER, "after its end");
  says("HTTP/1.1", 8, SBX_E_PROVIDER, "unknown flags");
}

static void the_limit_is_the_callers(void** state) {
  struct piece piece = {0, "0123456789"};
  struct sbx_text t = stream(&piece, 1);
  struct seen seen = {0};
  struct sbx_envelope_reader r = reader(&seen);

  (void) state;
  r.max = 9;
  assert_int_equal(sbx_envelope_feed(&r, t.bytes, t.len, NULL), SBX_E_PROVIDER);
  assert_int_equal(seen.messages, 0);
  sbx_envelope_free(&r);
  r = reader(&seen);
  r.max = 10;
  assert_int_equal(sbx_envelope_feed(&r, t.bytes, t.len, NULL), 0);
  assert_int_equal(seen.messages, 1);
  sbx_envelope_free(&r);
  sbx_text_free(&t);
}

static void a_callback_ends_it(void** state) {
  static const struct piece pieces[] = {{0, "a"}, {0, "b"}};
  struct sbx_text t = stream(pieces, 2);
  struct seen seen = {.stop = SBX_E_CONFLICT};
  struct sbx_error error;

  (void) state;
  assert_int_equal(run(t.bytes, t.len, &seen, &error), SBX_E_CONFLICT);
  assert_int_equal(seen.messages, 1);
  sbx_text_free(&t);
}

/* A length is a claim: memory follows the bytes that came. */
static void memory_follows_the_bytes(void** state) {
  struct seen seen = {0};
  struct sbx_envelope_reader r = reader(&seen);

  (void) state;
  assert_int_equal(sbx_envelope_feed(&r, "\0\0\x7f\0\0abc", 8, NULL), 0);
  assert_true(r.held.size < 4096);
  sbx_envelope_free(&r);
}

static void the_corpus(void** state) {
  (void) state;
  assert_true(cuts_corpus(&envelope_parser, "envelope") > 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reads_a_run),
      cmocka_unit_test(trailers),
      cmocka_unit_test(what_breaks_the_protocol),
      cmocka_unit_test(the_limit_is_the_callers),
      cmocka_unit_test(a_callback_ends_it),
      cmocka_unit_test(memory_follows_the_bytes),
      cmocka_unit_test(the_corpus),
  };

  return cmocka_run_group_tests(tests, NULL, NULL);
}
