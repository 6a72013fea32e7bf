/* A listening socket on the loop. It does not keep the loop alive. */
#ifndef SBX_ACCEPTOR_H
#define SBX_ACCEPTOR_H

#include <stdbool.h>
#include <uv.h>

struct sbx_acceptor {
  void* data;
  int fd; /* -1: closed or never open */
  uv_poll_t poll;
  uv_timer_t timer;
  bool paused;
  unsigned handles;
  /* `fd` is the callee's, close-on-exec and non-blocking. It may pause. */
  void (*on_accept)(struct sbx_acceptor* a, int fd);
  /* After close: the memory may go. */
  void (*on_closed)(struct sbx_acceptor* a);
};

/* Takes `fd` over, on failure too (then on_closed does not come). */
int sbx_acceptor_open(struct sbx_acceptor* a, uv_loop_t* loop, int fd);

/* While paused, clients wait in the kernel's queue. */
void sbx_acceptor_pause(struct sbx_acceptor* a, bool paused);

void sbx_acceptor_close(struct sbx_acceptor* a);

/* A listener on 127.0.0.1 or ::1, port 0 for any. A descriptor or a negative
 * errno. */
int sbx_listen_loopback(int family, unsigned port);

/* The port it got. */
unsigned sbx_listen_port(int fd);

#endif
