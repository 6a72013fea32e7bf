/* Messages of the control socket: each a packet of its own, with descriptors;
 * and a queue of those that the socket has no room for. */
#ifndef SBX_PACKET_H
#define SBX_PACKET_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

#include "../launcher/protocol.h"

enum { SBX__PACKET_MAX = 8192 }; /* bytes of one that PID 1 sends */

/* One that waits. Its descriptors are its own. */
struct sbx__packet {
  struct sbx__packet* next;
  int fds[SBX_MSG_FDS_MAX];
  size_t nfds;
  size_t len;
  char bytes[]; /* a struct sbx_msg and its payload */
};

struct sbx__packets {
  struct sbx__packet* first;
  struct sbx__packet* last; /* of a queue that is not empty */
};

/* Copies one or two pieces and takes the descriptors over; NULL without memory,
 * and they stay the caller's. */
struct sbx__packet* sbx__packet_new(const struct iovec* iov, size_t niov,
                                    const int* fds, size_t nfds);
void sbx__packet_free(struct sbx__packet* p);

/* A chain of packets, at the end. */
void sbx__packets_add(struct sbx__packets* q, struct sbx__packet* first,
                      struct sbx__packet* last);
/* Takes the packet of the message `id` out; NULL: there is none. */
struct sbx__packet* sbx__packets_take(struct sbx__packets* q, uint32_t id);
void sbx__packets_drop(struct sbx__packets* q);

/* 0, or a negative errno. The descriptors stay the caller's. */
int sbx__packet_send(int fd, const struct iovec* iov, size_t niov,
                     const int* fds, size_t nfds);
/* Whether such a failure passes: a full socket, or too many descriptors under
 * way. */
bool sbx__packet_passes(int err);

struct sbx__received {
  struct sbx_msg msg;
  const char* payload; /* in the caller's buffer */
  size_t len;
  int fds[SBX_MSG_FDS_MAX]; /* the caller's */
  size_t nfds;
};

/* `buffer` has SBX__PACKET_MAX bytes. 1: a message, 0: end of file, negative
 * errno. */
int sbx__packet_receive(int fd, char* buffer, struct sbx__received* r);

void sbx__close_fds(const int* fds, size_t n);
/* Of -1 too, which it leaves. */
void sbx__close_fd(int* fd);

#endif
