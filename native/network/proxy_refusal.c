/* What the proxy says to a client that it does not serve. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "proxy_internal.h"

static void refuse_http(struct sbx__proxied* c, const char* status,
                        const char* fields, const char* body) {
  char answer[2048];
  int len = snprintf(answer, sizeof(answer),
                     "HTTP/1.1 %s\r\nContent-Type: text/plain\r\n%s"
                     "Content-Length: %zu\r\nConnection: close\r\n\r\n%s",
                     status, fields, strlen(body), body);

  sbx_pump_refuse(&c->pump, answer, (size_t) len);
}

static void refuse_socks(struct sbx__proxied* c, int code) {
  char answer[10] = {5, (char) code, 0, 1};

  sbx_pump_refuse(&c->pump, answer, sizeof(answer));
}

void sbx__proxied_refuse(struct sbx__proxied* c, int code, const char* status,
                         const char* body) {
  sbx__proxied_enter(c, SBX__PROXIED_REFUSED);
  if (c->is_socks)
    refuse_socks(c, code);
  else
    refuse_http(c, status, "", body);
}

void sbx__proxied_refuse_login(struct sbx__proxied* c) {
  sbx__proxied_enter(c, SBX__PROXIED_REFUSED);
  refuse_http(c, "407 Proxy Authentication Required",
              "Proxy-Authenticate: Basic realm=\"sandbox\"\r\n",
              "The sandbox's proxy wants the user name and password that stand "
              "in the variable HTTP_PROXY.\n");
}

void sbx__proxied_refuse_raw(struct sbx__proxied* c, const char* two) {
  sbx__proxied_enter(c, SBX__PROXIED_REFUSED);
  sbx_pump_refuse(&c->pump, two, 2);
}

/* "host", "host:8443", "[v6]:8443": what an allow list would say. */
static void spell(const char* host, unsigned port, char* out, size_t size) {
  bool v6 = strchr(host, ':') != NULL;

  if (port == 80 || port == 443)
    snprintf(out, size, "%s", host);
  else
    snprintf(out, size, "%s%s%s:%u", v6 ? "[" : "", host, v6 ? "]" : "", port);
}

static uint64_t hash_of(const char* host, unsigned port) {
  uint64_t h = UINT64_C(0xcbf29ce484222325) ^ port;

  for (; *host != '\0'; host++)
    h = (h ^ (unsigned char) *host) * UINT64_C(0x100000001b3);
  return h;
}

/* A program in a loop must not fill the log. */
static void tell(struct sbx__proxied* c, const char* reason) {
  struct sbx_proxy* p = c->proxy;
  uint64_t hash = hash_of(c->host, c->port);
  struct sbx_denial denial = {c->host, c->port, reason, false};

  for (size_t i = 0; i < p->denials; i++)
    if (p->denied[i] == hash) return;
  if (p->denials == SBX_PROXY_DENIALS) return;
  p->denied[p->denials++] = hash;
  denial.last = p->denials == SBX_PROXY_DENIALS;
  if (p->spec.on_denied != NULL) p->spec.on_denied(p->spec.data, &denial);
}

/* `entry`: what would allow it in a list; NULL: nothing should. An entry is an
 * addition where there are others, which setNetworkPolicy would replace. */
static void deny_with(struct sbx__proxied* c, const char* reason,
                      const char* entry) {
  const char* more = c->proxy->list == NULL ? "" : "..., ";
  char status[512], body[1024];

  snprintf(status, sizeof(status),
           "403 Blocked by the sandbox's network policy%s%s%s%s",
           entry == NULL ? "" : " (network: [", entry == NULL ? "" : more,
           entry == NULL ? "" : "\"", entry == NULL ? "" : entry);
  if (entry != NULL)
    snprintf(status + strlen(status), sizeof(status) - strlen(status),
             "\"] allows it)");
  if (entry == NULL)
    snprintf(body, sizeof(body), "%s\nTrying again does not help.\n", reason);
  else
    snprintf(
        body, sizeof(body),
        "%s\nTrying again does not help. The user of the sandbox can allow "
        "it with the option network: [%s\"%s\"] of local(), or with "
        "setNetworkPolicy([%s\"%s\"]) while it runs%s.\n",
        reason, more, entry, more, entry,
        *more == '\0' ? "" : "; \"...\" stands for what is listed now");
  tell(c, reason);
  sbx__proxied_refuse(c, 2, status, body);
}

/* `text`: a host as it was asked for, or the address it led to. */
static bool is_metadata(const char* text) {
  struct sockaddr_storage a;

  if (strcasecmp(text, "metadata.google.internal") == 0) return true;
  return sbx_address_parse(text, &a) &&
         sbx_address_is_metadata((const struct sockaddr*) &a);
}

void sbx__proxied_deny_host(struct sbx__proxied* c) {
  char name[SBX_HOST_MAX + 16], reason[SBX_HOST_MAX + 128];

  spell(c->host, c->port, name, sizeof(name));
  snprintf(reason, sizeof(reason),
           c->proxy->list == NULL
               ? "The network is off in this sandbox (network: \"deny\"), so "
                 "\"%s\" cannot be reached."
               : "\"%s\" is not among the hosts that this sandbox may reach.",
           name);
  deny_with(c, reason, is_metadata(c->host) ? NULL : name);
}

void sbx__proxied_deny_address(struct sbx__proxied* c) {
  char name[SBX_ADDRESS_TEXT + 16], reason[SBX_HOST_MAX + 256];

  spell(c->special_text, c->port, name, sizeof(name));
  snprintf(reason, sizeof(reason),
           "\"%s\" is %s%s%s. Such addresses are reached only if they are "
           "listed themselves.",
           c->host,
           strcmp(c->host, c->special_text) != 0 ? c->special_text : "",
           strcmp(c->host, c->special_text) != 0 ? ", " : "", c->special);
  deny_with(c, reason, is_metadata(c->special_text) ? NULL : name);
}

void sbx__proxied_fail(struct sbx__proxied* c, int code, const char* what,
                       int err) {
  char body[512];
  char words[SBX_SYS_TEXT_MAX];
  /* Names have errors of their own, all of which libuv knows. */
  bool name = err <= UV_EAI_ADDRFAMILY && err >= UV_EAI_PROTOCOL;

  snprintf(body, sizeof(body), "\"%s\" port %u %s: %s.\n", c->host, c->port,
           what, name ? uv_strerror(err) : sbx_sys_text(-err, words));
  sbx__proxied_refuse(
      c, code, err == UV_ETIMEDOUT ? "504 Gateway Timeout" : "502 Bad Gateway",
      body);
}
