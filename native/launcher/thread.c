/* Starts detached threads. */
#include "sys.h" /* first: feature macros */

#include "thread.h"

#include <pthread.h>

enum { SBX__STACK = 128 * 1024 };

int sbx_thread_start(void* (*run)(void* arg), void* arg) {
  pthread_attr_t attr;
  pthread_t thread;
  int rc;

  pthread_attr_init(&attr);
  pthread_attr_setstacksize(&attr, SBX__STACK);
  pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
  rc = pthread_create(&thread, &attr, run, arg);
  pthread_attr_destroy(&attr);
  errno = rc;
  return rc == 0 ? 0 : -1;
}
