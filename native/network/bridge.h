/* A port of a sandbox made reachable on this machine's loopback. */
#ifndef SBX_BRIDGE_H
#define SBX_BRIDGE_H

#include "../session/session.h"

struct sbx_bridge;

enum { SBX_BRIDGE_CONNECTIONS = 256 };

/* Listens on 127.0.0.1 and, where there is IPv6, on ::1 with the same number.
 * Each connection that starts with an HTTP request for that very host and port
 * (host_check.h) goes to `port` inside. At most 256 at a time, the others wait.
 * The session must live until the close. */
int sbx_bridge_open(uv_loop_t* loop, struct sbx_session* session,
                    unsigned port, struct sbx_bridge** out,
                    struct sbx_error* error);

/* Where clients connect. */
unsigned sbx_bridge_port(const struct sbx_bridge* bridge);

/* Closes the listeners and all connections at once. `cb` when nothing of it is
 * left on the loop. */
void sbx_bridge_close(struct sbx_bridge* bridge, sbx_session_cb cb, void* arg);

#endif
