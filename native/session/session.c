/* A running launcher: starts the program, talks to PID 1 over the control
 * socket, routes its messages to the commands, and makes sure that the end of
 * either side is noticed by the other.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "session.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "internal.h"
#include "packet.h"
#include "setup.h"
#include "start.h"

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

enum {
  START_MS = 30000, /* from the spawn to READY or FAIL */
  HUNG_MS = 5000,   /* what the monitor may take to end, before it is killed */
  REAP_MS = 10,     /* between looks where there are no pidfds */
  BUCKETS = 64,
  MESSAGES_PER_TURN = 128
};

enum state {
  STARTING, /* launcher runs, no answer yet */
  READY,
  ENDING, /* its end was asked for or noticed; waits for the monitor */
  OVER    /* the monitor was reaped */
};

/* One sbx_session_pause that waits for its answer. */
struct pausing {
  struct pausing* next;
  bool paused;
  sbx_session_cb cb;
  void* arg;
};

/* One sbx_session_end_all that waits for EMPTY. */
struct emptying {
  struct emptying* next;
  sbx_session_cb cb;
  void* arg;
};

struct sbx_session {
  uv_loop_t* loop;
  struct sbx_session_events events;
  enum state state;
  bool was_ready;
  bool failed; /* the set-up error was reported or is in `error` */
  struct sbx_error error;

  uv_poll_t control;
  int control_fd;
  int life_fd;
  bool writing;
  struct sbx__packets out;

  pid_t pid;
  int pid_fd;
  int status;
  uv_poll_t gone;   /* on the pidfd */
  uv_timer_t timer; /* start limit, then the limit for hanging, or reaping */
  uint64_t deadline;
  unsigned handles;

  uint32_t next_id;
  size_t clients;
  struct sbx__client* buckets[BUCKETS];
  struct emptying* emptying;

  bool paused;
  struct sbx__packets held; /* commands that wait for the end of the pause */
  struct pausing* pausing; /* calls in the order of their answers */

  bool settled; /* everything about the end was reported */
  bool closing;
  sbx_session_cb close_cb;
  void* close_arg;
};

static void begin_end(struct sbx_session* s);

/* ---- the loop is kept alive by work, not by an idle sandbox ---- */

static void reref(struct sbx_session* s) {
  bool busy = s->state == STARTING || s->closing || s->clients > 0 ||
              s->emptying != NULL || s->pausing != NULL;
  uv_handle_t* handles[] = {(uv_handle_t*) &s->control,
                            (uv_handle_t*) &s->timer,
                            (uv_handle_t*) &s->gone};

  for (size_t i = 0; i < 3; i++) {
    if (i == 2 && s->pid_fd < 0) continue;
    if (busy)
      uv_ref(handles[i]);
    else
      uv_unref(handles[i]);
  }
}

/* ---- clients ---- */

uv_loop_t* sbx__session_loop(const struct sbx_session* s) {
  return s->loop;
}

bool sbx__session_running(const struct sbx_session* s) {
  return s->state == READY && !s->closing;
}

bool sbx__session_paused(const struct sbx_session* s) {
  return s->paused;
}

void sbx__session_attach(struct sbx_session* s, struct sbx__client* c) {
  struct sbx__client** bucket;

  c->id = ++s->next_id;
  bucket = &s->buckets[c->id % BUCKETS];
  c->next = *bucket;
  *bucket = c;
  s->clients++;
  reref(s);
}

void sbx__session_detach(struct sbx_session* s, struct sbx__client* c) {
  struct sbx__client** at = &s->buckets[c->id % BUCKETS];

  while (*at != NULL && *at != c) at = &(*at)->next;
  if (*at == NULL) return;
  *at = c->next;
  s->clients--;
  reref(s);
}

static struct sbx__client* client_of(struct sbx_session* s, uint32_t id) {
  struct sbx__client* c = s->buckets[id % BUCKETS];

  while (c != NULL && c->id != id) c = c->next;
  return c;
}

/* A client may start or end others in its callback: always from the front. */
static void settle_clients(struct sbx_session* s) {
  for (size_t i = 0; i < BUCKETS; i++) {
    while (s->buckets[i] != NULL) {
      struct sbx__client* c = s->buckets[i];

      sbx__session_detach(s, c);
      c->on_gone(c);
    }
  }
}

