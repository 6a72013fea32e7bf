/* Watches of folders: a stream of the service, which ends with its error where
 * it breaks, for what happened meanwhile is not known. */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

struct sbx_watch {
  struct sbx__remote_work work; /* first */
  struct sbx_remote* remote;
  struct sbx_drive* drive;
  struct sbx_watch_events events;
  struct sbx_error error; /* that broke it */
};

static void let_go(struct sbx_watch* w) {
  sbx__remote_unlink(&w->work);
  sbx__remote_forget_probe(w->remote, w);
  if (w->drive != NULL) sbx_drive_close(w->drive);
  free(w);
}

/* The last touch. */
static void finish(struct sbx_watch* w, const struct sbx_error* error) {
  struct sbx_watch_events events = w->events;
  struct sbx_error copy = *error;

  let_go(w);
  events.on_end(events.data, &copy);
}

static void on_stop(struct sbx__remote_work* work,
                    const struct sbx_error* error) {
  struct sbx_watch* w = (struct sbx_watch*) work;

  if (error != NULL)
    finish(w, error);
  else
    let_go(w);
}

/* A relative path that stays in the folder; the sandbox may say anything. */
static bool stays(const char* name, size_t len) {
  const char* end = name + len;

  while (name < end) {
    const char* slash = memchr(name, '/', (size_t) (end - name));
    size_t part = (size_t) ((slash != NULL ? slash : end) - name);

    if (part == 0 || (name[0] == '.' && part == 1)) return false;
    if (part == 2 && name[0] == '.' && name[1] == '.') return false;
    if (slash == NULL) return true;
    name = slash + 1;
  }
  return false;
}

static void on_emit(void* data, int64_t what, const char* bytes, size_t len) {
  struct sbx_watch* w = data;

  if (what == SBX_EMIT_READY)
    w->events.on_ready(w->events.data);
  else if (what == SBX_EMIT_CHANGE && len > 1 && stays(bytes + 1, len - 1))
    w->events.on_change(w->events.data, (enum sbx_change) bytes[0], bytes + 1,
                        len - 1);
}

/* Where the machine is gone, that has ended the watch. */
static void on_probed(void* arg, enum sbx__remote_life life) {
  struct sbx_watch* w = arg;

  finish(w, life == SBX__REMOTE_DEAD && w->remote->error.code != 0
                ? &w->remote->error
                : &w->error);
}

static void paused_error(struct sbx_error* error) {
  sbx_error_set(error, SBX_E_ABORTED, 0, "files.watch",
                "The sandbox was paused: watch again after resume().");
}

static bool is_broken(const struct sbx_error* error) {
  return error->code == SBX_E_UNAVAILABLE || error->code == SBX_E_TIMEOUT;
}

static void on_done(void* data, const struct sbx_error* error) {
  struct sbx_watch* w = data;

  if (error != NULL)
    w->error = *error;
  else
    sbx_error_set(&w->error, SBX_E_PROVIDER, 0, "files.watch",
                  "%s ended the watch.", w->remote->service->title);
  sbx_drive_close(w->drive);
  w->drive = NULL;
  if (w->remote->paused) paused_error(&w->error);
  if (!w->remote->paused && is_broken(&w->error))
    sbx__remote_probe(w->remote, on_probed, w);
  else
    finish(w, &w->error);
}

static char* path_of(const struct sbx_remote* r, int scope, const char* path) {
  const char* root = scope == 0 ? r->root : "";
  size_t len = strlen(root);
  char* out = malloc(len + strlen(path) + 2);

  if (out == NULL) return NULL;
  memcpy(out, root, len);
  out[len] = '/';
  strcpy(out + len + 1, path);
  if (len > 0 && path[0] == '\0') out[len] = '\0';
  return out;
}

static int begin(struct sbx_watch* w, int scope, const char* path,
                 bool recursive, struct sbx_error* error) {
  struct sbx_remote* r = w->remote;
  struct sbx_drive_events events = {w, on_emit, on_done};
  char* absolute = path_of(r, scope, path);
  struct sbx_machine* machine = NULL;
  int rc;

  if (absolute != NULL)
    machine = r->service->watch(r->account, absolute, recursive);
  free(absolute);
  rc = sbx__remote_drive(r, machine, 0, &events, &w->drive, error);
  if (rc == 0) sbx__remote_use(r);
  return rc;
}

int sbx_remote_watch(struct sbx_sandbox* s, int scope, const char* path,
                     bool recursive, const struct sbx_watch_events* events,
                     struct sbx_watch** out, struct sbx_error* error) {
  struct sbx_remote* r = (struct sbx_remote*) s;
  int rc = sbx__remote_check(r, "files.watch", error);
  struct sbx_watch* w;

  *out = NULL;
  if (rc != 0) return rc;
  if (r->service->watch == NULL)
    return sbx_error_set(error, SBX_E_UNSUPPORTED, 0, "files.watch",
                         "%s watches no folders.", r->service->title);
  w = calloc(1, sizeof(*w));
  if (w == NULL) return sbx__remote_no_memory(error, "files.watch");
  w->work.stop = on_stop;
  w->remote = r;
  w->events = *events;
  sbx__remote_link(r, &w->work);
  rc = begin(w, scope, path, recursive, error);
  if (rc == 0) *out = w;
  else let_go(w);
  return rc;
}

void sbx_remote_unwatch(struct sbx_watch* w) {
  let_go(w);
}

static struct sbx__remote_work* next_of(const struct sbx_remote* r) {
  struct sbx__remote_work* w = r->works;

  while (w != NULL && w->stop != on_stop) w = w->next;
  return w;
}

void sbx__remote_end_watches(struct sbx_remote* r,
                             const struct sbx_error* error) {
  struct sbx__remote_work* w;

  while ((w = next_of(r)) != NULL) w->stop(w, error);
}

void sbx__remote_pause_watches(struct sbx_remote* r) {
  struct sbx_error error;

  paused_error(&error);
  sbx__remote_end_watches(r, &error);
}
