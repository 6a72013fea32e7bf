/* A command of a launcher: its pipes on the loop, its stdin queue, its time
 * limit and its end.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "internal.h"
#include "limits.h"
#include "../memfd.h"
#include "process_internal.h"
#include "rate.h"
#include "terminal.h"

enum {
  READ_MIN = 64 * 1024,
  READ_MAX = 1024 * 1024,
  READ_PER_TURN = 1024 * 1024, /* so that the loop stays alive with `yes` */
  TERMINAL_REST = 1024 * 1024 /* read at the end, whoever else still writes */
};

/* The reading end of one stream. */
struct output {
  struct pipes* owner;
  int fd; /* our end, -1 once at end-of-file or handed over */
  uv_poll_t poll;
  bool polled; /* handle is open */
  size_t read_size;
};

struct pending_write {
  struct pending_write* next;
  sbx_write_cb cb;
  void* arg;
  size_t done;
  size_t len;
  char bytes[];
};

struct input {
  int fd;
  uv_poll_t poll;
  bool polled;
  bool ending; /* close after what is queued */
  struct pending_write* first;
  struct pending_write** last;
};

struct pipes {
  struct sbx_process base;
  struct sbx__client client;
  struct sbx_session* session; /* NULL once detached */
  uv_loop_t* loop;
  struct output outputs[2];
  struct input input;
  uv_timer_t timer;
  bool timed; /* timer handle is open */
  uint64_t time_left; /* ms, while the sandbox is paused */
  bool withdrawn; /* ended in the pause that it waited in: never started */
  struct sbx_rate rate;
  uv_timer_t slow; /* while output waits for its rate */
  bool slowed;     /* slow's handle is open */
  bool waiting;    /* it runs */
  char reason[SBX_REASON_MAX];
  char* name; /* argv[0], for messages */
  char* cwd;
  unsigned handles;
};

static struct pipes* pipes_of(struct sbx__client* c) {
  return (struct pipes*) ((char*) c - offsetof(struct pipes, client));
}

static int index_of(const struct output* o) {
  return (int) (o - o->owner->outputs);
}

static struct sbx__stream* stream_of(const struct output* o) {
  return &o->owner->base.streams[index_of(o)];
}

/* ---- handles and memory ---- */

static void pipes_free(struct pipes* p) {
  free(p->name);
  free(p->cwd);
  sbx__process_free(&p->base);
}

/* Handles keep the struct alive, and so does a running callback. */
static void release(struct pipes* p) {
  if (--p->handles == 0 && p->base.closed) pipes_free(p);
}

static void on_closed(uv_handle_t* handle) {
  release(handle->data);
}

static void handle_close(uv_handle_t* handle, bool* open) {
  if (*open) uv_close(handle, on_closed);
  *open = false;
}

static int handle_open(struct pipes* p, uv_poll_t* poll, int fd,
                       bool* open) {
  int err = uv_poll_init(p->loop, poll, fd);

  if (err != 0) return err;
  poll->data = p;
  p->handles++;
  *open = true;
  return 0;
}

static void close_fd(int* fd) {
  if (*fd >= 0) close(*fd);
  *fd = -1;
}

/* ---- output ---- */

static ssize_t read_some(int fd, char* place, size_t len) {
  ssize_t n;

  do {
    n = read(fd, place, len);
  } while (n < 0 && errno == EINTR);
  return n;
}

/* First reads are small most of the time: through the stack, so that a command
 * that prints one line costs no more memory than the line. */
static ssize_t read_first(struct output* o, size_t want) {
  char buffer[READ_MIN];
  ssize_t n;

  if (want > sizeof(buffer)) want = sizeof(buffer);
  n = read_some(o->fd, buffer, want);
  if (n > 0) sbx__process_put(&o->owner->base, index_of(o), buffer, (size_t) n);
  return n;
}

static ssize_t read_more(struct output* o, size_t want) {
  size_t got;
  struct sbx__stream* s = stream_of(o);
  char* place = sbx_ring_reserve(&s->ring, want, &got);
  ssize_t n;

  if (place == NULL) return read_first(o, want);
  n = read_some(o->fd, place, got);
  if (n <= 0) return n;
  sbx_ring_commit(&s->ring, (size_t) n);
  sbx__process_deliver(s->process, index_of(o), place, (size_t) n);
  return n;
}

