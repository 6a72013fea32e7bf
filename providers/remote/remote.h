/* A sandbox at a cloud service: what all services have in common, over the
 * machines of one `struct sbx_service`. */
#ifndef SBX_REMOTE_H
#define SBX_REMOTE_H

#include "service.h"

/* For the provider's `open`. Of the options it reads "id" (the user's),
 * "session" (the same, or one of our own), "cwd" and "caFile" itself. */
int sbx_remote_open(uv_loop_t* loop, const struct sbx_service* service,
                    const struct sbx_provider* provider,
                    const struct sbx_options* options,
                    struct sbx_sandbox** out, struct sbx_error* error);

void sbx_remote_find(struct sbx_sandbox* s, sbx_found_cb cb, void* arg);
void sbx_remote_create(struct sbx_sandbox* s, sbx_done_cb cb, void* arg);
void sbx_remote_connect(struct sbx_sandbox* s, sbx_done_cb cb, void* arg);
void sbx_remote_stop(struct sbx_sandbox* s, sbx_done_cb cb, void* arg);
void sbx_remote_destroy(struct sbx_sandbox* s, sbx_done_cb cb, void* arg);
/* The machine stands still, with all that runs in it. */
void sbx_remote_pause(struct sbx_sandbox* s, sbx_done_cb cb, void* arg);
void sbx_remote_unpause(struct sbx_sandbox* s, sbx_done_cb cb, void* arg);
void sbx_remote_touch(struct sbx_sandbox* s);
void sbx_remote_close(struct sbx_sandbox* s, sbx_done_cb cb, void* arg);
int sbx_remote_file_try(struct sbx_sandbox* s, int scope,
                        const struct sbx_file_request* request,
                        struct sbx_file_result* result,
                        struct sbx_error* error);
int sbx_remote_file(struct sbx_sandbox* s, int scope,
                    const struct sbx_file_request* request, sbx_file_cb cb,
                    void* arg);
int sbx_remote_watch(struct sbx_sandbox* s, int scope, const char* path,
                     bool recursive, const struct sbx_watch_events* events,
                     struct sbx_watch** out, struct sbx_error* error);
void sbx_remote_unwatch(struct sbx_watch* w);
int sbx_remote_spawn(struct sbx_sandbox* s, const struct sbx_process_spec* spec,
                     const struct sbx_process_events* events,
                     struct sbx_process** out, struct sbx_error* error);
void sbx_remote_list(struct sbx_sandbox* s, sbx_listed_cb cb, void* arg);
int sbx_remote_attach(struct sbx_sandbox* s, uint32_t pid,
                      const struct sbx_process_spec* spec,
                      const struct sbx_process_events* events,
                      struct sbx_process** out, struct sbx_error* error);
int sbx_remote_use_layer(struct sbx_sandbox* s, const char* id);
int sbx_remote_set_secret(struct sbx_sandbox* s, const char* secret,
                          struct sbx_error* error);
bool sbx_remote_is_stale(struct sbx_sandbox* s);
int sbx_remote_snapshot(struct sbx_sandbox* s, enum sbx_snapshot_verb verb,
                        const char* store, const char* id, sbx_snapshot_cb cb,
                        void* arg, struct sbx_error* error);
void sbx_remote_expose(struct sbx_sandbox* s, unsigned port, sbx_exposed_cb cb,
                       void* arg);
void sbx_remote_network(struct sbx_sandbox* s, const char* const* hosts,
                        size_t count, sbx_done_cb cb, void* arg);
void sbx_remote_facts(struct sbx_sandbox* s, sbx_fact_cb cb, void* arg);
const struct sbx_capability* sbx_remote_capabilities(struct sbx_sandbox* s,
                                                     size_t* count);

/* The rest of a provider's table after its name and `open`. */
#define SBX_REMOTE_TABLE                                        \
  .find = sbx_remote_find, .create = sbx_remote_create,         \
  .connect = sbx_remote_connect, .stop = sbx_remote_stop,       \
  .resume = sbx_remote_connect, .destroy = sbx_remote_destroy,  \
  .pause = sbx_remote_pause, .unpause = sbx_remote_unpause,     \
  .touch = sbx_remote_touch, .close = sbx_remote_close,         \
  .use_layer = sbx_remote_use_layer,                            \
  .set_secret = sbx_remote_set_secret,                          \
  .is_stale = sbx_remote_is_stale,                              \
  .file_try = sbx_remote_file_try, .file = sbx_remote_file,     \
  .watch = sbx_remote_watch, .unwatch = sbx_remote_unwatch,     \
  .spawn = sbx_remote_spawn,                                    \
  .list = sbx_remote_list, .attach = sbx_remote_attach,         \
  .snapshot = sbx_remote_snapshot, .expose = sbx_remote_expose, \
  .request_network = sbx_remote_network,                        \
  .facts = sbx_remote_facts, .capabilities = sbx_remote_capabilities

#endif
