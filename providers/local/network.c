/* Keeps proxy and bridges in step with the session.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "network.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../../native/network/acceptor.h"
#include "../../native/network/bridge.h"
#include "../../native/network/dial.h"

enum { PORTS_MAX = 64 };

struct sbx_local_port {
  struct sbx_local_port* next;
  unsigned inside;
  struct sbx_bridge* bridge;
};

static int no_memory(struct sbx_error* error) {
  return sbx_error_set(error, SBX_E_INTERNAL, ENOMEM, "network",
                       "Out of memory.");
}

static int make_token(char token[SBX_PROXY_TOKEN_MAX]) {
  static const char digits[] = "0123456789abcdef";
  unsigned char bytes[16];
  int err = uv_random(NULL, NULL, bytes, sizeof(bytes), 0, NULL);

  for (size_t i = 0; i < sizeof(bytes); i++) {
    token[2 * i] = digits[bytes[i] >> 4];
    token[2 * i + 1] = digits[bytes[i] & 15];
  }
  token[2 * sizeof(bytes)] = '\0';
  return err;
}

int sbx_local_network_init(struct sbx_local_network* n, uv_loop_t* loop,
                           bool proxied) {
  memset(n, 0, sizeof(*n));
  n->loop = loop;
  n->proxied = proxied;
  n->proxy_port = SBX_LOCAL_PROXY_PORT;
  n->here = -1;
  return make_token(n->token);
}

/* ---- the policy ---- */

void sbx_local_network_clear(struct sbx_local_network* n) {
  free(n->hosts);
  free(n->allowed);
  n->hosts = NULL;
  n->hosts_len = 0;
  n->allowed = NULL;
}

static int make_list(const char* const* hosts, size_t len,
                     struct sbx_allow_list** out, struct sbx_error* error) {
  int err;

  *out = NULL;
  if (len == 0) return 0;
  if (sbx_allow_list_new(out) != 0) return no_memory(error);
  for (size_t i = 0; i < len; i++) {
    err = sbx_allow_list_add(*out, "network", hosts[i], error);
    if (err == 0) continue;
    sbx_allow_list_free(*out);
    *out = NULL;
    return err;
  }
  return 0;
}

/* One block: the pointers, then the texts. */
static char** copy_hosts(const char* const* hosts, size_t len) {
  size_t size = (len + 1) * sizeof(char*);
  char** copy;
  char* text;

  for (size_t i = 0; i < len; i++) size += strlen(hosts[i]) + 1;
  copy = calloc(1, size);
  if (copy == NULL) return NULL;
  text = (char*) (copy + len + 1);
  for (size_t i = 0; i < len; i++) {
    copy[i] = text;
    text = stpcpy(text, hosts[i]) + 1;
  }
  return copy;
}

static char* join_hosts(const char* const* hosts, size_t len) {
  size_t size = 1;
  char* text;

  for (size_t i = 0; i < len; i++) size += strlen(hosts[i]) + 2;
  text = calloc(1, size);
  for (size_t i = 0; text != NULL && i < len; i++) {
    if (i > 0) strcat(text, ", ");
    strcat(text, hosts[i]);
  }
  return text;
}

int sbx_local_network_allow(struct sbx_local_network* n,
                            const char* const* hosts, size_t len,
                            struct sbx_error* error) {
  struct sbx_allow_list* list;
  int err = make_list(hosts, len, &list, error);
  char** copy;
  char* text;

  if (err != 0) return err;
  copy = copy_hosts(hosts, len);
  text = join_hosts(hosts, len);
  if (copy == NULL || text == NULL) {
    free(copy);
    free(text);
    sbx_allow_list_free(list);
    return no_memory(error);
  }
  sbx_local_network_clear(n);
  n->hosts = copy;
  n->hosts_len = len;
  n->allowed = text;
  if (n->proxy != NULL)
    sbx_proxy_set(n->proxy, list);
  else
    sbx_allow_list_free(list);
  return 0;
}

/* ---- the proxy ---- */

static void on_denied(void* data, const struct sbx_denial* denial) {
  struct sbx_local_network* n = data;

  if (n->on_denied != NULL) n->on_denied(n->denied_arg, denial);
}

/* Without a listener commands are refused by the kernel instead of the proxy. */
static void on_listening(void* arg, int fd) {
  struct sbx_local_network* n = arg;

  n->listening = NULL;
  if (fd < 0) return;
  if (n->proxy == NULL)
    close(fd);
  else
    sbx_proxy_listen(n->proxy, fd);
}

int sbx_local_network_prepare(struct sbx_local_network* n,
                              enum sbx_level level, struct sbx_config* config,
                              struct sbx_error* error) {
  char words[SBX_SYS_TEXT_MAX];
  int fd;

  n->proxy_port = SBX_LOCAL_PROXY_PORT;
  if (!n->proxied || level != SBX_LEVEL_LANDLOCK) return 0;
  fd = sbx_listen_loopback(AF_INET, 0);
  if (fd < 0)
    return sbx_error_set(error, SBX_E_UNAVAILABLE, -fd, "start",
                         "The sandbox's proxy cannot listen on 127.0.0.1: %s.",
                         sbx_sys_text(-fd, words));
  n->here = fd;
  n->proxy_port = sbx_listen_port(fd);
  sbx_config_add_number(config, SBX_CONFIG_TCP_CONNECT, n->proxy_port);
  return 0;
}

