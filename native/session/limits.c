/* Puts limits into words. */
#include "limits.h"

#include <stdio.h>
#include <string.h>

#include "../launcher/protocol.h"

const char* sbx_bytes_text(uint64_t bytes, char out[SBX_BYTES_TEXT_MAX]) {
  static const char* const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  double value = (double) bytes;
  size_t unit = 0;
  char* end;

  while (value >= 1024 && unit < 4) {
    value /= 1024;
    unit++;
  }
  snprintf(out, SBX_BYTES_TEXT_MAX, "%.1f", value);
  end = out + strlen(out);
  if (strcmp(end - 2, ".0") == 0) end -= 2;
  snprintf(end, (size_t) (out + SBX_BYTES_TEXT_MAX - end), " %s", units[unit]);
  return out;
}

const char* sbx_limit_reason(uint32_t limit, uint64_t value,
                             char out[SBX_REASON_MAX]) {
  char bytes[SBX_BYTES_TEXT_MAX];

  sbx_bytes_text(value, bytes);
  switch (limit) {
    case SBX_LIMIT_MEMORY:
      snprintf(out, SBX_REASON_MAX,
               "killed: the sandbox used more than its memory limit of %s "
               "(limits.memory)",
               bytes);
      return out;
    case SBX_LIMIT_WORKSPACE:
      snprintf(out, SBX_REASON_MAX,
               "killed: the workspace grew beyond its limit of %s "
               "(limits.workspaceSize)",
               bytes);
      return out;
    case SBX_LIMIT_FILE_SIZE:
      snprintf(out, SBX_REASON_MAX,
               "a file reached the limit of %s for one file "
               "(limits.fileSize)",
               bytes);
      return out;
    case SBX_LIMIT_PROCESSES:
      snprintf(out, SBX_REASON_MAX,
               "the sandbox reached its limit of %llu processes "
               "(limits.processes)",
               (unsigned long long) value);
      return out;
    default:
      return NULL;
  }
}
