/* A command of a launcher: its start, its time limit and its end. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pipes.h"
#include "terminal.h"

enum {
  TERMINAL_REST = 1024 * 1024, /* read at the end, whoever still writes */
  AGAIN_MS = 100 /* to an end that there was no memory for */
};

static struct sbx__pipes* pipes_of(struct sbx__client* c) {
  return (struct sbx__pipes*) ((char*) c - offsetof(struct sbx__pipes, client));
}

/* ---- handles and memory ---- */

static void pipes_free(struct sbx__pipes* p) {
  free(p->name);
  free(p->cwd);
  sbx__process_free(&p->base);
}

static void release(struct sbx__pipes* p) {
  if (--p->handles == 0 && p->base.closed) pipes_free(p);
}

static void on_closed(uv_handle_t* handle) {
  release(handle->data);
}

void sbx__pipes_handle_close(uv_handle_t* handle, bool* open) {
  if (*open) uv_close(handle, on_closed);
  *open = false;
}

int sbx__pipes_handle_open(struct sbx__pipes* p, uv_poll_t* poll, int fd,
                           bool* open) {
  int err = uv_poll_init(p->loop, poll, fd);

  if (err != 0) return err;
  poll->data = p;
  p->handles++;
  *open = true;
  return 0;
}

/* ---- the end ---- */

static void detach(struct sbx__pipes* p) {
  if (p->session == NULL) return;
  sbx__session_detach(p->session, &p->client);
  p->session = NULL;
}

/* What lies in the pipe now, and no more: a child that the command left behind
 * may go on writing for ever. */
static void read_rest(struct sbx__output* o) {
  const struct sbx_process* base = &o->owner->base;
  int left = base->terminal ? TERMINAL_REST : 0;

  if (o->fd < 0) return;
  if (!base->terminal && ioctl(o->fd, FIONREAD, &left) != 0) return;
  while (left > 0 && o->fd >= 0 && !base->closed) {
    ssize_t n = sbx__output_read(o, (size_t) left);

    if (n <= 0) return;
    left -= (int) n;
  }
}

/* Reads both streams out; read ends that others can still write to go to PID 1,
 * which keeps them open so that SIGPIPE kills nobody. */
