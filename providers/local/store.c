/* A private folder of one provider instance, for snapshots and templates that
 * are to go with this process: kept by a launcher's monitor, which removes it
 * whatever becomes of us. A sandbox object like others, but nothing runs in it.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../native/session/config.h"
#include "../../native/remove.h"
#include "../../native/session/session.h"
#include "snapshot.h"
#include "../provider.h"

struct store {
  struct sbx_sandbox base;
  char* folder; /* made and removed by the monitor */
  char* path;   /* in it, for us */
  struct sbx_session* session;
  bool lost; /* the monitor was killed: the folder is ours to remove */
  sbx_done_cb cb;
  void* arg;
};

static void store_free(struct store* s) {
  free(s->folder);
  free(s->path);
  free(s);
}

static int name_folder(struct store* s, const char* tmpdir) {
  uint64_t n = 0;

  if (uv_random(NULL, NULL, &n, sizeof(n), 0, NULL) != 0) n = uv_hrtime();
  if (asprintf(&s->folder, "%s/sandbox-sdk-store-%012llx", tmpdir,
               (unsigned long long) (n >> 16)) < 0)
    s->folder = NULL;
  if (s->folder == NULL) return -1;
  if (asprintf(&s->path, "%s/store", s->folder) < 0) s->path = NULL;
  return s->path == NULL ? -1 : 0;
}

static int store_open(uv_loop_t* loop, const struct sbx_options* options,
                      struct sbx_sandbox** out, struct sbx_error* error) {
  const char* tmpdir = sbx_options_string(options, "host.tmpdir");
  struct store* s = calloc(1, sizeof(*s));

  *out = NULL;
  if (s == NULL || name_folder(s, tmpdir == NULL ? "/tmp" : tmpdir) != 0) {
    if (s != NULL) store_free(s);
    return sbx_error_set(error, SBX_E_INTERNAL, ENOMEM, "open",
                         "Out of memory.");
  }
  s->base.provider = &sbx_provider_local_store;
  s->base.loop = loop;
  s->base.place.inside = s->path;
  *out = &s->base;
  return 0;
}

static void done(struct store* s, const struct sbx_error* error) {
  sbx_done_cb cb = s->cb;

  s->cb = NULL;
  if (cb != NULL) cb(s->arg, error);
}

static void on_ready(void* data, const struct sbx_error* error,
                     const struct sbx_session_ready* ready) {
  if (error == NULL) {
    if (ready->workspace_fd >= 0) close(ready->workspace_fd);
    if (ready->root_fd >= 0) close(ready->root_fd);
  }
  done(data, error);
}

/* What is kept stays in use; nobody but us can remove it now. */
static void on_lost(void* data, const struct sbx_error* error) {
  (void) error;
  ((struct store*) data)->lost = true;
}

static void store_create(struct sbx_sandbox* sandbox, sbx_done_cb cb,
                         void* arg) {
  struct store* s = (struct store*) sandbox;
  struct sbx_session_events events = {s, on_ready, on_lost};
  struct sbx_config* config = NULL;
  struct sbx_error error;
  int rc = sbx_config_new(&config);

  s->cb = cb;
  s->arg = arg;
  if (rc == 0) {
    sbx_config_add_text(config, SBX_CONFIG_WORKSPACE, s->path);
    sbx_config_add_text(config, SBX_CONFIG_MOUNTPOINT, "/store");
    sbx_config_add_number(config, SBX_CONFIG_LEVEL, SBX_LEVEL_NONE);
    sbx_config_add_text(config, SBX_CONFIG_REMOVE, s->folder);
    sbx_config_add_number(config, SBX_CONFIG_MAKE, 1);
    rc = sbx_session_start(s->base.loop, config, &events, &s->session, &error);
  } else {
    sbx_error_set(&error, SBX_E_INTERNAL, ENOMEM, "start", "Out of memory.");
  }
  sbx_config_free(config);
  if (rc != 0) done(s, &error);
}

struct closing {
  uv_work_t work;
  struct store* store;
  sbx_done_cb cb;
  void* arg;
};

static void finish(struct closing* c) {
  store_free(c->store);
  c->cb(c->arg, NULL);
  free(c);
}

static void remove_folder(uv_work_t* work) {
  const char* path = ((struct closing*) work->data)->store->folder;
  const char* name = strrchr(path, '/') + 1;
  char* parent = strndup(path, (size_t) (name - path));
  int fd = parent == NULL ? -1
                          : open(parent, O_PATH | O_DIRECTORY | O_CLOEXEC);

  if (fd >= 0) sbx_remove_tree(fd, name);
  if (fd >= 0) close(fd);
  free(parent);
}

static void on_removed(uv_work_t* work, int status) {
  (void) status;
  finish(work->data);
}

static void on_closed(void* data) {
  struct closing* c = data;

  c->work.data = c;
  if (!c->store->lost || uv_queue_work(c->store->base.loop, &c->work,
                                       remove_folder, on_removed) != 0)
    finish(c);
}

static void store_close(struct sbx_sandbox* sandbox, sbx_done_cb cb,
                        void* arg) {
  struct store* s = (struct store*) sandbox;
  struct closing* c = malloc(sizeof(*c));
  struct sbx_error aborted;

  sbx_error_set(&aborted, SBX_E_ABORTED, 0, "start", "It was closed.");
  done(s, &aborted);
  if (s->session == NULL || c == NULL) {
    free(c);
    store_free(s);
    cb(arg, NULL);
    return;
  }
  *c = (struct closing){.store = s, .cb = cb, .arg = arg};
  sbx_session_close(s->session, on_closed, c);
}

static int store_snapshot(struct sbx_sandbox* sandbox,
                          enum sbx_snapshot_verb verb, const char* store,
                          const char* id, sbx_snapshot_cb cb, void* arg,
                          struct sbx_error* error) {
  struct store* s = (struct store*) sandbox;
  struct sbx_local_snapshot spec = {
      .verb = verb, .store = s->path, .id = id, .cb = cb, .arg = arg};

  (void) store;
  return sbx_local_snapshot_request(s->base.loop, &spec, error);
}

static void store_facts(struct sbx_sandbox* sandbox, sbx_fact_cb cb,
                        void* arg) {
  cb(arg, "path", ((struct store*) sandbox)->path);
}

static const struct sbx_capability* store_capabilities(
    struct sbx_sandbox* sandbox, size_t* count) {
  (void) sandbox;
  *count = 0;
  return NULL;
}

const struct sbx_provider sbx_provider_local_store = {
    .name = "local-store",
    .open = store_open,
    .create = store_create,
    .close = store_close,
    .snapshot = store_snapshot,
    .facts = store_facts,
    .capabilities = store_capabilities,
};
