/* Archive jobs: from the loop to a pool thread and back, and what went wrong. */
#include "archive_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
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
                       remedy(rc));
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

struct queued {
  uv_work_t work;
  struct sbx_root* root;
  enum sbx_archive_verb verb;
  int fd;
  const char* operation;
  uint64_t bytes;
  struct sbx_error error;
  int code;
  sbx_archive_cb cb;
  void* arg;
};

static void on_work(uv_work_t* work) {
  struct queued* q = work->data;
  q->code = sbx_archive_run(q->root, q->verb, q->fd, q->operation, &q->bytes,
                            &q->error);
}

static void on_worked(uv_work_t* work, int status) {
  struct queued* q = work->data;
  if (status < 0)
    q->code = sbx_error_set(&q->error, SBX_E_ABORTED, 0, q->operation,
                            "The call was cancelled before it started.");
  q->cb(q->arg, q->code < 0 ? &q->error : NULL, q->bytes);
  sbx_root_unref(q->root);
  free(q);
}

int sbx_archive_request(uv_loop_t* loop, struct sbx_root* root,
                        enum sbx_archive_verb verb, int fd,
                        const char* operation, sbx_archive_cb cb, void* arg) {
  struct queued* q = calloc(1, sizeof(*q));
  if (!q) return SBX_E_INTERNAL;
  *q = (struct queued){.root = root, .verb = verb, .fd = fd,
                       .operation = operation, .cb = cb, .arg = arg};
  q->work.data = q;
  if (uv_queue_work(loop, &q->work, on_work, on_worked) < 0) {
    free(q);
    return SBX_E_INTERNAL;
  }
  sbx__root_ref(root);
  return 0;
}
