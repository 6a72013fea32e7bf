/* Whole workspaces as one tar file each: written in one go, and put back in one
 * step. Set-id bits, devices, sockets and extended attributes are left out;
 * modes, times, links of both kinds, holes and FIFOs are kept.
 *
 * Everything here is reached over directory descriptors and never outside the
 * root, whatever the tree or the archive holds.
 */
#ifndef SBX_ARCHIVE_H
#define SBX_ARCHIVE_H

#include "../files/files.h"

enum sbx_archive_verb {
  SBX_ARCHIVE_PACK = 1, /* the root's content -> fd */
  SBX_ARCHIVE_UNPACK,   /* fd -> the root, where none of the names may be */
  SBX_ARCHIVE_RESTORE   /* fd -> the root instead of all that is there; on a
                           failure that stays as it was */
};

/* Where a restore keeps both states, in the root; left there only when the
 * process is killed in the middle, or neither state can be reached. */
#define SBX_ARCHIVE_STAGE ".sandbox-sdk-restore"

/* One job, for a pool thread: it blocks. With the root's identity; `fd` is read
 * or written from its position on and stays the caller's. `bytes` is the
 * archive's size; `operation` is static text for errors. 0, or a negative code
 * with `error` filled. */
int sbx_archive_run(struct sbx_root* root, enum sbx_archive_verb verb, int fd,
                    const char* operation, uint64_t* bytes,
                    struct sbx_error* error);

/* Brings a folder into one of its two states after a restore that was killed.
 * 0 also if there is nothing to do, and for a stage that no restore has made,
 * which is left alone; else a negative errno. */
int sbx_archive_recover(int dir);

#endif
