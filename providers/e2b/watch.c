/* What happens in a folder of the sandbox, as a stream of envd tells it. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../../native/parse/envelope.h"
#include "e2b.h"

enum { STREAM = 1 };

static const char operation[] = "files.watch";

struct watch {
  struct sbx_machine machine; /* first */
  struct sbx_e2b* e;
  struct sbx_request request;
  struct sbx_envelope_reader reader;
  struct sbx_answer refusal;
  struct sbx_text change;
  struct sbx_error error;
  bool ready, done;

  sbx_act_cb act; /* during a step */
  void* arg;
};

static void emit(struct watch* w, int64_t what, const void* bytes,
                 size_t len) {
  struct sbx_action action = {.type = SBX_ACTION_EMIT, .exchange = STREAM,
                              .number = what, .bytes = bytes, .len = len};

  w->act(w->arg, &action);
}

static int fail(struct watch* w, const struct sbx_error* error) {
  struct sbx_error clean = *error;
  struct sbx_action action = {.type = SBX_ACTION_DONE, .error = &clean};

  if (w->done) return 0;
  w->done = true;
  sbx_answer_scrub(&w->e->words, &clean);
  w->act(w->arg, &action);
  return 0;
}

/* ---- what the stream says ---- */

/* 0: one that did not exist when this was written. */
static char change_of(const char* type) {
  static const char* const names[] = {"CREATE", "WRITE", "REMOVE", "RENAME",
                                      "CHMOD"};
  static const char before[] = "EVENT_TYPE_";

  if (strncmp(type, before, sizeof(before) - 1) != 0) return 0;
  for (int i = 0; i < 5; i++)
    if (strcmp(type + sizeof(before) - 1, names[i]) == 0)
      return (char) (SBX_CHANGE_CREATE + i);
  return 0;
}

static int on_change(struct watch* w, struct sbx_json_node event,
                     struct sbx_error* error) {
  const char *type = "", *name = "";
  int err = sbx_json_opt_string(event, "type", &type, error);
  char change;

  if (err == 0) err = sbx_json_opt_string(event, "name", &name, error);
  change = err == 0 ? change_of(type) : 0;
  if (change == 0) return err;
  w->change.len = 0;
  sbx_text_add(&w->change, &change, 1);
  sbx_text_puts(&w->change, name);
  if (w->change.failed) return SBX_E_INTERNAL;
  emit(w, SBX_EMIT_CHANGE, w->change.bytes, w->change.len);
  return 0;
}

static int on_event(struct watch* w, struct sbx_json_node root,
                    struct sbx_error* error) {
  struct sbx_json_node part = {0};
  int err = sbx_json_opt_object(root, "start", &part, error);

  if (err == 0 && part.item != NULL && !w->ready) {
    w->ready = true;
    emit(w, SBX_EMIT_READY, NULL, 0);
  }
  if (err != 0 || part.item != NULL) return err;
  err = sbx_json_opt_object(root, "filesystem", &part, error);
  if (err != 0 || part.item == NULL) return err;
  if (w->ready) return on_change(w, part, error);
  return sbx_json_refuse(root, "filesystem", "comes before the start", error);
}

static int on_message(void* data, const char* bytes, size_t len,
                      struct sbx_error* error) {
  struct watch* w = data;
  struct sbx_json* json;
  int err;

  if (w->done) return 0;
  err = sbx_json_parse(bytes, len, &w->reader.source, &json, error);
  if (err != 0) return err;
  err = on_event(w, sbx_json_root(json), error);
  sbx_json_free(json);
  return err;
}

/* A folder that is removed ends nothing: the stream goes on in silence. */
static int on_trailer(void* data, const struct sbx_fault* fault,
                      struct sbx_error* error) {
  struct watch* w = data;

  (void) error;
  if (fault != NULL)
    sbx_e2b_fault_error(w->e, fault, operation, &w->error);
  else
    sbx_error_set(&w->error, SBX_E_UNAVAILABLE, ECONNRESET, operation,
                  "E2B ended the watch.");
  return fail(w, &w->error);
}

static bool is_stream(const struct watch* w) {
  return w->refusal.streams && sbx_answer_good(&w->refusal);
}

