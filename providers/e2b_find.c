/* Finds the sandbox that carries an id of ours in its metadata. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "e2b.h"

enum { PAGES_MAX = 100 };

/* The server decodes the query, then the whole as a form, then each part. */
static void encode_twice(struct sbx_text* t, const char* value) {
  struct sbx_text once = {0};

  sbx_url_encode(&once, value, strlen(value));
  if (once.failed) t->failed = true;
  else sbx_url_encode(t, once.bytes, once.len);
  sbx_text_free(&once);
}

void sbx_e2b_find_page(const struct sbx_e2b* e, struct sbx_request* r,
                       const char* key, const char* value, const char* next) {
  struct sbx_text text = {0};
  char* filter;

  encode_twice(&text, key);
  sbx_text_puts(&text, "=");
  encode_twice(&text, value);
  filter = sbx_text_take(&text, NULL);
  sbx_e2b_api(e, r, "GET", "/v2/sandboxes");
  if (filter == NULL) r->failed = true;
  else sbx_url_query(&r->url, "metadata", filter);
  free(filter);
  sbx_url_query(&r->url, "state", "running,paused");
  sbx_url_query(&r->url, "limit", "100");
  if (next != NULL) sbx_url_query(&r->url, "nextToken", next);
  r->http.flags = SBX_HTTP_IDEMPOTENT;
}

/* Times of one service, all in UTC: with the same number of digits they compare
 * as texts. The zone's letter sorts behind the digits, a shorter fraction means
 * zeros. */
static int compare_times(const char* a, const char* b) {
  while (*a != '\0' && *a == *b) a++, b++;
  if (*a == *b) return 0;
  if (*a == 'Z' || *a == '\0') return *b >= '0' && *b <= '9' ? -1 : -(*b == '.');
  if (*b == 'Z' || *b == '\0') return 1;
  return *a < *b ? -1 : 1;
}

static bool is_better(const struct sbx_e2b_found* found, const char* id,
                      bool running, const char* started) {
  int order;

  if (found->id[0] == '\0') return true;
  if (!found->oldest && running != found->running) return running;
  order = compare_times(started, found->started);
  return order != 0 ? order < 0 : strcmp(id, found->id) < 0;
}

static bool carries(struct sbx_json_node item, const char* key,
                    const char* value) {
  struct sbx_json_node metadata = {0};
  const char* text = NULL;

  return sbx_json_opt_object(item, "metadata", &metadata, NULL) == 0 &&
         metadata.item != NULL &&
         sbx_json_opt_string(metadata, key, &text, NULL) == 0 && text != NULL &&
         strcmp(text, value) == 0;
}

static int take_item(struct sbx_e2b_found* found, struct sbx_json_node item,
                     struct sbx_error* error) {
  const char *id, *state = "running", *started = "";
  int err = sbx_json_string(item, "sandboxID", &id, error);

  if (err == 0) err = sbx_json_opt_string(item, "state", &state, error);
  if (err == 0) err = sbx_json_opt_string(item, "startedAt", &started, error);
  if (err != 0) return err;
  if (!sbx_e2b_id_good(id))
    return sbx_json_refuse(item, "sandboxID", "is no id", error);
  if (strcmp(state, "running") != 0 && strcmp(state, "paused") != 0) return 0;
  if (strlen(started) >= sizeof(found->started))
    return sbx_json_refuse(item, "startedAt", "is no time", error);
  if (!is_better(found, id, state[0] == 'r', started)) return 0;
  snprintf(found->id, sizeof(found->id), "%s", id);
  snprintf(found->started, sizeof(found->started), "%s", started);
  found->running = state[0] == 'r';
  return 0;
}

int sbx_e2b_find_take(const struct sbx_e2b* e, struct sbx_e2b_found* found,
                      const char* key, const char* value, struct sbx_answer* a,
                      const char* operation, struct sbx_error* error) {
  struct sbx_json_node list, item;
  int err;

  if (!sbx_answer_good(a))
    return sbx_answer_error(a, &e->words, operation, error);
  err = sbx_answer_json(a, &e->words, operation, &list, error);
  if (err == 0) err = sbx_json_array(list, NULL, &list, error);
  if (err != 0) return err;
  for (item = sbx_json_first(list); item.item != NULL;
       item = sbx_json_next(item)) {
    if (!carries(item, key, value)) continue;
    err = take_item(found, item, error);
    if (err != 0) return err;
  }
  if (a->next == NULL) return 0;
  if (++found->pages < PAGES_MAX) return 1;
  return sbx_error_set(error, SBX_E_PROVIDER, 0, operation,
                       "E2B lists more than %d sandboxes of one id and does not "
                       "come to an end.", PAGES_MAX * 100);
}

/* ---- the machine ---- */

struct find {
  struct sbx_unary unary; /* first */
  struct sbx_e2b_found found;
  char* id;
};

static int send_page(struct find* f, const char* next) {
  struct sbx_request r;

  sbx_e2b_find_page(f->unary.state, &r, SBX_E2B_KEY_ID, f->id, next);
  return sbx_unary_send(&f->unary, &r);
}

static int find_begin(struct sbx_unary* u) {
  struct find* f = (struct find*) u;

  return f->id == NULL ? sbx_unary_done(u, NULL) : send_page(f, NULL);
}

static int find_done(struct find* f) {
  struct sbx_e2b* e = f->unary.state;
  char* id;

  if (f->found.id[0] == '\0') return sbx_unary_done(&f->unary, NULL);
  id = strdup(f->found.id);
  if (id == NULL) return SBX_E_INTERNAL;
  free(e->base.id);
  e->base.id = id;
  sbx_unary_emit(&f->unary, SBX_EMIT_FOUND, NULL, 0);
  return sbx_unary_done(&f->unary, NULL);
}

static int find_answer(struct sbx_unary* u, struct sbx_answer* a) {
  struct find* f = (struct find*) u;
  struct sbx_error error;
  int more = sbx_e2b_find_take(u->state, &f->found, SBX_E2B_KEY_ID, f->id, a,
                               u->plan->operation, &error);

  if (more < 0) return sbx_unary_done(u, &error);
  return more > 0 ? send_page(f, a->next) : find_done(f);
}

static void find_dispose(struct sbx_unary* u) {
  free(((struct find*) u)->id);
}

static const struct sbx_unary_plan find_plan = {
    .size = sizeof(struct find),
    .operation = "start",
    .title = "E2B",
    .next = "x-next-token",
    .begin = find_begin,
    .answer = find_answer,
    .dispose = find_dispose,
};

struct sbx_machine* sbx_e2b_find(struct sbx_service_state* s, const char* id) {
  struct find* f = sbx_unary_new(&find_plan, s);

  if (f == NULL || id == NULL) return f == NULL ? NULL : &f->unary.machine;
  f->id = strdup(id);
  if (f->id != NULL) return &f->unary.machine;
  f->unary.machine.free(&f->unary.machine);
  return NULL;
}
