/* The Local provider: one launcher session on this machine, with the folder it
 * works in. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* The host's name of the workspace is told where it is the user's own, or the
 * only one that commands know. */
void sbx__local_place(struct sbx__local* l) {
  l->base.place.inside = l->options.cwd;
  l->base.place.host = l->root_workspace;
  if (l->options.kind == SBX_LOCAL_DIRECTORY)
    l->base.place.host = l->options.directory;
  else if (l->options.level == SBX_LEVEL_NONE && l->folder.workspace != NULL)
    l->base.place.host = l->folder.workspace;
  if (l->level == SBX_LEVEL_LANDLOCK && l->folder.workspace != NULL) {
    l->base.place.inside = l->folder.workspace;
    l->base.place.host = l->options.cwd;
  }
}

int sbx__local_not_started(const struct sbx__local* l, const char* operation,
                           struct sbx_error* error) {
  if (l->lost)
    return sbx_error_set(error, SBX_E_UNAVAILABLE, 0, operation, "%s",
                         l->error.message);
  return sbx_error_set(error, SBX_E_UNAVAILABLE, 0, operation,
                       "The sandbox is not started.");
}

void sbx__local_free(struct sbx__local* l) {
  l->over = true;
  if (l->finding > 0) return;
  sbx_local_folder_release(&l->folder);
  sbx_local_network_clear(&l->network);
  sbx_view_free(&l->view);
  sbx_local_options_clear(&l->options);
  free(l->root_workspace);
  free(l->snapshots);
  free(l->layer);
  free(l->protected);
  free(l->existing);
  free(l);
}

static int name_folders(struct sbx__local* l, struct sbx_error* error) {
  if (l->options.kind != SBX_LOCAL_ROOT) return 0;
  if (asprintf(&l->root_workspace, "%s/workspace", l->options.folder) < 0)
    l->root_workspace = NULL;
  if (asprintf(&l->snapshots, "%s/.snapshots", l->options.root) < 0)
    l->snapshots = NULL;
  if (l->root_workspace != NULL && l->snapshots != NULL) return 0;
  return sbx_error_set(error, SBX_E_INTERNAL, ENOMEM, "open",
                       "Out of memory.");
}

static int local_open(uv_loop_t* loop, const struct sbx_options* options,
                      struct sbx_sandbox** out, struct sbx_error* error) {
  struct sbx__local* l = calloc(1, sizeof(*l));
  int err;

  *out = NULL;
  if (l == NULL)
    return sbx_error_set(error, SBX_E_INTERNAL, ENOMEM, "open",
                         "Out of memory.");
  err = sbx_local_options_read(options, &l->options, error);
  if (err != 0) {
    free(l);
    return err;
  }
  l->base.provider = &sbx_provider_local;
  l->base.loop = loop;
  l->level = l->options.level;
  l->ready.workspace_fd = l->ready.root_fd = -1;
  sbx_local_folder_init(&l->folder);
  err = sbx__local_open_network(l, error);
  if (err != 0) {
    sbx__local_free(l);
    return err;
  }
  err = name_folders(l, error);
  if (err != 0) {
    sbx__local_free(l);
    return err;
  }
  sbx__local_place(l);
  *out = &l->base;
  return 0;
}

struct finding {
  uv_work_t work;
  struct sbx__local* local;
  sbx_found_cb cb;
  void* arg;
  bool found;
};

static void find(uv_work_t* work) {
  struct finding* f = work->data;

  f->found = sbx_local_folder_exists(&f->local->options);
}

static void on_found(uv_work_t* work, int status) {
  struct finding* f = work->data;
  struct sbx__local* l = f->local;

  (void) status;
  l->finding--;
  f->cb(f->arg, NULL, f->found);
  free(f);
  if (l->over && l->finding == 0) sbx__local_free(l);
}

static void local_find(struct sbx_sandbox* s, sbx_found_cb cb, void* arg) {
  struct sbx__local* l = (struct sbx__local*) s;
  bool runs = l->state == SBX__LOCAL_RUNNING;
  struct finding* f = NULL;

  if (!runs && l->options.kind != SBX_LOCAL_TEMPORARY)
    f = calloc(1, sizeof(*f));
  if (f == NULL) {
    sbx__local_answer_found(l, cb, arg, runs);
    return;
  }
  f->local = l;
  f->cb = cb;
  f->arg = arg;
  f->work.data = f;
  l->finding++;
  uv_queue_work(l->base.loop, &f->work, find, on_found);
}

static void local_touch(struct sbx_sandbox* s) {
  (void) s;
}

/* The same folder under its other name: commands know only one of them. */
static char* map_cwd(const struct sbx__local* l, const char* cwd) {
  const char* inside = l->base.place.inside;
  const char* from = l->base.place.host;
  const char* to = inside;
  char* out;

  if (l->options.level == SBX_LEVEL_NONE) {
    from = inside;
    to = l->folder.workspace;
  } else if (from != NULL && sbx_view_below(inside, cwd)) {
    from = NULL;
  }
  if (from == NULL || !sbx_view_below(from, cwd)) return strdup(cwd);
  if (asprintf(&out, "%s%s", to, cwd + strlen(from)) < 0) return NULL;
  return out;
}

static int local_spawn(struct sbx_sandbox* s,
                       const struct sbx_process_spec* spec,
                       const struct sbx_process_events* events,
                       struct sbx_process** out, struct sbx_error* error) {
  struct sbx__local* l = (struct sbx__local*) s;
  struct sbx_process_spec mapped = *spec;
  char* cwd;
  int err;

  *out = NULL;
  mapped.output_rate = l->options.limits.output_rate;
  if (l->state != SBX__LOCAL_RUNNING)
    return sbx__local_not_started(l, "processes.start", error);
  if (spec->cwd == NULL)
    return sbx_process_spawn(l->session, &mapped, events, out, error);
  cwd = map_cwd(l, spec->cwd);
  if (cwd == NULL)
    return sbx_error_set(error, SBX_E_INTERNAL, ENOMEM, "processes.start",
                         "Out of memory.");
  mapped.cwd = cwd;
  err = sbx_process_spawn(l->session, &mapped, events, out, error);
  free(cwd);
  return err;
}

static int local_use_layer(struct sbx_sandbox* s, const char* path) {
  struct sbx__local* l = (struct sbx__local*) s;
  char* copy = path == NULL ? NULL : strdup(path);

  if (l->state != SBX__LOCAL_IDLE) {
    free(copy);
    return -EBUSY; /* a worker may be reading it */
  }
  free(l->layer);
  l->layer = copy;
  return path != NULL && copy == NULL ? -ENOMEM : 0;
}

const struct sbx_provider sbx_provider_local = {
    .name = "local",
    .open = local_open,
    .find = local_find,
    .create = sbx__local_start,
    .connect = sbx__local_start,
    .stop = sbx__local_stop,
    .resume = sbx__local_start,
    .destroy = sbx__local_destroy,
    .touch = local_touch,
    .pause = sbx__local_pause,
    .unpause = sbx__local_unpause,
    .close = sbx__local_close,
    .file_try = sbx__local_file_try,
    .file = sbx__local_file,
    .spawn = local_spawn,
    .snapshot = sbx__local_snapshot,
    .use_layer = local_use_layer,
    .expose = sbx__local_expose,
    .unexpose = sbx__local_unexpose,
    .set_network = sbx__local_set_network,
    .watch_network = sbx__local_watch_network,
    .facts = sbx__local_facts,
    .capabilities = sbx__local_capabilities,
};
