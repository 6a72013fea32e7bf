/* Base64 (RFC 4648), both alphabets. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "base64.h"

#include <string.h>
#include <uv.h>

static const char standard[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
static const char for_urls[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

size_t sbx_base64_encode(const void* bytes, size_t len, unsigned flags,
                         char* out) {
  const char* set = flags & SBX_BASE64_URL ? for_urls : standard;
  const unsigned char* p = bytes;
  char* to = out;
  uint32_t v;

  for (; len >= 3; p += 3, len -= 3) {
    v = (uint32_t) p[0] << 16 | (uint32_t) p[1] << 8 | p[2];
    *to++ = set[v >> 18];
    *to++ = set[v >> 12 & 63];
    *to++ = set[v >> 6 & 63];
    *to++ = set[v & 63];
  }
  if (len == 0) return (size_t) (to - out);
  v = (uint32_t) p[0] << 16 | (len > 1 ? (uint32_t) p[1] << 8 : 0);
  *to++ = set[v >> 18];
  *to++ = set[v >> 12 & 63];
  if (len > 1) *to++ = set[v >> 6 & 63];
  for (size_t i = len; i < 3 && !(flags & SBX_BASE64_URL); i++) *to++ = '=';
  return (size_t) (to - out);
}

enum { BAD = 64, SPECIAL = 64, URL_PLUS = 65, URL_SLASH = 66, BLANK = 67 };

#define A64 64, 64, 64, 64, 64, 64, 64, 64
/* 0-63: a digit; else what it is. All others are 64. */
static const unsigned char values[256] = {
    A64, 64, 67, 67, 64, 64, 67, 64, 64, A64, A64,
    67, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 62, 64, 65, 64, 63,
    52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 64, 64, 64, 64, 64, 64,
    64, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14,
    15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 64, 64, 64, 64, 66,
    64, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40,
    41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 64, 64, 64, 64, 64,
    A64, A64, A64, A64, A64, A64, A64, A64,
    A64, A64, A64, A64, A64, A64, A64, A64,
};

/* Whole quanta of plain digits, which is nearly all there is. */
static size_t fast(const unsigned char* p, size_t len, unsigned char** out) {
  unsigned char* to = *out;
  size_t i;

  for (i = 0; i + 4 <= len; i += 4) {
    unsigned a = values[p[i]], b = values[p[i + 1]];
    unsigned c = values[p[i + 2]], d = values[p[i + 3]];
    uint32_t v;

    if ((a | b | c | d) >= SPECIAL) break;
    v = a << 18 | b << 12 | c << 6 | d;
    to[0] = (unsigned char) (v >> 16);
    to[1] = (unsigned char) (v >> 8);
    to[2] = (unsigned char) v;
    to += 3;
  }
  *out = to;
  return i;
}

/* Bytes of a last quantum of 2 or 3 digits. */
static int close_quantum(struct sbx_base64* b, unsigned char** out) {
  unsigned extra = b->digits == 2 ? 4 : 2;

  b->ended = true;
  if (b->digits < 2 || (b->bits & ((1u << extra) - 1)) != 0) return UV_EINVAL;
  if (b->digits == 3) *(*out)++ = (unsigned char) (b->bits >> 10);
  *(*out)++ = (unsigned char) (b->bits >> (b->digits == 3 ? 2 : 4));
  b->digits = 0;
  b->bits = 0;
  return 0;
}

static int pad(struct sbx_base64* b, unsigned char** out) {
  unsigned want;

  if (b->padding > 0) {
    b->padding--;
    return 0;
  }
  if (b->ended || b->digits < 2) return UV_EINVAL;
  want = 4 - b->digits;
  b->padding = want - 1;
  return close_quantum(b, out);
}

static int one(struct sbx_base64* b, unsigned char c, unsigned flags,
               unsigned char** out) {
  unsigned v = values[c];

  if (c == '=') return pad(b, out);
  if (v == BLANK) return flags & SBX_BASE64_LINES ? 0 : UV_EINVAL;
  if (v == URL_PLUS || v == URL_SLASH)
    v = flags & SBX_BASE64_URL ? v - 3 : BAD;
  if (v >= BAD || b->ended) return UV_EINVAL;
  b->bits = b->bits << 6 | v;
  if (++b->digits < 4) return 0;
  *(*out)++ = (unsigned char) (b->bits >> 16);
  *(*out)++ = (unsigned char) (b->bits >> 8);
  *(*out)++ = (unsigned char) b->bits;
  b->digits = 0;
  b->bits = 0;
  return 0;
}

int sbx_base64_feed(struct sbx_base64* b, const char* text, size_t len,
                    unsigned flags, void* out, size_t* out_len) {
  const unsigned char* p = (const unsigned char*) text;
  unsigned char* to = out;
  size_t i = 0;
  int rc = 0;

  while (i < len && rc == 0) {
    if (b->digits == 0 && !b->ended) i += fast(p + i, len - i, &to);
    if (i < len) rc = one(b, p[i++], flags, &to);
  }
  *out_len = (size_t) (to - (unsigned char*) out);
  return rc;
}

int sbx_base64_finish(struct sbx_base64* b, unsigned flags, void* out,
                      size_t* out_len) {
  unsigned char* to = out;
  int rc = 0;

  if (b->padding > 0) rc = UV_EINVAL;
  if (rc == 0 && b->digits > 0)
    rc = flags & SBX_BASE64_BARE ? close_quantum(b, &to) : UV_EINVAL;
  *out_len = (size_t) (to - (unsigned char*) out);
  return rc;
}

int sbx_base64_decode(const char* text, size_t len, unsigned flags, void* out,
                      size_t* out_len) {
  struct sbx_base64 b = {0};
  size_t tail = 0;
  int rc = sbx_base64_feed(&b, text, len, flags, out, out_len);

  if (rc == 0)
    rc = sbx_base64_finish(&b, flags, (unsigned char*) out + *out_len, &tail);
  *out_len += tail;
  return rc;
}
