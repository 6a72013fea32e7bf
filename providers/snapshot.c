/* What snapshot verbs are called in errors. */
#include "provider.h"

const char* sbx_snapshot_operation(enum sbx_snapshot_verb verb) {
  switch (verb) {
    case SBX_SNAPSHOT_CREATE: return "snapshots.create";
    case SBX_SNAPSHOT_RESTORE: return "snapshots.restore";
    case SBX_SNAPSHOT_DELETE: return "snapshots.delete";
    case SBX_SNAPSHOT_LIST: return "snapshots.list";
    case SBX_SNAPSHOT_SEED:
    case SBX_SNAPSHOT_LAYER: break;
  }
  return "template";
}
