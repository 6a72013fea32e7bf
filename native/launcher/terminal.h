/* A terminal for one command. */
#ifndef SBX_LAUNCHER_TERMINAL_H
#define SBX_LAUNCHER_TERMINAL_H

#include <stdint.h>

/* Opens a pair in the devpts of the sandbox; `size` is columns | rows << 16.
 * Returns the master, the other end in `slave`; -1 with errno. */
int sbx_terminal_open(uint32_t size, int* slave);

/* Passes the master of command `id` to the host and closes it, whatever comes
 * of it. -1 with errno. */
int sbx_terminal_send(int control, uint32_t id, int master);

/* Makes descriptor 0 the controlling terminal of a new session's leader. Between
 * vfork and exec: system calls only. */
void sbx_terminal_control(void);

#endif