static int on_bytes(struct watch* w, const char* bytes, size_t len) {
  int err;

  if (!is_stream(w)) return sbx_answer_bytes(&w->refusal, bytes, len);
  err = sbx_envelope_feed(&w->reader, bytes, len, &w->error);
  return err == 0 ? 0 : w->error.code != 0 ? fail(w, &w->error) : err;
}

static int on_stream_end(struct watch* w) {
  if (!is_stream(w)) {
    sbx_e2b_envd_error(w->e, &w->refusal, operation, &w->error);
    return fail(w, &w->error);
  }
  sbx_envelope_finish(&w->reader, &w->error);
  w->error.sys = ECONNRESET;
  return fail(w, &w->error);
}

/* ---- the machine ---- */

static int on_begin(struct watch* w) {
  struct sbx_action action = {.type = SBX_ACTION_OPEN, .exchange = STREAM,
                              .request = &w->request.http};
  int err;

  if (w->error.code != 0) return fail(w, &w->error);
  err = sbx_request_ready(&w->request);
  if (err == 0) w->act(w->arg, &action);
  sbx_request_free(&w->request);
  return err;
}

static int on_give_up(struct watch* w) {
  sbx_error_set(&w->error, SBX_E_ABORTED, 0, operation, "The watch ended.");
  return fail(w, &w->error);
}

static int watch_step(struct sbx_machine* m,
                      const struct sbx_step_event* event, sbx_act_cb cb,
                      void* arg) {
  struct watch* w = (struct watch*) m;

  w->act = cb;
  w->arg = arg;
  if (w->done) return 0;
  switch (event->type) {
    case SBX_STEP_BEGIN: return on_begin(w);
    case SBX_STEP_HEAD: return sbx_answer_head(&w->refusal, event->head, NULL);
    case SBX_STEP_BYTES: return on_bytes(w, event->bytes, event->len);
    case SBX_STEP_END: return on_stream_end(w);
    case SBX_STEP_FAILED: return fail(w, event->error);
    case SBX_STEP_CANCEL:
    case SBX_STEP_DEADLINE: return on_give_up(w);
    default: return 0;
  }
}

static void watch_free(struct sbx_machine* m) {
  struct watch* w = (struct watch*) m;

  sbx_request_free(&w->request);
  sbx_envelope_free(&w->reader);
  sbx_answer_clear(&w->refusal);
  sbx_text_free(&w->change);
  free(w);
}

static void check(struct watch* w, bool recursive) {
  if (w->e->base.id == NULL)
    sbx_error_set(&w->error, SBX_E_UNAVAILABLE, 0, operation,
                  "There is no E2B sandbox yet: start it first.");
  else if (recursive && w->e->version < SBX_E2B_VERSION(0, 1, 4))
    sbx_error_set(&w->error, SBX_E_UNSUPPORTED, 0, operation,
                  "The template's envd is older than 0.1.4, which watches no "
                  "folder recursively: watch each, or build the template "
                  "anew.");
}

struct sbx_machine* sbx_e2b_watch(struct sbx_service_state* s,
                                  const char* path, bool recursive) {
  struct watch* w = calloc(1, sizeof(*w));
  struct sbx_json_writer json = {0};

  if (w == NULL) return NULL;
  w->machine.step = watch_step;
  w->machine.free = watch_free;
  w->e = (struct sbx_e2b*) s;
  w->reader.source = (struct sbx_json_source){"E2B", operation};
  w->reader.data = w;
  w->reader.on_message = on_message;
  w->reader.on_end = on_trailer;
  check(w, recursive);
  if (w->error.code != 0) return &w->machine;
  sbx_json_write_object(&json, NULL);
  sbx_json_write_string(&json, "path", path);
  if (recursive) sbx_json_write_bool(&json, "recursive", true);
  sbx_json_write_end(&json);
  sbx_e2b_stream(w->e, &w->request, "/filesystem.Filesystem/WatchDir", 0);
  sbx_e2b_as(w->e, &w->request, false);
  sbx_request_envelope(&w->request, &json);
  return &w->machine;
}
