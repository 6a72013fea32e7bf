/* Finds the sandbox that carries an id of ours in its metadata. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "e2b.h"

enum { PAGES_MAX = 100 };

struct found {
  char id[SBX_E2B_ID_MAX + 1]; /* "": none so far */
  bool running;
  char started[40];
};

struct find {
  struct sbx_unary unary; /* first */
  char* id;
  struct found best;
  unsigned pages;
  bool old; /* the first version of the call, which lists what runs */
};

/* The server decodes the query, then the whole as a form, then each part. */
static void encode_twice(struct sbx_text* t, const char* value) {
  struct sbx_text once = {0};

  sbx_url_encode(&once, value, strlen(value));
  if (once.failed) t->failed = true;
  else sbx_url_encode(t, once.bytes, once.len);
  sbx_text_free(&once);
}

static int send_page(struct find* f, const char* next) {
  struct sbx_text text = {0};
  struct sbx_request r;
  char* filter;

  sbx_text_puts(&text, SBX_E2B_KEY_ID "=");
  encode_twice(&text, f->id);
  filter = sbx_text_take(&text, NULL);
  sbx_e2b_api(f->unary.state, &r, "GET",
              f->old ? "/sandboxes" : "/v2/sandboxes");
  if (filter == NULL) r.failed = true;
  else sbx_url_query(&r.url, "metadata", filter);
  free(filter);
  if (!f->old) sbx_url_query(&r.url, "state", "running,paused");
  if (!f->old) sbx_url_query(&r.url, "limit", "100");
  if (next != NULL) sbx_url_query(&r.url, "nextToken", next);
  r.http.flags = SBX_HTTP_IDEMPOTENT;
  return sbx_unary_send(&f->unary, &r);
}

/* Times of one service, all in UTC: with the same number of digits they compare
 * as texts. The zone's letter sorts behind the digits, a shorter fraction means
 * zeros. */
static int compare_times(const char* a, const char* b) {
  while (*a != '\0' && *a == *b) a++, b++;
  if (*a == *b) return 0;
  if (*a == 'Z' || *a == '\0') return -1;
  if (*b == 'Z' || *b == '\0') return 1;
  return *a < *b ? -1 : 1;
}

/* One that runs, then the oldest, then by its id: all hosts choose the same. */
static bool is_better(const struct found* best, const char* id, bool running,
                      const char* started) {
  int order;

  if (best->id[0] == '\0') return true;
  if (running != best->running) return running;
  order = compare_times(started, best->started);
  return order != 0 ? order < 0 : strcmp(id, best->id) < 0;
}

/* The filter is the server's; what it gives is looked at. */
static bool is_ours(const struct find* f, struct sbx_json_node item) {
  struct sbx_json_node metadata = {0};
  const char* text = NULL;

  return sbx_json_opt_object(item, "metadata", &metadata, NULL) == 0 &&
         metadata.item != NULL &&
         sbx_json_opt_string(metadata, SBX_E2B_KEY_ID, &text, NULL) == 0 &&
         text != NULL && strcmp(text, f->id) == 0;
}

static int take_item(struct found* best, struct sbx_json_node item,
                     struct sbx_error* error) {
  const char *id, *state = "running", *started = "";
  int err = sbx_json_string(item, "sandboxID", &id, error);
  bool running;

  if (err == 0) err = sbx_json_opt_string(item, "state", &state, error);
  if (err == 0) err = sbx_json_opt_string(item, "startedAt", &started, error);
  if (err != 0) return err;
  if (!sbx_e2b_id_good(id))
    return sbx_json_refuse(item, "sandboxID", "is no id", error);
  if (strlen(started) >= sizeof(best->started))
    return sbx_json_refuse(item, "startedAt", "is no time", error);
  running = strcmp(state, "running") == 0;
  if (!running && strcmp(state, "paused") != 0) return 0;
  if (!is_better(best, id, running, started)) return 0;
  snprintf(best->id, sizeof(best->id), "%s", id);
  snprintf(best->started, sizeof(best->started), "%s", started);
  best->running = running;
  return 0;
}

static int take_page(struct find* f, struct sbx_answer* a,
                     struct sbx_error* error) {
  struct sbx_e2b* e = f->unary.state;
  struct sbx_json_node list, item;
  int err = sbx_answer_json(a, &e->words, "start", &list, error);

  if (err == 0) err = sbx_json_array(list, NULL, &list, error);
  if (err != 0) return err;
  for (item = sbx_json_first(list); item.item != NULL;
       item = sbx_json_next(item)) {
    err = is_ours(f, item) ? take_item(&f->best, item, error) : 0;
    if (err != 0) return err;
  }
  if (a->next == NULL || ++f->pages < PAGES_MAX) return 0;
  return sbx_error_set(error, SBX_E_PROVIDER, 0, "start",
                       "E2B's list of the sandboxes of one id does not come to "
                       "an end.");
}

static int find_begin(struct sbx_unary* u) {
  struct find* f = (struct find*) u;

  return f->id == NULL ? sbx_unary_done(u, NULL) : send_page(f, NULL);
}

static int find_done(struct find* f) {
  struct sbx_e2b* e = f->unary.state;
  char* id;

  if (f->best.id[0] == '\0') return sbx_unary_done(&f->unary, NULL);
  if (e->base.id == NULL || strcmp(e->base.id, f->best.id) != 0) {
    id = strdup(f->best.id);
    if (id == NULL) return SBX_E_INTERNAL;
    sbx_e2b_forget(e);
    e->base.id = id;
  }
  sbx_unary_emit(&f->unary, SBX_EMIT_FOUND, NULL, 0);
  return sbx_unary_done(&f->unary, NULL);
}

/* Whatever goes wrong is an error: "not found" makes a second sandbox. */
static int find_answer(struct sbx_unary* u, struct sbx_answer* a) {
  struct find* f = (struct find*) u;
  struct sbx_error error;

  if (!f->old && f->pages == 0 && sbx_e2b_lacks_call(a)) {
    f->old = true;
    return send_page(f, NULL);
  }
  if (!sbx_answer_good(a)) return sbx_unary_refused(u);
  if (take_page(f, a, &error) != 0) return sbx_unary_done(u, &error);
  return a->next != NULL ? send_page(f, a->next) : find_done(f);
}

static void find_dispose(struct sbx_unary* u) {
  free(((struct find*) u)->id);
}

static const struct sbx_unary_plan find_plan = {
    .size = sizeof(struct find),
    .operation = "start",
    .next = "x-next-token",
    .begin = find_begin,
    .answer = find_answer,
    .dispose = find_dispose,
};

struct sbx_machine* sbx_e2b_find(struct sbx_service_state* s, const char* id) {
  struct find* f = sbx_e2b_unary(&find_plan, s);

  if (f == NULL || id == NULL) return f == NULL ? NULL : &f->unary.machine;
  f->id = strdup(id);
  if (f->id != NULL) return &f->unary.machine;
  f->unary.machine.free(&f->unary.machine);
  return NULL;
}
