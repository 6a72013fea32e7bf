/* Sockets that PID 1 makes inside for the host: connections to a server in
 * here, and a listener that the host accepts from. */
#ifndef SBX_LAUNCHER_DIAL_H
#define SBX_LAUNCHER_DIAL_H

#include <stdbool.h>
#include <stdint.h>

/* Connections under way, none of which blocks. All zero is empty. */
enum { SBX_DIALS_MAX = 256 };

struct sbx_dial {
  uint32_t id;
  uint16_t port;
  bool second; /* ::1 is tried, 127.0.0.1 refused */
  int fd;      /* 0: free slot */
  int error;   /* of the first try */
};

struct sbx_dialer {
  int epoll;
  int control;
  struct sbx_dial dials[SBX_DIALS_MAX];
};

/* Answers SBX_MSG_CONNECTED at once or later. */
void sbx_dialer_connect(struct sbx_dialer* d, uint32_t id, uint32_t port);

/* Answers SBX_MSG_LISTENING at once. */
void sbx_dialer_listen(struct sbx_dialer* d, uint32_t id, uint32_t port);

/* True if the descriptor of an event is one of the dialer's. */
bool sbx_dialer_event(struct sbx_dialer* d, int fd);

#endif
