/* The scan before cJSON, which is lenient and ends strings at the first NUL: it
 * checks depth, count, numbers and bytes, and only where needed it makes a
 * copy, in which a NUL is C0 80, bytes that no valid text holds. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <string.h>

#include "../utf8.h"
#include "json_internal.h"

static void put(struct sbx__json_scan* s, const char* bytes, size_t len) {
  if (s->copy != NULL) sbx_text_add(s->copy, bytes, len);
}

static void keep(struct sbx__json_scan* s, size_t len) {
  put(s, s->at, len);
  s->at += len;
}

static void replace(struct sbx__json_scan* s, size_t len, const char* by) {
  put(s, by, strlen(by));
  s->at += len;
  s->dirty = true;
}

static size_t left(const struct sbx__json_scan* s) {
  return (size_t) (s->end - s->at);
}

static int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

/* The unit of "\uXXXX" at `at`, or -1. */
static int unit(const char* at, const char* end) {
  int value = 0;

  if (end - at < 6 || at[0] != '\\' || at[1] != 'u') return -1;
  for (int i = 2; i < 6; i++) {
    int digit = hex_digit(at[i]);

    if (digit < 0) return -1;
    value = value << 4 | digit;
  }
  return value;
}

static void escape(struct sbx__json_scan* s) {
  int first, second;

  if (left(s) < 2 || memchr("\"\\/bfnrtu", s->at[1], 9) == NULL) {
    s->wrong = "a bad escape";
    return;
  }
  if (s->at[1] != 'u') {
    keep(s, 2);
    return;
  }
  first = unit(s->at, s->end);
  second = left(s) > 6 ? unit(s->at + 6, s->end) : -1;
  if (first < 0)
    s->wrong = "a bad escape";
  else if (first == 0)
    replace(s, 6, SBX__JSON_NUL);
  else if (first < 0xd800 || first > 0xdfff)
    keep(s, 6);
  else if (first < 0xdc00 && second >= 0xdc00 && second <= 0xdfff)
    keep(s, 12);
  else
    replace(s, 6, SBX__JSON_REPLACEMENT);
}

static bool is_plain(char c) {
  return (unsigned char) c >= 0x20 && (unsigned char) c < 0x80 && c != '"' &&
         c != '\\';
}

#define EACH(byte) (UINT64_C(0x0101010101010101) * (byte))

/* The top bit of each byte that is 0; others behind the first may be wrong. */
static uint64_t zeros(uint64_t word) {
  return (word - EACH(1)) & ~word & EACH(0x80);
}

static bool is_plain_word(const char* at) {
  uint64_t word, low;

  memcpy(&word, at, sizeof(word));
  low = (word - EACH(0x20)) & ~word & EACH(0x80);
  return ((word & EACH(0x80)) | low | zeros(word ^ EACH('"')) |
          zeros(word ^ EACH('\\'))) == 0;
}

/* Output comes as long strings of base64. */
static void plain_run(struct sbx__json_scan* s) {
  const char* at = s->at;

  while (s->end - at >= 8 && is_plain_word(at)) at += 8;
  while (at < s->end && is_plain(*at)) at++;
  keep(s, (size_t) (at - s->at));
}

static void string(struct sbx__json_scan* s) {
  keep(s, 1);
  while (s->wrong == NULL) {
    bool valid;
    size_t n;

    plain_run(s);
    if (s->at == s->end) {
      s->wrong = "an open string";
    } else if (*s->at == '"') {
      keep(s, 1);
      return;
    } else if (*s->at == '\\') {
      escape(s);
    } else if ((unsigned char) *s->at < 0x20) {
      s->wrong = "a control character";
    } else {
      n = sbx_utf8_next(s->at, left(s), &valid);
      if (valid)
        keep(s, n);
      else
        replace(s, n, SBX__JSON_REPLACEMENT);
    }
  }
}

static const char* digits(const char* at, const char* end) {
  while (at < end && *at >= '0' && *at <= '9') at++;
  return at;
}

static void number(struct sbx__json_scan* s) {
  const char* at = s->at;
  const char* from;

  if (*at == '-') at++;
  from = at;
  at = digits(at, s->end);
  if (at == from || (*from == '0' && at - from > 1)) s->wrong = "a bad number";
  if (at < s->end && *at == '.') {
    from = ++at;
    at = digits(at, s->end);
    if (at == from) s->wrong = "a bad number";
  }
  if (at < s->end && (*at == 'e' || *at == 'E')) {
    at++;
    if (at < s->end && (*at == '+' || *at == '-')) at++;
    from = at;
    at = digits(at, s->end);
    if (at == from) s->wrong = "a bad number";
  }
  keep(s, (size_t) (at - s->at));
}

static void structure(struct sbx__json_scan* s) {
  char c = *s->at;

  if (c == '[' || c == '{') {
    s->values++;
    if (++s->depth > SBX_JSON_DEPTH_MAX) s->wrong = "too deep a nesting";
  } else if (c == ']' || c == '}') {
    if (s->depth-- == 0) s->wrong = "a stray bracket";
  } else if (c == ',') {
    s->values++;
  } else if ((unsigned char) c < 0x20 && memchr("\t\n\r", c, 3) == NULL) {
    s->wrong = "a control character";
  }
  if (s->values > SBX_JSON_VALUES_MAX) s->wrong = "too many values";
  keep(s, 1);
}

void sbx__json_scan(struct sbx__json_scan* s) {
  while (s->at < s->end && s->wrong == NULL) {
    if (*s->at == '"')
      string(s);
    else if (*s->at == '-' || (*s->at >= '0' && *s->at <= '9'))
      number(s);
    else
      structure(s);
  }
  /* cJSON 1.7.15 reads behind the end of such an object. */
  if (s->wrong == NULL && s->depth > 0) s->wrong = "an open bracket";
}
