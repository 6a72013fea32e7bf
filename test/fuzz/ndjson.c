/* JSON lines: any cut gives the same values. */
#include "ndjson.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  cuts_fuzz(&ndjson_parser, data, size);
  return 0;
}