static void listen_here(struct sbx_local_network* n) {
  sbx_proxy_listen(n->proxy, n->here);
  n->here = -1;
}

int sbx_local_network_start(struct sbx_local_network* n,
                            struct sbx_session* session,
                            struct sbx_error* error) {
  struct sbx_proxy_spec spec = {n->loop, n->token, n, on_denied};
  struct sbx_allow_list* list;
  int err;

  if (!n->proxied) return 0;
  err = make_list((const char* const*) n->hosts, n->hosts_len, &list, error);
  if (err != 0) return err;
  if (sbx_proxy_new(&spec, &n->proxy) != 0) {
    sbx_allow_list_free(list);
    return no_memory(error);
  }
  sbx_proxy_set(n->proxy, list);
  if (n->here >= 0) {
    listen_here(n);
    return 0;
  }
  n->listening = sbx_dial_listen(session, SBX_LOCAL_PROXY_PORT, on_listening,
                                 n);
  return 0;
}

static void on_part_closed(void* arg) {
  struct sbx_local_network* n = arg;

  if (--n->pending == 0 && n->on_idle != NULL) n->on_idle(n->idle_arg);
}

void sbx_local_network_end(struct sbx_local_network* n) {
  struct sbx_proxy* proxy = n->proxy;

  if (n->listening != NULL) sbx_dial_cancel(n->listening);
  n->listening = NULL;
  if (n->here >= 0) close(n->here);
  n->here = -1;
  n->proxy = NULL;
  if (proxy != NULL) {
    n->pending++;
    sbx_proxy_close(proxy, on_part_closed, n);
  }
  sbx_local_network_unexpose_all(n);
}

/* ---- ports ---- */

static struct sbx_local_port** find(struct sbx_local_network* n,
                                    unsigned inside, size_t* count) {
  struct sbx_local_port** at = &n->ports;

  *count = 0;
  while (*at != NULL && (*at)->inside != inside) {
    at = &(*at)->next;
    (*count)++;
  }
  return at;
}

static int add_port(struct sbx_local_network* n, struct sbx_session* session,
                    unsigned inside, unsigned* outside,
                    struct sbx_error* error) {
  struct sbx_local_port* port = calloc(1, sizeof(*port));
  int err;

  if (port == NULL) return no_memory(error);
  port->inside = inside;
  err = sbx_bridge_open(n->loop, session, inside, &port->bridge, error);
  if (err != 0) {
    free(port);
    return err;
  }
  *outside = sbx_bridge_port(port->bridge);
  port->next = n->ports;
  n->ports = port;
  return 0;
}

int sbx_local_network_expose(struct sbx_local_network* n,
                             struct sbx_session* session, unsigned inside,
                             unsigned* outside, struct sbx_error* error) {
  size_t count;
  struct sbx_local_port** at = find(n, inside, &count);

  if (*at == NULL && count >= PORTS_MAX)
    return sbx_error_set(error, SBX_E_INVALID_INPUT, 0, "ports.expose",
                         "At most %d ports of a sandbox can be exposed.",
                         PORTS_MAX);
  if (*at == NULL) return add_port(n, session, inside, outside, error);
  *outside = sbx_bridge_port((*at)->bridge);
  return 0;
}

static void drop(struct sbx_local_network* n, struct sbx_local_port** at) {
  struct sbx_local_port* port = *at;

  *at = port->next;
  n->pending++;
  sbx_bridge_close(port->bridge, on_part_closed, n);
  free(port);
}

void sbx_local_network_unexpose(struct sbx_local_network* n, unsigned inside) {
  size_t count;
  struct sbx_local_port** at = find(n, inside, &count);

  if (*at != NULL) drop(n, at);
}

void sbx_local_network_unexpose_all(struct sbx_local_network* n) {
  while (n->ports != NULL) drop(n, &n->ports);
}

/* ---- facts ---- */

void sbx_local_network_facts(const struct sbx_local_network* n,
                             sbx_fact_cb cb, void* arg) {
  static const char* const names[] = {
      "env.HTTP_PROXY", "env.HTTPS_PROXY", "env.ALL_PROXY",
      "env.http_proxy", "env.https_proxy", "env.all_proxy"};
  static const char direct[] = "localhost,127.0.0.1,::1";
  char url[SBX_PROXY_TOKEN_MAX + 32];
  bool listed = n->hosts_len > 0;

  cb(arg, "network", !n->proxied ? "allow" : listed ? "list" : "deny");
  if (!n->proxied) return;
  if (listed) cb(arg, "networkAllow", n->allowed);
  snprintf(url, sizeof(url), "http://x:%s@127.0.0.1:%u", n->token,
           n->proxy_port);
  for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
    cb(arg, names[i], url);
  cb(arg, "env.NO_PROXY", direct);
  cb(arg, "env.no_proxy", direct);
  /* It doubles the time that node takes to start, so only where it helps. */
  if (listed) cb(arg, "env.NODE_USE_ENV_PROXY", "1");
}
