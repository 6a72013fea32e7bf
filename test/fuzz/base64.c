/* Base64: any cut gives the same bytes; what is encoded is decoded as it was;
 * strict text is what the encoder would write. */
#include "base64.h"

static void check_encode(const uint8_t* data, size_t size, unsigned flags) {
  char* text = malloc(SBX_BASE64_ENCODED(size) + 1);
  char* back = malloc(SBX_BASE64_DECODED(SBX_BASE64_ENCODED(size)) + 1);
  size_t len = sbx_base64_encode(data, size, flags, text);
  size_t back_len;

  if (len > SBX_BASE64_ENCODED(size)) abort();
  if (sbx_base64_decode(text, len, flags | SBX_BASE64_BARE, back, &back_len) !=
          0 ||
      back_len != size || (size > 0 && memcmp(back, data, size) != 0))
    abort();
  free(text);
  free(back);
}

static void check_strict(const uint8_t* data, size_t size) {
  char* bytes = malloc(SBX_BASE64_DECODED(size) + 1);
  char* again = malloc(SBX_BASE64_ENCODED(SBX_BASE64_DECODED(size)) + 1);
  size_t len;

  if (sbx_base64_decode((const char*) data, size, 0, bytes, &len) == 0 &&
      (sbx_base64_encode(bytes, len, 0, again) != size ||
       (size > 0 && memcmp(again, data, size) != 0)))
    abort();
  free(bytes);
  free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  cuts_fuzz(&base64_parser, data, size);
  check_encode(data, size, 0);
  check_encode(data, size, SBX_BASE64_URL);
  check_strict(data, size);
  return 0;
}
