/* Threads that run for as long as the program does. */
#ifndef SBX_LAUNCHER_THREAD_H
#define SBX_LAUNCHER_THREAD_H

/* Starts one that nobody joins, with a small stack. -1 and errno: it could not
 * be started. */
int sbx_thread_start(void* (*run)(void* arg), void* arg);

#endif
