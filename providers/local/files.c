/* The files of a Local sandbox: its folders, and which of them a request
 * means. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../../native/archive/changes.h"
#include "confined.h"
#include "internal.h"
#include "protect.h"

void sbx__local_drop_roots(struct sbx__local* l) {
  for (int i = 0; i < 3; i++) {
    if (l->roots[i] == NULL) continue;
    if (l->base.abandoned) sbx_root_abandon(l->roots[i]);
    sbx_root_unref(l->roots[i]);
    l->roots[i] = NULL;
  }
}

static int64_t file_id(const struct sbx__local* l, uint32_t owner) {
  const struct sbx_local_folder* f = &l->folder;

  if (l->level == SBX_LEVEL_LANDLOCK)
    return f->run_uid < 0 ? -1 : (int64_t) owner;
  if (f->base < 0) return -1;
  if (!f->idmap || (l->ready.flags & SBX_READY_IDMAPPED) != 0)
    return f->base + SBX_LOCAL_INNER_ID;
  return owner == 0 ? -1 : (int64_t) owner;
}

/* At level landlock the second one is HOME and TMPDIR: "/" is the machine's. */
static const char* second_root(const struct sbx__local* l) {
  return l->level == SBX_LEVEL_LANDLOCK ? l->folder.scratch : "/";
}

static int open_root(struct sbx__local* l, int scope, int fd,
                     const char* inside) {
  struct sbx_root_spec spec = {
      .fd = fd,
      .inside = inside,
      .fsuid = file_id(l, l->folder.owner_uid),
      .fsgid = file_id(l, l->folder.owner_gid),
  };

  if (fd < 0) return -1;
  if (sbx_root_new(&spec, &l->roots[scope]) == 0) return 0;
  l->roots[scope] = NULL;
  close(fd);
  return -1;
}

/* Without it changes() fails, and nothing else. */
static void open_template(struct sbx__local* l) {
  struct sbx_root_spec spec = {.inside = "/", .fsuid = -1, .fsgid = -1};

  if ((l->ready.flags & SBX_READY_OVERLAY) == 0 || l->layer == NULL) return;
  spec.fd = open(l->layer, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (spec.fd < 0 || sbx_root_new(&spec, &l->roots[2]) == 0) return;
  l->roots[2] = NULL;
  close(spec.fd);
}

int sbx__local_open_roots(struct sbx__local* l) {
  int workspace = l->ready.workspace_fd;
  int root = l->ready.root_fd;
  int err;

  l->ready.workspace_fd = l->ready.root_fd = -1;
  open_template(l);
  err = open_root(l, 0, workspace, l->base.place.inside);
  return open_root(l, 1, root, second_root(l)) != 0 ? -1 : err;
}

static struct sbx_root* root_of(const struct sbx__local* l, int scope) {
  return scope < 0 || scope > 2 ? NULL : l->roots[scope];
}

/* The template is read and nothing else. */
static bool may(int scope, enum sbx_file_verb verb) {
  return scope != 2 || verb == SBX_FILE_READ || verb == SBX_FILE_STAT;
}

static int request_changes(struct sbx__local* l, sbx_file_cb cb, void* arg) {
  struct sbx_changes_spec spec;
  char* upper;

  if (l->roots[2] == NULL || l->folder.workspace == NULL ||
      asprintf(&upper, "%s/upper", l->folder.workspace) < 0)
    return SBX_E_UNSUPPORTED;
  spec.base = open(l->layer, O_PATH | O_DIRECTORY | O_CLOEXEC);
  spec.upper = open(upper, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  free(upper);
  if (spec.base >= 0 && spec.upper >= 0)
    return sbx_changes_request(l->base.loop, &spec, cb, arg);
  if (spec.base >= 0) close(spec.base);
  if (spec.upper >= 0) close(spec.upper);
  return SBX_E_UNAVAILABLE;
}

static int no_such_place(struct sbx_error* error) {
  return sbx_error_set(error, SBX_E_ACCESS, 0, "files",
                       "At level \"landlock\" only the workspace, $HOME and "
                       "$TMPDIR can be reached: the rest is this machine's "
                       "own.");
}

/* At level landlock "/" is the machine, which is not the sandbox's. Negative:
 * `error` is set. Else the root's number. */
static int route(const struct sbx__local* l, int scope,
                 struct sbx_file_request* request, struct sbx_error* error) {
  const char* rest;
  int to;

  if (scope != 1 || l->level != SBX_LEVEL_LANDLOCK) return scope;
  scope = sbx_confined_route(&l->folder, l->options.cwd, request->path, &rest);
  if (scope < 0) return no_such_place(error);
  request->path = rest;
  if (request->to == NULL || request->verb == SBX_FILE_GATHER) return scope;
  to = sbx_confined_route(&l->folder, l->options.cwd, request->to, &rest);
  if (to != scope) return no_such_place(error);
  request->to = rest;
  return scope;
}

int sbx__local_file_try(struct sbx_sandbox* s, int scope,
                        const struct sbx_file_request* request,
                        struct sbx_file_result* result,
                        struct sbx_error* error) {
  struct sbx__local* l = (struct sbx__local*) s;
  struct sbx_file_request routed = *request;

  if (root_of(l, scope) == NULL)
    return sbx__local_not_started(l, "files", error);
  scope = route(l, scope, &routed, error);
  if (scope < 0) return scope;
  if (scope == 0) {
    int rc = sbx_local_protect_check(&l->options, l->repository, &routed,
                                     error);

    if (rc != 0) return rc;
  }
  return sbx_files_try(l->base.loop, root_of(l, scope), &routed, result, error);
}

/* Every request has been through file_try before. */
int sbx__local_file(struct sbx_sandbox* s, int scope,
                    const struct sbx_file_request* request, sbx_file_cb cb,
                    void* arg) {
  struct sbx__local* l = (struct sbx__local*) s;
  struct sbx_file_request routed = *request;

  if (root_of(l, scope) == NULL) return SBX_E_UNAVAILABLE;
  if (!may(scope, request->verb)) return SBX_E_UNSUPPORTED;
  if (request->verb == SBX_FILE_CHANGES) return request_changes(l, cb, arg);
  scope = route(l, scope, &routed, NULL);
  if (scope < 0) return scope;
  return sbx_files_request(l->base.loop, root_of(l, scope), &routed, cb, arg);
}
