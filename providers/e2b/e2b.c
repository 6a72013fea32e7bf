/* The E2B service: its options, its state, and the table of its machines. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "e2b.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static int refuse(struct sbx_error* error, const char* option,
                  const char* words) {
  return sbx_error_set(error, SBX_E_INVALID_INPUT, 0, "open", "%s %s.", option,
                       words);
}

static int no_memory(struct sbx_error* error) {
  return sbx_error_set(error, SBX_E_INTERNAL, 0, "open", "Out of memory.");
}

/* ---- what services name ---- */

bool sbx_e2b_id_good(const char* id) {
  size_t len = strlen(id);

  if (len == 0 || len > SBX_E2B_ID_MAX) return false;
  for (; *id != '\0'; id++)
    if (!((*id >= 'a' && *id <= 'z') || (*id >= 'A' && *id <= 'Z') ||
          (*id >= '0' && *id <= '9') || *id == '-' || *id == '_'))
      return false;
  return true;
}

static bool is_e2bs(const char* domain) {
  static const char* const own[] = {"e2b.app", "e2b.dev", "e2b.pro",
                                    "e2b-staging.dev"};

  for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
    if (sbx_host_below(domain, own[i])) return true;
  return false;
}

bool sbx_e2b_domain_good(const struct sbx_e2b* e, const char* domain) {
  char clean[SBX_HOST_MAX];
  struct sbx_url api;

  if (!sbx_host_clean(domain, strlen(domain), clean) ||
      strcmp(clean, domain) != 0)
    return false;
  if (sbx_host_below(domain, e->domain)) return true;
  if (is_e2bs(e->domain) && is_e2bs(domain)) return true;
  if (sbx_url_parse(e->api_url, strlen(e->api_url), &api) != NULL || !api.tls ||
      strncmp(api.host, "api.", 4) != 0 || is_e2bs(api.host))
    return false;
  return sbx_host_below(domain, api.host + 4);
}

int sbx_e2b_host_url(const struct sbx_e2b* e, unsigned port, char* out,
                     size_t size) {
  const char* domain = e->host_domain != NULL ? e->host_domain : e->domain;
  int len;

  if (e->debug)
    len = snprintf(out, size, "http://localhost:%u", port);
  else if (e->base.id == NULL)
    return SBX_E_UNAVAILABLE;
  else
    len = snprintf(out, size, "https://%u-%s.%s", port, e->base.id, domain);
  return len > 0 && (size_t) len < size ? 0 : SBX_E_PROVIDER;
}

void sbx_e2b_know_secrets(struct sbx_e2b* e) {
  e->secrets[0] = e->api_key;
  e->secrets[1] = e->token != NULL ? e->token : "";
  e->secrets[2] = e->traffic != NULL ? e->traffic : "";
  e->secrets[3] = NULL;
  e->words.secrets = e->envd_words.secrets = e->secrets;
}

void* sbx_e2b_unary(const struct sbx_unary_plan* plan,
                    struct sbx_service_state* s) {
  return sbx_unary_new(plan, s, &((struct sbx_e2b*) s)->words);
}

/* ---- options ---- */

/* The option, else the environment's, else `fallback`, which may be NULL. An
 * empty variable counts as none. */
static int read_text(const struct sbx_options* o, const char* option,
                     const char* variable, const char* fallback, char** out) {
  char name[64];
  const char* value = NULL;

  if (variable != NULL) {
    snprintf(name, sizeof(name), "host.%s", variable);
    value = sbx_options_string(o, name);
  }
  if (value == NULL || value[0] == '\0') value = fallback;
  return sbx_options_copy(o, option, value, out);
}

static int check_key(const char* key, struct sbx_error* error) {
  if (key == NULL || key[0] == '\0')
    return sbx_error_set(error, SBX_E_AUTHENTICATION, 0, "open",
                         "E2B needs an API key: set E2B_API_KEY in the "
                         "environment, or give e2b() the option apiKey. Keys "
                         "are made at https://e2b.dev/dashboard.");
  for (const char* p = key; *p != '\0'; p++)
    if (*p <= ' ' || *p > '~')
      return sbx_error_set(error, SBX_E_AUTHENTICATION, 0, "open",
                           "The E2B API key (apiKey or E2B_API_KEY) holds "
                           "blanks or characters that no key has: copy it "
                           "again.");
  return 0;
}