static void settle_emptying(struct sbx_session* s) {
  struct emptying* list = s->emptying;

  s->emptying = NULL;
  while (list != NULL) {
    struct emptying* e = list;

    list = e->next;
    e->cb(e->arg);
    free(e);
  }
  reref(s);
}

static void settle_first_pausing(struct sbx_session* s) {
  struct pausing* p = s->pausing;

  s->pausing = p->next;
  if (p->cb != NULL) p->cb(p->arg);
  free(p);
  reref(s);
}

/* PID 1 answers in order, but for pauses that ended before they were reached. */
static void settle_pausing(struct sbx_session* s, bool paused) {
  while (s->pausing != NULL) {
    bool last = s->pausing->paused == paused;

    settle_first_pausing(s);
    if (last) return;
  }
}

/* ---- sending ---- */

static void on_control(uv_poll_t* handle, int status, int events);

static void watch(struct sbx_session* s, bool writing) {
  s->writing = writing;
  uv_poll_start(&s->control, UV_READABLE | (writing ? UV_WRITABLE : 0),
                on_control);
}

static int hold(struct sbx_session* s, const struct iovec* iov, size_t niov,
                const int* fds, size_t nfds) {
  struct sbx__packet* p = sbx__packet_new(iov, niov, fds, nfds);

  if (p == NULL) return -ENOMEM;
  sbx__packets_add(&s->held, p, p);
  return 0;
}

static void release_held(struct sbx_session* s) {
  if (s->held.first == NULL) return;
  sbx__packets_add(&s->out, s->held.first, s->held.last);
  s->held.first = NULL;
  if (!s->writing) watch(s, true);
}

bool sbx__session_withdraw(struct sbx_session* s, uint32_t id) {
  struct sbx__packet* p = sbx__packets_take(&s->held, id);

  if (p != NULL) sbx__packet_free(p);
  return p != NULL;
}

static int enqueue(struct sbx_session* s, const struct iovec* iov, size_t niov,
                   const int* fds, size_t nfds) {
  struct sbx__packet* p = sbx__packet_new(iov, niov, fds, nfds);

  if (p == NULL) return -ENOMEM;
  sbx__packets_add(&s->out, p, p);
  if (!s->writing) watch(s, true);
  return 0;
}

int sbx__session_send(struct sbx_session* s, const struct sbx_msg* msg,
                      const void* payload, size_t len, const int* fds,
                      size_t nfds) {
  struct iovec iov[2] = {
      {(void*) (uintptr_t) msg, sizeof(*msg)},
      {(void*) (uintptr_t) payload, len},
  };
  size_t niov = len > 0 ? 2 : 1;
  int err = -EPIPE;

  if (s->paused && msg->type == SBX_MSG_SPAWN && s->state == READY) {
    err = hold(s, iov, niov, fds, nfds);
    if (err == 0) return 0;
  } else if (s->control_fd >= 0 && s->state <= READY) {
    err = s->out.first != NULL
              ? -EAGAIN
              : sbx__packet_send(s->control_fd, iov, niov, fds, nfds);
    if (sbx__packet_passes(err)) {
      err = enqueue(s, iov, niov, fds, nfds);
      if (err == 0) return 0;
    }
  }
  sbx__close_fds(fds, nfds);
  return err;
}

static void on_writable(struct sbx_session* s) {
  while (s->out.first != NULL) {
    struct sbx__packet* p = s->out.first;
    struct iovec iov = {p->bytes, p->len};
    int err = sbx__packet_send(s->control_fd, &iov, 1, p->fds, p->nfds);

    /* Any other failure means a dead peer: its EOF is on the way. */
    if (sbx__packet_passes(err)) return;
    s->out.first = p->next;
    sbx__packet_free(p);
  }
  watch(s, false);
}

/* ---- the monitor's end ---- */

static void finish(struct sbx_session* s) {
  sbx_session_cb cb = s->close_cb;
  void* arg = s->close_arg;

  free(s);
  if (cb != NULL) cb(arg);
}

static void on_closed(uv_handle_t* handle) {
  struct sbx_session* s = handle->data;

  if (--s->handles == 0) finish(s);
}

static void close_handles(struct sbx_session* s) {
  uv_close((uv_handle_t*) &s->timer, on_closed);
  uv_close((uv_handle_t*) &s->control, on_closed);
  sbx__close_fd(&s->control_fd);
  if (s->pid_fd >= 0) uv_close((uv_handle_t*) &s->gone, on_closed);
  sbx__close_fd(&s->pid_fd);
}

