/* The way from a client's request to its server: the name is resolved, every
 * address is checked, and the first that answers is taken. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proxy_internal.h"

/* One address that is tried. Its handle may close while the next is tried. */
struct sbx__proxied_try {
  uv_poll_t poll;
  struct sbx__proxied* connection;
  int fd;
};

static void on_try_closed(uv_handle_t* handle) {
  struct sbx__proxied_try* d = handle->data;

  sbx__proxied_release(d->connection);
  free(d);
}

int sbx__proxied_drop_try(struct sbx__proxied* c) {
  struct sbx__proxied_try* d = c->attempt;

  if (d == NULL) return -1;
  c->attempt = NULL;
  uv_close((uv_handle_t*) &d->poll, on_try_closed);
  return d->fd;
}

static void join(struct sbx__proxied* c, int fd) {
  static const char socks[10] = {5, 0, 0, 1};
  static const char http[] = "HTTP/1.1 200 Connection established\r\n\r\n";
  const char* first = NULL;
  size_t len = 0;

  if (c->is_socks)
    first = socks, len = sizeof(socks);
  else if (c->tunnel)
    first = http, len = sizeof(http) - 1;
  sbx__proxied_enter(c, SBX__PROXIED_JOINED);
  if (sbx_pump_join(&c->pump, fd, c->head, c->len, first, len) != 0)
    sbx__proxied_end(c);
  free(c->head);
  c->head = NULL;
  c->len = 0;
}

static void on_try(uv_poll_t* handle, int status, int events) {
  struct sbx__proxied* c =
      ((struct sbx__proxied_try*) handle->data)->connection;
  int error = 0;
  socklen_t len = sizeof(error);
  int fd = sbx__proxied_drop_try(c);

  (void) events;
  if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0) error = errno;
  if (status == 0 && error == 0) {
    join(c, fd);
    return;
  }
  close(fd);
  c->error = error != 0 ? -error : status;
  sbx__proxied_connect(c);
}

/* Takes the descriptor over. */
static int watch_try(struct sbx__proxied* c, int fd) {
  struct sbx__proxied_try* d = calloc(1, sizeof(*d));
  int err =
      d == NULL ? UV_ENOMEM : uv_poll_init(c->proxy->spec.loop, &d->poll, fd);

  if (err != 0) {
    free(d);
    close(fd);
    return err;
  }
  d->connection = c;
  d->fd = fd;
  d->poll.data = d;
  c->attempt = d;
  c->busy++;
  uv_unref((uv_handle_t*) &d->poll);
  uv_poll_start(&d->poll, UV_WRITABLE, on_try);
  return 0;
}

static int connect_to(struct sbx__proxied* c, struct sockaddr* address) {
  int fd =
      socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  int one = 1;

  if (fd < 0) return -errno;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
  sbx_address_set_port(address, c->port);
  if (connect(fd, address, sbx_address_len(address)) != 0 &&
      errno != EINPROGRESS) {
    int err = -errno;

    close(fd);
    return err;
  }
  return watch_try(c, fd);
}

/* Special ones only if they are listed themselves. */
static bool is_allowed(const struct sbx__proxied* c, const struct sockaddr* a) {
  const struct sbx_allow_list* list = c->proxy->list;

  return sbx_address_special(a) == NULL ||
         (list != NULL && sbx_allow_list_address(list, a, c->port));
}

/* The policy may have changed since the addresses were checked. */
void sbx__proxied_connect(struct sbx__proxied* c) {
  sbx__proxied_enter(c, SBX__PROXIED_CONNECTING);
  while (c->at < c->count) {
    struct sockaddr* a = (struct sockaddr*) &c->addresses[c->at++];

    c->error = is_allowed(c, a) ? connect_to(c, a) : UV_EACCES;
    if (c->error == 0) return;
  }
  sbx__proxied_fail(c, c->error == UV_ECONNREFUSED ? 5 : 4,
                    "could not be reached", c->error);
}

static void check_address(struct sbx__proxied* c, const struct sockaddr* a) {
  if (!is_allowed(c, a)) {
    c->special = sbx_address_special(a);
    sbx_address_text(a, c->special_text);
    return;
  }
  if (c->count == SBX__PROXIED_ADDRESSES) return;
  memcpy(&c->addresses[c->count++], a, sbx_address_len(a));
}

static void reach(struct sbx__proxied* c) {
  if (c->count > 0)
    sbx__proxied_connect(c);
  else if (c->special != NULL)
    sbx__proxied_deny_address(c);
  else
    sbx__proxied_fail(c, 4, "has no address", UV_EAI_NONAME);
}

static void on_resolved(uv_getaddrinfo_t* lookup, int status,
                        struct addrinfo* list) {
  struct sbx__proxied* c = lookup->data;
  bool allowed = c->proxy->list != NULL &&
                 sbx_allow_list_host(c->proxy->list, c->host, c->port);

  if (!c->over) {
    for (const struct addrinfo* i = list; i != NULL; i = i->ai_next)
      if (i->ai_family == AF_INET || i->ai_family == AF_INET6)
        check_address(c, i->ai_addr);
    if (status != 0)
      sbx__proxied_fail(c, 4, "could not be resolved", status);
    else if (!allowed) /* the policy changed meanwhile */
      sbx__proxied_deny_host(c);
    else
      reach(c);
  }
  uv_freeaddrinfo(list);
  sbx__proxied_release(c);
}

void sbx__proxied_resolve(struct sbx__proxied* c) {
  struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
  struct sockaddr_storage literal;
  int err;

  if (sbx_address_parse(c->host, &literal)) {
    check_address(c, (struct sockaddr*) &literal);
    reach(c);
    return;
  }
  sbx__proxied_enter(c, SBX__PROXIED_RESOLVING);
  c->lookup.data = c;
  c->busy++;
  err = uv_getaddrinfo(c->proxy->spec.loop, &c->lookup, on_resolved, c->host,
                       NULL, &hints);
  if (err == 0) return;
  c->busy--;
  sbx__proxied_fail(c, 1, "could not be resolved", err);
}

bool sbx__proxied_still_allowed(const struct sbx__proxied* c) {
  if (c->proxy->list == NULL ||
      !sbx_allow_list_host(c->proxy->list, c->host, c->port))
    return false;
  return c->at == 0 ||
         is_allowed(c, (const struct sockaddr*) &c->addresses[c->at - 1]);
}
