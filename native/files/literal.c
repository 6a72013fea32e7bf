/* Bytes that a search wants: where they are, and the lines that hold them. */
#include "internal.h"

#include <string.h>

static char other_case(char c) {
  bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  return letter ? (char)(c ^ 0x20) : c;
}

bool sbx__same_folded(const char* a, const char* b, size_t len) {
  size_t i = 0;
  while (i < len && (a[i] == b[i] || a[i] == other_case(b[i]))) i++;
  return i == len;
}

static const char* next_of(const char* at, const char* end, char c) {
  const char* found = memchr(at, c, (size_t)(end - at));
  return found ? found : end;
}

/* The next places of the first byte, in either case. A whole search, of which
 * every byte is looked at twice at most, has one; NULL: not known yet. */
struct places {
  const char* same;
  const char* other;
};

static const char* find_folded(const struct sbx__literal* want,
                               const char* at, const char* end,
                               struct places* p) {
  const char* stop = end - want->len + 1;
  char first = want->data[0];
  for (;;) {
    if (!p->same || p->same < at) p->same = next_of(at, stop, first);
    if (!p->other || p->other < at)
      p->other = next_of(at, stop, other_case(first));
    at = p->same < p->other ? p->same : p->other;
    if (at >= stop) return NULL;
    if (sbx__same_folded(at, want->data, want->len)) return at;
    at++;
  }
}

static const char* find(const struct sbx__literal* want, const char* at,
                        const char* end, struct places* p) {
  if (want->len == 0) return at;
  if (want->len > (size_t)(end - at)) return NULL;
  if (want->fold) return find_folded(want, at, end, p);
  return memmem(at, (size_t)(end - at), want->data, want->len);
}

const char* sbx__literal_find(const struct sbx__literal* want,
                              const char* data, size_t len) {
  struct places places = {NULL, NULL};
  return find(want, data, data + len, &places);
}

size_t sbx__literal_lines(const struct sbx__literal* want, char* data,
                          size_t len) {
  struct places places = {NULL, NULL};
  const char* at = data;
  const char* end = data + len;
  const char* hit;
  char* out = data;
  while ((hit = find(want, at, end, &places)) != NULL) {
    const char* stop = next_of(hit, end, '\n');
    const char* line;
    while ((line = memchr(at, '\n', (size_t)(hit - at))) != NULL) {
      *out++ = '\n';
      at = line + 1;
    }
    if (stop < end) stop++;
    memmove(out, at, (size_t)(stop - at));
    out += stop - at;
    at = stop;
  }
  return (size_t)(out - data);
}
