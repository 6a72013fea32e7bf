/* Snapshots that E2B keeps: templates made of a sandbox as it is. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "e2b.h"

enum { SNAPSHOT_ID_MAX = 256, PAGES_MAX = 100 };

struct snapshot {
  struct sbx_unary unary; /* first */
  char* name; /* or the id; may be NULL */
  unsigned pages;
};

static void snapshot_dispose(struct sbx_unary* u) {
  free(((struct snapshot*) u)->name);
}

static struct sbx_machine* snapshot_new(const struct sbx_unary_plan* plan,
                                        struct sbx_service_state* s,
                                        const char* name) {
  struct snapshot* m = sbx_e2b_unary(plan, s);

  if (m == NULL || name == NULL) return m == NULL ? NULL : &m->unary.machine;
  m->name = strdup(name);
  if (m->name != NULL) return &m->unary.machine;
  m->unary.machine.free(&m->unary.machine);
  return NULL;
}

static int no_sandbox(struct sbx_unary* u) {
  struct sbx_error error;

  sbx_error_set(&error, SBX_E_UNAVAILABLE, 0, u->plan->operation,
                "There is no E2B sandbox yet: start it first.");
  return sbx_unary_done(u, &error);
}

/* It becomes a template's id and a line for the owner. */
static int take_id(struct sbx_json_node n, const char** id,
                   struct sbx_error* error) {
  int err = sbx_json_string(n, "snapshotID", id, error);
  size_t len = err == 0 ? strlen(*id) : 0;

  if (err != 0) return err;
  if (len == 0 || len > SNAPSHOT_ID_MAX)
    return sbx_json_refuse(n, "snapshotID", "is no id", error);
  for (const char* p = *id; *p != '\0'; p++)
    if (*p <= ' ' || *p > '~')
      return sbx_json_refuse(n, "snapshotID", "is no id", error);
  return 0;
}

static void emit_id(struct sbx_unary* u, const char* id) {
  sbx_unary_emit(u, SBX_EMIT_TEXT, id, strlen(id));
}

/* ---- create ---- */

/* A second one by accident would cost, but nothing is lost: not sent again. */
static int create_begin(struct sbx_unary* u) {
  struct snapshot* m = (struct snapshot*) u;
  struct sbx_e2b* e = u->state;
  struct sbx_json_writer w = {0};
  struct sbx_request r;

  if (e->base.id == NULL) return no_sandbox(u);
  sbx_e2b_api_sandbox(e, &r, "POST", "", NULL, "snapshots");
  sbx_json_write_object(&w, NULL);
  if (m->name != NULL) sbx_json_write_string(&w, "name", m->name);
  sbx_json_write_end(&w);
  sbx_request_json(&r, &w);
  r.http.head_ms = e->slow_ms;
  return sbx_unary_send(u, &r);
}

static int create_answer(struct sbx_unary* u, struct sbx_answer* a) {
  struct sbx_e2b* e = u->state;
  struct sbx_json_node n;
  struct sbx_error error;
  const char* id;

  if (!sbx_answer_good(a)) return sbx_unary_refused(u);
  if (sbx_answer_json(a, &e->words, u->plan->operation, &n, &error) != 0 ||
      take_id(n, &id, &error) != 0)
    return sbx_unary_done(u, &error);
  emit_id(u, id);
  return sbx_unary_done(u, NULL);
}

static const struct sbx_unary_plan create_plan = {
    .size = sizeof(struct snapshot),
    .operation = "snapshots.create",
    .begin = create_begin,
    .answer = create_answer,
    .dispose = snapshot_dispose,
};

struct sbx_machine* sbx_e2b_snapshot_create(struct sbx_service_state* s,
                                            const char* name) {
  return snapshot_new(&create_plan, s, name);
}

/* ---- delete ---- */

static int delete_begin(struct sbx_unary* u) {
  struct snapshot* m = (struct snapshot*) u;
  struct sbx_request r;

  sbx_e2b_api(u->state, &r, "DELETE", "/templates");
  sbx_url_segment(&r.url, m->name != NULL ? m->name : "");
  r.http.flags = SBX_HTTP_IDEMPOTENT;
  return sbx_unary_send(u, &r);
}

static int delete_answer(struct sbx_unary* u, struct sbx_answer* a) {

  if (sbx_answer_good(a) || a->status == 404) return sbx_unary_done(u, NULL);
  return sbx_unary_refused(u);
}

static const struct sbx_unary_plan delete_plan = {
    .size = sizeof(struct snapshot),
    .operation = "snapshots.delete",
    .begin = delete_begin,
    .answer = delete_answer,
    .dispose = snapshot_dispose,
};

struct sbx_machine* sbx_e2b_snapshot_delete(struct sbx_service_state* s,
                                            const char* id) {
  return snapshot_new(&delete_plan, s, id);
}

/* ---- list ---- */

static int send_page(struct sbx_unary* u, const char* next) {
  struct sbx_e2b* e = u->state;
  struct sbx_request r;

  sbx_e2b_api(e, &r, "GET", "/snapshots");
  sbx_url_query(&r.url, "sandboxID", e->base.id);
  sbx_url_query(&r.url, "limit", "100");
  if (next != NULL) sbx_url_query(&r.url, "nextToken", next);
  r.http.flags = SBX_HTTP_IDEMPOTENT;
  return sbx_unary_send(u, &r);
}

static int list_begin(struct sbx_unary* u) {
  struct sbx_e2b* e = u->state;

  return e->base.id == NULL ? no_sandbox(u) : send_page(u, NULL);
}

static int list_page(struct sbx_unary* u, struct sbx_answer* a,
                     struct sbx_error* error) {
  struct sbx_e2b* e = u->state;
  struct sbx_json_node list, item;
  const char* id;
  int err = sbx_answer_json(a, &e->words, u->plan->operation, &list, error);

  if (err == 0) err = sbx_json_array(list, NULL, &list, error);
  if (err != 0) return err;
  for (item = sbx_json_first(list); item.item != NULL;
       item = sbx_json_next(item)) {
    err = take_id(item, &id, error);
    if (err != 0) return err;
    emit_id(u, id);
  }
  return 0;
}

static int list_answer(struct sbx_unary* u, struct sbx_answer* a) {
  struct snapshot* m = (struct snapshot*) u;
  struct sbx_error error;

  if (!sbx_answer_good(a)) return sbx_unary_refused(u);
  if (list_page(u, a, &error) != 0) return sbx_unary_done(u, &error);
  if (a->next == NULL) return sbx_unary_done(u, NULL);
  if (++m->pages < PAGES_MAX) return send_page(u, a->next);
  sbx_error_set(&error, SBX_E_PROVIDER, 0, u->plan->operation,
                "E2B's list of snapshots does not come to an end.");
  return sbx_unary_done(u, &error);
}

static const struct sbx_unary_plan list_plan = {
    .size = sizeof(struct snapshot),
    .operation = "snapshots.list",
    .next = "x-next-token",
    .begin = list_begin,
    .answer = list_answer,
    .dispose = snapshot_dispose,
};

struct sbx_machine* sbx_e2b_snapshot_list(struct sbx_service_state* s) {
  return snapshot_new(&list_plan, s, NULL);
}
