/* How requests to E2B look: the control plane and envd, and what their refusals
 * mean. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "../../native/parse/base64.h"
#include "e2b.h"

/* The edge answers with HTML to what looks like a browser's name. */
static const char agent[] = "User-Agent: sandbox-sdk-native";

void sbx_e2b_api(const struct sbx_e2b* e, struct sbx_request* r,
                 const char* method, const char* path) {
  sbx_request_init(r, method, e->api_url, path);
  sbx_request_header(r, "X-API-Key: %s", e->api_key);
  sbx_request_header(r, "Accept: application/json");
  sbx_request_header(r, agent);
  if (strcmp(method, "POST") == 0 || strcmp(method, "PUT") == 0)
    sbx_request_header(r, "Content-Type: application/json");
  r->http.head_ms = e->request_ms;
  r->http.max_body = SBX_ANSWER_MAX;
}

void sbx_e2b_api_sandbox(const struct sbx_e2b* e, struct sbx_request* r,
                         const char* method, const char* version,
                         const char* id, const char* verb) {
  char path[32];

  snprintf(path, sizeof(path), "%s/sandboxes", version);
  sbx_e2b_api(e, r, method, path);
  sbx_url_segment(&r->url, id != NULL ? id : e->base.id);
  if (verb[0] != '\0') sbx_url_segment(&r->url, verb);
}

static void envd_base(const struct sbx_e2b* e, char* out, size_t size) {
  static const char* const shared[] = {"e2b.app", "e2b.dev", "e2b.pro",
                                       "e2b-staging.dev"};
  const char* domain = e->host_domain != NULL ? e->host_domain : e->domain;

  if (e->debug) {
    snprintf(out, size, "http://localhost:%d", SBX_E2B_PORT);
    return;
  }
  for (size_t i = 0; i < sizeof(shared) / sizeof(shared[0]); i++) {
    if (strcmp(domain, shared[i]) != 0) continue;
    snprintf(out, size, "https://sandbox.%s", domain);
    return;
  }
  if (sbx_e2b_host_url(e, SBX_E2B_PORT, out, size) != 0) out[0] = '\0';
}

/* All hosts route by these where the name does not say it. */
void sbx_e2b_envd(const struct sbx_e2b* e, struct sbx_request* r,
                  const char* method, const char* path) {
  char base[512];

  envd_base(e, base, sizeof(base));
  sbx_request_init(r, method, e->sandbox_url != NULL ? e->sandbox_url : base,
                   path);
  sbx_request_header(r, "E2b-Sandbox-Id: %s", e->base.id);
  sbx_request_header(r, "E2b-Sandbox-Port: %d", SBX_E2B_PORT);
  if (e->token != NULL) sbx_request_header(r, "X-Access-Token: %s", e->token);
  sbx_request_header(r, agent);
  r->http.head_ms = e->request_ms;
}

void sbx_e2b_rpc(const struct sbx_e2b* e, struct sbx_request* r,
                 const char* path) {
  sbx_e2b_envd(e, r, "POST", path);
  sbx_request_header(r, "Content-Type: application/json");
  sbx_request_header(r, "Connect-Protocol-Version: 1");
  r->http.max_body = SBX_ANSWER_MAX;
}

/* envd says every 50 s that it is there. A time limit of 0, or of more than ten
 * digits, would end the call at once. */
void sbx_e2b_stream(const struct sbx_e2b* e, struct sbx_request* r,
                    const char* path, uint64_t timeout_ms) {
  enum { SILENCE_MS = 150 * 1000 };

  sbx_e2b_envd(e, r, "POST", path);
  sbx_request_header(r, "Content-Type: application/connect+json");
  sbx_request_header(r, "Connect-Protocol-Version: 1");
  sbx_request_header(r, "Keepalive-Ping-Interval: 50");
  if (timeout_ms > 0 && timeout_ms <= 9999999999)
    sbx_request_header(r, "Connect-Timeout-Ms: %llu",
                       (unsigned long long) timeout_ms);
  r->http.idle_ms = SILENCE_MS;
}

const char* sbx_e2b_user(const struct sbx_e2b* e) {
  if (e->user != NULL) return e->user;
  return e->version < SBX_E2B_VERSION(0, 4, 0) ? "user" : NULL;
}

void sbx_e2b_as(const struct sbx_e2b* e, struct sbx_request* r, bool root) {
  const char* user = root ? "root" : sbx_e2b_user(e);
  char plain[80], text[SBX_BASE64_ENCODED(sizeof(plain))];
  size_t len;

  if (user == NULL) return;
  len = (size_t) snprintf(plain, sizeof(plain), "%s:", user);
  if (len >= sizeof(plain)) r->failed = true;
  else len = sbx_base64_encode(plain, len, 0, text);
  if (!r->failed)
    sbx_request_header(r, "Authorization: Basic %.*s", (int) len, text);
}

void sbx_e2b_empty(struct sbx_request* r) {
  struct sbx_json_writer w = {0};

  sbx_json_write_object(&w, NULL);
  sbx_json_write_end(&w);
  sbx_request_json(r, &w);
}

/* ---- refusals ---- */

int sbx_e2b_status_of(const char* code) {
  static const struct {
    const char* code;
    int status;
  } list[] = {{"canceled", 499},          {"invalid_argument", 400},
              {"deadline_exceeded", 408}, {"not_found", 404},
              {"already_exists", 409},    {"permission_denied", 403},
              {"resource_exhausted", 429}, {"failed_precondition", 400},
              {"aborted", 409},           {"out_of_range", 400},
              {"unimplemented", 501},     {"unavailable", 502},
              {"unauthenticated", 401}};

  for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++)
    if (strcmp(list[i].code, code) == 0) return list[i].status;
  return 500;
}

/* UNAVAILABLE without a `sys` promises that nothing was run, so that it may be
 * repeated in a new sandbox: the edge's own words say so, a cut answer not. */
static int judge(const struct sbx_e2b* e, int status,
                 const struct sbx_fault* fault, bool certain,
                 const char* operation, struct sbx_error* error) {
  int code = sbx_fault_error(status, fault, -1, &e->envd_words, operation,
                             error);

  if (code != SBX_E_UNAVAILABLE || error == NULL) return code;
  if (!certain) error->sys = ECONNRESET;
  return code;
}

int sbx_e2b_fault_error(const struct sbx_e2b* e, const struct sbx_fault* fault,
                        const char* operation, struct sbx_error* error) {
  return judge(e, sbx_e2b_status_of(fault->code), fault, false, operation,
               error);
}

static bool edge_says_gone(const struct sbx_fault* fault) {
  return strstr(fault->message, "sandbox was not found") != NULL ||
         strstr(fault->message, "port is not open") != NULL;
}

int sbx_e2b_envd_error(const struct sbx_e2b* e, const struct sbx_answer* a,
                       const char* operation, struct sbx_error* error) {
  struct sbx_fault fault = {0};
  bool json = sbx_fault_read(a->body.bytes, a->body.len, &fault);
  bool gone = json && a->status == 502 && edge_says_gone(&fault);

  if (gone && error != NULL) {
    sbx_error_set(error, SBX_E_UNAVAILABLE, 0, operation,
                  "The E2B sandbox \"%s\" does not run any more: it was killed "
                  "or paused, or its time is over.", e->base.id);
    error->retryable = true;
    return error->code;
  }
  if (a->status == 429)
    return sbx_fault_error(429, &fault, a->retry_after, &e->envd_words,
                           operation, error);
  return judge(e, a->status, &fault, false, operation, error);
}
