/* Connect envelopes: any cut gives the same messages. */
#include "envelope.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  cuts_fuzz(&envelope_parser, data, size);
  return 0;
}
