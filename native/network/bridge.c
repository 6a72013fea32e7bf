/* Accepts on the host, asks PID 1 for a connection inside, joins the two.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "bridge.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "acceptor.h"
#include "dial.h"
#include "host_check.h"
#include "pump.h"

enum {
  TRIES = 16,             /* for one number free in both families */
  TICK_MS = 1000,
  QUIET_MS = 5 * 60000,   /* without a request, or half closed */
  REFUSING_MS = 2000
};

struct connection {
  struct sbx_pump pump; /* first */
  struct sbx_bridge* bridge;
  struct connection *next, **back;
  struct sbx_dial* dial;
  char* head; /* what came before it was joined */
  size_t len;
  bool refused;
  bool joined;
};

struct sbx_bridge {
  uv_loop_t* loop;
  struct sbx_session* session;
  unsigned inside, outside;
  struct sbx_acceptor acceptors[2];
  uv_timer_t tick;
  struct sbx_pump_pool pool;
  struct connection* connections;
  size_t count;
  unsigned open; /* acceptors and timer that are not closed */
  bool closing;
  sbx_session_cb cb;
  void* arg;
};

/* ---- the end ---- */

static void free_if_over(struct sbx_bridge* b) {
  if (b->open > 0 || b->count > 0) return;
  sbx_pump_pool_clear(&b->pool);
  if (b->cb != NULL) b->cb(b->arg);
  free(b);
}

static void on_acceptor_closed(struct sbx_acceptor* a) {
  struct sbx_bridge* b = a->data;

  b->open--;
  free_if_over(b);
}

static void on_tick_closed(uv_handle_t* handle) {
  struct sbx_bridge* b = handle->data;

  b->open--;
  free_if_over(b);
}

static void make_room(struct sbx_bridge* b) {
  bool full = b->count >= SBX_BRIDGE_CONNECTIONS;

  sbx_acceptor_pause(&b->acceptors[0], full);
  sbx_acceptor_pause(&b->acceptors[1], full);
}

static void on_pump_closed(struct sbx_pump* p) {
  struct connection* c = (struct connection*) p;
  struct sbx_bridge* b = c->bridge;

  *c->back = c->next;
  if (c->next != NULL) c->next->back = c->back;
  free(c->head);
  free(c);
  b->count--;
  if (b->closing)
    free_if_over(b);
  else
    make_room(b);
}

static void on_over(struct sbx_pump* p) {
  struct connection* c = (struct connection*) p;

  if (c->dial != NULL) sbx_dial_cancel(c->dial);
  c->dial = NULL;
  sbx_pump_close(p);
}

/* ---- one connection ---- */

static void refuse(struct connection* c, const char* status,
                   const char* format, ...)
    __attribute__((format(printf, 3, 4)));

static void refuse(struct connection* c, const char* status,
                   const char* format, ...) {
  char body[512];
  char answer[1024];
  va_list args;
  int len;

  c->refused = true;
  va_start(args, format);
  len = vsnprintf(body, sizeof(body), format, args);
  va_end(args);
  len = snprintf(answer, sizeof(answer),
                 "HTTP/1.1 %s\r\nContent-Type: text/plain\r\n"
                 "Content-Length: %d\r\nConnection: close\r\n\r\n%s",
                 status, len, body);
  sbx_pump_refuse(&c->pump, answer, (size_t) len);
}

static bool is_tls(const struct connection* c) {
  return c->len > 0 && c->head[0] == 0x16;
}

static void on_dialled(void* arg, int fd) {
  struct connection* c = arg;
  char words[SBX_SYS_TEXT_MAX];

  c->dial = NULL;
  if (fd >= 0) {
    c->joined = true;
    sbx_pump_join(&c->pump, fd, c->head, c->len, NULL, 0);
    free(c->head);
    c->head = NULL;
  } else if (is_tls(c)) {
    sbx_pump_close(&c->pump);
  } else {
    refuse(c, "502 Nothing listens in the sandbox",
           "Nothing answers on port %u in the sandbox: %s. Start the server "
           "there, on 127.0.0.1, ::1 or all addresses.\n",
           c->bridge->inside, sbx_sys_text(-fd, words));
  }
}

static void dial(struct connection* c) {
  struct sbx_bridge* b = c->bridge;

  sbx_pump_hold(&c->pump, true);
  c->dial = sbx_dial_connect(b->session, b->inside, on_dialled, c);
  if (c->dial == NULL) sbx_pump_close(&c->pump);
}

static void judge(struct connection* c, enum sbx_host_verdict verdict) {
  switch (verdict) {
    case SBX_HOST_MORE: break;
    case SBX_HOST_GOOD: dial(c); break;
    case SBX_HOST_LONG:
      refuse(c, "431 Request Header Fields Too Large",
             "The Host field must come within the first 16 KB.\n");
      break;
    case SBX_HOST_WRONG:
      refuse(c, "421 Misdirected Request",
             "This address serves http://127.0.0.1:%u, http://localhost:%u and "
             "http://[::1]:%u only; the Host field names another.\n",
             c->bridge->outside, c->bridge->outside, c->bridge->outside);
      break;
    default:
      refuse(c, "400 Bad Request", "This address serves HTTP only.\n");
  }
}