/* At most `want` bytes into the ring and to the listeners; what read says. */
static ssize_t output_read(struct output* o, size_t want) {
  return stream_of(o)->ring.total < READ_MIN / 2 ? read_first(o, want)
                                                 : read_more(o, want);
}

/* A full read means a fast writer: fewer, larger turns serve it better. */
static void speed_up(struct output* o) {
  if (o->read_size == READ_MAX) return;
  if (o->read_size == READ_MIN) fcntl(o->fd, F_SETPIPE_SZ, READ_MAX);
  o->read_size *= 2;
}

static void output_end(struct output* o) {
  handle_close((uv_handle_t*) &o->poll, &o->polled);
  close_fd(&o->fd);
}

static void output_start(struct output* o);

static void on_slow(uv_timer_t* timer) {
  struct pipes* p = timer->data;

  p->waiting = false;
  output_start(&p->outputs[0]);
  output_start(&p->outputs[1]);
}

static void slow_down(struct pipes* p) {
  if (!p->slowed) {
    uv_timer_init(p->loop, &p->slow);
    p->slow.data = p;
    p->handles++;
    p->slowed = true;
  }
  for (int i = 0; i < 2; i++)
    if (p->outputs[i].polled) uv_poll_stop(&p->outputs[i].poll);
  p->waiting = true;
  uv_timer_start(&p->slow, on_slow, sbx_rate_wait(&p->rate, uv_hrtime()), 0);
}

static void on_readable(uv_poll_t* handle, int status, int events) {
  struct pipes* p = handle->data;
  struct output* o = handle == &p->outputs[0].poll ? &p->outputs[0]
                                                   : &p->outputs[1];
  size_t left = READ_PER_TURN;

  (void) status;
  (void) events;
  if (p->rate.per_second > 0)
    left = sbx_rate_allow(&p->rate, uv_hrtime(), left);
  if (left == 0) slow_down(p);
  while (left > 0 && o->polled && !stream_of(o)->paused) {
    size_t want = o->read_size < left ? o->read_size : left;
    ssize_t n = output_read(o, want);

    if (n == 0 || (n < 0 && errno != EAGAIN)) output_end(o);
    if (n <= 0) return;
    if (p->rate.per_second > 0)
      sbx_rate_take(&p->rate, uv_hrtime(), (size_t) n);
    else if ((size_t) n >= READ_MIN && o->polled)
      speed_up(o);
    if ((size_t) n < want) return;
    left -= (size_t) n;
  }
}

static void output_start(struct output* o) {
  if (o->polled && !stream_of(o)->paused && !o->owner->waiting)
    uv_poll_start(&o->poll, UV_READABLE, on_readable);
}

/* ---- input ---- */

static void write_done(struct pending_write* w, int status) {
  if (w->cb != NULL) w->cb(w->arg, status);
  free(w);
}

static void input_end(struct pipes* p, int status) {
  struct input* in = &p->input;

  handle_close((uv_handle_t*) &in->poll, &in->polled);
  close_fd(&in->fd);
  while (in->first != NULL) {
    struct pending_write* w = in->first;

    in->first = w->next;
    if (in->first == NULL) in->last = &in->first;
    /* The last words of a command that ends on them did leave. */
    write_done(w, w->done == w->len ? 0 : status);
  }
}

/* 0: all of it left; UV_EAGAIN: the pipe is full; else it is broken. */
static int write_some(int fd, struct pending_write* w) {
  while (w->done < w->len) {
    ssize_t n = write(fd, w->bytes + w->done, w->len - w->done);

    if (n >= 0) {
      w->done += (size_t) n;
    } else if (errno != EINTR) {
      return -errno;
    }
  }
  return 0;
}

static void on_writable(uv_poll_t* handle, int status, int events) {
  struct pipes* p = handle->data;
  struct input* in = &p->input;

  (void) status;
  (void) events;
  while (in->first != NULL && in->fd >= 0) {
    struct pending_write* w = in->first;
    int err = write_some(in->fd, w);

    if (err == UV_EAGAIN) return;
    if (err != 0) {
      input_end(p, UV_EPIPE);
      return;
    }
    in->first = w->next;
    if (in->first == NULL) in->last = &in->first;
    write_done(w, 0);
  }
  if (!in->polled) return;
  uv_poll_stop(&in->poll);
  if (in->ending) input_end(p, 0);
}

