/* The process that stays outside. */
#ifndef SBX_LAUNCHER_MONITOR_H
#define SBX_LAUNCHER_MONITOR_H

/* Runs the session from the descriptors of protocol.h to the last trace of it.
 * Returns the exit status. */
int sbx_monitor_run(void);

#endif
