/* Creates a sandbox, once: an unclear answer is looked up by a mark instead of
 * asked again, and of two hosts that create one id the later one takes back its
 * own and joins the other. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "e2b.h"

enum phase {
  CREATE = 1,
  LOOK_UP,     /* was it made? by our mark */
  COMPARE,     /* did another host make one of this id? */
  DELETE_OWN,  /* yes, an older one */
  JOIN,        /* connect to that, or to the one that was looked up */
  MAKE_FOLDER, /* the workspace */
  UNDO
};

struct create {
  struct sbx_unary unary; /* first */
  enum phase phase;
  char* id;      /* the user's, or NULL */
  char mark[40]; /* of this create */
  bool retried;  /* with the first version of the call */
  bool own;      /* the sandbox is this create's */
  bool given_up;
  struct sbx_e2b_found found;
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
  sbx_json_write_string(w, SBX_E2B_KEY_MARK, c->mark);
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
  sbx_json_write_string(&w, "templateID", e->template_id);
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

  snprintf(c->mark, sizeof(c->mark), "%s-%u", e->nonce, ++e->made);
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
  struct sbx_e2b* e = c->unary.state;

  free(e->base.id);
  e->base.id = NULL;
  return finish(c);
}

/* ---- one after another ---- */

static int send_page(struct create* c, const char* next) {
  const struct sbx_e2b* e = c->unary.state;
  struct sbx_request r;

  if (c->phase == LOOK_UP)
    sbx_e2b_find_page(e, &r, SBX_E2B_KEY_MARK, c->mark, next);
  else
    sbx_e2b_find_page(e, &r, SBX_E2B_KEY_ID, c->id, next);
  return sbx_unary_send(&c->unary, &r);
}

static int search(struct create* c, enum phase phase) {
  c->phase = phase;
  memset(&c->found, 0, sizeof(c->found));
  c->found.oldest = true;
  return send_page(c, NULL);
}

static int on_made(struct create* c) {
  struct sbx_e2b* e = c->unary.state;
  struct sbx_error error;

  c->own = true;
  if (c->given_up) return undo(c);
  if (e->version < SBX_E2B_VERSION(0, 1, 0)) {
    sbx_error_set(&error, SBX_E_UNSUPPORTED, 0, "start",
                  "The template \"%s\" is too old for E2B's present servers: "
                  "build it again.", e->template_id);
    return fail(c, &error);
  }
  return c->id != NULL ? search(c, COMPARE) : make_folder(c);
}

/* It may have been made although the answer does not say so. */
static bool is_unclear(int status) {
  return status == 408 || status == 500 || status == 502 || status == 504 ||
         (status >= 200 && status < 300);
}

static int on_unclear(struct create* c, const struct sbx_error* error) {
  if (c->error.code == 0) c->error = *error;
  return search(c, LOOK_UP);
}

static int on_create(struct create* c, struct sbx_answer* a) {
  struct sbx_e2b* e = c->unary.state;
  struct sbx_error error;
  int err;

  if (sbx_answer_good(a)) {
    err = sbx_e2b_adopt(e, a, "start", &error);
    if (err == 0 && c->retried) e->old_server = true;
    return err == 0 ? on_made(c) : on_unclear(c, &error);
  }
  if (!e->old_server && !c->retried && !c->given_up && sbx_e2b_is_old(a)) {
    c->retried = true;
    return send_create(c, true);
  }
  sbx_answer_error(a, &e->words, "start", &error);
  return is_unclear(a->status) ? on_unclear(c, &error) : fail(c, &error);
}

static int join(struct create* c, const char* id) {
  struct sbx_request r;

  c->phase = JOIN;
  sbx_e2b_connect_request(c->unary.state, &r, id);
  return sbx_unary_send(&c->unary, &r);
}

static int on_looked_up(struct create* c) {
  struct sbx_e2b* e = c->unary.state;

  if (c->found.id[0] == '\0') return finish(c);
  free(e->base.id);
  e->base.id = strdup(c->found.id);
  if (e->base.id == NULL) return SBX_E_INTERNAL;
  c->own = true;
  if (c->given_up) return undo(c);
  memset(&c->error, 0, sizeof(c->error));
  return join(c, NULL);
}