static int input_watch(struct pipes* p) {
  struct input* in = &p->input;

  if (!in->polled) {
    int err = handle_open(p, &in->poll, in->fd, &in->polled);

    if (err != 0) return err;
  }
  return uv_poll_start(&in->poll, UV_WRITABLE, on_writable);
}

static int pipes_write(struct sbx_process* base, const void* bytes, size_t len,
                       sbx_write_cb cb, void* arg) {
  struct pipes* p = (struct pipes*) base;
  struct input* in = &p->input;
  struct pending_write* w;
  int err;

  if (in->fd < 0 || in->ending) return UV_EPIPE;
  w = malloc(sizeof(*w) + len);
  if (w == NULL) return UV_ENOMEM;
  err = input_watch(p);
  if (err != 0) {
    free(w);
    return err;
  }
  *w = (struct pending_write){NULL, cb, arg, 0, len};
  if (len > 0) memcpy(w->bytes, bytes, len);
  /* Leaves at once if it can; the callback waits for the loop. A failure shows
   * again there. */
  if (in->first == NULL) write_some(in->fd, w);
  *in->last = w;
  in->last = &w->next;
  return 0;
}

static int pipes_close_stdin(struct sbx_process* base) {
  struct pipes* p = (struct pipes*) base;

  if (p->input.fd < 0) return 0;
  /* A terminal has one line to both sides: its end is a character. */
  if (base->terminal && !p->input.ending)
    pipes_write(base, "\4", 1, NULL, NULL);
  p->input.ending = true;
  if (p->input.first == NULL) input_end(p, 0);
  return 0;
}

/* ---- the end ---- */

static void detach(struct pipes* p) {
  if (p->session == NULL) return;
  sbx__session_detach(p->session, &p->client);
  p->session = NULL;
}

/* What lies in the pipe now, and no more: a child that the command left behind
 * may go on writing for ever. */
static void read_rest(struct output* o) {
  const struct sbx_process* base = &o->owner->base;
  int left = base->terminal ? TERMINAL_REST : 0;

  if (o->fd < 0) return;
  if (!base->terminal && ioctl(o->fd, FIONREAD, &left) != 0) return;
  while (left > 0 && o->fd >= 0 && !base->closed) {
    ssize_t n = output_read(o, (size_t) left);

    if (n <= 0) return;
    left -= (int) n;
  }
}

/* Reads both streams out; read ends that others can still write to go to PID 1,
 * which keeps them open so that SIGPIPE kills nobody. */
static void finish_output(struct pipes* p, bool hand_over) {
  struct pollfd fds[2];
  int open[2];
  size_t nopen = 0;

  for (int i = 0; i < 2; i++)
    fds[i] = (struct pollfd){.fd = p->outputs[i].fd, .events = POLLIN};
  if (poll(fds, 2, 0) < 0) fds[0].revents = fds[1].revents = POLLIN;
  for (int i = 0; i < 2; i++) {
    struct output* o = &p->outputs[i];

    if (o->fd >= 0 && (p->base.terminal || (fds[i].revents & POLLIN) != 0))
      read_rest(o);
    handle_close((uv_handle_t*) &o->poll, &o->polled);
    if (o->fd >= 0 && hand_over && (fds[i].revents & POLLHUP) == 0) {
      open[nopen++] = o->fd;
      o->fd = -1;
    }
    close_fd(&o->fd);
  }
  if (nopen > 0) {
    struct sbx_msg msg = {.type = SBX_MSG_DRAIN, .id = p->client.id};

    if (p->session == NULL)
      for (size_t i = 0; i < nopen; i++) close(open[i]);
    else
      sbx__session_send(p->session, &msg, NULL, 0, open, nopen);
  }
}

/* Listeners may close the process in any of these calls: then nothing more is
 * told. on_exit is the last touch. */
static void settle(struct pipes* p, struct sbx_process_result* result,
                   bool hand_over) {
  p->base.settled = true;
  finish_output(p, hand_over);
  handle_close((uv_handle_t*) &p->timer, &p->timed);
  handle_close((uv_handle_t*) &p->slow, &p->slowed);
  detach(p);
  input_end(p, UV_EPIPE);
  result->reason = p->reason[0] != '\0' ? p->reason : NULL;
  sbx__process_settle(&p->base, result);
}

static void on_timeout(uv_timer_t* handle);

