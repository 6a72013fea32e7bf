/* Connects to a sandbox, which also wakes it, pauses, kills and looks at it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "e2b.h"

/* ---- what a create or connect answers ---- */

static bool token_good(const char* token) {
  size_t len = strlen(token);

  if (len == 0 || len > 4096) return false;
  for (; *token != '\0'; token++)
    if (*token <= ' ' || *token > '~') return false;
  return true;
}

/* "0.6.10", "v0.5.7-rc1" */
static uint32_t read_version(const char* text) {
  unsigned parts[3] = {0, 0, 0};

  if (*text == 'v') text++;
  if (sscanf(text, "%3u.%3u.%3u", &parts[0], &parts[1], &parts[2]) < 2)
    return SBX_E2B_VERSION(0, 6, 0);
  return SBX_E2B_VERSION(parts[0], parts[1], parts[2]);
}

struct record {
  const char *token, *traffic, *domain, *version;
};

static int check_token(struct sbx_json_node n, const char* name,
                       const char* token, struct sbx_error* error) {
  if (token == NULL || token[0] == '\0' || token_good(token)) return 0;
  return sbx_json_refuse(n, name, "is no token", error);
}

static int check_domain(const struct sbx_e2b* e, const char* domain,
                        struct sbx_error* error) {
  if (domain == NULL || domain[0] == '\0' || e->sandbox_url != NULL ||
      sbx_e2b_domain_good(e, domain))
    return 0;
  return sbx_error_set(error, SBX_E_PROVIDER, 0, "start",
                       "E2B's answer puts the sandbox on the domain "
                       "\"%.100s\", which is not below \"%s\". If that is right, give the "
                       "option domain (or E2B_DOMAIN).", domain, e->domain);
}

static int read_record(const struct sbx_e2b* e, struct sbx_json_node n,
                       struct record* r, struct sbx_error* error) {
  int err = sbx_json_opt_string(n, "envdAccessToken", &r->token, error);

  if (err == 0)
    err = sbx_json_opt_string(n, "trafficAccessToken", &r->traffic, error);
  if (err == 0) err = sbx_json_opt_string(n, "domain", &r->domain, error);
  if (err == 0) err = sbx_json_opt_string(n, "envdVersion", &r->version, error);
  if (err == 0) err = check_token(n, "envdAccessToken", r->token, error);
  if (err == 0) err = check_token(n, "trafficAccessToken", r->traffic, error);
  return err != 0 ? err : check_domain(e, r->domain, error);
}

/* False without memory. */
static bool replace(char** at, const char* value) {
  char* copy = NULL;

  if (value != NULL && value[0] != '\0') {
    copy = strdup(value);
    if (copy == NULL) return false;
  }
  free(*at);
  *at = copy;
  return true;
}

static int no_memory(const char* operation, struct sbx_error* error) {
  return sbx_error_set(error, SBX_E_INTERNAL, 0, operation, "Out of memory.");
}

/* The id first, so that a sandbox whose other claims are refused is known. */
static int adopt_id(struct sbx_e2b* e, struct sbx_json_node n,
                    const char* operation, struct sbx_error* error) {
  const char* id;
  int err = sbx_json_string(n, "sandboxID", &id, error);

  if (err != 0) return err;
  if (!sbx_e2b_id_good(id))
    return sbx_json_refuse(n, "sandboxID", "is no id", error);
  if (e->base.id != NULL && strcmp(e->base.id, id) != 0)
    return sbx_json_refuse(n, "sandboxID", "is of another sandbox", error);
  if (e->base.id == NULL) e->base.id = strdup(id);
  return e->base.id != NULL ? 0 : no_memory(operation, error);
}

void sbx_e2b_forget(struct sbx_e2b* e) {
  replace(&e->base.id, NULL);
  replace(&e->token, NULL);
  replace(&e->traffic, NULL);
  replace(&e->host_domain, NULL);
  sbx_e2b_know_secrets(e);
}

int sbx_e2b_adopt(struct sbx_e2b* e, struct sbx_answer* a,
                  const char* operation, struct sbx_error* error) {
  struct record r = {NULL, NULL, NULL, NULL};
  struct sbx_json_node n;
  bool good = true;
  int err = sbx_answer_json(a, &e->words, operation, &n, error);

  if (err == 0) err = adopt_id(e, n, operation, error);
  if (err == 0) err = read_record(e, n, &r, error);
  if (err != 0) return err;
  /* A connect may leave out what the create has told. */
  if (r.traffic != NULL) good = replace(&e->traffic, r.traffic) && good;
  if (r.token != NULL) good = replace(&e->token, r.token) && good;
  if (e->sandbox_url == NULL) good = replace(&e->host_domain, r.domain) && good;
  sbx_e2b_know_secrets(e);
  if (r.version != NULL) e->version = read_version(r.version);
  return good ? 0 : no_memory(operation, error);
}

