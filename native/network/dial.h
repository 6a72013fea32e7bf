/* Sockets made inside a session by its PID 1 and handed out. */
#ifndef SBX_DIAL_H
#define SBX_DIAL_H

#include "../session/session.h"

/* One request under way. */
struct sbx_dial;

/* `fd` is the callee's, or a negative errno. Exactly once, never inside the
 * call that asked for it, unless that was cancelled. The socket is
 * non-blocking. */
typedef void (*sbx_dial_cb)(void* arg, int fd);

/* A connection to a server inside: 127.0.0.1, then ::1. Takes up to ten
 * seconds. NULL: the session is over, or memory is short; no call follows. */
struct sbx_dial* sbx_dial_connect(struct sbx_session* s, unsigned port,
                                  sbx_dial_cb cb, void* arg);

/* A listener on 127.0.0.1 inside. It exists before any command that is spawned
 * after this call. */
struct sbx_dial* sbx_dial_listen(struct sbx_session* s, unsigned port,
                                 sbx_dial_cb cb, void* arg);

/* The callback will not come. */
void sbx_dial_cancel(struct sbx_dial* dial);

#endif
