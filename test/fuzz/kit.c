/* Answers of the remote kit: any cut gives the same, nothing leads outside. */
#include "kit.h"

#include <sys/random.h>

/* The same marks each time. */
ssize_t getrandom(void* out, size_t len, unsigned flags) {
  (void)flags;
  for (size_t i = 0; i < len; i++) ((unsigned char*)out)[i] = (unsigned char)i;
  return (ssize_t)len;
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  cuts_fuzz(&kit_parser, data, size);
  return 0;
}
