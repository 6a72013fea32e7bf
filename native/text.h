/* Bytes that grow: what encoders write into. */
#ifndef SBX_TEXT_H
#define SBX_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* Zeroed memory is an empty text. Once it failed, nothing more is added. */
struct sbx_text {
  char* bytes; /* not terminated */
  size_t len;
  size_t size;
  bool failed; /* no memory, or what a user of it could not write */
};

void sbx_text_add(struct sbx_text* t, const void* bytes, size_t len);
void sbx_text_puts(struct sbx_text* t, const char* s);
/* Room for `len` bytes, already counted; NULL without memory. */
char* sbx_text_grow(struct sbx_text* t, size_t len);

/* The bytes with a NUL behind them, for the caller to free; NULL where it
 * failed. The text is empty afterwards. `len` may be NULL. */
char* sbx_text_take(struct sbx_text* t, size_t* len);
void sbx_text_free(struct sbx_text* t);

/* Copies one short line of bytes of others for a message: the first that is not
 * blank, or the title of an HTML page; controls and broken UTF-8 as "?". */
enum { SBX_QUOTE_MAX = 121 };
const char* sbx_text_quote(const void* bytes, size_t len,
                           char out[SBX_QUOTE_MAX]);

#endif
