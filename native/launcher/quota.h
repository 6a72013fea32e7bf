/* How much a folder takes on disk, found out in the background. */
#ifndef SBX_LAUNCHER_QUOTA_H
#define SBX_LAUNCHER_QUOTA_H

#include <stdbool.h>
#include <stdint.h>

struct sbx_quota;

/* `folder` is taken over. NULL: no memory. */
struct sbx_quota* sbx_quota_new(int folder, uint64_t limit);
void sbx_quota_free(struct sbx_quota* quota);

/* ms until the next step. */
int sbx_quota_wait(const struct sbx_quota* quota);

/* A piece of the work, some milliseconds at most. True: the folder is above the
 * limit and has grown since this was last said. */
bool sbx_quota_step(struct sbx_quota* quota);

/* Bytes, as of the last whole look. */
uint64_t sbx_quota_used(const struct sbx_quota* quota);

#endif
