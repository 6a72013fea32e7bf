/* Supervisor of chmod calls that carry set-id bits. */
#ifndef SBX_LAUNCHER_NOTIFIER_H
#define SBX_LAUNCHER_NOTIFIER_H

#include <stdbool.h>

/* Starts the supervisor as a thread of PID 1, before the filter is installed.
 * Returns the descriptor that it waits on, or -1 where the kernel lacks what
 * it needs. */
int sbx_notifier_start(void);

/* Hands it the filter's listener; -1 ends the thread. */
void sbx_notifier_serve(int gate, int listener);

#endif
