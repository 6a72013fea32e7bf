/* The proxy and its clients: one after another is accepted, watched and let
 * go. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "proxy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../parse/base64.h"
#include "proxy_internal.h"

enum {
  TICK_MS = 1000,
  REQUEST_MS = 30000, /* for the whole head */
  REACH_MS = 60000,   /* resolve and connect */
  TRY_MS = 10000,     /* one address */
  IDLE_MS = 10 * 60000,
  ENDING_MS = 60000, /* half closed and quiet */
  REFUSING_MS = 2000
};

/* ---- the end ---- */

static void free_if_over(struct sbx_proxy* p) {
  sbx_proxy_cb cb = p->cb;
  void* arg = p->arg;

  if (p->open > 0 || p->connected > 0) return;
  sbx_allow_list_free(p->list);
  sbx_pump_pool_clear(&p->pool);
  free(p);
  if (cb != NULL) cb(arg);
}

void sbx__proxied_release(struct sbx__proxied* c) {
  struct sbx_proxy* p = c->proxy;

  if (--c->busy > 0) return;
  *c->back = c->next;
  if (c->next != NULL) c->next->back = c->back;
  free(c->head);
  free(c);
  p->connected--;
  if (p->closing)
    free_if_over(p);
  else
    sbx_acceptor_pause(&p->acceptor, p->connected >= SBX_PROXY_CONNECTIONS);
}

static void on_pump_closed(struct sbx_pump* pump) {
  sbx__proxied_release((struct sbx__proxied*) pump);
}

void sbx__proxied_end(struct sbx__proxied* c) {
  int fd;

  if (c->over) return;
  c->over = true;
  if (c->stage == SBX__PROXIED_RESOLVING) uv_cancel((uv_req_t*) &c->lookup);
  fd = sbx__proxied_drop_try(c);
  if (fd >= 0) close(fd);
  sbx_pump_close(&c->pump);
}

static void on_over(struct sbx_pump* pump) {
  sbx__proxied_end((struct sbx__proxied*) pump);
}

void sbx__proxied_enter(struct sbx__proxied* c, enum sbx__proxied_stage stage) {
  c->stage = stage;
  c->since = uv_now(c->proxy->spec.loop);
}

static void on_accept(struct sbx_acceptor* a, int fd) {
  struct sbx_proxy* p = a->data;
  struct sbx__proxied* c = calloc(1, sizeof(*c));

  if (c == NULL) {
    close(fd);
    return;
  }
  c->proxy = p;
  c->busy = 1;
  c->pump.on_head = sbx__proxied_on_head;
  c->pump.on_over = on_over;
  c->pump.on_closed = on_pump_closed;
  if (sbx_pump_open(&c->pump, p->spec.loop, &p->pool, fd) != 0) {
    free(c);
    return;
  }
  sbx__proxied_enter(c, SBX__PROXIED_ASKING);
  c->next = p->connections;
  c->back = &p->connections;
  if (c->next != NULL) c->next->back = &c->next;
  p->connections = c;
  if (++p->connected >= SBX_PROXY_CONNECTIONS)
    sbx_acceptor_pause(&p->acceptor, true);
}

/* ---- time ---- */

static void give_up_address(struct sbx__proxied* c, uint64_t now) {
  int fd = sbx__proxied_drop_try(c);

  if (fd >= 0) close(fd);
  c->error = UV_ETIMEDOUT;
  if (now - c->started > REACH_MS) c->at = c->count;
  sbx__proxied_connect(c);
}

static void look_at(struct sbx__proxied* c, uint64_t now) {
  uint64_t quiet = now - c->pump.moved;

  switch (c->stage) {
    case SBX__PROXIED_ASKING:
      if (now - c->since > REQUEST_MS) sbx__proxied_end(c);
      break;
    case SBX__PROXIED_RESOLVING:
      if (now - c->since > REACH_MS) sbx__proxied_end(c);
      break;
    case SBX__PROXIED_CONNECTING:
      if (now - c->since > TRY_MS) give_up_address(c, now);
      break;
    case SBX__PROXIED_JOINED:
      if (quiet > (sbx_pump_ending(&c->pump) ? ENDING_MS : IDLE_MS))
        sbx__proxied_end(c);
      break;
    case SBX__PROXIED_REFUSED:
      if (now - c->since > REFUSING_MS) sbx__proxied_end(c);
      break;
  }
}

static void on_tick(uv_timer_t* timer) {
  struct sbx_proxy* p = timer->data;
  struct sbx__proxied* next;

  for (struct sbx__proxied* c = p->connections; c != NULL; c = next) {
    next = c->next;
    if (!c->over) look_at(c, uv_now(p->spec.loop));
  }
}

/* ---- life ---- */

int sbx_proxy_new(const struct sbx_proxy_spec* spec, struct sbx_proxy** out) {
  struct sbx_proxy* p = calloc(1, sizeof(*p));
  char pair[SBX_PROXY_TOKEN_MAX + 2];

  *out = NULL;
  if (p == NULL || sbx_pump_pool_init(&p->pool) != 0) {
    free(p);
    return UV_ENOMEM;
  }
  p->spec = *spec;
  snprintf(p->token, sizeof(p->token), "%s", spec->token);
  p->spec.token = p->token;
  snprintf(pair, sizeof(pair), "x:%s", p->token);
  sbx_base64_encode(pair, strlen(pair), 0, p->credentials); /* zeroed */
  p->acceptor.fd = -1;
  uv_timer_init(spec->loop, &p->tick);
  p->tick.data = p;
  p->open = 1;
  uv_timer_start(&p->tick, on_tick, TICK_MS, TICK_MS);
  uv_unref((uv_handle_t*) &p->tick);
  *out = p;
  return 0;
}

static void on_acceptor_closed(struct sbx_acceptor* a) {
  struct sbx_proxy* p = a->data;

  p->open--;
  free_if_over(p);
}

int sbx_proxy_listen(struct sbx_proxy* p, int fd) {
  p->acceptor.data = p;
  p->acceptor.on_accept = on_accept;
  p->acceptor.on_closed = on_acceptor_closed;
  if (sbx_acceptor_open(&p->acceptor, p->spec.loop, fd) != 0) return -1;
  p->open++;
  return 0;
}

void sbx_proxy_set(struct sbx_proxy* p, struct sbx_allow_list* list) {
  struct sbx__proxied* next;

  sbx_allow_list_free(p->list);
  p->list = list;
  p->denials = 0;
  for (struct sbx__proxied* c = p->connections; c != NULL; c = next) {
    next = c->next;
    if ((c->stage == SBX__PROXIED_JOINED ||
         c->stage == SBX__PROXIED_CONNECTING) &&
        !sbx__proxied_still_allowed(c))
      sbx__proxied_end(c);
  }
}

static void on_tick_closed(uv_handle_t* handle) {
  struct sbx_proxy* p = handle->data;

  p->open--;
  free_if_over(p);
}

void sbx_proxy_close(struct sbx_proxy* p, sbx_proxy_cb cb, void* arg) {
  p->closing = true;
  p->cb = cb;
  p->arg = arg;
  sbx_acceptor_close(&p->acceptor);
  for (struct sbx__proxied* c = p->connections; c != NULL; c = c->next)
    sbx__proxied_end(c);
  uv_close((uv_handle_t*) &p->tick, on_tick_closed);
}
