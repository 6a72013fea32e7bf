/* Messages of the control socket: each a packet of its own, with
 * descriptors. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "packet.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

void sbx__close_fd(int* fd) {
  if (*fd >= 0) close(*fd);
  *fd = -1;
}

void sbx__close_fds(const int* fds, size_t n) {
  for (size_t i = 0; i < n; i++) close(fds[i]);
}

void sbx__packet_free(struct sbx__packet* p) {
  sbx__close_fds(p->fds, p->nfds);
  free(p);
}

void sbx__packets_add(struct sbx__packets* q, struct sbx__packet* first,
                      struct sbx__packet* last) {
  if (q->first == NULL)
    q->first = first;
  else
    q->last->next = first;
  q->last = last;
}

struct sbx__packet* sbx__packets_take(struct sbx__packets* q, uint32_t id) {
  struct sbx__packet* before = NULL;

  for (struct sbx__packet* p = q->first; p != NULL; before = p, p = p->next) {
    struct sbx_msg msg;

    memcpy(&msg, p->bytes, sizeof(msg));
    if (msg.id != id) continue;
    if (before == NULL)
      q->first = p->next;
    else
      before->next = p->next;
    if (q->last == p) q->last = before;
    return p;
  }
  return NULL;
}

void sbx__packets_drop(struct sbx__packets* q) {
  while (q->first != NULL) {
    struct sbx__packet* p = q->first;

    q->first = p->next;
    sbx__packet_free(p);
  }
}

struct sbx__packet* sbx__packet_new(const struct iovec* iov, size_t niov,
                                    const int* fds, size_t nfds) {
  size_t len = iov[0].iov_len + (niov > 1 ? iov[1].iov_len : 0);
  struct sbx__packet* p = malloc(sizeof(*p) + len);

  if (p == NULL) return NULL;
  p->next = NULL;
  p->len = len;
  p->nfds = nfds;
  if (nfds > 0) memcpy(p->fds, fds, nfds * sizeof(*fds));
  memcpy(p->bytes, iov[0].iov_base, iov[0].iov_len);
  if (niov > 1)
    memcpy(p->bytes + iov[0].iov_len, iov[1].iov_base, iov[1].iov_len);
  return p;
}

int sbx__packet_send(int fd, const struct iovec* iov, size_t niov,
                     const int* fds, size_t nfds) {
  union {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(sizeof(int) * SBX_MSG_FDS_MAX)];
  } control;
  struct msghdr mh = {.msg_iov = (struct iovec*) (uintptr_t) iov,
                      .msg_iovlen = niov};
  ssize_t n;

  if (nfds > 0) {
    struct cmsghdr* cmsg = &control.align;

    memset(&control, 0, sizeof(control));
    mh.msg_control = &control;
    mh.msg_controllen = CMSG_SPACE(sizeof(int) * nfds);
    cmsg->cmsg_level = SOL_SOCKET;
    cmsg->cmsg_type = SCM_RIGHTS;
    cmsg->cmsg_len = CMSG_LEN(sizeof(int) * nfds);
    memcpy(CMSG_DATA(cmsg), fds, sizeof(int) * nfds);
  }
  do {
    n = sendmsg(fd, &mh, MSG_DONTWAIT | MSG_NOSIGNAL);
  } while (n < 0 && errno == EINTR);
  return n < 0 ? -errno : 0;
}

bool sbx__packet_passes(int err) {
  return err == -EAGAIN || err == -EWOULDBLOCK || err == -ENOBUFS ||
         err == -ETOOMANYREFS;
}

static void take_fds(struct msghdr* mh, struct sbx__received* r) {
  for (struct cmsghdr* c = CMSG_FIRSTHDR(mh); c; c = CMSG_NXTHDR(mh, c)) {
    size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    for (size_t i = 0; i < n; i++) {
      int fd;

      memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
      if (r->nfds < SBX_MSG_FDS_MAX)
        r->fds[r->nfds++] = fd;
      else
        close(fd);
    }
  }
}

int sbx__packet_receive(int fd, char* buffer, struct sbx__received* r) {
  char control[CMSG_SPACE(sizeof(int) * SBX_MSG_FDS_MAX)]
      __attribute__((aligned(sizeof(size_t))));
  struct iovec iov = {buffer, SBX__PACKET_MAX};
  struct msghdr mh = {.msg_iov = &iov,
                      .msg_iovlen = 1,
                      .msg_control = control,
                      .msg_controllen = sizeof(control)};
  ssize_t n;

  r->nfds = 0;
  do {
    n = recvmsg(fd, &mh, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (n < 0 && errno == EINTR);
  if (n < 0) return -errno;
  take_fds(&mh, r);
  if (n == 0 && r->nfds == 0) return 0;
  if ((size_t) n < sizeof(struct sbx_msg) ||
      (mh.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) {
    sbx__close_fds(r->fds, r->nfds);
    return -EPROTO;
  }
  memcpy(&r->msg, buffer, sizeof(r->msg));
  r->payload = buffer + sizeof(r->msg);
  r->len = (size_t) n - sizeof(r->msg);
  return 1;
}
