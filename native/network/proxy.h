/* The way out of a sandbox: an HTTP and SOCKS5 proxy in this process, on a
 * socket that listens inside.
 *
 * Names are resolved here, every address is checked, and the connection goes to
 * the address that was checked. Nothing is resolved for a host that the policy
 * does not name. */
#ifndef SBX_PROXY_H
#define SBX_PROXY_H

#include <uv.h>

#include "allow_list.h"

struct sbx_proxy;

enum {
  SBX_PROXY_CONNECTIONS = 256,
  SBX_PROXY_TOKEN_MAX = 64, /* with its NUL */
  SBX_PROXY_DENIALS = 64    /* hosts told of, per policy */
};

struct sbx_denial {
  const char* host; /* letters, digits, "-", "_", "." and ":" only */
  unsigned port;
  const char* reason; /* a sentence */
  bool last;          /* no more are told of until the policy changes */
};

struct sbx_proxy_spec {
  uv_loop_t* loop;
  const char* token; /* the password; any user name will do */
  void* data;
  /* Once per host and port. */
  void (*on_denied)(void* data, const struct sbx_denial* denial);
};

/* Without a socket it only waits. */
int sbx_proxy_new(const struct sbx_proxy_spec* spec, struct sbx_proxy** out);

/* Accepts from `fd`, a listening socket, which is taken over. */
int sbx_proxy_listen(struct sbx_proxy* p, int fd);

/* Takes the list over; NULL refuses everything. Connections that it does not
 * allow are closed. */
void sbx_proxy_set(struct sbx_proxy* p, struct sbx_allow_list* list);

/* Closes everything at once. `cb` when nothing is left on the loop, which may
 * have to wait for a name that is being resolved. */
typedef void (*sbx_proxy_cb)(void* arg);
void sbx_proxy_close(struct sbx_proxy* p, sbx_proxy_cb cb, void* arg);

#endif
