/* The second thread of PID 1: it stands outside the system call filter. */
#ifndef SBX_LAUNCHER_SUPERVISOR_H
#define SBX_LAUNCHER_SUPERVISOR_H

#include <sys/types.h>

struct sbx_guard;

struct sbx_supervisor {
  int tid;
  int gate;    /* socket between the two threads */
  int timer;   /* runs while a child has not reached its exec */
  pid_t child; /* that child, written by clone */
  int other;   /* the thread's end of the gate */
  const struct sbx_guard* guard; /* level landlock; set before it serves */
};

/* Starts the thread; before the filter is installed. Never freed. NULL with
 * errno. */
struct sbx_supervisor* sbx_supervisor_start(void);

/* Hands it the filter's listener, -1 if there is none. */
void sbx_supervisor_serve(struct sbx_supervisor* supervisor, int listener);

/* Before and after a clone whose parent waits for the exec. */
void sbx_supervisor_watch(struct sbx_supervisor* supervisor);
void sbx_supervisor_unwatch(struct sbx_supervisor* supervisor);

#endif
