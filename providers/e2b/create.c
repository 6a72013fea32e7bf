/* Creates a sandbox, and takes it back where the rest of the start fails or is
 * given up. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "e2b.h"

enum phase {
  CREATE = 1,
  MAKE_FOLDER, /* the workspace */
  UNDO
};

struct create {
  struct sbx_unary unary; /* first */
  enum phase phase;
  char* id;     /* that find knows it by */
  bool retried; /* with the first version of the call */
  bool own;     /* it was made */
  struct sbx_error error; /* that it ends with, once code is not 0 */
};

static int undo(struct create* c);
static int make_folder(struct create* c);

/* ---- the request ---- */

static void write_metadata(const struct create* c, struct sbx_json_writer* w) {
  const struct sbx_e2b* e = c->unary.state;
  struct sbx_json_node n = {0};
  const char* value;

  sbx_json_write_object(w, "metadata");
  if (e->metadata != NULL) n = sbx_json_first(sbx_json_root(e->metadata));
  for (; n.item != NULL; n = sbx_json_next(n))
    if (sbx_json_string(n, NULL, &value, NULL) == 0)
      sbx_json_write_string(w, sbx_json_key(n), value);
  if (c->id != NULL) sbx_json_write_string(w, SBX_E2B_KEY_ID, c->id);
  sbx_json_write_end(w);
}

/* Without "secure" the first version leaves envd open to everybody, and without
 * a time it ends after 15 s. */
static int send_create(struct create* c, bool old) {
  const struct sbx_e2b* e = c->unary.state;
  struct sbx_json_writer w = {0};
  struct sbx_request r;

  c->phase = CREATE;
  sbx_e2b_api(e, &r, "POST", old ? "/sandboxes" : "/v2/sandboxes");
  sbx_json_write_object(&w, NULL);
  sbx_json_write_string(&w, "templateID",
                        e->from != NULL ? e->from : e->template_id);
  sbx_json_write_integer(&w, "timeout", e->timeout_s);
  write_metadata(c, &w);
  if (e->auto_pause) sbx_json_write_bool(&w, "autoPause", true);
  if (old) sbx_json_write_bool(&w, "secure", e->secure);
  sbx_e2b_network_write(&e->network, &w);
  sbx_json_write_end(&w);
  sbx_request_json(&r, &w);
  r.http.head_ms = e->slow_ms;
  return sbx_unary_send(&c->unary, &r);
}

static int create_begin(struct sbx_unary* u) {
  struct create* c = (struct create*) u;
  struct sbx_e2b* e = u->state;

  sbx_e2b_forget(e);
  free(e->from);
  e->from = e->layer;
  e->layer = NULL;
  return send_create(c, e->old_server);
}

/* ---- how it ends ---- */

static int finish(struct create* c) {
  return sbx_unary_done(&c->unary, c->error.code == 0 ? NULL : &c->error);
}

static int fail(struct create* c, const struct sbx_error* error) {
  if (c->error.code == 0) c->error = *error;
  return c->own ? undo(c) : finish(c);
}

static int undo(struct create* c) {
  struct sbx_request r;

  c->phase = UNDO;
  sbx_e2b_api_sandbox(c->unary.state, &r, "DELETE", "", NULL, "");
  r.http.flags = SBX_HTTP_IDEMPOTENT;
  return sbx_unary_send(&c->unary, &r);
}

/* What is left of it ends by its time if even this failed. */
static int undone(struct create* c) {
  sbx_e2b_forget(c->unary.state);
  return finish(c);
}

/* ---- one after another ---- */

static int on_made(struct create* c) {
  struct sbx_e2b* e = c->unary.state;
  struct sbx_error error;

  c->own = true;
  if (c->error.code != 0) return undo(c);
  if (e->version >= SBX_E2B_VERSION(0, 1, 0)) return make_folder(c);
  sbx_error_set(&error, SBX_E_UNSUPPORTED, 0, "start",
                "The template \"%s\" is too old for E2B's present servers: "
                "build it again.", e->template_id);
  return fail(c, &error);
}

/* E2B tells in words alone which part of the request it does not know; a 404
 * without them is of another server. */
