/* Asks PID 1 for a socket and takes it over when it comes. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "dial.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "../session/internal.h"

enum { PATIENCE_MS = 10000 };

struct sbx_dial {
  struct sbx__client client; /* first: the session hands this back */
  struct sbx_session* session;
  uv_timer_t timer;
  sbx_dial_cb cb;
  void* arg;
};

static void on_closed(uv_handle_t* handle) {
  free(handle->data);
}

static void finish(struct sbx_dial* d, int fd) {
  sbx_dial_cb cb = d->cb;

  d->cb = NULL;
  uv_close((uv_handle_t*) &d->timer, on_closed);
  if (cb != NULL)
    cb(d->arg, fd);
  else if (fd >= 0)
    close(fd);
}

/* The kind of the socket is PID 1's claim, but a wrong one only breaks the
 * sandbox's own connection. */
static void on_fds(struct sbx__client* c, const struct sbx_msg* msg,
                   const int* fds, size_t* nfds) {
  struct sbx_dial* d = (struct sbx_dial*) c;
  int fd = msg->a == 0 && *nfds == 1 ? fds[0] : -1;

  if (msg->type != SBX_MSG_CONNECTED && msg->type != SBX_MSG_LISTENING) return;
  if (fd >= 0) *nfds = 0;
  sbx__session_detach(d->session, c);
  if (fd < 0) fd = msg->a > 0 && msg->a < 4096 ? -(int) msg->a : -EPROTO;
  finish(d, fd);
}

static void on_gone(struct sbx__client* c) {
  finish((struct sbx_dial*) c, -ECONNABORTED);
}

static void on_late(uv_timer_t* timer) {
  struct sbx_dial* d = timer->data;

  sbx__session_detach(d->session, &d->client);
  finish(d, -ETIMEDOUT);
}

static struct sbx_dial* ask(struct sbx_session* s, uint32_t type,
                            unsigned port, sbx_dial_cb cb, void* arg) {
  struct sbx_msg msg = {.type = type, .a = port};
  struct sbx_dial* d;

  if (!sbx__session_running(s)) return NULL;
  d = calloc(1, sizeof(*d));
  if (d == NULL) return NULL;
  d->session = s;
  d->cb = cb;
  d->arg = arg;
  d->client.on_fds = on_fds;
  d->client.on_gone = on_gone;
  uv_timer_init(sbx__session_loop(s), &d->timer);
  d->timer.data = d;
  sbx__session_attach(s, &d->client);
  msg.id = d->client.id;
  if (sbx__session_send(s, &msg, NULL, 0, NULL, 0) != 0) {
    sbx__session_detach(s, &d->client);
    uv_close((uv_handle_t*) &d->timer, on_closed);
    return NULL;
  }
  uv_timer_start(&d->timer, on_late, PATIENCE_MS, 0);
  uv_unref((uv_handle_t*) &d->timer);
  return d;
}

struct sbx_dial* sbx_dial_connect(struct sbx_session* s, unsigned port,
                                  sbx_dial_cb cb, void* arg) {
  return ask(s, SBX_MSG_CONNECT, port, cb, arg);
}

struct sbx_dial* sbx_dial_listen(struct sbx_session* s, unsigned port,
                                 sbx_dial_cb cb, void* arg) {
  return ask(s, SBX_MSG_LISTEN, port, cb, arg);
}

void sbx_dial_cancel(struct sbx_dial* d) {
  sbx__session_detach(d->session, &d->client);
  d->cb = NULL;
  uv_close((uv_handle_t*) &d->timer, on_closed);
}
