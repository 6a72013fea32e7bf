/* UTF-8 at borders: cutting a stream only between code points, and validity. */
#ifndef SBX_UTF8_H
#define SBX_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* Strict: no overlong forms, no surrogates, nothing above U+10FFFF. */
bool sbx_utf8_valid(const void* bytes, size_t len);

/* Bytes of the code point in front, or of what one U+FFFD stands for: 1 to 4.
 * `len` is not 0. */
size_t sbx_utf8_next(const void* bytes, size_t len, bool* valid);

/* Only bytes below 0x80. */
bool sbx_utf8_is_ascii(const void* bytes, size_t len);

/* How many bytes at the end are the start of a sequence that further bytes
 * could still complete: 0 to 3. */
size_t sbx_utf8_tail(const void* bytes, size_t len);

/* How many bytes at the front are the rest of a sequence that was cut off:
 * 0 to 3. */
size_t sbx_utf8_head(const void* bytes, size_t len);

/* What a stream holds back between two chunks. Zeroed memory is its start. */
struct sbx_utf8_cutter {
  char held[4];
  unsigned len;
};

/* Called with whole code points (and bytes that can never become one, so that
 * decoding the pieces gives what decoding the whole would). */
typedef void (*sbx_utf8_cb)(void* arg, const char* bytes, size_t len);

/* Zero, one or two calls. The last one points into `bytes`. */
void sbx_utf8_feed(struct sbx_utf8_cutter* cutter, const char* bytes,
                   size_t len, sbx_utf8_cb cb, void* arg);

/* End of the stream: gives out what is held. */
void sbx_utf8_flush(struct sbx_utf8_cutter* cutter, sbx_utf8_cb cb, void* arg);

#endif
