/* Snapshots of a Local sandbox: which folder they are of, and what a restore
 * waits for. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "internal.h"
#include "snapshot.h"

/* A restore waits for the end of every process. */
struct restoring {
  struct sbx__local* local;
  struct sbx_local_snapshot spec;
  char* store;
  char* id;
};

static void restoring_free(struct restoring* r) {
  sbx_root_unref(r->spec.root);
  free(r->store);
  free(r->id);
  free(r);
}

static void on_quiet(void* arg) {
  struct restoring* r = arg;
  struct sbx_error error;

  if (sbx_local_snapshot_request(r->local->base.loop, &r->spec, &error) != 0)
    r->spec.cb(r->spec.arg, &error, NULL, 0);
  restoring_free(r);
}

static int restore(struct sbx__local* l, const struct sbx_local_snapshot* spec,
                   struct sbx_error* error) {
  int rc = sbx_local_snapshot_check(spec, error);
  struct restoring* r;

  if (rc != 0) return rc;
  r = calloc(1, sizeof(*r));
  if (r != NULL) {
    *r = (struct restoring){.local = l, .spec = *spec,
                            .store = strdup(spec->store),
                            .id = strdup(spec->id)};
    sbx_root_ref(r->spec.root);
    r->spec.store = r->store;
    r->spec.id = r->id;
  }
  if (r == NULL || r->store == NULL || r->id == NULL) {
    if (r != NULL) restoring_free(r);
    return sbx_error_set(error, SBX_E_INTERNAL, ENOMEM, "snapshots.restore",
                         "Out of memory.");
  }
  sbx_session_end_all(l->session, 0, on_quiet, r);
  return 0;
}

/* With protected parts mounted in it, a directory can only be exchanged while
 * no session has it. */
static int open_idle(struct sbx__local* l, struct sbx_root** out,
                     struct sbx_error* error) {
  struct sbx_root_spec spec = {.inside = "/", .fsuid = -1, .fsgid = -1};
  char words[SBX_SYS_TEXT_MAX];
  struct statx st;
  int sys = ENOMEM;

  spec.fd = open(l->options.directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (spec.fd < 0) sys = errno;
  if (spec.fd >= 0 && geteuid() == 0 &&
      statx(spec.fd, "", AT_EMPTY_PATH, STATX_UID | STATX_GID, &st) == 0 &&
      st.stx_uid != 0) {
    spec.fsuid = st.stx_uid;
    spec.fsgid = st.stx_gid;
  }
  if (spec.fd >= 0 && sbx_root_new(&spec, out) == 0) return 0;
  if (spec.fd >= 0) close(spec.fd);
  return sbx_error_set(error, SBX_E_UNAVAILABLE, sys, "snapshots.restore",
                       "The directory \"%.300s\" cannot be opened: %s.",
                       l->options.directory, sbx_sys_text(sys, words));
}

int sbx__local_snapshot(struct sbx_sandbox* s, enum sbx_snapshot_verb verb,
                        const char* store, const char* id,
                        sbx_snapshot_cb cb, void* arg,
                        struct sbx_error* error) {
  struct sbx__local* l = (struct sbx__local*) s;
  bool idle = verb == SBX_SNAPSHOT_RESTORE && l->state == SBX__LOCAL_IDLE &&
              l->options.kind == SBX_LOCAL_DIRECTORY;
  struct sbx_local_snapshot spec = {
      .verb = verb,
      .root = l->roots[0],
      .store = store[0] == '\0' ? l->snapshots : store,
      .id = id,
      .cb = cb,
      .arg = arg};
  int rc;

  if (verb == SBX_SNAPSHOT_RESTORE && l->state == SBX__LOCAL_RUNNING)
    return restore(l, &spec, error);
  rc = idle ? open_idle(l, &spec.root, error) : 0;
  if (rc != 0) return rc;
  rc = sbx_local_snapshot_request(l->base.loop, &spec, error);
  if (idle) sbx_root_unref(spec.root);
  return rc;
}
