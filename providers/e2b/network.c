/* The network policy: ours ("deny", "allow", a list of hosts) and E2B's own
 * lists, as the service takes them. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../native/network/allow_list.h"
#include "e2b.h"

static const char everything[] = "0.0.0.0/0";

static int refuse(struct sbx_error* error, const char* format,
                  const char* value) __attribute__((format(printf, 2, 0)));

static int refuse(struct sbx_error* error, const char* format,
                  const char* value) {
  char text[512];

  snprintf(text, sizeof(text), format, value);
  return sbx_error_set(error, SBX_E_INVALID_INPUT, 0, "network", "%s", text);
}

static void free_list(char*** list, size_t* len) {
  for (size_t i = 0; i < *len; i++) free((*list)[i]);
  free(*list);
  *list = NULL;
  *len = 0;
}

void sbx_e2b_network_clear(struct sbx_e2b_network* n) {
  free_list(&n->allow, &n->allow_len);
  free_list(&n->deny, &n->deny_len);
  free(n->mask_host);
  free(n->shown);
  memset(n, 0, sizeof(*n));
  n->internet = n->public_traffic = -1;
}

static int append(char*** list, size_t* len, const char* value,
                  struct sbx_error* error) {
  char** grown = realloc(*list, (*len + 1) * sizeof(char*));

  if (grown != NULL) {
    *list = grown;
    grown[*len] = strdup(value);
    if (grown[*len] != NULL) {
      (*len)++;
      return 0;
    }
  }
  return sbx_error_set(error, SBX_E_INTERNAL, 0, "network", "Out of memory.");
}

/* ---- our policy ---- */

static bool has_port(const char* entry) {
  const char* colon = strrchr(entry, ':');
  const char* bracket = strrchr(entry, ']');

  if (colon == NULL || (bracket != NULL && colon < bracket)) return false;
  return bracket != NULL || strchr(entry, ':') == colon;
}

static int check_entry(struct sbx_allow_list* scratch, const char* entry,
                       struct sbx_error* error) {
  int err = sbx_allow_list_add(scratch, "network", entry, error);

  if (err != 0) return err;
  if (has_port(entry))
    return refuse(error,
                  "network holds \"%.200s\", but E2B's policy knows hosts "
                  "without ports: leave the port out.", entry);
  if (strchr(entry, ':') != NULL)
    return refuse(error,
                  "network holds \"%.200s\", but E2B's policy knows no IPv6 "
                  "addresses: name the host.", entry);
  if (strcmp(entry, "*") == 0)
    return refuse(error,
                  "network holds \"%.200s\": for every host give network: "
                  "\"allow\".", entry);
  return 0;
}

static int allow_entry(struct sbx_e2b_network* n,
                       struct sbx_allow_list* scratch, const char* entry,
                       struct sbx_error* error) {
  const char* const* hosts = sbx_allow_list_preset(entry);
  int err;

  if (hosts == NULL) {
    err = check_entry(scratch, entry, error);
    return err != 0 ? err : append(&n->allow, &n->allow_len, entry, error);
  }
  for (err = 0; err == 0 && *hosts != NULL; hosts++)
    err = append(&n->allow, &n->allow_len, *hosts, error);
  return err;
}

static char* join(const char* const* hosts, size_t count) {
  struct sbx_text text = {0};

  for (size_t i = 0; i < count; i++) {
    if (i > 0) sbx_text_puts(&text, ", ");
    sbx_text_puts(&text, hosts[i]);
  }
  return sbx_text_take(&text, NULL);
}

static int fill(struct sbx_e2b_network* n, const char* const* hosts,
                size_t count, struct sbx_error* error) {
  struct sbx_allow_list* scratch;
  int err = 0;

  if (sbx_allow_list_new(&scratch) != 0)
    return sbx_error_set(error, SBX_E_INTERNAL, 0, "network", "Out of memory.");
  for (size_t i = 0; err == 0 && i < count; i++)
    err = allow_entry(n, scratch, hosts[i], error);
  sbx_allow_list_free(scratch);
  /* The allowed ones go before it. */
  if (err == 0) err = append(&n->deny, &n->deny_len, everything, error);
  if (err == 0 && count > 0 && (n->shown = join(hosts, count)) == NULL)
    err = sbx_error_set(error, SBX_E_INTERNAL, 0, "network", "Out of memory.");
  return err;
}