static void finish_output(struct sbx__pipes* p, bool hand_over) {
  struct pollfd fds[2];
  int open[2];
  size_t nopen = 0;

  for (int i = 0; i < 2; i++)
    fds[i] = (struct pollfd){.fd = p->outputs[i].fd, .events = POLLIN};
  if (poll(fds, 2, 0) < 0) fds[0].revents = fds[1].revents = POLLIN;
  for (int i = 0; i < 2; i++) {
    struct sbx__output* o = &p->outputs[i];

    if (o->fd >= 0 && (p->base.terminal || (fds[i].revents & POLLIN) != 0))
      read_rest(o);
    sbx__pipes_handle_close((uv_handle_t*) &o->poll, &o->polled);
    if (o->fd >= 0 && hand_over && (fds[i].revents & POLLHUP) == 0) {
      open[nopen++] = o->fd;
      o->fd = -1;
    }
    sbx__close_fd(&o->fd);
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
static void settle(struct sbx__pipes* p, struct sbx_process_result* result,
                   bool hand_over) {
  p->base.settled = true;
  finish_output(p, hand_over);
  sbx__pipes_handle_close((uv_handle_t*) &p->timer, &p->timed);
  sbx__pipes_handle_close((uv_handle_t*) &p->slow, &p->slowed);
  detach(p);
  sbx__input_end(p, UV_EPIPE);
  result->reason = p->reason[0] != '\0' ? p->reason : NULL;
  sbx__process_settle(&p->base, result);
}

static void on_timeout(uv_timer_t* handle);
static int pipes_end(struct sbx_process* base, uint64_t grace_ms);

static void on_exit_message(struct sbx__pipes* p, int status,
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

static void settle_not_run(struct sbx__pipes* p, int sys) {
  struct sbx_process_result result = {0};
  char text[512];

  result.exit_code = sbx__refusal_text(p, sys, text, sizeof(text));
  sbx__process_put(&p->base, SBX_STDERR, text, strlen(text));
  settle(p, &result, false);
}

static void on_refused(struct sbx__pipes* p, uint32_t stage, int sys) {
  struct sbx_process_result result = {.exit_code = -1};
  struct sbx_error error;

  if (stage == SBX_STAGE_EXEC || sys == E2BIG) {
    settle_not_run(p, sys);
    return;
  }
  sbx__refusal_error(p, stage, sys, &error);
  result.error = &error;
  settle(p, &result, false);
}

/* The first one is the cause of what follows. */
static void on_limit(struct sbx__pipes* p, uint32_t limit,
                     const void* payload, size_t len) {
  uint64_t value = 0;

  if (p->reason[0] != '\0') return;
  if (len >= sizeof(value)) memcpy(&value, payload, sizeof(value));
  if (sbx_limit_reason(limit, value, p->reason) == NULL) return;
  if (limit == SBX_LIMIT_MEMORY || limit == SBX_LIMIT_WORKSPACE)
    p->base.killed = true;
}

/* Both directions go over one descriptor, which the loop watches only once. */
static int take_terminal(struct sbx__pipes* p, int fd) {
  struct sbx__output* o = &p->outputs[SBX_STDOUT];
  int err;

  o->fd = fd;
  if (fcntl(fd, F_SETFL, O_RDWR | O_NONBLOCK) < 0) return -errno;
  p->input.fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (p->input.fd < 0) return -errno;
  err = sbx__pipes_handle_open(p, &o->poll, fd, &o->polled);
  if (err == 0) sbx__output_start(o);
  return err;
}

static void on_fd(struct sbx__client* c, const struct sbx_msg* msg, int fd) {
  struct sbx__pipes* p = pipes_of(c);
  char words[SBX_SYS_TEXT_MAX];
  int err;

  if (msg->type != SBX_MSG_TERMINAL || !p->base.terminal ||
      p->outputs[SBX_STDOUT].fd >= 0) {
    close(fd);
    return;
  }
  err = take_terminal(p, fd);
  if (err == 0) return;
  /* A command whose terminal nobody reads would wait for ever. */
  snprintf(p->reason, sizeof(p->reason),
           "Its terminal could not be taken over: %s.",
           sbx_sys_text(-err, words));
  pipes_end(&p->base, 0);
}

static void on_paused(struct sbx__client* c, bool paused) {
  struct sbx__pipes* p = pipes_of(c);

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
  struct sbx__pipes* p = pipes_of(c);

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
  struct sbx__pipes* p = pipes_of(c);
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

static int send_end(struct sbx__pipes* p, uint64_t grace_ms) {
  struct sbx_msg msg = {.type = SBX_MSG_END,
                        .id = p->client.id,
                        .a = grace_ms < UINT32_MAX ? (uint32_t) grace_ms
                                                   : UINT32_MAX,
                        .b = SBX_SCOPE_TREE};

  return sbx__session_send(p->session, &msg, NULL, 0, NULL, 0);
}

static void on_withdrawn(uv_timer_t* timer) {
  struct sbx__pipes* p = timer->data;
  struct sbx_process_result result = {.exit_code = 128 + SIGKILL,
                                      .signal = SIGKILL};

  if (p->base.settled) return;
  p->handles++;
  settle(p, &result, false);
  release(p);
}

/* Told in a later turn, as every end is. */
static void tell_withdrawn(struct sbx__pipes* p) {
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
  struct sbx__pipes* p = (struct sbx__pipes*) base;

  if (p->session == NULL) return SBX_E_NOT_FOUND;
  if (sbx__session_withdraw(p->session, p->client.id))
    tell_withdrawn(p);
  /* Any other failure means a dead session, whose end settles the process. */
  else if (!p->withdrawn && send_end(p, grace_ms) == -ENOMEM)
    return SBX_E_INTERNAL;
  base->killed = true;
  return 0;
}

static int pipes_signal(struct sbx_process* base, int signo) {
  struct sbx__pipes* p = (struct sbx__pipes*) base;
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
  int fd = ((struct sbx__pipes*) base)->outputs[SBX_STDOUT].fd;

  if (fd < 0) return SBX_E_NOT_FOUND;
  return sbx_terminal_resize(fd, columns, rows) == 0 ? 0 : SBX_E_INVALID_INPUT;
}

static void on_timeout(uv_timer_t* handle) {
  struct sbx__pipes* p = handle->data;

  if (p->session != NULL) sbx__session_poll(p->session);
  if (p->base.settled || p->session == NULL) return;
  p->base.timed_out = true;
  if (pipes_end(&p->base, p->base.grace_ms) != 0)
    uv_timer_start(&p->timer, on_timeout, AGAIN_MS, 0);
}

/* ---- starting ---- */

static const struct sbx__process_ops ops;

static int pipes_new(struct sbx_session* session,
                     const struct sbx_process_spec* spec,
                     const struct sbx_process_events* events,
                     struct sbx__pipes** out) {
  struct sbx__pipes* p = calloc(1, sizeof(*p));

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
    struct sbx__output* o = &p->outputs[i];

    o->owner = p;
    o->fd = -1;
    o->read_size = SBX__READ_MIN;
  }
  p->name = strdup(spec->argv[0]);
  p->cwd = strdup(spec->cwd);
  *out = p;
  return p->name == NULL || p->cwd == NULL ? UV_ENOMEM : 0;
}

static int start(struct sbx__pipes* p, struct sbx_session* session,
                 const struct sbx_process_spec* spec) {
  struct sbx__request r = {0};
  struct sbx_msg msg = {.type = SBX_MSG_SPAWN};
  int err = sbx__request_payload(&r, spec);

  if (err == 0) err = sbx__request_fds(&r, p, spec);
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
  sbx__request_clear(&r);
  return err;
}

static void start_timer(struct sbx__pipes* p, uint64_t timeout_ms) {
  uv_timer_init(p->loop, &p->timer);
  p->timer.data = p;
  p->handles++;
  p->timed = true;
  p->time_left = timeout_ms;
  if (!sbx__session_paused(p->session)) on_paused(&p->client, false);
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
  struct sbx__output* o = &((struct sbx__pipes*) base)->outputs[stream];

  if (!o->polled) return;
  if (base->streams[stream].paused)
    uv_poll_stop(&o->poll);
  else
    sbx__output_start(o);
}

static void pipes_close(struct sbx_process* base) {
  struct sbx__pipes* p = (struct sbx__pipes*) base;

  if (!base->settled && p->session != NULL && !p->withdrawn &&
      !sbx__session_withdraw(p->session, p->client.id))
    send_end(p, 0);
  detach(p);
  sbx__pipes_handle_close((uv_handle_t*) &p->timer, &p->timed);
  sbx__pipes_handle_close((uv_handle_t*) &p->slow, &p->slowed);
  sbx__input_end(p, UV_ECANCELED);
  sbx__output_end(&p->outputs[0]);
  sbx__output_end(&p->outputs[1]);
  if (p->handles == 0) pipes_free(p);
}

static const struct sbx__process_ops ops = {
    .write = sbx__input_write,
    .close_stdin = sbx__input_close,
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
  struct sbx__pipes* p = NULL;
  int err = check(session, spec, error);

  *out = NULL;
  if (err != 0) return err;
  err = pipes_new(session, spec, events, &p);
  if (err == 0) err = start(p, session, spec);
  if (err != 0) {
    if (p != NULL) sbx_process_close(&p->base);
    return sbx__refusal_here(err, error);
  }
  sbx__output_start(&p->outputs[0]);
  sbx__output_start(&p->outputs[1]);
  if (spec->timeout_ms > 0) start_timer(p, spec->timeout_ms);
  *out = &p->base;
  return 0;
}
