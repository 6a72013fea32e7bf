/* Snapshots of Local: one archive file each, in a private folder. */
#ifndef SBX_LOCAL_SNAPSHOT_H
#define SBX_LOCAL_SNAPSHOT_H

#include "../provider.h"

struct sbx_local_snapshot {
  enum sbx_snapshot_verb verb;
  struct sbx_root* root; /* of the workspace, where the verb needs it */
  const char* store;     /* absolute; made by CREATE if it is missing */
  const char* id;
  sbx_snapshot_cb cb;
  void* arg;
};

/* Whether the request can be meant; sbx_local_snapshot_request asks it, too. */
int sbx_local_snapshot_check(const struct sbx_local_snapshot* spec,
                             struct sbx_error* error);

/* Queues the verb on the thread pool; everything in `spec` is copied. */
int sbx_local_snapshot_request(uv_loop_t* loop,
                               const struct sbx_local_snapshot* spec,
                               struct sbx_error* error);

#endif
