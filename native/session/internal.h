/* What session.c and pipes.c know of each other; nothing public. */
#ifndef SBX_INTERNAL_H
#define SBX_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>

#include "session.h"

/* One command, as the session routes messages to it. */
struct sbx__client {
  uint32_t id;
  struct sbx__client* next;
  /* One message with its payload; the client may detach itself in it. */
  void (*on_message)(struct sbx__client* c, const struct sbx_msg* msg,
                     const void* payload, size_t len);
  /* Where not NULL, every message comes here instead, with its descriptors: the
   * client sets *nfds to 0 to keep them. */
  void (*on_fds)(struct sbx__client* c, const struct sbx_msg* msg,
                 const int* fds, size_t* nfds);
  /* The session is over: no message follows. The client is detached already. */
  void (*on_gone)(struct sbx__client* c);
  /* May be NULL. The one descriptor of a message, which it takes over, before
   * on_message. */
  void (*on_fd)(struct sbx__client* c, const struct sbx_msg* msg, int fd);
  /* May be NULL. Time of the sandbox stands still, or goes on. */
  void (*on_paused)(struct sbx__client* c, bool paused);
};

uv_loop_t* sbx__session_loop(const struct sbx_session* s);
bool sbx__session_running(const struct sbx_session* s);
bool sbx__session_paused(const struct sbx_session* s);

/* Gives the client an id of its own and routes to it until detached. */
void sbx__session_attach(struct sbx_session* s, struct sbx__client* c);
void sbx__session_detach(struct sbx_session* s, struct sbx__client* c);

/* Takes what has come without waiting for the loop: a timer that fires late,
 * because something blocked the loop, must not overtake it. */
void sbx__session_poll(struct sbx_session* s);

/* Takes back the command `id` that waits for the end of a pause: it will never
 * start. False: it does not wait. */
bool sbx__session_withdraw(struct sbx_session* s, uint32_t id);

/* Sends one message, or queues it while the socket is full. Takes over the
 * descriptors, on failure too. Negative errno: it could not be taken. */
int sbx__session_send(struct sbx_session* s, const struct sbx_msg* msg,
                      const void* payload, size_t len, const int* fds,
                      size_t nfds);

#endif
