/* UTF-8 at borders. The rules are Unicode's table 3-7, so a broken sequence is
 * cut where a WHATWG decoder would put one U+FFFD. */
#include "utf8.h"

#include <stdint.h>
#include <string.h>

/* Length that the first byte announces, 0 for a byte that starts nothing. */
static size_t announced(unsigned char first) {
  if (first < 0x80) return 1;
  if (first < 0xc2) return 0;
  if (first < 0xe0) return 2;
  if (first < 0xf0) return 3;
  return first < 0xf5 ? 4 : 0;
}

static bool second_fits(unsigned char first, unsigned char second) {
  unsigned char low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
  unsigned char high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;

  return second >= low && second <= high;
}

/* How many of the `len` bytes belong to the one sequence that p starts. */
static size_t matched(const unsigned char* p, size_t len) {
  size_t want = announced(p[0]);
  size_t n = 1;

  if (want < 2) return 1;
  if (len > 1 && second_fits(p[0], p[1])) n = 2;
  if (n < 2) return 1;
  while (n < want && n < len && (p[n] & 0xc0) == 0x80) n++;
  return n;
}

bool sbx_utf8_valid(const void* bytes, size_t len) {
  const unsigned char* p = bytes;
  size_t i = 0;

  while (i < len) {
    uint64_t word;
    size_t want;

    if (i + sizeof(word) <= len) {
      memcpy(&word, p + i, sizeof(word));
      if ((word & UINT64_C(0x8080808080808080)) == 0) {
        i += sizeof(word);
        continue;
      }
    }
    want = announced(p[i]);
    if (want == 0 || matched(p + i, len - i) != want) return false;
    i += want;
  }
  return true;
}

size_t sbx_utf8_next(const void* bytes, size_t len, bool* valid) {
  const unsigned char* p = bytes;
  size_t n = matched(p, len);

  *valid = announced(p[0]) == n;
  return n;
}

size_t sbx_utf8_tail(const void* bytes, size_t len) {
  const unsigned char* p = bytes;
  size_t n;

  for (n = 1; n <= 3 && n <= len; n++) {
    const unsigned char* start = p + len - n;

    if ((*start & 0xc0) == 0x80) continue;
    return announced(*start) > n && matched(start, n) == n ? n : 0;
  }
  return 0;
}

size_t sbx_utf8_head(const void* bytes, size_t len) {
  const unsigned char* p = bytes;
  size_t n = 0;

  while (n < len && n < 3 && (p[n] & 0xc0) == 0x80) n++;
  return n;
}

/* Moves bytes that continue the held sequence into it; their count. */
static size_t complete(struct sbx_utf8_cutter* cutter, const char* bytes,
                       size_t len) {
  unsigned old = cutter->len;
  size_t want = announced((unsigned char) cutter->held[0]);
  size_t took = want - old < len ? want - old : len;
  size_t fit;

  memcpy(cutter->held + old, bytes, took);
  fit = matched((const unsigned char*) cutter->held, old + took);
  cutter->len = (unsigned) fit;
  return fit - old;
}

void sbx_utf8_feed(struct sbx_utf8_cutter* cutter, const char* bytes,
                   size_t len, sbx_utf8_cb cb, void* arg) {
  size_t tail;

  if (len == 0) return;
  if (cutter->len > 0) {
    size_t took = complete(cutter, bytes, len);

    bytes += took;
    len -= took;
    if (len == 0 && sbx_utf8_tail(cutter->held, cutter->len) > 0) return;
    sbx_utf8_flush(cutter, cb, arg);
  }
  tail = sbx_utf8_tail(bytes, len);
  if (tail > 0) memcpy(cutter->held, bytes + len - tail, tail);
  cutter->len = (unsigned) tail;
  if (len > tail) cb(arg, bytes, len - tail);
}

void sbx_utf8_flush(struct sbx_utf8_cutter* cutter, sbx_utf8_cb cb, void* arg) {
  char out[sizeof(cutter->held)];
  unsigned len = cutter->len;

  if (len == 0) return;
  memcpy(out, cutter->held, len);
  cutter->len = 0;
  cb(arg, out, len);
}

bool sbx_utf8_is_ascii(const void* bytes, size_t len) {
  const unsigned char* p = bytes;
  uint64_t seen = 0;

  for (; len >= sizeof(seen); p += sizeof(seen), len -= sizeof(seen)) {
    uint64_t word;
    memcpy(&word, p, sizeof(word));
    seen |= word;
    if (seen & UINT64_C(0x8080808080808080)) return false;
  }
  for (; len; p++, len--) seen |= *p;
  return !(seen & UINT64_C(0x8080808080808080));
}