static void on_head(struct sbx_pump* p, const char* bytes, size_t len) {
  struct connection* c = (struct connection*) p;
  char* more;

  if (len == 0) {
    sbx_pump_close(p);
    return;
  }
  more = realloc(c->head, c->len + len);
  if (more == NULL) {
    sbx_pump_close(p);
    return;
  }
  c->head = more;
  memcpy(c->head + c->len, bytes, len);
  c->len += len;
  judge(c, sbx_host_check(c->head, c->len, c->bridge->outside));
}

static void on_accept(struct sbx_acceptor* a, int fd) {
  struct sbx_bridge* b = a->data;
  struct connection* c = calloc(1, sizeof(*c));

  if (c == NULL) {
    close(fd);
    return;
  }
  c->bridge = b;
  c->pump.on_head = on_head;
  c->pump.on_over = on_over;
  c->pump.on_closed = on_pump_closed;
  if (sbx_pump_open(&c->pump, b->loop, &b->pool, fd) != 0) {
    free(c);
    return;
  }
  c->next = b->connections;
  c->back = &b->connections;
  if (c->next != NULL) c->next->back = &c->next;
  b->connections = c;
  b->count++;
  make_room(b);
}

/* An open stream may be quiet for as long as it likes. */
static bool is_stale(const struct connection* c, uint64_t now) {
  uint64_t quiet = now - c->pump.moved;

  if (c->refused) return quiet > REFUSING_MS;
  if (c->joined && !sbx_pump_ending(&c->pump)) return false;
  return quiet > QUIET_MS;
}

static void on_tick(uv_timer_t* timer) {
  struct sbx_bridge* b = timer->data;
  struct connection* next;

  for (struct connection* c = b->connections; c != NULL; c = next) {
    next = c->next;
    if (is_stale(c, uv_now(b->loop))) on_over(&c->pump);
  }
}

/* ---- opening ---- */

/* 0 with one or two descriptors, or a negative errno. */
static int listen_both(int fds[2]) {
  int err = -EADDRINUSE;

  for (int i = 0; i < TRIES && err == -EADDRINUSE; i++) {
    fds[0] = sbx_listen_loopback(AF_INET, 0);
    if (fds[0] < 0) return fds[0];
    fds[1] = sbx_listen_loopback(AF_INET6, sbx_listen_port(fds[0]));
    err = fds[1] < 0 ? fds[1] : 0;
    if (err == -EADDRINUSE) close(fds[0]);
  }
  /* A machine without IPv6 has one listener. */
  return err == -EADDRINUSE ? err : 0;
}

static int add_acceptor(struct sbx_bridge* b, int i, int fd) {
  struct sbx_acceptor* a = &b->acceptors[i];

  a->data = b;
  a->on_accept = on_accept;
  a->on_closed = on_acceptor_closed;
  a->fd = -1;
  if (fd < 0) return 0;
  if (sbx_acceptor_open(a, b->loop, fd) != 0) return -ENOMEM;
  b->open++;
  return 0;
}

static int open_bridge(struct sbx_bridge* b) {
  int fds[2];
  int err = listen_both(fds);

  if (err != 0) return err;
  b->outside = sbx_listen_port(fds[0]);
  err = add_acceptor(b, 0, fds[0]);
  if (add_acceptor(b, 1, fds[1]) != 0) err = -ENOMEM;
  return err;
}

int sbx_bridge_open(uv_loop_t* loop, struct sbx_session* session,
                    unsigned port, struct sbx_bridge** out,
                    struct sbx_error* error) {
  struct sbx_bridge* b = calloc(1, sizeof(*b));
  char words[SBX_SYS_TEXT_MAX];
  int err = -ENOMEM;

  *out = NULL;
  if (b == NULL || sbx_pump_pool_init(&b->pool) != 0) {
    free(b);
    return sbx_error_set(error, SBX_E_INTERNAL, ENOMEM, "ports.expose",
                         "Out of memory.");
  }
  b->loop = loop;
  b->session = session;
  b->inside = port;
  b->acceptors[0].fd = b->acceptors[1].fd = -1;
  uv_timer_init(loop, &b->tick);
  b->tick.data = b;
  b->open = 1;
  uv_timer_start(&b->tick, on_tick, TICK_MS, TICK_MS);
  uv_unref((uv_handle_t*) &b->tick);
  err = open_bridge(b);
  if (err == 0) {
    *out = b;
    return 0;
  }
  sbx_bridge_close(b, NULL, NULL);
  return sbx_error_set(error, SBX_E_UNAVAILABLE, -err, "ports.expose",
                       "No address of this machine's loopback could be opened "
                       "for port %u: %s.",
                       port, sbx_sys_text(-err, words));
}

unsigned sbx_bridge_port(const struct sbx_bridge* b) {
  return b->outside;
}

void sbx_bridge_close(struct sbx_bridge* b, sbx_session_cb cb, void* arg) {
  if (b->closing) return;
  b->closing = true;
  b->cb = cb;
  b->arg = arg;
  sbx_acceptor_close(&b->acceptors[0]);
  sbx_acceptor_close(&b->acceptors[1]);
  for (struct connection* c = b->connections; c != NULL; c = c->next)
    on_over(&c->pump);
  uv_close((uv_handle_t*) &b->tick, on_tick_closed);
}
