/* What a client of the proxy asks for, by HTTP or SOCKS5. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proxy_http.h"
#include "proxy_internal.h"

/* Lets go of the first bytes of what came. */
static void used(struct sbx__proxied* c, size_t n) {
  c->len -= n;
  memmove(c->head, c->head + n, c->len);
}

static void begin(struct sbx__proxied* c) {
  sbx_pump_hold(&c->pump, true);
  c->started = uv_now(c->proxy->spec.loop);
  if (c->proxy->list == NULL ||
      !sbx_allow_list_host(c->proxy->list, c->host, c->port))
    sbx__proxied_deny_host(c);
  else
    sbx__proxied_resolve(c);
}

/* The rewritten head, and what followed the old one. */
static int replace_head(struct sbx__proxied* c, struct sbx_proxy_request* r) {
  size_t rest = c->len - r->used;
  char* all;

  if (r->connect) {
    used(c, r->used);
    return 0;
  }
  all = realloc(r->head, r->head_len + rest);
  if (all == NULL) {
    free(r->head);
    return -1;
  }
  memcpy(all + r->head_len, c->head + r->used, rest);
  free(c->head);
  c->head = all;
  c->len = r->head_len + rest;
  return 0;
}

static void begin_http(struct sbx__proxied* c, struct sbx_proxy_request* r) {
  if (!r->authorised) {
    free(r->head);
    sbx__proxied_refuse_login(c);
    return;
  }
  memcpy(c->host, r->host, sizeof(c->host));
  c->port = r->port;
  c->tunnel = r->connect;
  if (replace_head(c, r) != 0)
    sbx__proxied_end(c);
  else
    begin(c);
}

static void read_http(struct sbx__proxied* c) {
  struct sbx_proxy_request r;
  char body[256];

  switch (sbx_proxy_http_parse(c->head, c->len, c->proxy->credentials, &r)) {
    case SBX_PROXY_MORE: break;
    case SBX_PROXY_DONE: begin_http(c, &r); break;
    case SBX_PROXY_LONG:
      sbx__proxied_refuse(
          c, 1, "431 Request Header Fields Too Large",
          "The sandbox's proxy takes request heads of up to 16 KB.\n");
      break;
    case SBX_PROXY_BAD:
      snprintf(body, sizeof(body), "The sandbox's proxy got %s.\n", r.why);
      sbx__proxied_refuse(c, 1, "400 Bad Request", body);
      break;
    default: sbx__proxied_end(c);
  }
}

static void begin_socks(struct sbx__proxied* c) {
  memcpy(c->host, c->socks.host, sizeof(c->host));
  c->port = c->socks.port;
  begin(c);
}

/* True if there may be another message. */
static bool read_socks(struct sbx__proxied* c) {
  size_t n;
  enum sbx_socks_event event =
      sbx_socks_read(&c->socks, c->proxy->token, c->head, c->len, &n);

  used(c, n);
  switch (event) {
    case SBX_SOCKS_GREETED: return sbx_pump_say(&c->pump, "\x05\x02", 2) == 0;
    case SBX_SOCKS_LOGIN: return sbx_pump_say(&c->pump, "\x01\x00", 2) == 0;
    case SBX_SOCKS_NO_METHOD: sbx__proxied_refuse_raw(c, "\x05\xff"); break;
    case SBX_SOCKS_WRONG_LOGIN: sbx__proxied_refuse_raw(c, "\x01\x01"); break;
    case SBX_SOCKS_REFUSED:
      sbx__proxied_refuse(c, c->socks.code, "", "");
      break;
    case SBX_SOCKS_REQUEST: begin_socks(c); break;
    case SBX_SOCKS_BROKEN: sbx__proxied_end(c); break;
    default: break;
  }
  return false;
}

void sbx__proxied_on_head(struct sbx_pump* pump, const char* bytes,
                          size_t len) {
  struct sbx__proxied* c = (struct sbx__proxied*) pump;
  char* more = len > 0 ? realloc(c->head, c->len + len) : NULL;

  if (more == NULL) {
    sbx__proxied_end(c);
    return;
  }
  c->head = more;
  memcpy(c->head + c->len, bytes, len);
  c->len += len;
  if (c->head[0] == 5 && !c->is_socks) c->is_socks = true;
  if (!c->is_socks)
    read_http(c);
  else
    while (c->len > 0 && read_socks(c) && !c->over) continue;
}