/* "keyLater": set_secret comes before the first request. */
static int read_key(struct sbx_e2b* e, const struct sbx_options* o,
                    struct sbx_error* error) {
  bool later = sbx_options_bool(o, "keyLater", false);

  if (later)
    e->api_key = strdup("");
  else if (read_text(o, "apiKey", "E2B_API_KEY", NULL, &e->api_key) != 0)
    return no_memory(error);
  if (later) return e->api_key != NULL ? 0 : no_memory(error);
  return check_key(e->api_key, error);
}

static int e2b_set_secret(struct sbx_service_state* s, const char* secret,
                          struct sbx_error* error) {
  struct sbx_e2b* e = (struct sbx_e2b*) s;
  int err = check_key(secret, error);
  char* copy = err == 0 ? strdup(secret) : NULL;

  if (err != 0) return err;
  if (copy == NULL) return no_memory(error);
  free(e->api_key);
  e->api_key = copy;
  sbx_e2b_know_secrets(e);
  return 0;
}

static int e2b_set_template(struct sbx_service_state* s, const char* id) {
  struct sbx_e2b* e = (struct sbx_e2b*) s;
  char* copy = id != NULL ? strdup(id) : NULL;

  if (id != NULL && copy == NULL) return SBX_E_INTERNAL;
  free(e->layer);
  e->layer = copy;
  return 0;
}

static int check_url(const char* url, const char* option,
                     struct sbx_error* error) {
  struct sbx_url parsed;
  const char* wrong = sbx_url_parse(url, strlen(url), &parsed);

  if (wrong != NULL) return refuse(error, option, wrong);
  if (parsed.query_len > 0)
    return refuse(error, option, "must not have a query");
  if (parsed.scheme[0] == 'w')
    return refuse(error, option, "must begin with https:// (or http://)");
  return 0;
}

static int check_domain(const char* domain, struct sbx_error* error) {
  char clean[SBX_HOST_MAX];

  if (sbx_host_clean(domain, strlen(domain), clean) &&
      strcmp(clean, domain) == 0 && strchr(domain, ':') == NULL)
    return 0;
  return refuse(error, "domain",
                "(or E2B_DOMAIN) must be a host name in lower case such as "
                "\"e2b.app\", without a scheme");
}

static int read_addresses(struct sbx_e2b* e, const struct sbx_options* o,
                          struct sbx_error* error) {
  const char* debug = sbx_options_string(o, "host.E2B_DEBUG");
  char api[SBX_HOST_MAX + 16];
  int err;

  e->debug = debug != NULL && strcasecmp(debug, "true") == 0;
  if (read_text(o, "domain", "E2B_DOMAIN", "e2b.app", &e->domain) != 0)
    return no_memory(error);
  err = check_domain(e->domain, error);
  if (err != 0) return err;
  if (e->debug)
    snprintf(api, sizeof(api), "http://localhost:3000");
  else
    snprintf(api, sizeof(api), "https://api.%s", e->domain);
  if (read_text(o, "apiUrl", "E2B_API_URL", api, &e->api_url) != 0 ||
      read_text(o, "sandboxUrl", "E2B_SANDBOX_URL", NULL, &e->sandbox_url) != 0)
    return no_memory(error);
  err = check_url(e->api_url, "apiUrl (or E2B_API_URL)", error);
  if (err != 0 || e->sandbox_url == NULL) return err;
  return check_url(e->sandbox_url, "sandboxUrl (or E2B_SANDBOX_URL)", error);
}

/* A time in ms as the user gives it. */
static int read_ms(const struct sbx_options* o, const char* option,
                   double fallback, double least, double most, double* out,
                   struct sbx_error* error) {
  *out = sbx_options_number(o, option, fallback);
  if (*out >= least && *out <= most) return 0;
  return sbx_error_set(error, SBX_E_INVALID_INPUT, 0, "open",
                       "%s must be a number of milliseconds from %.0f to %.0f.",
                       option, least, most);
}

static int read_times(struct sbx_e2b* e, const struct sbx_options* o,
                      struct sbx_error* error) {
  const double day = 24.0 * 3600 * 1000;
  bool given = sbx_options_has(o, "requestTimeout");
  double ms;
  int err = read_ms(o, "timeout", 300 * 1000, 1, 365 * day, &ms, error);

  if (err != 0) return err;
  e->timeout_s = (uint32_t) ceil(ms / 1000);
  err = read_ms(o, "requestTimeout", 60 * 1000, 0, day, &ms, error);
  e->request_ms = ms == 0 ? (uint64_t) day : (uint64_t) ceil(ms);
  /* The service gives itself 75 s for these. */
  e->slow_ms = given ? e->request_ms : 80 * 1000;
  e->base.timeout_ms = e->timeout_s * (uint64_t) 1000;
  e->base.request_ms = e->slow_ms + e->request_ms;
  return err;
}