/* ---- servers that have only the first version of a call ---- */

bool sbx_e2b_lacks_call(const struct sbx_answer* a) {
  struct sbx_fault fault = {0};

  if (a->status != 400 && a->status != 404 && a->status != 405) return false;
  sbx_fault_read(a->body.bytes, a->body.len, &fault);
  return strstr(fault.message, "no matching operation") != NULL ||
         strstr(fault.message, "method not allowed") != NULL;
}

bool sbx_e2b_is_old(const struct sbx_answer* a) {
  struct sbx_fault fault = {0};

  if (a->status == 405 || sbx_e2b_lacks_call(a)) return true;
  return a->status == 404 &&
         !sbx_fault_read(a->body.bytes, a->body.len, &fault);
}

/* ---- a sandbox that must be there ---- */

static int no_sandbox(struct sbx_unary* u) {
  struct sbx_error error;

  sbx_error_set(&error, SBX_E_UNAVAILABLE, 0, u->plan->operation,
                "There is no E2B sandbox yet: start it first.");
  return sbx_unary_done(u, &error);
}

/* ---- connect ---- */

struct life {
  struct sbx_unary unary; /* first */
  unsigned step;
};

/* Without a time, or without a body, servers fall back to their own time, or
 * refuse. autoPause is not said again: that resets it. */
void sbx_e2b_connect_request(const struct sbx_e2b* e, struct sbx_request* r,
                             const char* id) {
  struct sbx_json_writer w = {0};

  sbx_e2b_api_sandbox(e, r, "POST", e->old_server ? "" : "/v2", id, "connect");
  sbx_json_write_object(&w, NULL);
  sbx_json_write_integer(&w, "timeout", e->timeout_s);
  sbx_json_write_end(&w);
  sbx_request_json(r, &w);
  r->http.head_ms = e->slow_ms;
  r->http.flags = SBX_HTTP_IDEMPOTENT;
}

static int connect_begin(struct sbx_unary* u) {
  struct sbx_e2b* e = u->state;
  struct sbx_request r;

  if (e->base.id == NULL) return no_sandbox(u);
  sbx_e2b_connect_request(e, &r, NULL);
  return sbx_unary_send(u, &r);
}

static int connect_answer(struct sbx_unary* u, struct sbx_answer* a) {
  struct life* l = (struct life*) u;
  struct sbx_e2b* e = u->state;
  struct sbx_error error;

  if (sbx_answer_good(a)) {
    int err = sbx_e2b_adopt(e, a, u->plan->operation, &error);

    return sbx_unary_done(u, err == 0 ? NULL : &error);
  }
  if (!e->old_server && l->step++ == 0 && sbx_e2b_is_old(a)) {
    e->old_server = true;
    return connect_begin(u);
  }
  if (l->step > 0) e->old_server = false;
  return sbx_unary_refused(u);
}

static const struct sbx_unary_plan connect_plan = {
    .size = sizeof(struct life),
    .operation = "start",
    .begin = connect_begin,
    .answer = connect_answer,
};

struct sbx_machine* sbx_e2b_connect(struct sbx_service_state* s) {
  return sbx_e2b_unary(&connect_plan, s);
}

/* ---- stop: pause, which keeps the files ---- */

static int stop_begin(struct sbx_unary* u) {
  struct sbx_e2b* e = u->state;
  struct sbx_request r;

  if (e->base.id == NULL) return no_sandbox(u);
  sbx_e2b_api_sandbox(e, &r, "POST", "", NULL, "pause");
  sbx_e2b_empty(&r);
  r.http.head_ms = e->slow_ms;
  r.http.flags = SBX_HTTP_IDEMPOTENT;
  return sbx_unary_send(u, &r);
}

static int look(struct sbx_unary* u) {
  struct sbx_request r;

  sbx_e2b_api_sandbox(u->state, &r, "GET", "", NULL, "");
  r.http.flags = SBX_HTTP_IDEMPOTENT;
  return sbx_unary_send(u, &r);
}

static int state_of(struct sbx_unary* u, struct sbx_answer* a,
                    const char** state, struct sbx_error* error) {
  struct sbx_e2b* e = u->state;
  struct sbx_json_node n;
  int err = sbx_answer_json(a, &e->words, u->plan->operation, &n, error);

  return err != 0 ? err : sbx_json_string(n, "state", state, error);
}

