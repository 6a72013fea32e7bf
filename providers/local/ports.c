/* The network of a sandbox as its owner sees it: the policy and the ports that
 * this machine can reach. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <stdlib.h>

#include "internal.h"

int sbx__local_open_network(struct sbx__local* l, struct sbx_error* error) {
  const struct sbx_local_options* o = &l->options;
  bool proxied = !o->network && o->level != SBX_LEVEL_NONE;

  if (sbx_local_network_init(&l->network, l->base.loop, proxied) != 0)
    return sbx_error_set(error, SBX_E_INTERNAL, 0, "open",
                         "This system gives no random numbers.");
  return sbx_local_network_allow(&l->network,
                                 (const char* const*) o->allow.items,
                                 o->allow.len, error);
}

struct exposing {
  uv_timer_t timer;
  sbx_exposed_cb cb;
  void* arg;
  int err;
  unsigned port;
  struct sbx_error error;
};

static void on_exposing_closed(uv_handle_t* handle) {
  free(handle->data);
}

static void on_exposed(uv_timer_t* timer) {
  struct exposing* e = timer->data;
  struct sbx_exposed exposed = {.host = "127.0.0.1", .port = e->port};

  e->cb(e->arg, e->err != 0 ? &e->error : NULL, &exposed);
  uv_close((uv_handle_t*) timer, on_exposing_closed);
}

void sbx__local_expose(struct sbx_sandbox* s, unsigned port,
                       sbx_exposed_cb cb, void* arg) {
  struct sbx__local* l = (struct sbx__local*) s;
  struct exposing* e = calloc(1, sizeof(*e));
  struct sbx_error error;

  if (e == NULL) {
    sbx_error_set(&error, SBX_E_INTERNAL, ENOMEM, "ports.expose",
                  "Out of memory.");
    cb(arg, &error, NULL);
    return;
  }
  e->cb = cb;
  e->arg = arg;
  e->err = l->state != SBX__LOCAL_RUNNING
               ? sbx__local_not_started(l, "ports.expose", &e->error)
               : sbx_local_network_expose(&l->network, l->session, port,
                                          &e->port, &e->error);
  uv_timer_init(l->base.loop, &e->timer);
  e->timer.data = e;
  uv_timer_start(&e->timer, on_exposed, 0, 0);
}

void sbx__local_unexpose(struct sbx_sandbox* s, unsigned port) {
  sbx_local_network_unexpose(&((struct sbx__local*) s)->network, port);
}

int sbx__local_set_network(struct sbx_sandbox* s, const char* const* hosts,
                           size_t count, struct sbx_error* error) {
  struct sbx__local* l = (struct sbx__local*) s;

  if (l->options.level == SBX_LEVEL_NONE)
    return sbx_error_set(error, SBX_E_UNSUPPORTED, 0, "network",
                         "At isolation \"none\" there is no network policy: "
                         "every host can be reached.");
  if (!l->network.proxied)
    return sbx_error_set(error, SBX_E_UNSUPPORTED, 0, "network",
                         "This sandbox was made with network: \"allow\", which "
                         "shares the machine's network and cannot be taken "
                         "back: make a new one with \"deny\" or a list.");
  return sbx_local_network_allow(&l->network, hosts, count, error);
}

void sbx__local_watch_network(struct sbx_sandbox* s, sbx_denied_cb cb,
                              void* arg) {
  struct sbx__local* l = (struct sbx__local*) s;

  l->network.on_denied = cb;
  l->network.denied_arg = arg;
}