static void describe_silent_end(struct sbx_session* s) {
  int status = s->status;

  sbx_error_set(&s->error, SBX_E_UNAVAILABLE, 0, "start",
                "The sandbox's launcher ended before it was ready, without "
                "saying why (%s %d). A security module or a seccomp profile "
                "around this process may have killed it.",
                WIFSIGNALED(status) ? "signal" : "exit code",
                WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

static void report_failure(struct sbx_session* s) {
  if (!s->failed) describe_silent_end(s);
  s->failed = true;
  if (!s->closing) s->events.on_ready(s->events.data, &s->error, NULL);
}

static void report_loss(struct sbx_session* s) {
  struct sbx_error error;

  sbx_error_set(&error, SBX_E_UNAVAILABLE, 0, "session",
                "The sandbox's processes were ended from outside (its first "
                "process or its monitor was killed).");
  error.retryable = true;
  s->events.on_lost(s->events.data, &error);
}

/* The monitor is reaped, so nothing of the sandbox runs any more: what the
 * commands wrote lies in their pipes and can be read out. */
static void on_reaped(struct sbx_session* s) {
  s->state = OVER;
  uv_timer_stop(&s->timer);
  if (s->pid_fd >= 0) uv_poll_stop(&s->gone);
  settle_clients(s);
  settle_emptying(s);
  while (s->pausing != NULL) settle_first_pausing(s);
  if (!s->was_ready)
    report_failure(s);
  else if (!s->closing)
    report_loss(s);
  /* A callback above may have asked for the close. */
  s->settled = true;
  if (s->closing) close_handles(s);
}

/* True once the monitor is a zombie no more. */
static bool reap(struct sbx_session* s) {
  pid_t pid;

  if (s->state == OVER) return false;
  do {
    pid = waitpid(s->pid, &s->status, WNOHANG);
  } while (pid < 0 && errno == EINTR);
  /* ECHILD: somebody else in this process waits for every child. */
  return pid == s->pid || (pid < 0 && errno == ECHILD);
}

static void on_gone(uv_poll_t* handle, int status, int events) {
  struct sbx_session* s = handle->data;

  (void) status;
  (void) events;
  if (!reap(s)) return;
  if (s->state != ENDING) begin_end(s);
  on_reaped(s);
}

static void on_timer(uv_timer_t* handle);

static void arm(struct sbx_session* s, uint64_t ms) {
  uv_update_time(s->loop);
  s->deadline = uv_now(s->loop) + ms;
  /* Without a pidfd this timer is also what notices the end. */
  if (s->pid_fd < 0 && s->state == ENDING)
    uv_timer_start(&s->timer, on_timer, REAP_MS, REAP_MS);
  else
    uv_timer_start(&s->timer, on_timer, ms, 0);
}

static void on_start_late(struct sbx_session* s) {
  sbx__session_poll(s);
  if (s->state != STARTING) return;
  sbx_error_set(&s->error, SBX_E_UNAVAILABLE, ETIMEDOUT, "start",
                "The sandbox's launcher gave no answer within %d seconds.",
                START_MS / 1000);
  s->failed = true;
  begin_end(s);
}

static void on_timer(uv_timer_t* handle) {
  struct sbx_session* s = handle->data;

  switch (s->state) {
    case STARTING: on_start_late(s); break;
    case READY:
      sbx__session_poll(s);
      if (s->state == READY && s->emptying != NULL) begin_end(s);
      break;
    case ENDING:
      if (reap(s)) {
        on_reaped(s);
      } else if (uv_now(s->loop) >= s->deadline) {
        kill(s->pid, SIGKILL);
        arm(s, HUNG_MS);
      }
      break;
    case OVER: break;
  }
}

/* Lets go of both ends: PID 1 and the monitor see it and end everything. The
 * socket itself stays open until its handle is closed: libuv takes the number
 * out of its epoll set once more then, whoever has it by that time. */
static void begin_end(struct sbx_session* s) {
  s->state = ENDING;
  uv_poll_stop(&s->control);
  shutdown(s->control_fd, SHUT_RDWR);
  sbx__close_fd(&s->life_fd);
  sbx__packets_drop(&s->out);
  sbx__packets_drop(&s->held);
  arm(s, HUNG_MS);
  reref(s);
}

/* ---- receiving ---- */

static void on_ready(struct sbx_session* s, struct sbx__received* r) {
  struct sbx_session_ready ready = {.landlock_abi = r->msg.a,
                                    .flags = r->msg.b,
                                    .workspace_fd = -1,
                                    .root_fd = -1};

  if (s->state != STARTING) return;
  if (r->nfds > 0) ready.workspace_fd = r->fds[0];
  if (r->nfds > 1) ready.root_fd = r->fds[1];
  for (size_t i = 2; i < r->nfds; i++) close(r->fds[i]);
  r->nfds = 0;
  s->state = READY;
  s->was_ready = true;
  uv_timer_stop(&s->timer);
  reref(s);
  s->events.on_ready(s->events.data, NULL, &ready);
}

static void on_fail(struct sbx_session* s, const struct sbx__received* r) {
  struct sbx_setup_place place;
  char detail[256] = "";
  size_t len = r->len < sizeof(detail) - 1 ? r->len : sizeof(detail) - 1;

  if (s->state != STARTING || s->failed) return;
  memcpy(detail, r->payload, len);
  sbx_setup_look(&place);
  sbx_setup_error(&s->error, &place, (int) r->msg.a, (int) r->msg.b, detail);
  s->failed = true;
  begin_end(s);
}

static void on_message(struct sbx_session* s, struct sbx__received* r) {
  struct sbx__client* c;

  switch (r->msg.type) {
    case SBX_MSG_READY: on_ready(s, r); break;
    case SBX_MSG_FAIL: on_fail(s, r); break;
    case SBX_MSG_PAUSED: settle_pausing(s, true); break;
    case SBX_MSG_UNPAUSED: settle_pausing(s, false); break;
    case SBX_MSG_EMPTY:
      uv_timer_stop(&s->timer);
      while (s->pausing != NULL) settle_first_pausing(s);
      settle_emptying(s);
      break;
    default:
      c = client_of(s, r->msg.id);
      if (c != NULL && c->on_fds != NULL) {
        c->on_fds(c, &r->msg, r->fds, &r->nfds);
        break;
      }
      if (c != NULL && c->on_fd != NULL && r->nfds == 1) {
        c->on_fd(c, &r->msg, r->fds[0]);
        r->nfds = 0;
      }
      if (c != NULL) c->on_message(c, &r->msg, r->payload, r->len);
  }
  sbx__close_fds(r->fds, r->nfds);
}

/* True while the socket is in order. */
static bool read_messages(struct sbx_session* s) {
  char buffer[SBX__PACKET_MAX] __attribute__((aligned(8)));
  struct sbx__received r = {.payload = buffer};
  int err = 1;

  for (int i = 0; i < MESSAGES_PER_TURN && s->state <= READY; i++) {
    err = sbx__packet_receive(s->control_fd, buffer, &r);
    if (err != 1) break;
    on_message(s, &r);
  }
  return err == 1 || err == -EAGAIN;
}

static void on_control(uv_poll_t* handle, int status, int events) {
  struct sbx_session* s = handle->data;

  if (status == 0 && (events & UV_WRITABLE) != 0) on_writable(s);
  if (!read_messages(s)) status = -1;
  if (status != 0 && s->state <= READY) begin_end(s);
}

void sbx__session_poll(struct sbx_session* s) {
  read_messages(s);
}

/* ---- starting ---- */

static void watch_monitor(struct sbx_session* s) {
  s->pid_fd = (int) syscall(SYS_pidfd_open, s->pid, 0);
  if (s->pid_fd < 0) return;
  if (uv_poll_init(s->loop, &s->gone, s->pid_fd) != 0) {
    sbx__close_fd(&s->pid_fd);
    return;
  }
  s->gone.data = s;
  s->handles++;
  uv_poll_start(&s->gone, UV_READABLE, on_gone);
}

static int start_error(struct sbx_error* error, int err) {
  char words[SBX_SYS_TEXT_MAX];

  sbx_error_set(error, SBX_E_UNAVAILABLE, -err, "start",
                "The sandbox's launcher could not be started: %s.%s",
                sbx_sys_text(-err, words),
                err == -EACCES || err == -EPERM
                    ? " This machine refuses to execute programs from memory "
                      "and from /dev/shm and /tmp: set vm.memfd_noexec below 2 "
                      "or mount one of them with exec."
                    : "");
  if (error != NULL)
    error->retryable = err == -EAGAIN || err == -ENOMEM || err == -EMFILE;
  return SBX_E_UNAVAILABLE;
}

static int start_launcher(struct sbx_session* s,
                          const struct sbx_config* config) {
  struct sbx__start st;
  int err = sbx__start_open(&st, config);

  if (err == 0) err = uv_poll_init(s->loop, &s->control, st.control[0]);
  if (err != 0) {
    sbx__start_clear(&st);
    return err;
  }
  s->handles++;
  s->control.data = s;
  err = sbx__start_program(&st, &s->pid);
  s->control_fd = st.control[0];
  s->life_fd = st.life[1];
  st.control[0] = st.life[1] = -1;
  sbx__start_clear(&st);
  return err;
}

static void on_start_closed(uv_handle_t* handle) {
  struct sbx_session* s = handle->data;

  if (--s->handles == 0) free(s);
}

int sbx_session_start(uv_loop_t* loop, const struct sbx_config* config,
                      const struct sbx_session_events* events,
                      struct sbx_session** out, struct sbx_error* error) {
  struct sbx_session* s = calloc(1, sizeof(*s));
  int err;

  *out = NULL;
  if (s == NULL) return start_error(error, UV_ENOMEM);
  s->loop = loop;
  s->events = *events;
  s->control_fd = s->life_fd = s->pid_fd = -1;
  err = start_launcher(s, config);
  if (err != 0) {
    if (s->handles > 0)
      uv_close((uv_handle_t*) &s->control, on_start_closed);
    sbx__close_fd(&s->life_fd);
    sbx__close_fd(&s->control_fd);
    if (s->handles == 0) free(s);
    return start_error(error, err);
  }
  uv_timer_init(loop, &s->timer);
  s->timer.data = s;
  s->handles++;
  watch_monitor(s);
  watch(s, false);
  arm(s, START_MS);
  reref(s);
  *out = s;
  return 0;
}

/* ---- ending ---- */

static void tell_clients(struct sbx_session* s) {
  for (size_t i = 0; i < BUCKETS; i++)
    for (struct sbx__client* c = s->buckets[i]; c != NULL; c = c->next)
      if (c->on_paused != NULL) c->on_paused(c, s->paused);
}

static void note_paused(struct sbx_session* s, bool paused) {
  if (s->paused == paused) return;
  s->paused = paused;
  if (!paused) release_held(s);
  tell_clients(s);
}

void sbx_session_pause(struct sbx_session* s, bool paused, sbx_session_cb cb,
                       void* arg) {
  struct sbx_msg msg = {.type = paused ? SBX_MSG_PAUSE : SBX_MSG_UNPAUSE};
  struct pausing* p = malloc(sizeof(*p));
  struct pausing** at = &s->pausing;

  if (p == NULL || s->state != READY ||
      sbx__session_send(s, &msg, NULL, 0, NULL, 0) != 0) {
    free(p);
    if (cb != NULL) cb(arg);
    return;
  }
  *p = (struct pausing){NULL, paused, cb, arg};
  while (*at != NULL) at = &(*at)->next;
  *at = p;
  reref(s);
  note_paused(s, paused);
}

void sbx_session_end_all(struct sbx_session* s, uint64_t grace_ms,
                         sbx_session_cb cb, void* arg) {
  struct sbx_msg msg = {.type = SBX_MSG_END,
                        .id = 0,
                        .a = grace_ms < UINT32_MAX ? (uint32_t) grace_ms
                                                   : UINT32_MAX,
                        .b = SBX_SCOPE_ALL};
  struct emptying* e = malloc(sizeof(*e));

  note_paused(s, false); /* as the end of all does on the other side */
  if (e == NULL || s->state != READY ||
      sbx__session_send(s, &msg, NULL, 0, NULL, 0) != 0) {
    free(e);
    /* Nothing runs, or nothing can be said to it: then it has to end. */
    if (s->state == READY) begin_end(s);
    cb(arg);
    return;
  }
  *e = (struct emptying){s->emptying, cb, arg};
  s->emptying = e;
  arm(s, grace_ms + HUNG_MS);
  reref(s);
}

void sbx_session_close(struct sbx_session* s, sbx_session_cb cb, void* arg) {
  if (s->closing) return;
  s->closing = true;
  s->close_cb = cb;
  s->close_arg = arg;
  if (s->settled) {
    close_handles(s);
    return;
  }
  if (s->state <= READY) begin_end(s);
  reref(s);
}