/* A conflict may mean that it is paused already: only a look tells. */
static int stop_answer(struct sbx_unary* u, struct sbx_answer* a) {
  struct life* l = (struct life*) u;
  struct sbx_error error;
  const char* state;

  if (l->step == 0 && sbx_answer_good(a)) return sbx_unary_done(u, NULL);
  if (l->step == 0 && a->status == 409) {
    l->step = 1;
    return look(u);
  }
  if (!sbx_answer_good(a)) return sbx_unary_refused(u);
  if (state_of(u, a, &state, &error) != 0) return sbx_unary_done(u, &error);
  if (strcmp(state, "paused") == 0) return sbx_unary_done(u, NULL);
  sbx_error_set(&error, SBX_E_CONFLICT, 0, u->plan->operation,
                "E2B is changing the sandbox at the moment and did not pause "
                "it: try again.");
  error.retryable = true;
  return sbx_unary_done(u, &error);
}

static const struct sbx_unary_plan stop_plan = {
    .size = sizeof(struct life),
    .operation = "stop",
    .begin = stop_begin,
    .answer = stop_answer,
};

struct sbx_machine* sbx_e2b_stop(struct sbx_service_state* s) {
  return sbx_e2b_unary(&stop_plan, s);
}

/* ---- destroy ---- */

static int destroy_begin(struct sbx_unary* u) {
  struct sbx_e2b* e = u->state;
  struct sbx_request r;

  if (e->base.id == NULL) return sbx_unary_done(u, NULL);
  sbx_e2b_api_sandbox(e, &r, "DELETE", "", NULL, "");
  r.http.flags = SBX_HTTP_IDEMPOTENT;
  return sbx_unary_send(u, &r);
}

static int destroy_answer(struct sbx_unary* u, struct sbx_answer* a) {
  if (!sbx_answer_good(a) && a->status != 404) return sbx_unary_refused(u);
  sbx_e2b_forget(u->state);
  return sbx_unary_done(u, NULL);
}

static const struct sbx_unary_plan destroy_plan = {
    .size = sizeof(struct life),
    .operation = "destroy",
    .begin = destroy_begin,
    .answer = destroy_answer,
};

struct sbx_machine* sbx_e2b_destroy(struct sbx_service_state* s) {
  return sbx_e2b_unary(&destroy_plan, s);
}

/* ---- touch ---- */

/* A refresh only ever extends, so that two owners do not shorten each other's
 * time; it takes an hour at most, and not every server has it. */
static int touch_send(struct sbx_unary* u, bool refresh) {
  struct sbx_e2b* e = u->state;
  struct sbx_json_writer w = {0};
  struct sbx_request r;

  sbx_e2b_api_sandbox(e, &r, "POST", "", NULL,
                      refresh ? "refreshes" : "timeout");
  sbx_json_write_object(&w, NULL);
  sbx_json_write_integer(&w, refresh ? "duration" : "timeout", e->timeout_s);
  sbx_json_write_end(&w);
  sbx_request_json(&r, &w);
  r.http.flags = SBX_HTTP_IDEMPOTENT;
  return sbx_unary_send(u, &r);
}

static int touch_begin(struct sbx_unary* u) {
  enum { REFRESH_MAX = 3600 };
  struct sbx_e2b* e = u->state;

  if (e->base.id == NULL) return no_sandbox(u);
  return touch_send(u, e->timeout_s <= REFRESH_MAX);
}

static int touch_answer(struct sbx_unary* u, struct sbx_answer* a) {
  struct life* l = (struct life*) u;

  if (sbx_answer_good(a)) return sbx_unary_done(u, NULL);
  if (l->step++ == 0 && (a->status == 400 || a->status == 404 ||
                         a->status == 405 || a->status == 501))
    return touch_send(u, false);
  return sbx_unary_refused(u);
}

static const struct sbx_unary_plan touch_plan = {
    .size = sizeof(struct life),
    .operation = "touch",
    .begin = touch_begin,
    .answer = touch_answer,
};

struct sbx_machine* sbx_e2b_touch(struct sbx_service_state* s) {
  return sbx_e2b_unary(&touch_plan, s);
}

/* ---- probe ---- */

static int probe_begin(struct sbx_unary* u) {
  struct sbx_e2b* e = u->state;

  return e->base.id == NULL ? sbx_unary_done(u, NULL) : look(u);
}

/* By the control plane: the edge says "not found" of sandboxes that live. */
static int probe_answer(struct sbx_unary* u, struct sbx_answer* a) {
  struct sbx_error error;
  const char* state;

  if (a->status == 404) return sbx_unary_done(u, NULL);
  if (!sbx_answer_good(a)) return sbx_unary_refused(u);
  if (state_of(u, a, &state, &error) != 0) return sbx_unary_done(u, &error);
  if (strcmp(state, "running") == 0)
    sbx_unary_emit(u, SBX_EMIT_FOUND, NULL, 0);
  return sbx_unary_done(u, NULL);
}

static const struct sbx_unary_plan probe_plan = {
    .size = sizeof(struct life),
    .operation = "probe",
    .begin = probe_begin,
    .answer = probe_answer,
};

struct sbx_machine* sbx_e2b_probe(struct sbx_service_state* s) {
  return sbx_e2b_unary(&probe_plan, s);
}
