/* Being written. */
#include "files_internal.h"

int sbx__file_copy(struct sbx__job* job) {
  return sbx_error_set(job->error, SBX_E_UNSUPPORTED, 0, "files.copy",
                       "Not built yet.");
}
