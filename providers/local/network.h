/* What a Local sandbox can reach and who can reach it: its proxy and its
 * exposed ports. */
#ifndef SBX_LOCAL_NETWORK_H
#define SBX_LOCAL_NETWORK_H

#include "../../native/session/config.h"
#include "../../native/network/proxy.h"
#include "../../native/session/session.h"
#include "../provider.h"

enum { SBX_LOCAL_PROXY_PORT = 3128 };

struct sbx_local_port; /* one exposed port */

struct sbx_local_network {
  uv_loop_t* loop;
  bool proxied;   /* there is one whenever a session runs */
  char* allowed;  /* "a.example, b.example"; NULL: nothing */
  char** hosts;   /* the same one by one */
  size_t hosts_len;
  char token[SBX_PROXY_TOKEN_MAX];
  struct sbx_proxy* proxy;
  struct sbx_dial* listening;
  unsigned proxy_port;
  int here; /* the proxy's listener on this machine, or -1 */
  struct sbx_local_port* ports;
  unsigned pending; /* of proxies and bridges, that are closing */
  void (*on_idle)(void* arg);
  void* idle_arg;
  sbx_denied_cb on_denied;
  void* denied_arg;
};

/* `proxied` false: the network is the host's, there is nothing to set. */
int sbx_local_network_init(struct sbx_local_network* n, uv_loop_t* loop,
                           bool proxied);
void sbx_local_network_clear(struct sbx_local_network* n);

/* The hosts that may be reached, none for deny; at once, and for the sessions
 * to come. */
int sbx_local_network_allow(struct sbx_local_network* n,
                            const char* const* hosts, size_t len,
                            struct sbx_error* error);

/* Before a session of that level is started. Where it shares the machine's
 * network the proxy listens there, and only its port may be connected to. */
int sbx_local_network_prepare(struct sbx_local_network* n,
                              enum sbx_level level, struct sbx_config* config,
                              struct sbx_error* error);

/* With a session that is ready. The proxy listens before any command runs. */
int sbx_local_network_start(struct sbx_local_network* n,
                            struct sbx_session* session,
                            struct sbx_error* error);

/* The port of this machine's loopback; the same for the same port. */
int sbx_local_network_expose(struct sbx_local_network* n,
                             struct sbx_session* session, unsigned port,
                             unsigned* outside, struct sbx_error* error);
void sbx_local_network_unexpose(struct sbx_local_network* n, unsigned port);
void sbx_local_network_unexpose_all(struct sbx_local_network* n);

/* Before the session is closed. What is left on the loop is gone when `pending`
 * is 0; then on_idle, if set, is called. */
void sbx_local_network_end(struct sbx_local_network* n);

/* Facts: the policy, and the variables of commands. */
void sbx_local_network_facts(const struct sbx_local_network* n,
                             sbx_fact_cb cb, void* arg);

#endif
