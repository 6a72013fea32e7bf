/* What the parts of the proxy know of each other; nothing public. */
#ifndef SBX_PROXY_INTERNAL_H
#define SBX_PROXY_INTERNAL_H

#include "acceptor.h"
#include "address.h"
#include "proxy.h"
#include "pump.h"
#include "socks.h"

enum { SBX__PROXIED_ADDRESSES = 8 };

enum sbx__proxied_stage {
  SBX__PROXIED_ASKING,
  SBX__PROXIED_RESOLVING,
  SBX__PROXIED_CONNECTING,
  SBX__PROXIED_JOINED,
  SBX__PROXIED_REFUSED
};

/* One client, and what it is connected to. */
struct sbx__proxied {
  struct sbx_pump pump; /* first */
  struct sbx_proxy* proxy;
  struct sbx__proxied *next, **back;
  enum sbx__proxied_stage stage;
  uint64_t since; /* of the stage; of CONNECTING: of the address */
  uint64_t started;
  unsigned busy; /* pump, lookup, polls of tries: who still needs the memory */
  bool over;

  char* head; /* bytes that are not answered yet */
  size_t len;
  bool is_socks;
  struct sbx_socks socks;
  bool tunnel;
  char host[SBX_HOST_MAX];
  unsigned port;

  uv_getaddrinfo_t lookup;
  /* Those that passed the check. */
  struct sockaddr_storage addresses[SBX__PROXIED_ADDRESSES];
  size_t count, at;
  const char* special; /* why one did not */
  char special_text[SBX_ADDRESS_TEXT];
  struct sbx__proxied_try* attempt; /* NULL: none under way */
  int error; /* of the last address */
};

struct sbx_proxy {
  struct sbx_proxy_spec spec;
  char token[SBX_PROXY_TOKEN_MAX];
  char credentials[SBX_PROXY_TOKEN_MAX * 2]; /* base64 of "x:token" */
  struct sbx_allow_list* list;
  struct sbx_acceptor acceptor;
  uv_timer_t tick;
  struct sbx_pump_pool pool;
  struct sbx__proxied* connections;
  size_t connected;
  unsigned open; /* acceptor and timer that are not closed */
  bool closing;
  sbx_proxy_cb cb;
  void* arg;
  uint64_t denied[SBX_PROXY_DENIALS];
  size_t denials;
};

/* ---- proxy.c ---- */

void sbx__proxied_enter(struct sbx__proxied* c, enum sbx__proxied_stage stage);
/* Lets go of everything; the memory follows when nobody is busy with it. */
void sbx__proxied_end(struct sbx__proxied* c);
/* One of those who are busy with it is done: may be the last touch. */
void sbx__proxied_release(struct sbx__proxied* c);

/* ---- proxy_request.c ---- */

void sbx__proxied_on_head(struct sbx_pump* pump, const char* bytes, size_t len);

/* ---- proxy_reach.c ---- */

/* To the host and port that it asks for, which the list allows. */
void sbx__proxied_resolve(struct sbx__proxied* c);
/* To the next of its addresses. */
void sbx__proxied_connect(struct sbx__proxied* c);
/* Gives up the address that is tried. The descriptor, -1 for none, becomes the
 * caller's. */
int sbx__proxied_drop_try(struct sbx__proxied* c);
/* Also the address of an open connection, which may have been listed. */
bool sbx__proxied_still_allowed(const struct sbx__proxied* c);

/* ---- proxy_refusal.c: each is the connection's last stage ---- */

/* `code` is SOCKS5's. */
void sbx__proxied_refuse(struct sbx__proxied* c, int code, const char* status,
                         const char* body);
void sbx__proxied_refuse_login(struct sbx__proxied* c);
void sbx__proxied_refuse_raw(struct sbx__proxied* c, const char* two);
/* The policy does not allow the host, or the special address that it led to. */
void sbx__proxied_deny_host(struct sbx__proxied* c);
void sbx__proxied_deny_address(struct sbx__proxied* c);
/* A negative errno or error of libuv. */
void sbx__proxied_fail(struct sbx__proxied* c, int code, const char* what,
                       int err);

#endif