static void on_exit_message(struct pipes* p, int status,
                            const void* payload, size_t len) {
  struct sbx_process_result result = {0};
  struct sbx_usage usage = {0};

  if (len >= sizeof(usage)) memcpy(&usage, payload, sizeof(usage));
  result.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  result.exit_code = result.signal != 0 ? 128 + result.signal
                                        : WEXITSTATUS(status);
  result.user_us = usage.user_us;
  result.system_us = usage.system_us;
  result.max_rss_bytes = usage.max_rss_bytes;
  settle(p, &result, true);
}

/* As a shell would say it, on stderr. */
static void settle_not_run(struct pipes* p, int sys) {
  struct sbx_process_result result = {.exit_code = SBX__EXIT_NOT_EXECUTABLE};
  char text[512];
  char words[SBX_SYS_TEXT_MAX];
  const char* why = sbx_sys_text(sys, words);

  if (sys == ENOENT && strchr(p->name, '/') == NULL) why = "command not found";
  if (sys == E2BIG)
    why = "argument list too long (at most 128 KiB in one argument or "
          "variable, 2 MiB in all)";
  if (sys == ENOENT) result.exit_code = SBX__EXIT_NOT_FOUND;
  snprintf(text, sizeof(text), "sandbox: %.200s: %s\n", p->name, why);
  sbx__process_put(&p->base, SBX_STDERR, text, strlen(text));
  settle(p, &result, false);
}

static void cwd_error(struct pipes* p, int sys, struct sbx_error* error) {
  const char* what = "cannot be entered";

  if (sys == ENOENT) what = "does not exist in the sandbox";
  if (sys == ENOTDIR) what = "is not a directory";
  sbx_error_set(error, sys == EACCES ? SBX_E_PERMISSION : SBX_E_NOT_FOUND, sys,
                "processes.start", "The working directory \"%.400s\" %s.",
                p->cwd, what);
}

static void refused_error(struct pipes* p, uint32_t stage, int sys,
                          struct sbx_error* error) {
  char words[SBX_SYS_TEXT_MAX];

  if (stage == SBX_STAGE_CWD) {
    cwd_error(p, sys, error);
  } else if (stage == SBX_STAGE_FORK && sys == EAGAIN) {
    sbx_error_set(error, SBX_E_UNAVAILABLE, sys, "processes.start",
                  "The sandbox is at its limit of processes: end some, or "
                  "raise limits.processes.");
    error->retryable = true;
  } else {
    sbx_error_set(error, SBX_E_UNAVAILABLE, sys, "processes.start",
                  "The sandbox could not start \"%.200s\": %s.", p->name,
                  sbx_sys_text(sys, words));
  }
}

static void on_refused(struct pipes* p, uint32_t stage, int sys) {
  struct sbx_process_result result = {.exit_code = -1};
  struct sbx_error error;

  if (stage == SBX_STAGE_EXEC || sys == E2BIG) {
    settle_not_run(p, sys);
    return;
  }
  refused_error(p, stage, sys, &error);
  result.error = &error;
  settle(p, &result, false);
}

/* The first one is the cause of what follows. */
static void on_limit(struct pipes* p, uint32_t limit,
                     const void* payload, size_t len) {
  uint64_t value = 0;

  if (p->reason[0] != '\0') return;
  if (len >= sizeof(value)) memcpy(&value, payload, sizeof(value));
  if (sbx_limit_reason(limit, value, p->reason) == NULL) return;
  if (limit == SBX_LIMIT_MEMORY || limit == SBX_LIMIT_WORKSPACE)
    p->base.killed = true;
}

/* Both directions go over one descriptor, which the loop watches only once. */
static void on_fd(struct sbx__client* c, const struct sbx_msg* msg, int fd) {
  struct pipes* p = pipes_of(c);
  struct output* o = &p->outputs[SBX_STDOUT];

  if (msg->type != SBX_MSG_TERMINAL || !p->base.terminal || o->fd >= 0) {
    close(fd);
    return;
  }
  o->fd = fd;
  fcntl(fd, F_SETFL, O_RDWR | O_NONBLOCK);
  p->input.fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (handle_open(p, &o->poll, fd, &o->polled) == 0) output_start(o);
}

static void on_paused(struct sbx__client* c, bool paused) {
  struct pipes* p = pipes_of(c);

  if (!p->timed || p->base.timed_out || p->withdrawn) return;
  if (paused) {
    uv_update_time(p->loop);
    p->time_left = uv_timer_get_due_in(&p->timer);
    uv_timer_stop(&p->timer);
  } else {
    uv_update_time(p->loop);
    uv_timer_start(&p->timer, on_timeout, p->time_left, 0);
  }
}

