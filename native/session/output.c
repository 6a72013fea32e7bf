/* The reading end of one stream of a command: on the loop, in turns, at the
 * rate that it may have. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "pipes.h"

enum {
  READ_MAX = 1024 * 1024,
  READ_PER_TURN = 1024 * 1024 /* so that the loop stays alive with `yes` */
};

static int index_of(const struct sbx__output* o) {
  return (int) (o - o->owner->outputs);
}

static struct sbx__stream* stream_of(const struct sbx__output* o) {
  return &o->owner->base.streams[index_of(o)];
}

static ssize_t read_some(int fd, char* place, size_t len) {
  ssize_t n;

  do {
    n = read(fd, place, len);
  } while (n < 0 && errno == EINTR);
  return n;
}

/* First reads are small most of the time: through the stack, so that a command
 * that prints one line costs no more memory than the line. */
static ssize_t read_first(struct sbx__output* o, size_t want) {
  char buffer[SBX__READ_MIN];
  ssize_t n;

  if (want > sizeof(buffer)) want = sizeof(buffer);
  n = read_some(o->fd, buffer, want);
  if (n > 0) sbx__process_put(&o->owner->base, index_of(o), buffer, (size_t) n);
  return n;
}

static ssize_t read_more(struct sbx__output* o, size_t want) {
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

ssize_t sbx__output_read(struct sbx__output* o, size_t want) {
  bool first = stream_of(o)->ring.total < SBX__READ_MIN / 2;

  return first ? read_first(o, want) : read_more(o, want);
}

/* A full read means a fast writer: fewer, larger turns serve it better. */
static void speed_up(struct sbx__output* o) {
  if (o->read_size == READ_MAX) return;
  if (o->read_size == SBX__READ_MIN) fcntl(o->fd, F_SETPIPE_SZ, READ_MAX);
  o->read_size *= 2;
}

void sbx__output_end(struct sbx__output* o) {
  sbx__pipes_handle_close((uv_handle_t*) &o->poll, &o->polled);
  sbx__close_fd(&o->fd);
}

static void on_slow(uv_timer_t* timer) {
  struct sbx__pipes* p = timer->data;

  p->waiting = false;
  sbx__output_start(&p->outputs[0]);
  sbx__output_start(&p->outputs[1]);
}

static void slow_down(struct sbx__pipes* p) {
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
  struct sbx__pipes* p = handle->data;
  struct sbx__output* o = &p->outputs[handle == &p->outputs[0].poll ? 0 : 1];
  size_t left = READ_PER_TURN;

  (void) status;
  (void) events;
  if (p->rate.per_second > 0)
    left = sbx_rate_allow(&p->rate, uv_hrtime(), left);
  if (left == 0) slow_down(p);
  while (left > 0 && o->polled && !stream_of(o)->paused) {
    size_t want = o->read_size < left ? o->read_size : left;
    ssize_t n = sbx__output_read(o, want);

    if (n == 0 || (n < 0 && errno != EAGAIN)) sbx__output_end(o);
    if (n <= 0) return;
    if (p->rate.per_second > 0)
      sbx_rate_take(&p->rate, uv_hrtime(), (size_t) n);
    else if ((size_t) n >= SBX__READ_MIN && o->polled)
      speed_up(o);
    if ((size_t) n < want) return;
    left -= (size_t) n;
  }
}

void sbx__output_start(struct sbx__output* o) {
  if (o->polled && !stream_of(o)->paused && !o->owner->waiting)
    uv_poll_start(&o->poll, UV_READABLE, on_readable);
}
