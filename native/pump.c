/* Moves bytes between two sockets with read and write: splice was half as fast
 * on a loopback.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "pump.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum phase { HEAD, HELD, JOINED, REFUSING, OVER, CLOSED };

/* One fast connection must not starve the rest of the loop. */
enum { TURNS = 4 };

static void on_poll(uv_poll_t* handle, int status, int events);

/* ---- memory ---- */

int sbx_pump_pool_init(struct sbx_pump_pool* pool) {
  pool->spares_len = 0;
  pool->scratch = malloc(SBX_PUMP_READ);
  return pool->scratch == NULL ? -1 : 0;
}

void sbx_pump_pool_clear(struct sbx_pump_pool* pool) {
  free(pool->scratch);
  pool->scratch = NULL;
  while (pool->spares_len > 0) free(pool->spares[--pool->spares_len]);
}

/* A piece this large goes back to the kernel when it is freed, and every page
 * of the next one is a fault. */
static void pool_put(struct sbx_pump_pool* pool, struct sbx_pump_bytes* b) {
  if (b->whole && pool->spares_len < SBX_PUMP_SPARES)
    pool->spares[pool->spares_len++] = b->bytes;
  else
    free(b->bytes);
  memset(b, 0, sizeof(*b));
}

/* The scratch becomes `b`, from byte `at` to `len`. -1: no memory. */
static int pool_keep(struct sbx_pump_pool* pool, struct sbx_pump_bytes* b,
                     size_t at, size_t len) {
  char* next = pool->spares_len > 0 ? pool->spares[--pool->spares_len]
                                    : malloc(SBX_PUMP_READ);

  if (next == NULL) return -1;
  *b = (struct sbx_pump_bytes){pool->scratch, at, len, true};
  pool->scratch = next;
  return 0;
}

static struct sbx_pump_side* side(struct sbx_pump* p, int i) {
  return i == 0 ? &p->client : &p->server;
}

static void on_handle_closed(uv_handle_t* handle) {
  struct sbx_pump* p = handle->data;

  if (--p->handles == 0) p->on_closed(p);
}

/* ---- what is watched for ---- */

static bool wants_bytes(struct sbx_pump* p, int i) {
  const struct sbx_pump_side* s = side(p, i);

  if (s->eof) return false;
  if (p->phase == HEAD || p->phase == REFUSING) return i == 0;
  return p->phase == JOINED && side(p, 1 - i)->stuck.bytes == NULL;
}

static void watch_side(struct sbx_pump* p, int i) {
  struct sbx_pump_side* s = side(p, i);
  int events = 0;

  if (s->fd < 0) return;
  if (wants_bytes(p, i)) events |= UV_READABLE;
  if (s->stuck.bytes != NULL) events |= UV_WRITABLE;
  if (events == s->events) return;
  s->events = events;
  if (events != 0)
    uv_poll_start(&s->poll, events, on_poll);
  else
    uv_poll_stop(&s->poll);
}

static void watch(struct sbx_pump* p) {
  if (p->phase >= OVER) return;
  watch_side(p, 0);
  watch_side(p, 1);
}

static int open_side(struct sbx_pump* p, int i, int fd) {
  struct sbx_pump_side* s = side(p, i);
  int err = uv_poll_init(p->loop, &s->poll, fd);

  if (err != 0) {
    close(fd);
    return err;
  }
  s->fd = fd;
  s->poll.data = p;
  p->handles++;
  uv_unref((uv_handle_t*) &s->poll);
  return 0;
}

int sbx_pump_open(struct sbx_pump* p, uv_loop_t* loop,
                  struct sbx_pump_pool* pool, int fd) {
  p->loop = loop;
  p->pool = pool;
  p->phase = HEAD;
  p->handles = 0;
  p->moved = uv_now(loop);
  memset(&p->client, 0, sizeof(p->client));
  memset(&p->server, 0, sizeof(p->server));
  p->client.fd = p->server.fd = -1;
  if (open_side(p, 0, fd) != 0) return -1;
  watch(p);
  return 0;
}

void sbx_pump_hold(struct sbx_pump* p, bool held) {
  if (p->phase != HEAD && p->phase != HELD) return;
  p->phase = held ? HELD : HEAD;
  watch(p);
}

/* ---- the end ---- */

static void over(struct sbx_pump* p) {
  if (p->phase >= OVER) return;
  p->phase = OVER;
  p->on_over(p);
}

/* A reset on the one side is a reset on the other. */
static void reset(struct sbx_pump* p, int from) {
  struct linger hard = {1, 0};
  int fd = side(p, 1 - from)->fd;

  if (p->phase == JOINED && fd >= 0)
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
  over(p);
}

static void shut(struct sbx_pump_side* s) {
  if (s->shut) return;
  s->shut = true;
  shutdown(s->fd, SHUT_WR);
}

/* After a change: passes on an end that waits for nothing any more. */
static void settle(struct sbx_pump* p) {
  for (int i = 0; i < 2; i++)
    if (side(p, i)->eof && p->phase == JOINED && side(p, 1 - i)->stuck.bytes == NULL)
      shut(side(p, 1 - i));
  if (p->phase == REFUSING && p->client.stuck.bytes == NULL) {
    shut(&p->client);
    if (p->client.eof) over(p);
  }
  if (p->client.shut && p->server.shut) over(p);
  watch(p);
}

bool sbx_pump_ending(const struct sbx_pump* p) {
  return p->phase == REFUSING || p->client.eof || p->server.eof;
}

