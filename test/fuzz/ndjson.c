// sources: native/parse/ndjson.c native/parse/lines.c native/parse/json.c native/parse/json_scan.c native/parse/json_get.c native/parse/json_error.c native/text.c native/utf8.c native/error.c build/deps/cjson/cJSON.c
/* JSON lines: any cut gives the same values. */
#include "ndjson.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  cuts_fuzz(&ndjson_parser, data, size);
  return 0;
}