static void on_message(struct sbx__client* c, const struct sbx_msg* msg,
                       const void* payload, size_t len) {
  struct pipes* p = pipes_of(c);

  p->handles++;
  switch (msg->type) {
    case SBX_MSG_SPAWNED:
      sbx__process_spawned(&p->base, msg->a);
      break;
    case SBX_MSG_REFUSED: on_refused(p, msg->a, (int) msg->b); break;
    case SBX_MSG_EXIT: on_exit_message(p, (int) msg->a, payload, len); break;
    case SBX_MSG_LIMIT: on_limit(p, msg->a, payload, len); break;
    default: break;
  }
  release(p);
}

/* The news of the spawn may have been lost with the session. */
static bool has_output(const struct sbx_process* p) {
  return p->streams[0].ring.total > 0 || p->streams[1].ring.total > 0;
}

static void on_gone(struct sbx__client* c) {
  struct pipes* p = pipes_of(c);
  struct sbx_process_result result = {.exit_code = 128 + SIGKILL,
                                      .signal = SIGKILL};
  struct sbx_error error;

  p->handles++;
  p->session = NULL;
  p->base.killed = true;
  finish_output(p, false);
  if (!p->base.spawned && !has_output(&p->base)) {
    sbx_error_set(&error, SBX_E_UNAVAILABLE, 0, "processes.start",
                  "The sandbox ended before the command was started.");
    result = (struct sbx_process_result){.exit_code = -1, .error = &error};
  }
  settle(p, &result, false);
  release(p);
}

/* ---- ending it ---- */

static int send_end(struct pipes* p, uint64_t grace_ms) {
  struct sbx_msg msg = {.type = SBX_MSG_END,
                        .id = p->client.id,
                        .a = grace_ms < UINT32_MAX ? (uint32_t) grace_ms
                                                   : UINT32_MAX,
                        .b = SBX_SCOPE_TREE};

  return sbx__session_send(p->session, &msg, NULL, 0, NULL, 0);
}

static void on_withdrawn(uv_timer_t* timer) {
  struct pipes* p = timer->data;
  struct sbx_process_result result = {.exit_code = 128 + SIGKILL,
                                      .signal = SIGKILL};

  if (p->base.settled) return;
  p->handles++;
  settle(p, &result, false);
  release(p);
}

/* Told in a later turn, as every end is. */
static void tell_withdrawn(struct pipes* p) {
  p->withdrawn = true;
  if (!p->timed) {
    uv_timer_init(p->loop, &p->timer);
    p->timer.data = p;
    p->handles++;
    p->timed = true;
  }
  uv_timer_start(&p->timer, on_withdrawn, 0, 0);
}

static int pipes_end(struct sbx_process* base, uint64_t grace_ms) {
  struct pipes* p = (struct pipes*) base;

  if (p->session == NULL) return SBX_E_NOT_FOUND;
  base->killed = true;
  if (p->withdrawn) return 0;
  if (sbx__session_withdraw(p->session, p->client.id)) {
    tell_withdrawn(p);
    return 0;
  }
  /* A failure means a dead session, whose end settles the process. */
  send_end(p, grace_ms);
  return 0;
}

static int pipes_signal(struct sbx_process* base, int signo) {
  struct pipes* p = (struct pipes*) base;
  int fd = p->outputs[SBX_STDOUT].fd;
  struct sbx_msg msg = {.type = SBX_MSG_SIGNAL,
                        .id = p->client.id,
                        .a = (uint32_t) signo,
                        .b = SBX_SCOPE_PROCESS};

  if (p->session == NULL) return SBX_E_NOT_FOUND;
  if (base->terminal && fd >= 0 && sbx_terminal_signal(fd, signo) == 0)
    return 0;
  sbx__session_send(p->session, &msg, NULL, 0, NULL, 0);
  return 0;
}

static int pipes_resize(struct sbx_process* base, uint32_t columns,
                        uint32_t rows) {
  int fd = ((struct pipes*) base)->outputs[SBX_STDOUT].fd;

  if (fd < 0) return SBX_E_NOT_FOUND;
  return sbx_terminal_resize(fd, columns, rows) == 0 ? 0 : SBX_E_INVALID_INPUT;
}

