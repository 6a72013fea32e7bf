/* Bytes that a search wants: where they are, and the lines that hold them. */
#include "internal.h"

#include <string.h>
#include <strings.h>

static char other_case(char c) {
  bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  return letter ? (char)(c ^ 0x20) : c;
}

static const char* next_of(const char* at, const char* end, char c) {
  const char* found = memchr(at, c, (size_t)(end - at));
  return found ? found : end;
}

/* Two searches for the first byte, one per case, each going on only when it
 * was the nearer one: every byte is looked at twice at most. */
static const char* find_folded(const struct sbx__literal* want,
                               const char* data, size_t len) {
  const char* end = data + len - want->len + 1;
  const char* same = next_of(data, end, want->data[0]);
  const char* other = next_of(data, end, other_case(want->data[0]));
  for (;;) {
    const char* at = same < other ? same : other;
    if (at == end) return NULL;
    if (strncasecmp(at, want->data, want->len) == 0) return at;
    if (at == same) same = next_of(at + 1, end, want->data[0]);
    if (at == other) other = next_of(at + 1, end, other_case(want->data[0]));
  }
}

const char* sbx__literal_find(const struct sbx__literal* want,
                              const char* data, size_t len) {
  if (want->len == 0) return data;
  if (want->len > len) return NULL;
  if (want->fold) return find_folded(want, data, len);
  return memmem(data, len, want->data, want->len);
}

size_t sbx__literal_lines(const struct sbx__literal* want, char* data,
                          size_t len) {
  const char* at = data;
  const char* end = data + len;
  const char* hit;
  char* out = data;
  while ((hit = sbx__literal_find(want, at, (size_t)(end - at))) != NULL) {
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
