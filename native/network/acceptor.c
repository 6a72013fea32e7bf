/* Accepts as long as its owner has room and the process has descriptors.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "acceptor.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "address.h"

enum { PER_TURN = 32, BACKLOG = 256, STARVED_MS = 100 };

static void on_handle_closed(uv_handle_t* handle) {
  struct sbx_acceptor* a = handle->data;

  if (--a->handles == 0 && a->on_closed != NULL) a->on_closed(a);
}

static void on_poll(uv_poll_t* handle, int status, int events);

static void watch(struct sbx_acceptor* a) {
  if (a->fd < 0) return;
  if (a->paused || uv_is_active((uv_handle_t*) &a->timer))
    uv_poll_stop(&a->poll);
  else
    uv_poll_start(&a->poll, UV_READABLE, on_poll);
}

static void on_timer(uv_timer_t* timer) {
  watch(timer->data);
}

/* The queue stays readable, so looking again at once would be a busy loop. */
static void starve(struct sbx_acceptor* a) {
  uv_timer_start(&a->timer, on_timer, STARVED_MS, 0);
  watch(a);
}

static void on_poll(uv_poll_t* handle, int status, int events) {
  struct sbx_acceptor* a = handle->data;
  int one = 1;

  (void) events;
  if (status != 0) {
    starve(a);
    return;
  }
  for (int i = 0; i < PER_TURN && a->fd >= 0 && !a->paused; i++) {
    int fd = accept4(a->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (fd < 0 && (errno == EINTR || errno == ECONNABORTED)) continue;
    if (fd < 0 && errno != EAGAIN) starve(a);
    if (fd < 0) return;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    a->on_accept(a, fd);
  }
}

/* For whom it accepts: on a loopback nothing is congested, and BBR, the default
 * of many machines, starts a timer for each segment. Said before a connection
 * is there, for what BBR has begun to pace stays paced. */
static void uncongest(int fd) {
  setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
}

int sbx_acceptor_open(struct sbx_acceptor* a, uv_loop_t* loop, int fd) {
  a->fd = -1;
  a->paused = false;
  a->handles = 0;
  if (uv_poll_init(loop, &a->poll, fd) != 0) {
    close(fd);
    return -1;
  }
  uncongest(fd);
  uv_timer_init(loop, &a->timer);
  a->handles = 2;
  a->fd = fd;
  a->poll.data = a->timer.data = a;
  uv_unref((uv_handle_t*) &a->poll);
  uv_unref((uv_handle_t*) &a->timer);
  watch(a);
  return 0;
}

void sbx_acceptor_pause(struct sbx_acceptor* a, bool paused) {
  if (a->fd < 0 || a->paused == paused) return;
  a->paused = paused;
  watch(a);
}

void sbx_acceptor_close(struct sbx_acceptor* a) {
  if (a->fd < 0) return;
  uv_close((uv_handle_t*) &a->poll, on_handle_closed);
  uv_close((uv_handle_t*) &a->timer, on_handle_closed);
  close(a->fd);
  a->fd = -1;
}

static int listen_on(int fd, int family, unsigned port) {
  struct sockaddr_storage at;
  int one = 1;

  sbx_address_parse(family == AF_INET ? "127.0.0.1" : "::1", &at);
  sbx_address_set_port((struct sockaddr*) &at, port);
  if (family == AF_INET6)
    setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
  if (bind(fd, (struct sockaddr*) &at,
           sbx_address_len((struct sockaddr*) &at)) != 0)
    return -errno;
  return listen(fd, BACKLOG) == 0 ? 0 : -errno;
}

int sbx_listen_loopback(int family, unsigned port) {
  int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  int err;

  if (fd < 0) return -errno;
  err = listen_on(fd, family, port);
  if (err == 0) return fd;
  close(fd);
  return err;
}

unsigned sbx_listen_port(int fd) {
  struct sockaddr_storage at = {0};
  socklen_t len = sizeof(at);

  if (getsockname(fd, (struct sockaddr*) &at, &len) != 0) return 0;
  return ntohs(((struct sockaddr_in*) &at)->sin_port);
}
