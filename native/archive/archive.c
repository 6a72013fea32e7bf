/* Archive jobs: from the loop to a pool thread and back, and what went wrong. */
#include "internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

void sbx__archive_at(struct sbx__archive* a, const char* path) {
  snprintf(a->where, sizeof(a->where), "%s", path);
}

static int run(struct sbx__archive* a, enum sbx_archive_verb verb) {
  switch (verb) {
    case SBX_ARCHIVE_PACK: return sbx__archive_pack(a);
    case SBX_ARCHIVE_UNPACK: return sbx__archive_unpack(a, a->root->fd);
    case SBX_ARCHIVE_RESTORE: return sbx__archive_restore(a);
  }
  return -EINVAL;
}

static const char* remedy(int rc) {
  switch (-rc) {
    case ENOSPC:
    case EDQUOT: return "free some space and try again";
    case EACCES:
    case EPERM: return "it belongs to somebody else: change its owner or mode";
    case ENAMETOOLONG: return "its path is longer than an archive can hold; "
                              "remove or rename it";
    case EBUSY: return "it is mounted there (the protect option of local() "
                       "does that); it cannot be replaced";
    default: return "nothing was changed";
  }
}

static int fail(const struct sbx__archive* a, int rc, const char* operation,
                struct sbx_error* error) {
  char words[SBX_SYS_TEXT_MAX];
  int code = rc == -EACCES || rc == -EPERM ? SBX_E_ACCESS : SBX_E_IO;
  return sbx_error_set(error, code, -rc, operation, "/%.300s: %s; %s.",
                       a->where, a->what ? a->what : sbx_sys_text(-rc, words),
                       a->remedy ? a->remedy : remedy(rc));
}

int sbx_archive_run(struct sbx_root* root, enum sbx_archive_verb verb, int fd,
                    const char* operation, uint64_t* bytes,
                    struct sbx_error* error) {
  struct sbx__archive a = {.root = root, .fd = fd};
  struct sbx__identity old;
  int rc = sbx__identity_take(root, &old);
  if (rc == 0) {
    rc = run(&a, verb);
    sbx__identity_restore(&old);
  }
  *bytes = a.bytes;
  return rc < 0 ? fail(&a, rc, operation, error) : 0;
}
