/* However a stream is cut, the pieces join to the stream, and the pieces of
 * valid text are valid. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "native/utf8.h"

struct joined {
  char* bytes;
  size_t len;
  size_t size;
};

static void on_piece(void* arg, const char* bytes, size_t len) {
  struct joined* all = arg;
  if (all->len + len > all->size) abort();
  memcpy(all->bytes + all->len, bytes, len);
  all->len += len;
}

static void on_valid_piece(void* arg, const char* bytes, size_t len) {
  if (!sbx_utf8_valid(bytes, len)) abort();
  on_piece(arg, bytes, len);
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  size_t step = 1 + data[0] % 7;
  const char* text = (const char*)data + 1;
  size_t len = size - 1;
  struct joined all = {malloc(len), 0, len};
  struct sbx_utf8_cutter cutter = {0};
  sbx_utf8_cb cb = sbx_utf8_valid(text, len) ? on_valid_piece : on_piece;
  if (!all.bytes) return 0;
  for (size_t at = 0; at < len; at += step) {
    size_t n = len - at < step ? len - at : step;
    sbx_utf8_feed(&cutter, text + at, n, cb, &all);
  }
  sbx_utf8_flush(&cutter, cb, &all);
  if (all.len != len || memcmp(all.bytes, text, len)) abort();
  free(all.bytes);
  return 0;
}
