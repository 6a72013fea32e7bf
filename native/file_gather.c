/* Being written. */
#include "files_internal.h"

int sbx__file_gather(struct sbx__job* job) {
  return sbx_error_set(job->error, SBX_E_UNSUPPORTED, 0, "files.gather",
                       "Not built yet.");
}
