/* Base64, both alphabets: encode, and decode of text that is cut anywhere. */
#ifndef SBX_BASE64_H
#define SBX_BASE64_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum sbx_base64_flag {
  SBX_BASE64_URL = 1,   /* encode: '-' and '_', without padding; decode: these
                           letters, too */
  SBX_BASE64_BARE = 2,  /* decode: the padding may be missing */
  SBX_BASE64_LINES = 4  /* decode: skips line ends, blanks and tabs */
};

#define SBX_BASE64_ENCODED(len) (((len) + 2) / 3 * 4)
#define SBX_BASE64_DECODED(len) (((len) + 3) / 4 * 3) /* at most */

/* `out` has room for SBX_BASE64_ENCODED(len); returns the length. No NUL. */
size_t sbx_base64_encode(const void* bytes, size_t len, unsigned flags,
                         char* out);

/* Zeroed memory is its start. */
struct sbx_base64 {
  uint32_t bits;
  unsigned digits; /* of the quantum that is coming: 0 to 3 */
  unsigned padding;
  bool ended;
};

/* `out` has room for SBX_BASE64_DECODED(len + 3). 0, or UV_EINVAL: bytes that
 * are no base64, anything after the padding, bits behind the last byte that are
 * not 0. */
int sbx_base64_feed(struct sbx_base64* b, const char* text, size_t len,
                    unsigned flags, void* out, size_t* out_len);
/* UV_EINVAL where the text stops within a quantum. With SBX_BASE64_BARE up to
 * two last bytes come out here. */
int sbx_base64_finish(struct sbx_base64* b, unsigned flags, void* out,
                      size_t* out_len);

/* All at once; room for SBX_BASE64_DECODED(len). `out` may be `text`. */
int sbx_base64_decode(const char* text, size_t len, unsigned flags, void* out,
                      size_t* out_len);

#endif