static int on_compared(struct create* c) {
  struct sbx_e2b* e = c->unary.state;
  struct sbx_request r;

  if (c->found.id[0] == '\0' || strcmp(c->found.id, e->base.id) == 0)
    return make_folder(c);
  c->phase = DELETE_OWN;
  sbx_e2b_api_sandbox(e, &r, "DELETE", "", NULL, "");
  r.http.flags = SBX_HTTP_IDEMPOTENT;
  return sbx_unary_send(&c->unary, &r);
}

static int on_page(struct create* c, struct sbx_answer* a) {
  bool mark = c->phase == LOOK_UP;
  struct sbx_error error;
  int more = sbx_e2b_find_take(c->unary.state, &c->found,
                               mark ? SBX_E2B_KEY_MARK : SBX_E2B_KEY_ID,
                               mark ? c->mark : c->id, a, "start", &error);

  if (more < 0) return fail(c, &error);
  if (more > 0) return send_page(c, a->next);
  return mark ? on_looked_up(c) : on_compared(c);
}

static int on_deleted(struct create* c, struct sbx_answer* a) {
  struct sbx_e2b* e = c->unary.state;
  struct sbx_error error;

  if (!sbx_answer_good(a) && a->status != 404) {
    sbx_answer_error(a, &e->words, "start", &error);
    return fail(c, &error);
  }
  c->own = false;
  return join(c, c->found.id);
}

static int on_joined(struct create* c, struct sbx_answer* a) {
  struct sbx_e2b* e = c->unary.state;
  struct sbx_error error;

  if (!sbx_answer_good(a)) {
    sbx_answer_error(a, &e->words, "start", &error);
    return fail(c, &error);
  }
  if (sbx_e2b_adopt(e, a, "start", &error) != 0) return fail(c, &error);
  if (c->own) return on_made(c);
  sbx_unary_emit(&c->unary, SBX_EMIT_FOUND, NULL, 0);
  return make_folder(c);
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

  switch (c->phase) {
    case CREATE: return on_create(c, a);
    case LOOK_UP:
    case COMPARE: return on_page(c, a);
    case DELETE_OWN: return on_deleted(c, a);
    case JOIN: return on_joined(c, a);
    case MAKE_FOLDER: return on_folder(c, a);
    default: return undone(c);
  }
}

static int create_failed(struct sbx_unary* u, const struct sbx_error* error) {
  struct create* c = (struct create*) u;

  if (c->phase == CREATE) return on_unclear(c, error);
  return c->phase == UNDO ? undone(c) : fail(c, error);
}

/* A create that is on its way is waited for, so that it can be taken back. */
static bool create_give_up(struct sbx_unary* u, const struct sbx_error* error) {
  struct create* c = (struct create*) u;

  c->error = *error;
  if (c->given_up) return true;
  c->given_up = true;
  if (c->phase == CREATE || c->phase == LOOK_UP || c->phase == UNDO) return true;
  if (!c->own) return false;
  sbx_unary_drop(u);
  return undo(c) == 0;
}

static void create_dispose(struct sbx_unary* u) {
  free(((struct create*) u)->id);
}

static const struct sbx_unary_plan create_plan = {
    .size = sizeof(struct create),
    .operation = "start",
    .title = "E2B",
    .next = "x-next-token",
    .begin = create_begin,
    .answer = create_answer,
    .failed = create_failed,
    .give_up = create_give_up,
    .dispose = create_dispose,
};

struct sbx_machine* sbx_e2b_create(struct sbx_service_state* s,
                                   const char* id) {
  struct create* c = sbx_unary_new(&create_plan, s);

  if (c == NULL || id == NULL) return c == NULL ? NULL : &c->unary.machine;
  c->id = strdup(id);
  if (c->id != NULL) return &c->unary.machine;
  c->unary.machine.free(&c->unary.machine);
  return NULL;
}
