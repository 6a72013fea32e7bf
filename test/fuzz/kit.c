// sources: providers/kit/kit.c providers/kit/answer.c providers/kit/command.c providers/kit/job.c providers/kit/list.c providers/kit/run.c providers/kit/scripts.c native/files/files.c native/files/copy.c native/files/folder.c native/files/gather.c native/files/list.c native/files/literal.c native/files/move.c native/files/read.c native/files/write.c native/files/listing.c native/files/tree.c native/files/resolve.c native/files/replace.c native/files/root.c native/files/stat.c native/remove.c native/utf8.c native/parse/base64.c native/error.c native/files/cached.c
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