int sbx_e2b_network_set(struct sbx_e2b_network* n, const char* const* hosts,
                        size_t count, struct sbx_error* error) {
  struct sbx_e2b_network made = {0};
  int err;

  sbx_e2b_network_clear(&made);
  err = fill(&made, hosts, count, error);
  if (err != 0) {
    sbx_e2b_network_clear(&made);
    return err;
  }
  made.public_traffic = n->public_traffic;
  made.mask_host = n->mask_host;
  n->mask_host = NULL;
  sbx_e2b_network_clear(n);
  *n = made;
  return 0;
}

/* ---- options ---- */

static int read_own_list(const struct sbx_options* o, const char* name,
                         char*** list, size_t* len, struct sbx_error* error) {
  int err = 0;

  for (size_t i = 0; err == 0 && i < sbx_options_count(o, name); i++)
    err = append(list, len, sbx_options_item(o, name, i), error);
  return err;
}

/* { allowOut, denyOut, allowPublicTraffic, maskRequestHost }: the service
 * checks what is in the lists. */
static int read_own(struct sbx_e2b_network* n, const struct sbx_options* o,
                    struct sbx_error* error) {
  int err = read_own_list(o, "network.allowOut", &n->allow, &n->allow_len,
                          error);

  if (err == 0)
    err = read_own_list(o, "network.denyOut", &n->deny, &n->deny_len, error);
  if (err == 0 && sbx_options_copy(o, "network.maskRequestHost", NULL,
                                   &n->mask_host) != 0)
    err = sbx_error_set(error, SBX_E_INTERNAL, 0, "network", "Out of memory.");
  if (sbx_options_has(o, "network.allowPublicTraffic"))
    n->public_traffic = sbx_options_bool(o, "network.allowPublicTraffic", true);
  if (sbx_options_has(o, "allowInternetAccess"))
    n->internet = sbx_options_bool(o, "allowInternetAccess", true);
  return err;
}

static int read_list(struct sbx_e2b_network* n, const struct sbx_options* o,
                     const char* name, struct sbx_error* error) {
  size_t count = sbx_options_count(o, name);
  const char** hosts = calloc(count + 1, sizeof(char*));
  int err;

  if (hosts == NULL)
    return sbx_error_set(error, SBX_E_INTERNAL, 0, "network", "Out of memory.");
  for (size_t i = 0; i < count; i++) hosts[i] = sbx_options_item(o, name, i);
  err = sbx_e2b_network_set(n, hosts, count, error);
  free(hosts);
  return err;
}

static int read_policy(struct sbx_e2b_network* n, const struct sbx_options* o,
                       struct sbx_error* error) {
  const char* word = sbx_options_string(o, "network");
  int internet = n->internet;
  const char* list = NULL;
  int err = 0;

  if (sbx_options_type(o, "network") == SBX_OPTION_LIST) list = "network";
  if (sbx_options_type(o, "network.allow") == SBX_OPTION_LIST)
    list = "network.allow";
  if (word != NULL && strcmp(word, "allow") == 0 && internet == 0)
    return refuse(error, "%s: false contradicts network: \"allow\"; leave one "
                         "of them out.", "allowInternetAccess");
  if (word != NULL && strcmp(word, "deny") == 0 && internet == 1)
    return refuse(error, "%s: true contradicts network: \"deny\"; leave one of "
                         "them out.", "allowInternetAccess");
  if (list != NULL) err = read_list(n, o, list, error);
  n->internet = internet;
  if (word != NULL && strcmp(word, "deny") == 0) n->internet = 0;
  return err;
}

int sbx_e2b_network_read(struct sbx_e2b_network* n,
                         const struct sbx_options* options,
                         struct sbx_error* error) {
  int err;

  sbx_e2b_network_clear(n);
  err = read_own(n, options, error);
  return err != 0 ? err : read_policy(n, options, error);
}