static int read_metadata(struct sbx_e2b* e, const struct sbx_options* o,
                         struct sbx_error* error) {
  static const struct sbx_json_source source = {"The option metadata", "open"};
  const char* text = sbx_options_string(o, "metadata");
  struct sbx_json_node node;
  const char* value;
  int err;

  if (text == NULL) return 0;
  err = sbx_json_parse(text, strlen(text), &source, &e->metadata, error);
  if (err != 0)
    return refuse(error, "metadata", "must be an object of strings");
  node = sbx_json_first(sbx_json_root(e->metadata));
  for (; node.item != NULL; node = sbx_json_next(node)) {
    const char* key = sbx_json_key(node);

    if (key == NULL || sbx_json_string(node, NULL, &value, NULL) != 0)
      return refuse(error, "metadata", "must be an object of strings");
    if (strcmp(key, SBX_E2B_KEY_ID) == 0)
      return refuse(error, "metadata",
                    "must not have the key " SBX_E2B_KEY_ID
                    ", which this package sets itself");
  }
  return 0;
}

static const char user_letters[] =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";

static int read_user(struct sbx_e2b* e, const struct sbx_options* o,
                     struct sbx_error* error) {
  if (sbx_options_copy(o, "user", NULL, &e->user) != 0) return no_memory(error);
  if (e->user != NULL) {
    size_t good = strspn(e->user, user_letters);

    if (good == 0 || good > 64 || e->user[good] != '\0')
      return refuse(error, "user",
                    "must be the name of a user of the template, such as "
                    "\"user\" or \"root\"");
  }
  e->base.user = e->user != NULL ? e->user : "";
  if (e->user != NULL && strcmp(e->user, "root") == 0)
    snprintf(e->home, sizeof(e->home), "/root");
  else
    snprintf(e->home, sizeof(e->home), "/home/%s",
             e->user != NULL ? e->user : "user");
  e->base.home = e->home;
  return 0;
}

static int read_template(struct sbx_e2b* e, const struct sbx_options* o,
                         struct sbx_error* error) {
  if (sbx_options_copy(o, "template", "base", &e->template_id) != 0 ||
      sbx_options_copy(o, "cwd", "/workspace", &e->cwd) != 0)
    return no_memory(error);
  if (e->template_id[0] == '\0')
    return refuse(error, "template",
                  "must be a template's name or id, or be left out");
  e->secure = sbx_options_bool(o, "secure", true);
  e->auto_pause = sbx_options_bool(o, "autoPause", false);
  e->computer = sbx_options_bool(o, "computer", false);
  return 0;
}

static int read_options(struct sbx_e2b* e, const struct sbx_options* o,
                        struct sbx_error* error) {
  int err = read_addresses(e, o, error);

  if (err == 0) err = read_times(e, o, error);
  if (err == 0) err = read_metadata(e, o, error);
  if (err == 0) err = read_user(e, o, error);
  if (err == 0) err = read_template(e, o, error);
  if (err == 0) err = sbx_e2b_network_read(&e->network, o, error);
  if (err == 0) err = read_key(e, o, error);
  return err;
}

static void e2b_free(struct sbx_service_state* s) {
  struct sbx_e2b* e = (struct sbx_e2b*) s;

  if (e == NULL) return;
  free(e->base.id);
  free(e->api_key);
  free(e->api_url);
  free(e->domain);
  free(e->sandbox_url);
  free(e->template_id);
  free(e->layer);
  free(e->from);
  free(e->user);
  free(e->cwd);
  free(e->token);
  free(e->traffic);
  free(e->host_domain);
  sbx_json_free(e->metadata);
  sbx_e2b_network_clear(&e->network);
  free(e);
}

