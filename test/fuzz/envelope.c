// sources: native/parse/envelope.c native/parse/fault.c native/parse/json.c native/parse/json_scan.c native/parse/json_get.c native/parse/json_error.c native/text.c native/utf8.c native/error.c build/deps/cjson/cJSON.c
/* Connect envelopes: any cut gives the same messages. */
#include "envelope.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  cuts_fuzz(&envelope_parser, data, size);
  return 0;
}
