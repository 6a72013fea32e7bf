// sources: providers/kit.c providers/kit_answer.c providers/kit_command.c providers/kit_job.c providers/kit_list.c providers/kit_run.c providers/kit_scripts.c native/files.c native/file_copy.c native/file_folder.c native/file_gather.c native/file_list.c native/file_move.c native/file_read.c native/file_write.c native/listing.c native/tree.c native/resolve.c native/replace.c native/root.c native/stat.c native/remove.c native/utf8.c native/base64.c native/error.c native/file_cached.c
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
