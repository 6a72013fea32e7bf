/* Connects and listens on the loopback of the sandbox, and passes the sockets
 * out. The host bounds how many it asks for and forgets those that take long.
 */
#include "sys.h" /* first: feature macros */

#include "dial.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "protocol.h"

enum {
  SBX__SYN_RETRIES = 2, /* about 7 s for a server with a full backlog */
  SBX__BACKLOG = 256
};

/* What cannot be sent now is dropped: the host asks again or gives up. */
static void sbx__pass(const struct sbx_dialer* d, const struct sbx_msg* msg,
                      int fd) {
  union {
    struct cmsghdr head;
    char bytes[CMSG_SPACE(sizeof(fd))];
  } control;
  struct iovec io = {(void*) (uintptr_t) msg, sizeof(*msg)};
  struct msghdr h = {.msg_iov = &io, .msg_iovlen = 1};

  if (fd >= 0) {
    memset(&control, 0, sizeof(control));
    h.msg_control = control.bytes;
    h.msg_controllen = sizeof(control.bytes);
    control.head.cmsg_level = SOL_SOCKET;
    control.head.cmsg_type = SCM_RIGHTS;
    control.head.cmsg_len = CMSG_LEN(sizeof(fd));
    memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
  }
  sendmsg(d->control, &h, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (fd >= 0) close(fd);
}

static void sbx__tell(const struct sbx_dialer* d, uint32_t type, uint32_t id,
                      int error, int fd) {
  struct sbx_msg msg = {.type = type, .id = id, .a = (uint32_t) error};

  sbx__pass(d, &msg, fd);
}

static int sbx__tcp(int family) {
  return socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

/* 0, EINPROGRESS or the error. */
static int sbx__try(int fd, bool second, uint16_t port) {
  int retries = SBX__SYN_RETRIES;
  struct sockaddr_in v4 = {.sin_family = AF_INET,
                           .sin_port = htons(port),
                           .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  struct sockaddr_in6 v6 = {.sin6_family = AF_INET6,
                            .sin6_port = htons(port),
                            .sin6_addr = IN6ADDR_LOOPBACK_INIT};
  int err;

  setsockopt(fd, IPPROTO_TCP, TCP_SYNCNT, &retries, sizeof(retries));
  /* Said for levels whose loopback is the host's; see acceptor.c of the host. */
  setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
  err = second ? connect(fd, (struct sockaddr*) &v6, sizeof(v6))
               : connect(fd, (struct sockaddr*) &v4, sizeof(v4));
  return err == 0 ? 0 : errno;
}

static void sbx__start(struct sbx_dialer* d, struct sbx_dial* dial);

/* The first address is the one that people mean, so its error counts. */
static void sbx__end(struct sbx_dialer* d, struct sbx_dial* dial, int error) {
  int fd = dial->fd;

  dial->fd = 0;
  if (error == 0) {
    sbx__tell(d, SBX_MSG_CONNECTED, dial->id, 0, fd);
    return;
  }
  if (fd > 0) close(fd);
  if (dial->second) {
    sbx__tell(d, SBX_MSG_CONNECTED, dial->id, dial->error, -1);
    return;
  }
  dial->second = true;
  dial->error = error;
  sbx__start(d, dial);
}

static void sbx__start(struct sbx_dialer* d, struct sbx_dial* dial) {
  struct epoll_event e = {.events = EPOLLOUT};
  int fd = sbx__tcp(dial->second ? AF_INET6 : AF_INET);
  int err;

  if (fd < 0) {
    sbx__end(d, dial, errno);
    return;
  }
  dial->fd = fd;
  e.data.fd = fd;
  err = sbx__try(fd, dial->second, dial->port);
  if (err == EINPROGRESS &&
      epoll_ctl(d->epoll, EPOLL_CTL_ADD, fd, &e) != 0)
    err = errno;
  if (err != EINPROGRESS) sbx__end(d, dial, err);
}

void sbx_dialer_connect(struct sbx_dialer* d, uint32_t id, uint32_t port) {
  size_t i = 0;

  while (i < SBX_DIALS_MAX && d->dials[i].fd != 0) i++;
  if (i == SBX_DIALS_MAX || port == 0 || port > UINT16_MAX) {
    sbx__tell(d, SBX_MSG_CONNECTED, id, i == SBX_DIALS_MAX ? EAGAIN : EINVAL,
              -1);
    return;
  }
  d->dials[i] = (struct sbx_dial){.id = id, .port = (uint16_t) port};
  sbx__start(d, &d->dials[i]);
}

static void sbx__settle(struct sbx_dialer* d, struct sbx_dial* dial) {
  int error = 0;
  socklen_t len = sizeof(error);

  /* It travels to the host, which must not be told of it here any more. */
  epoll_ctl(d->epoll, EPOLL_CTL_DEL, dial->fd, NULL);
  if (getsockopt(dial->fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0)
    error = errno;
  sbx__end(d, dial, error);
}

bool sbx_dialer_event(struct sbx_dialer* d, int fd) {
  size_t i;

  for (i = 0; i < SBX_DIALS_MAX; i++) {
    if (d->dials[i].fd != fd) continue;
    sbx__settle(d, &d->dials[i]);
    return true;
  }
  return false;
}

static int sbx__bind(int fd, uint32_t port) {
  struct sockaddr_in at = {.sin_family = AF_INET,
                           .sin_port = htons((uint16_t) port),
                           .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

  if (bind(fd, (struct sockaddr*) &at, sizeof(at)) != 0) return errno;
  return listen(fd, SBX__BACKLOG) == 0 ? 0 : errno;
}

void sbx_dialer_listen(struct sbx_dialer* d, uint32_t id, uint32_t port) {
  int fd = sbx__tcp(AF_INET);
  int error = fd < 0 ? errno : sbx__bind(fd, port);

  if (error != 0 && fd >= 0) close(fd);
  sbx__tell(d, SBX_MSG_LISTENING, id, error, error == 0 ? fd : -1);
}