static void refusal(const struct sbx_e2b* e, const struct sbx_answer* a,
                    struct sbx_error* error) {
  struct sbx_fault fault = {0};

  sbx_answer_error(a, &e->words, "start", error);
  if (a->status != 404) return;
  sbx_fault_read(a->body.bytes, a->body.len, &fault);
  if (strstr(fault.message, "template") == NULL) return;
  if (e->from != NULL)
    sbx_error_set(error, SBX_E_NOT_FOUND, 0, "start",
                  "The snapshot \"%.100s\" that the sandbox is made of does "
                  "not exist at E2B any more: close() of the provider forgets "
                  "it, and the next sandbox makes another. E2B says: %.200s",
                  e->from, fault.message);
  else
    sbx_error_set(error, SBX_E_NOT_FOUND, 0, "start",
                  "The template \"%.100s\" does not exist at E2B, or not for "
                  "this key's account: check the option template. E2B says: "
                  "%.200s", e->template_id, fault.message);
}

static int on_create(struct create* c, struct sbx_answer* a) {
  struct sbx_e2b* e = c->unary.state;
  struct sbx_error error;

  if (sbx_answer_good(a)) {
    if (sbx_e2b_adopt(e, a, "start", &error) != 0) {
      c->own = e->base.id != NULL;
      return fail(c, &error);
    }
    if (c->retried) e->old_server = true;
    return on_made(c);
  }
  if (!e->old_server && !c->retried && c->error.code == 0 &&
      sbx_e2b_is_old(a)) {
    c->retried = true;
    return send_create(c, true);
  }
  refusal(e, a, &error);
  return fail(c, &error);
}

/* By envd, which owns it to the user and may make it anywhere. */
static int make_folder(struct create* c) {
  const struct sbx_e2b* e = c->unary.state;
  struct sbx_json_writer w = {0};
  struct sbx_request r;

  c->phase = MAKE_FOLDER;
  sbx_e2b_rpc(e, &r, "/filesystem.Filesystem/MakeDir");
  sbx_e2b_as(e, &r, false);
  sbx_json_write_object(&w, NULL);
  sbx_json_write_string(&w, "path", e->cwd);
  sbx_json_write_end(&w);
  sbx_request_json(&r, &w);
  r.http.flags = SBX_HTTP_IDEMPOTENT;
  return sbx_unary_send(&c->unary, &r);
}

/* Where envd cannot make the folder, the home is used instead; but a sandbox
 * that does not answer, or not to us, is none. */
static int on_folder(struct create* c, struct sbx_answer* a) {
  struct sbx_e2b* e = c->unary.state;
  struct sbx_error error;

  if (a->status != 401 && a->status != 429 && a->status < 502) return finish(c);
  sbx_e2b_envd_error(e, a, "start", &error);
  return fail(c, &error);
}

static int create_answer(struct sbx_unary* u, struct sbx_answer* a) {
  struct create* c = (struct create*) u;

  if (c->phase == CREATE) return on_create(c, a);
  return c->phase == MAKE_FOLDER ? on_folder(c, a) : undone(c);
}

static int create_failed(struct sbx_unary* u, const struct sbx_error* error) {
  struct create* c = (struct create*) u;

  return c->phase == UNDO ? undone(c) : fail(c, error);
}

/* A create that is on its way is waited for, so that it can be taken back. */
static bool create_give_up(struct sbx_unary* u, const struct sbx_error* error) {
  struct create* c = (struct create*) u;

  if (c->error.code == 0) c->error = *error;
  if (c->phase != MAKE_FOLDER) return true;
  sbx_unary_drop(u);
  return undo(c) == 0;
}

static void create_dispose(struct sbx_unary* u) {
  free(((struct create*) u)->id);
}

static const struct sbx_unary_plan create_plan = {
    .size = sizeof(struct create),
    .operation = "start",
    .begin = create_begin,
    .answer = create_answer,
    .failed = create_failed,
    .give_up = create_give_up,
    .dispose = create_dispose,
};

struct sbx_machine* sbx_e2b_create(struct sbx_service_state* s,
                                   const char* id) {
  struct create* c = sbx_e2b_unary(&create_plan, s);

  if (c == NULL || id == NULL) return c == NULL ? NULL : &c->unary.machine;
  c->id = strdup(id);
  if (c->id != NULL) return &c->unary.machine;
  c->unary.machine.free(&c->unary.machine);
  return NULL;
}
