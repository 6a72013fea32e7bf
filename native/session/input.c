/* The standard input of a command: a queue of what its pipe has no room for. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pipes.h"

struct sbx__write {
  struct sbx__write* next;
  sbx_write_cb cb;
  void* arg;
  size_t done;
  size_t len;
  char bytes[];
};

static void write_done(struct sbx__write* w, int status) {
  if (w->cb != NULL) w->cb(w->arg, status);
  free(w);
}

void sbx__input_end(struct sbx__pipes* p, int status) {
  struct sbx__input* in = &p->input;

  sbx__pipes_handle_close((uv_handle_t*) &in->poll, &in->polled);
  sbx__close_fd(&in->fd);
  while (in->first != NULL) {
    struct sbx__write* w = in->first;

    in->first = w->next;
    if (in->first == NULL) in->last = &in->first;
    /* The last words of a command that ends on them did leave. */
    write_done(w, w->done == w->len ? 0 : status);
  }
}

/* 0: all of it left; UV_EAGAIN: the pipe is full; else it is broken. */
static int write_some(int fd, struct sbx__write* w) {
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
  struct sbx__pipes* p = handle->data;
  struct sbx__input* in = &p->input;

  (void) status;
  (void) events;
  while (in->first != NULL && in->fd >= 0) {
    struct sbx__write* w = in->first;
    int err = write_some(in->fd, w);

    if (err == UV_EAGAIN) return;
    if (err != 0) {
      sbx__input_end(p, UV_EPIPE);
      return;
    }
    in->first = w->next;
    if (in->first == NULL) in->last = &in->first;
    write_done(w, 0);
  }
  if (!in->polled) return;
  uv_poll_stop(&in->poll);
  if (in->ending) sbx__input_end(p, 0);
}

static int input_watch(struct sbx__pipes* p) {
  struct sbx__input* in = &p->input;

  if (!in->polled) {
    int err = sbx__pipes_handle_open(p, &in->poll, in->fd, &in->polled);

    if (err != 0) return err;
  }
  return uv_poll_start(&in->poll, UV_WRITABLE, on_writable);
}

int sbx__input_write(struct sbx_process* base, const void* bytes, size_t len,
                     sbx_write_cb cb, void* arg) {
  struct sbx__pipes* p = (struct sbx__pipes*) base;
  struct sbx__input* in = &p->input;
  struct sbx__write* w;
  int err;

  if (in->fd < 0 || in->ending) return UV_EPIPE;
  w = malloc(sizeof(*w) + len);
  if (w == NULL) return UV_ENOMEM;
  err = input_watch(p);
  if (err != 0) {
    free(w);
    return err;
  }
  *w = (struct sbx__write){NULL, cb, arg, 0, len};
  if (len > 0) memcpy(w->bytes, bytes, len);
  /* Leaves at once if it can; the callback waits for the loop. A failure shows
   * again there. */
  if (in->first == NULL) write_some(in->fd, w);
  *in->last = w;
  in->last = &w->next;
  return 0;
}

int sbx__input_close(struct sbx_process* base) {
  struct sbx__pipes* p = (struct sbx__pipes*) base;

  if (p->input.fd < 0) return 0;
  /* A terminal has one line to both sides: its end is a character. */
  if (base->terminal && !p->input.ending) {
    int err = sbx__input_write(base, "\4", 1, NULL, NULL);

    if (err != 0) return err;
  }
  p->input.ending = true;
  if (p->input.first == NULL) sbx__input_end(p, 0);
  return 0;
}