/* Undelivered bytes go with it. */
static void close_side(struct sbx_pump* p, struct sbx_pump_side* s) {
  pool_put(p->pool, &s->stuck);
  if (s->fd < 0) return;
  uv_close((uv_handle_t*) &s->poll, on_handle_closed);
  close(s->fd);
  s->fd = -1;
}

void sbx_pump_close(struct sbx_pump* p) {
  if (p->phase == CLOSED) return;
  p->phase = CLOSED;
  close_side(p, &p->client);
  close_side(p, &p->server);
}

/* ---- writing ---- */

/* Bytes taken, or a negative errno. */
static ssize_t put(int fd, const char* bytes, size_t len) {
  ssize_t n;

  do {
    n = send(fd, bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (n < 0 && errno == EINTR);
  if (n >= 0) return n;
  return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : -errno;
}

/* Keeps bytes behind those that are kept already. */
static int keep(struct sbx_pump_side* s, const char* bytes, size_t len) {
  size_t left = s->stuck.len - s->stuck.at;
  char* more = malloc(left + len);

  if (more == NULL) return -1;
  if (left > 0) memcpy(more, s->stuck.bytes + s->stuck.at, left);
  memcpy(more + left, bytes, len);
  free(s->stuck.bytes);
  s->stuck = (struct sbx_pump_bytes){more, 0, left + len, false};
  return 0;
}

static int write_side(struct sbx_pump_side* s, const char* bytes, size_t len) {
  ssize_t n = 0;

  if (s->stuck.bytes == NULL) n = put(s->fd, bytes, len);
  if (n < 0) return -1;
  if ((size_t) n == len) return 0;
  return keep(s, bytes + n, len - (size_t) n);
}

/* 0 or -1. */
static int flush(struct sbx_pump* p, int i) {
  struct sbx_pump_side* s = side(p, i);
  ssize_t n = put(s->fd, s->stuck.bytes + s->stuck.at, s->stuck.len - s->stuck.at);

  if (n < 0) return -1;
  if (n > 0) p->moved = uv_now(p->loop);
  s->stuck.at += (size_t) n;
  if (s->stuck.at < s->stuck.len) return 0;
  pool_put(p->pool, &s->stuck);
  return 0;
}

int sbx_pump_say(struct sbx_pump* p, const char* bytes, size_t len) {
  int err = write_side(&p->client, bytes, len);

  if (err != 0) over(p);
  watch(p);
  return err;
}

void sbx_pump_refuse(struct sbx_pump* p, const char* bytes, size_t len) {
  if (p->phase >= OVER) return;
  p->phase = REFUSING;
  p->moved = uv_now(p->loop);
  if (len > 0 && write_side(&p->client, bytes, len) != 0) {
    over(p);
    return;
  }
  settle(p);
}

int sbx_pump_join(struct sbx_pump* p, int fd, const char* to_fd,
                  size_t to_fd_len, const char* to_client,
                  size_t to_client_len) {
  if (p->phase >= OVER) {
    close(fd);
    return -1;
  }
  if (open_side(p, 1, fd) != 0) return -1;
  p->phase = JOINED;
  p->moved = uv_now(p->loop);
  if ((to_fd_len > 0 && write_side(&p->server, to_fd, to_fd_len) != 0) ||
      (to_client_len > 0 &&
       write_side(&p->client, to_client, to_client_len) != 0)) {
    over(p);
    return -1;
  }
  settle(p);
  return 0;
}

/* ---- reading ---- */

/* Bytes, 0 at the end, or a negative errno. */
static ssize_t get(struct sbx_pump* p, int i) {
  ssize_t n;

  do {
    n = recv(side(p, i)->fd, p->pool->scratch, SBX_PUMP_READ, MSG_DONTWAIT);
  } while (n < 0 && errno == EINTR);
  return n < 0 ? -errno : n;
}

/* Passes on what was just read, which is only done where nothing is stuck. */
static int pass_on(struct sbx_pump* p, int i, size_t n) {
  struct sbx_pump_side* to = side(p, 1 - i);
  ssize_t sent = put(to->fd, p->pool->scratch, n);

  p->moved = uv_now(p->loop);
  if (sent < 0) return -1;
  if ((size_t) sent == n) return 0;
  return pool_keep(p->pool, &to->stuck, (size_t) sent, n);
}

static void take(struct sbx_pump* p, int i, size_t n) {
  if (n == 0) side(p, i)->eof = true;
  if (p->phase == HEAD) {
    p->on_head(p, p->pool->scratch, n);
  } else if (p->phase == JOINED && n > 0) {
    if (pass_on(p, i, n) != 0) reset(p, 1 - i);
  }
}

static void read_side(struct sbx_pump* p, int i) {
  for (int turn = 0; turn < TURNS && wants_bytes(p, i); turn++) {
    ssize_t n = get(p, i);

    if (n == -EAGAIN || n == -EWOULDBLOCK) return;
    if (n < 0) {
      reset(p, i);
      return;
    }
    take(p, i, (size_t) n);
    if (n < SBX_PUMP_READ) return;
  }
}

static void on_poll(uv_poll_t* handle, int status, int events) {
  struct sbx_pump* p = handle->data;
  int i = handle == &p->server.poll;

  if (p->phase >= OVER) return;
  if (status != 0) {
    reset(p, i);
    return;
  }
  if ((events & UV_WRITABLE) != 0 && side(p, i)->stuck.bytes != NULL &&
      flush(p, i) != 0) {
    reset(p, i);
    return;
  }
  if ((events & UV_READABLE) != 0) read_side(p, i);
  if (p->phase < OVER) settle(p);
}