static void on_timeout(uv_timer_t* handle) {
  struct pipes* p = handle->data;

  if (p->session != NULL) sbx__session_poll(p->session);
  if (p->base.settled || p->session == NULL) return;
  p->base.timed_out = true;
  pipes_end(&p->base, p->base.grace_ms);
}

/* ---- starting ---- */

struct request {
  char* bytes;
  size_t len;
  int fds[4]; /* theirs: stdin, stdout, stderr, payload */
  size_t nfds;
  uint32_t flags;
};

static void request_clear(struct request* r) {
  for (size_t i = 0; i < r->nfds; i++) close(r->fds[i]);
  r->nfds = 0;
  free(r->bytes);
  r->bytes = NULL;
}

static size_t strings_len(const char* const* list, size_t count) {
  size_t len = 0;

  for (size_t i = 0; i < count; i++) len += strlen(list[i]) + 1;
  return len;
}

static char* put_string(char* at, const char* text) {
  size_t len = strlen(text) + 1;

  memcpy(at, text, len);
  return at + len;
}

static int request_payload(struct request* r,
                           const struct sbx_process_spec* spec) {
  uint32_t counts[2] = {(uint32_t) spec->argc, (uint32_t) spec->envc};
  char* at;

  r->len = sizeof(counts) + strlen(spec->cwd) + 1 +
           strings_len(spec->argv, spec->argc) +
           strings_len(spec->env, spec->envc);
  r->bytes = at = malloc(r->len);
  if (at == NULL) return UV_ENOMEM;
  memcpy(at, counts, sizeof(counts));
  at = put_string(at + sizeof(counts), spec->cwd);
  for (size_t i = 0; i < spec->argc; i++) at = put_string(at, spec->argv[i]);
  for (size_t i = 0; i < spec->envc; i++) at = put_string(at, spec->env[i]);
  return 0;
}

/* `ours` is the index of our end: 0 reads, 1 writes. */
static int request_pipe(struct request* r, int ours, int* fd) {
  int pair[2];

  if (pipe2(pair, O_CLOEXEC) < 0) return -errno;
  *fd = pair[ours];
  r->fds[r->nfds++] = pair[1 - ours];
  return 0;
}

static int request_fds(struct request* r, struct pipes* p,
                       const struct sbx_process_spec* spec) {
  int err = 0;

  if (p->base.terminal) r->flags |= SBX_SPAWN_TERMINAL;
  if (spec->stdin_pipe && !p->base.terminal) {
    err = request_pipe(r, 1, &p->input.fd);
    r->flags |= SBX_SPAWN_STDIN_FD;
    if (err == 0 && fcntl(p->input.fd, F_SETFL, O_NONBLOCK | O_WRONLY) < 0)
      err = -errno;
  }
  for (int i = 0; i < 2 && err == 0 && !p->base.terminal; i++) {
    struct output* o = &p->outputs[i];

    err = request_pipe(r, 0, &o->fd);
    if (err == 0) err = handle_open(p, &o->poll, o->fd, &o->polled);
  }
  if (err == 0 && r->len > SBX_MSG_INLINE_MAX) {
    int fd = sbx_memfd_sealed("sandbox-spawn", r->bytes, r->len,
                              SBX_MEMFD_DATA);

    if (fd < 0) return fd;
    r->fds[r->nfds++] = fd;
    r->flags |= SBX_SPAWN_MEMFD;
    r->len = 0;
  }
  return err;
}

static const struct sbx__process_ops ops;

static int pipes_new(struct sbx_session* session,
                     const struct sbx_process_spec* spec,
                     const struct sbx_process_events* events,
                     struct pipes** out) {
  struct pipes* p = calloc(1, sizeof(*p));

  if (p == NULL) return UV_ENOMEM;
  sbx__process_init(&p->base, &ops, spec, events);
  p->client.on_message = on_message;
  p->client.on_gone = on_gone;
  p->client.on_fd = on_fd;
  p->client.on_paused = on_paused;
  sbx_rate_init(&p->rate, spec->output_rate, uv_hrtime());
  p->loop = sbx__session_loop(session);
  p->input.fd = -1;
  p->input.last = &p->input.first;
  for (int i = 0; i < 2; i++) {
    struct output* o = &p->outputs[i];

    o->owner = p;
    o->fd = -1;
    o->read_size = READ_MIN;
  }
  p->name = strdup(spec->argv[0]);
  p->cwd = strdup(spec->cwd);
  *out = p;
  return p->name == NULL || p->cwd == NULL ? UV_ENOMEM : 0;
}

