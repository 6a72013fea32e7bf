/* What the parts of the archive share. Functions return 0 or -errno and leave
 * the name that they failed on in `where`. */
#ifndef SBX_ARCHIVE_INTERNAL_H
#define SBX_ARCHIVE_INTERNAL_H

#include "../files/internal.h"

#include "archive.h"
#include "tar.h"

struct sbx__archive {
  struct sbx_root* root;
  int fd;         /* of the archive */
  uint64_t bytes; /* written so far */
  char where[SBX_TAR_PATH_MAX];
  const char* what;   /* why, if the errno does not say it; static */
  const char* remedy; /* if the errno does not say that; static */
};

void sbx__archive_at(struct sbx__archive* a, const char* path);

/* --- pack.c -------------------------------------------------------- */

int sbx__archive_pack(struct sbx__archive* a);

/* --- unpack.c ------------------------------------------------------ */

/* Into the open folder `top`, which is empty but for the stage of a restore. */
int sbx__archive_unpack(struct sbx__archive* a, int top);

/* --- restore.c ----------------------------------------------------- */

int sbx__archive_restore(struct sbx__archive* a);

#endif