/* ---- to the service ---- */

static void write_list(struct sbx_json_writer* w, const char* name,
                       char* const* list, size_t len) {
  sbx_json_write_array(w, name);
  for (size_t i = 0; i < len; i++) sbx_json_write_string(w, NULL, list[i]);
  sbx_json_write_end(w);
}

void sbx_e2b_network_write(const struct sbx_e2b_network* n,
                           struct sbx_json_writer* w) {
  if (n->internet >= 0)
    sbx_json_write_bool(w, "allow_internet_access", n->internet == 1);
  if (n->allow_len == 0 && n->deny_len == 0 && n->public_traffic < 0 &&
      n->mask_host == NULL)
    return;
  sbx_json_write_object(w, "network");
  if (n->allow_len > 0) write_list(w, "allowOut", n->allow, n->allow_len);
  if (n->deny_len > 0) write_list(w, "denyOut", n->deny, n->deny_len);
  if (n->public_traffic >= 0)
    sbx_json_write_bool(w, "allowPublicTraffic", n->public_traffic == 1);
  if (n->mask_host != NULL)
    sbx_json_write_string(w, "maskRequestHost", n->mask_host);
  sbx_json_write_end(w);
}

void sbx_e2b_network_facts(const struct sbx_e2b_network* n, sbx_fact_cb cb,
                           void* arg) {
  bool denied = n->internet == 0;

  for (size_t i = 0; i < n->deny_len; i++)
    if (strcmp(n->deny[i], everything) == 0) denied = true;
  cb(arg, "network", n->allow_len > 0 && denied ? "list"
                     : denied                   ? "deny"
                                                : "allow");
  if (n->shown != NULL) cb(arg, "networkAllow", n->shown);
}

/* ---- the machine ---- */

struct change {
  struct sbx_unary unary; /* first */
  struct sbx_e2b_network wanted;
  struct sbx_error error;
};

/* It replaces everything that can be changed; the rest stays. */
static int change_begin(struct sbx_unary* u) {
  struct change* c = (struct change*) u;
  const struct sbx_e2b* e = u->state;
  struct sbx_json_writer w = {0};
  struct sbx_request r;

  if (c->error.code != 0) return sbx_unary_done(u, &c->error);
  sbx_e2b_api_sandbox(e, &r, "PUT", "", NULL, "network");
  sbx_json_write_object(&w, NULL);
  write_list(&w, "allowOut", c->wanted.allow, c->wanted.allow_len);
  write_list(&w, "denyOut", c->wanted.deny, c->wanted.deny_len);
  sbx_json_write_end(&w);
  sbx_request_json(&r, &w);
  r.http.flags = SBX_HTTP_IDEMPOTENT;
  return sbx_unary_send(u, &r);
}

static int change_answer(struct sbx_unary* u, struct sbx_answer* a) {
  struct change* c = (struct change*) u;
  struct sbx_e2b* e = u->state;

  if (!sbx_answer_good(a)) return sbx_unary_refused(u);
  c->wanted.public_traffic = e->network.public_traffic;
  c->wanted.mask_host = e->network.mask_host;
  e->network.mask_host = NULL;
  sbx_e2b_network_clear(&e->network);
  e->network = c->wanted;
  memset(&c->wanted, 0, sizeof(c->wanted));
  return sbx_unary_done(u, NULL);
}

static void change_dispose(struct sbx_unary* u) {
  sbx_e2b_network_clear(&((struct change*) u)->wanted);
}

static const struct sbx_unary_plan change_plan = {
    .size = sizeof(struct change),
    .operation = "network",
    .begin = change_begin,
    .answer = change_answer,
    .dispose = change_dispose,
};

/* A wrong host is told when the machine begins. */
struct sbx_machine* sbx_e2b_set_network(struct sbx_service_state* s,
                                        const char* const* hosts,
                                        size_t count) {
  struct change* c = sbx_e2b_unary(&change_plan, s);

  if (c == NULL) return NULL;
  sbx_e2b_network_clear(&c->wanted);
  sbx_e2b_network_set(&c->wanted, hosts, count, &c->error);
  return &c->unary.machine;
}