static int start(struct pipes* p, struct sbx_session* session,
                 const struct sbx_process_spec* spec) {
  struct request r = {0};
  struct sbx_msg msg = {.type = SBX_MSG_SPAWN};
  int err = request_payload(&r, spec);

  if (err == 0) err = request_fds(&r, p, spec);
  if (err == 0) {
    sbx__session_attach(session, &p->client);
    p->session = session;
    msg.id = p->client.id;
    msg.a = r.flags;
    if (p->base.terminal)
      msg.b = (spec->columns & 0xffff) | (spec->rows & 0xffff) << 16;
    err = sbx__session_send(session, &msg, r.bytes, r.len, r.fds, r.nfds);
    r.nfds = 0;
    if (err != 0) detach(p);
  }
  request_clear(&r);
  return err;
}

static void start_timer(struct pipes* p, uint64_t timeout_ms) {
  uv_timer_init(p->loop, &p->timer);
  p->timer.data = p;
  p->handles++;
  p->timed = true;
  p->time_left = timeout_ms;
  if (!sbx__session_paused(p->session)) on_paused(&p->client, false);
}

static int spawn_error(struct sbx_error* error, int err) {
  char words[SBX_SYS_TEXT_MAX];
  int code = err == UV_ENOMEM ? SBX_E_INTERNAL : SBX_E_UNAVAILABLE;
  const char* hint = err == UV_EMFILE || err == UV_ENFILE
                         ? " (raise the limit on open files, ulimit -n)"
                         : "";

  sbx_error_set(error, code, -err, "processes.start",
                "The command could not be started: %s%s.",
                sbx_sys_text(-err, words), hint);
  if (error != NULL) error->retryable = err != UV_EPIPE;
  return code;
}

static int check(struct sbx_session* session,
                 const struct sbx_process_spec* spec, struct sbx_error* error) {
  if (spec->argc == 0 || spec->cwd == NULL)
    return sbx_error_set(error, SBX_E_INVALID_INPUT, 0, "processes.start",
                         "A command needs a program and a directory.");
  if (!sbx__session_running(session))
    return sbx_error_set(error, SBX_E_UNAVAILABLE, 0, "processes.start",
                         "The sandbox is not running.");
  return 0;
}

static void pipes_pause(struct sbx_process* base, int stream) {
  struct output* o = &((struct pipes*) base)->outputs[stream];

  if (!o->polled) return;
  if (base->streams[stream].paused)
    uv_poll_stop(&o->poll);
  else
    output_start(o);
}

static void pipes_close(struct sbx_process* base) {
  struct pipes* p = (struct pipes*) base;

  if (!base->settled && p->session != NULL && !p->withdrawn &&
      !sbx__session_withdraw(p->session, p->client.id))
    send_end(p, 0);
  detach(p);
  handle_close((uv_handle_t*) &p->timer, &p->timed);
  handle_close((uv_handle_t*) &p->slow, &p->slowed);
  input_end(p, UV_ECANCELED);
  output_end(&p->outputs[0]);
  output_end(&p->outputs[1]);
  if (p->handles == 0) pipes_free(p);
}

static const struct sbx__process_ops ops = {
    .write = pipes_write,
    .close_stdin = pipes_close_stdin,
    .end = pipes_end,
    .signal = pipes_signal,
    .resize = pipes_resize,
    .pause = pipes_pause,
    .close = pipes_close,
};

int sbx_process_spawn(struct sbx_session* session,
                      const struct sbx_process_spec* spec,
                      const struct sbx_process_events* events,
                      struct sbx_process** out, struct sbx_error* error) {
  struct pipes* p = NULL;
  int err = check(session, spec, error);

  *out = NULL;
  if (err != 0) return err;
  err = pipes_new(session, spec, events, &p);
  if (err == 0) err = start(p, session, spec);
  if (err != 0) {
    if (p != NULL) sbx_process_close(&p->base);
    return spawn_error(error, err);
  }
  output_start(&p->outputs[0]);
  output_start(&p->outputs[1]);
  if (spec->timeout_ms > 0) start_timer(p, spec->timeout_ms);
  *out = &p->base;
  return 0;
}
