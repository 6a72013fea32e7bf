/* The newest bytes of a stream: what is kept, what is dropped, where it is cut. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../native/session/ring.h"

#define KIB ((size_t) 1024)

static void fill(struct sbx_ring* ring, size_t from, size_t n) {
  for (size_t i = 0; i < n; i++) {
    char byte = (char) ('a' + (from + i) % 26);

    sbx_ring_append(ring, &byte, 1);
  }
}

static void keeps_everything_below_the_limit(void** state) {
  struct sbx_ring ring;
  uint64_t dropped;
  size_t len;

  (void) state;
  sbx_ring_init(&ring, 100 * KIB);
  fill(&ring, 0, 70 * KIB);
  assert_int_equal(sbx_ring_view(&ring, &len, &dropped)[26], 'a');
  assert_int_equal(len, 70 * KIB);
  assert_int_equal(dropped, 0);
  sbx_ring_free(&ring);
}

static void keeps_the_newest(void** state) {
  const size_t sizes[] = {1, 7, 100, 4096, 64 * KIB, 100 * KIB, 300 * KIB};

  (void) state;
  for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
    struct sbx_ring ring;
    const char* bytes;
    uint64_t dropped;
    size_t len;
    size_t total = 777777;

    sbx_ring_init(&ring, sizes[i]);
    fill(&ring, 0, total);
    bytes = sbx_ring_view(&ring, &len, &dropped);
    assert_int_equal(len, sizes[i]);
    assert_int_equal(dropped, total - sizes[i]);
    for (size_t k = 0; k < len; k++)
      assert_int_equal(bytes[k], 'a' + (total - len + k) % 26);
    sbx_ring_free(&ring);
  }
}

static void goes_on_after_a_view(void** state) {
  struct sbx_ring ring;
  const char* bytes;
  uint64_t dropped;
  size_t len;
  size_t total = 0;

  (void) state;
  sbx_ring_init(&ring, 64 * KIB);
  for (int round = 0; round < 20; round++) {
    fill(&ring, total, 10007);
    total += 10007;
    bytes = sbx_ring_view(&ring, &len, &dropped);
    assert_int_equal(len + dropped, total);
    for (size_t k = 0; k < len; k++)
      assert_int_equal(bytes[k], 'a' + (total - len + k) % 26);
  }
  sbx_ring_free(&ring);
}

static void reserve_never_loses_what_is_not_overwritten(void** state) {
  struct sbx_ring ring;
  uint64_t dropped;
  size_t len, got;
  char* place;

  (void) state;
  sbx_ring_init(&ring, 64 * KIB);
  fill(&ring, 0, 64 * KIB);
  place = sbx_ring_reserve(&ring, 64 * KIB, &got);
  assert_non_null(place);
  place[0] = 'X';
  sbx_ring_commit(&ring, 1);
  assert_int_equal(sbx_ring_view(&ring, &len, &dropped)[64 * KIB - 1], 'X');
  assert_int_equal(len, 64 * KIB);
  assert_int_equal(dropped, 1);
  sbx_ring_free(&ring);
}

static void cuts_the_front_at_a_code_point(void** state) {
  struct sbx_ring ring;
  uint64_t dropped;
  size_t len;
  const char* bytes;

  (void) state;
  sbx_ring_init(&ring, 4);
  sbx_ring_append(&ring, "\xe2\x82\xac\xe2\x82\xac", 6);
  bytes = sbx_ring_view(&ring, &len, &dropped);
  assert_int_equal(len, 3);
  assert_memory_equal(bytes, "\xe2\x82\xac", 3);
  assert_int_equal(dropped, 3);
  sbx_ring_free(&ring);
}

static void keeps_nothing_for_zero(void** state) {
  struct sbx_ring ring;
  uint64_t dropped;
  size_t len;

  (void) state;
  sbx_ring_init(&ring, 0);
  fill(&ring, 0, 1000);
  sbx_ring_view(&ring, &len, &dropped);
  assert_int_equal(len, 0);
  assert_int_equal(dropped, 1000);
  sbx_ring_trim(&ring);
  sbx_ring_free(&ring);
}

/* A listener may ask for the retained output while it looks at new bytes. */
static void a_pinned_view_leaves_old_pointers_alive(void** state) {
  struct sbx_ring ring;
  uint64_t dropped;
  size_t len, got;
  char* place;
  char last;

  (void) state;
  sbx_ring_init(&ring, 64 * KIB);
  fill(&ring, 0, 70 * KIB);
  place = sbx_ring_reserve(&ring, 100, &got);
  memset(place, 'Z', got);
  sbx_ring_commit(&ring, got);
  ring.pinned = true;
  sbx_ring_view(&ring, &len, &dropped);
  last = place[got - 1];
  ring.pinned = false;
  assert_int_equal(last, 'Z');
  assert_int_equal(sbx_ring_view(&ring, &len, &dropped)[len - 1], 'Z');
  sbx_ring_free(&ring);
}

static void trims_and_still_shows(void** state) {
  struct sbx_ring ring;
  uint64_t dropped;
  size_t len;

  (void) state;
  sbx_ring_init(&ring, 1024 * KIB);
  fill(&ring, 0, 5);
  sbx_ring_trim(&ring);
  assert_int_equal(ring.size, 5);
  assert_memory_equal(sbx_ring_view(&ring, &len, &dropped), "abcde", 5);
  fill(&ring, 5, 5);
  assert_memory_equal(sbx_ring_view(&ring, &len, &dropped), "abcdefghij", 10);
  sbx_ring_free(&ring);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(keeps_everything_below_the_limit),
      cmocka_unit_test(keeps_the_newest),
      cmocka_unit_test(goes_on_after_a_view),
      cmocka_unit_test(reserve_never_loses_what_is_not_overwritten),
      cmocka_unit_test(cuts_the_front_at_a_code_point),
      cmocka_unit_test(keeps_nothing_for_zero),
      cmocka_unit_test(a_pinned_view_leaves_old_pointers_alive),
      cmocka_unit_test(trims_and_still_shows),
  };

  return cmocka_run_group_tests(tests, NULL, NULL);
}
