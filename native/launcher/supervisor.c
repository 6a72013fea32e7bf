/* Serves what the main thread of PID 1 cannot: chmod calls with set-id bits,
 * which the filter would stop in any filtered thread, and the main thread's own
 * vfork, during which it sleeps. It is a thread and no process because nothing
 * inside can kill or stop a thread of PID 1.
 */
#include "sys.h" /* first: feature macros */

#include "supervisor.h"

#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

#include "notifier.h"
#include "proc.h"
#include "thread.h"

enum {
  SBX__TICK_MS = 50,
  SBX__TICKS_MAX = 20 /* then the child is given up */
};

static bool sbx__is_stopped(pid_t pid) {
  struct sbx_proc p;

  return sbx_proc_read(pid, &p) && (p.state == 'T' || p.state == 't');
}

/* SIGSTOP cannot be blocked, and any process inside may send it to a child that
 * PID 1 waits for. */
static void sbx__on_tick(struct sbx_supervisor* s, int* ticks) {
  pid_t child = __atomic_load_n(&s->child, __ATOMIC_ACQUIRE);

  if (child <= 0) {
    *ticks = 0;
  } else if (sbx__is_stopped(child)) {
    kill(child, (*ticks)++ < SBX__TICKS_MAX ? SIGCONT : SIGKILL);
  }
}

static void sbx__run(struct sbx_supervisor* s, int listener) {
  struct pollfd polled[2] = {{listener, POLLIN, 0}, {s->timer, POLLIN, 0}};
  uint64_t expired;
  int ticks = 0;

  for (;;) {
    if (poll(polled, 2, -1) < 0) continue;
    if (polled[0].revents & POLLIN)
      sbx_notifier_answer(listener, s->guard);
    else if (polled[0].revents != 0)
      polled[0].fd = -1;
    if (polled[1].revents != 0 &&
        read(s->timer, &expired, sizeof(expired)) == sizeof(expired))
      sbx__on_tick(s, &ticks);
  }
}

static void* sbx__thread(void* arg) {
  struct sbx_supervisor* s = arg;
  int tid = (int) syscall(SYS_gettid);
  int listener;

  if (write(s->other, &tid, sizeof(tid)) != sizeof(tid)) return NULL;
  if (read(s->other, &listener, sizeof(listener)) != sizeof(listener))
    return NULL;
  sbx__run(s, listener);
  return NULL;
}

static int sbx__start(struct sbx_supervisor* s) {
  if (sbx_thread_start(sbx__thread, s) != 0) return -1;
  return read(s->gate, &s->tid, sizeof(s->tid)) == sizeof(s->tid) ? 0 : -1;
}

struct sbx_supervisor* sbx_supervisor_start(void) {
  struct sbx_supervisor* s = calloc(1, sizeof(*s));
  int gate[2];

  if (s == NULL) return NULL;
  s->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
  if (s->timer >= 0 &&
      socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, gate) == 0) {
    s->gate = gate[0];
    s->other = gate[1];
    if (sbx__start(s) == 0) return s;
  }
  free(s); /* no thread has it; the launcher is about to give up */
  return NULL;
}

void sbx_supervisor_serve(struct sbx_supervisor* s, int listener) {
  ssize_t n = write(s->gate, &listener, sizeof(listener));

  (void) n; /* a few bytes always fit */
}

static void sbx__set_timer(struct sbx_supervisor* s, long ms) {
  struct timespec t = {0, ms * 1000000};
  struct itimerspec spec = {t, t};

  timerfd_settime(s->timer, 0, &spec, NULL);
}

void sbx_supervisor_watch(struct sbx_supervisor* s) {
  sbx__set_timer(s, SBX__TICK_MS);
}

void sbx_supervisor_unwatch(struct sbx_supervisor* s) {
  __atomic_store_n(&s->child, 0, __ATOMIC_RELEASE);
  sbx__set_timer(s, 0);
}
