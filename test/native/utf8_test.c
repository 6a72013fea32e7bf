/* Cutting a stream at code-point borders gives what decoding the whole gives. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../native/utf8.h"

struct sink {
  char bytes[256];
  size_t len;
  int calls;
  bool only_whole; /* every piece so far was valid by itself */
};

static void on_piece(void* arg, const char* bytes, size_t len) {
  struct sink* sink = arg;

  assert_true(len > 0);
  memcpy(sink->bytes + sink->len, bytes, len);
  sink->len += len;
  sink->calls++;
  if (!sbx_utf8_valid(bytes, len)) sink->only_whole = false;
}

static void feed_cut(const char* text, size_t len, size_t step,
                     struct sink* sink) {
  struct sbx_utf8_cutter cutter = {0};

  *sink = (struct sink){.only_whole = true};
  for (size_t i = 0; i < len; i += step) {
    size_t n = len - i < step ? len - i : step;

    sbx_utf8_feed(&cutter, text + i, n, on_piece, sink);
  }
  sbx_utf8_flush(&cutter, on_piece, sink);
}

static void whole_code_points_at_every_cut(void** state) {
  static const char text[] = "a\u00e9\u20ac\U0001f600b\u07ff\uffff\U0010ffff";
  struct sink sink;

  (void) state;
  for (size_t step = 1; step <= sizeof(text); step++) {
    feed_cut(text, sizeof(text) - 1, step, &sink);
    assert_int_equal(sink.len, sizeof(text) - 1);
    assert_memory_equal(sink.bytes, text, sink.len);
    assert_true(sink.only_whole);
  }
}

/* Counts U+FFFD as a WHATWG decoder does: one per maximal subpart. */
static int replacements(const char* bytes, size_t len) {
  int count = 0;

  for (size_t i = 0; i < len;) {
    size_t n = 1;

    for (size_t k = 1; k <= 4 && i + k <= len; k++) {
      if (sbx_utf8_valid(bytes + i, k)) {
        n = k;
        goto next;
      }
      if (sbx_utf8_tail(bytes + i, k) == k) n = k;
    }
    count++;
  next:
    i += n;
  }
  return count;
}

struct counter {
  int count;
  size_t len;
};

static void on_counted(void* arg, const char* bytes, size_t len) {
  struct counter* c = arg;

  c->count += replacements(bytes, len);
  c->len += len;
}

static void broken_bytes_decode_the_same(void** state) {
  static const char alphabet[] = "a\x80\xbf\xc2\xe0\xa0\xed\xf0\x90\xf4\xff\xe2";
  unsigned seed = 7;

  (void) state;
  for (int round = 0; round < 20000; round++) {
    char text[12];
    struct sbx_utf8_cutter cutter = {0};
    struct counter c = {0};
    size_t cut;

    for (size_t i = 0; i < sizeof(text); i++) {
      seed = seed * 1103515245 + 12345;
      text[i] = alphabet[(seed >> 16) % (sizeof(alphabet) - 1)];
    }
    cut = (seed >> 8) % sizeof(text);
    sbx_utf8_feed(&cutter, text, cut, on_counted, &c);
    sbx_utf8_feed(&cutter, text + cut, sizeof(text) - cut, on_counted, &c);
    sbx_utf8_flush(&cutter, on_counted, &c);
    assert_int_equal(c.len, sizeof(text));
    assert_int_equal(c.count, replacements(text, sizeof(text)));
  }
}

static void validity(void** state) {
  (void) state;
  assert_true(sbx_utf8_valid("", 0));
  assert_true(sbx_utf8_valid("plain text, long enough for words", 33));
  assert_true(sbx_utf8_valid("\xf4\x8f\xbf\xbf", 4));
  assert_true(sbx_utf8_valid("\0", 1));
  assert_false(sbx_utf8_valid("\xf4\x90\x80\x80", 4));
  assert_false(sbx_utf8_valid("\xc0\x80", 2));
  assert_false(sbx_utf8_valid("\xe0\x80\x80", 3));
  assert_false(sbx_utf8_valid("\xed\xa0\x80", 3));
  assert_false(sbx_utf8_valid("abcdefgh\x80", 9));
  assert_false(sbx_utf8_valid("abc\xe2\x82", 5));
}

static void tail_and_head(void** state) {
  (void) state;
  assert_int_equal(sbx_utf8_tail("ab\xe2\x82", 4), 2);
  assert_int_equal(sbx_utf8_tail("\xf0\x9f\x98", 3), 3);
  assert_int_equal(sbx_utf8_tail("\xe2\x82\xac", 3), 0);
  assert_int_equal(sbx_utf8_tail("\x80\x80\x80", 3), 0);
  assert_int_equal(sbx_utf8_tail("\xe0\x80", 2), 0);
  assert_int_equal(sbx_utf8_tail("", 0), 0);
  assert_int_equal(sbx_utf8_head("\x82\xac" "a", 3), 2);
  assert_int_equal(sbx_utf8_head("a\x82", 2), 0);
  assert_int_equal(sbx_utf8_head("\x80\x80\x80\x80", 4), 3);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(whole_code_points_at_every_cut),
      cmocka_unit_test(broken_bytes_decode_the_same),
      cmocka_unit_test(validity),
      cmocka_unit_test(tail_and_head),
  };

  return cmocka_run_group_tests(tests, NULL, NULL);
}