static int e2b_open(const struct sbx_options* options,
                    struct sbx_service_state** out, struct sbx_error* error) {
  struct sbx_e2b* e = calloc(1, sizeof(*e));
  int err;

  *out = NULL;
  if (e == NULL) return no_memory(error);
  e->words = (struct sbx_answer_words){
      "E2B", " Check the API key: apiKey, or E2B_API_KEY in the environment.",
      " Check apiUrl, sandboxUrl and domain, and any proxy on the way.", NULL};
  e->envd_words = (struct sbx_answer_words){
      "The E2B sandbox",
      " Check the option user; else start the sandbox again.",
      " Check sandboxUrl and domain, and any proxy on the way.", NULL};
  err = read_options(e, options, error);
  if (err != 0) {
    e2b_free(&e->base);
    return err;
  }
  e->version = SBX_E2B_VERSION(0, 6, 0);
  sbx_e2b_know_secrets(e);
  *out = &e->base;
  return 0;
}

/* ---- what is known without asking ---- */

static int e2b_port_url(struct sbx_service_state* s, unsigned port, char* url,
                        size_t url_size, char* header, size_t header_size) {
  struct sbx_e2b* e = (struct sbx_e2b*) s;
  int err = sbx_e2b_host_url(e, port, url, url_size);
  int len;

  if (header_size > 0) header[0] = '\0';
  if (err != 0 || e->traffic == NULL || e->debug) return err;
  len = snprintf(header, header_size, "e2b-traffic-access-token: %s",
                 e->traffic);
  return len > 0 && (size_t) len < header_size ? 0 : SBX_E_PROVIDER;
}

static void e2b_facts(struct sbx_service_state* s, sbx_fact_cb cb, void* arg) {
  struct sbx_e2b* e = (struct sbx_e2b*) s;
  char text[64];

  if (e->base.id != NULL) cb(arg, "sandboxId", e->base.id);
  cb(arg, "template", e->from != NULL ? e->from : e->template_id);
  cb(arg, "domain", e->host_domain != NULL ? e->host_domain : e->domain);
  snprintf(text, sizeof(text), "%u", e->timeout_s);
  cb(arg, "timeoutSeconds", text);
  cb(arg, "onTimeout", e->auto_pause ? "pause" : "kill");
  if (e->base.id != NULL) {
    snprintf(text, sizeof(text), "%u.%u.%u", e->version >> 20,
             e->version >> 10 & 1023, e->version & 1023);
    cb(arg, "envdVersion", text);
  }
  sbx_e2b_network_facts(&e->network, cb, arg);
}

static const struct sbx_capability* e2b_capabilities(
    struct sbx_service_state* s, size_t* count) {
  /* The first or the last of them holds. */
  static const struct sbx_capability list[] = {
      {"computer", "emulated", "by X programs of the template"},
      {"files", "emulated", "file tools are shell programs in the sandbox"},
      {"commands", "native", NULL},
      {"processes", "native", NULL},
      {"stdin", "native", NULL},
      {"stdinClose", "native", NULL},
      {"streaming", "native", NULL},
      {"cancellation", "emulated",
       "E2B signals one process; the tree is ended by a command"},
      {"timeout", "native", NULL},
      {"signals", "emulated",
       "E2B sends KILL and TERM; the others are sent by a command"},
      {"ports", "native", NULL},
      {"snapshots", "emulated", "archives of the workspace on this side"},
      {"pty", "native", NULL},
      {"networkPolicy", "native", NULL},
      {"pause", "native", NULL},
      {"watch", "native", NULL},
      {"computer", "unsupported",
       "only templates with a desktop have one: template \"desktop\", or the "
       "option computer"},
  };

  *count = sizeof(list) / sizeof(list[0]) - 1;
  return ((struct sbx_e2b*) s)->computer ? list : list + 1;
}

const struct sbx_service sbx_service_e2b = {
    .name = "e2b",
    .title = "E2B",
    .open = e2b_open,
    .free = e2b_free,
    .find = sbx_e2b_find,
    .create = sbx_e2b_create,
    .connect = sbx_e2b_connect,
    .stop = sbx_e2b_stop,
    .destroy = sbx_e2b_destroy,
    .touch = sbx_e2b_touch,
    .probe = sbx_e2b_probe,
    .start = sbx_e2b_start,
    .attach = sbx_e2b_attach,
    .upload = sbx_e2b_upload,
    .download = sbx_e2b_download,
    .watch = sbx_e2b_watch,
    .snapshot_create = sbx_e2b_snapshot_create,
    .snapshot_delete = sbx_e2b_snapshot_delete,
    .snapshot_list = sbx_e2b_snapshot_list,
    .set_template = e2b_set_template,
    .set_secret = e2b_set_secret,
    .set_network = sbx_e2b_set_network,
    .port_url = e2b_port_url,
    .binary_output = true,
    .facts = e2b_facts,
    .capabilities = e2b_capabilities,
};
