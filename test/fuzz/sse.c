/* Server-sent events: any cut gives the same events. */
#include "sse.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  cuts_fuzz(&sse_parser, data, size);
  return 0;
}
