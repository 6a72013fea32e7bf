/* Moves bytes between two sockets: with read and write, and what is much by
 * splice through a large pipe, which copies nothing. With a pipe of the usual
 * size that is no faster.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "pump.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum phase { HEAD, HELD, JOINED, REFUSING, OVER, CLOSED };

/* One fast connection must not starve the rest of the loop. */
enum {
  TURNS = 4,
  FAST = 2,               /* full reads in a row that are worth a pipe */
  PIPE_SIZE = 256 * 1024, /* what a processor keeps near: larger is slower */
  PIPE_IDLE = 16 * 1024   /* who moves less at once gives it back */
};

static void on_poll(uv_poll_t* handle, int status, int events);

/* ---- memory ---- */

static void close_pipe(int fds[2]) {
  close(fds[0]);
  close(fds[1]);
  fds[0] = fds[1] = -1;
}

int sbx_pump_pool_init(struct sbx_pump_pool* pool) {
  memset(pool, 0, sizeof(*pool));
  pool->scratch = malloc(SBX_PUMP_READ);
  return pool->scratch == NULL ? -1 : 0;
}

void sbx_pump_pool_clear(struct sbx_pump_pool* pool) {
  free(pool->scratch);
  pool->scratch = NULL;
  while (pool->spares_len > 0) free(pool->spares[--pool->spares_len]);
  while (pool->pipes_len > 0) close_pipe(pool->pipes[--pool->pipes_len]);
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

/* -1: there is none to be had. */
static int pool_pipe(struct sbx_pump_pool* pool, int fds[2]) {
  if (pool->pipes_len > 0) {
    memcpy(fds, pool->pipes[--pool->pipes_len], 2 * sizeof(*fds));
    pool->pipes_out++;
    return 0;
  }
  if (pool->pipes_out == SBX_PUMP_PIPES) return -1;
  if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) != 0) return -1;
  if (fcntl(fds[1], F_SETPIPE_SZ, PIPE_SIZE) < PIPE_SIZE) {
    close_pipe(fds);
    pool->no_pipes = true;
    return -1;
  }
  pool->pipes_out++;
  return 0;
}

static void pool_unpipe(struct sbx_pump_pool* pool, struct sbx_pump_side* s) {
  if (s->pipe[0] < 0) return;
  pool->pipes_out--;
  if (s->piped > 0)
    close_pipe(s->pipe);
  else
    memcpy(pool->pipes[pool->pipes_len++], s->pipe, sizeof(s->pipe));
  s->pipe[0] = s->pipe[1] = -1;
  s->piped = 0;
}

static struct sbx_pump_side* side(struct sbx_pump* p, int i) {
  return i == 0 ? &p->client : &p->server;
}

static void on_handle_closed(uv_handle_t* handle) {
  struct sbx_pump* p = handle->data;

  if (--p->handles == 0) p->on_closed(p);
}

/* ---- what is watched for ---- */

static bool is_stuck(const struct sbx_pump_side* s) {
  return s->stuck.bytes != NULL || s->piped > 0;
}

static bool wants_bytes(struct sbx_pump* p, int i) {
  const struct sbx_pump_side* s = side(p, i);

  if (s->eof) return false;
  if (p->phase == HEAD || p->phase == REFUSING) return i == 0;
  return p->phase == JOINED && !is_stuck(side(p, 1 - i));
}

static void watch_side(struct sbx_pump* p, int i) {
  struct sbx_pump_side* s = side(p, i);
  int events = 0;

  if (s->fd < 0) return;
  if (wants_bytes(p, i)) events |= UV_READABLE;
  if (is_stuck(s)) events |= UV_WRITABLE;
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
  for (int i = 0; i < 2; i++) side(p, i)->pipe[0] = side(p, i)->pipe[1] = -1;
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
    if (side(p, i)->eof && p->phase == JOINED && !is_stuck(side(p, 1 - i)))
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
  pool_unpipe(p->pool, s);
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

/* Bytes, 0 where nothing can be moved now, or a negative errno. */
static ssize_t move(int from, int to, size_t len) {
  ssize_t n;

  do {
    n = splice(from, NULL, to, NULL, len, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
  } while (n < 0 && errno == EINTR);
  return n < 0 ? -errno : n;
}

static int flush_pipe(struct sbx_pump* p, struct sbx_pump_side* s) {
  while (s->piped > 0) {
    ssize_t n = move(s->pipe[0], s->fd, s->piped);

    if (n == -EAGAIN || n == 0) return 0;
    if (n < 0) return -1;
    s->piped -= (size_t) n;
    p->moved = uv_now(p->loop);
  }
  return 0;
}

/* 0 or -1. */
static int flush(struct sbx_pump* p, int i) {
  struct sbx_pump_side* s = side(p, i);
  ssize_t n;

  if (s->stuck.bytes == NULL) return flush_pipe(p, s);
  n = put(s->fd, s->stuck.bytes + s->stuck.at, s->stuck.len - s->stuck.at);

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

/* Whether the bytes of side i go by a pipe. */
static bool is_piped(struct sbx_pump* p, int i) {
  struct sbx_pump_side* to = side(p, 1 - i);

  if (p->phase != JOINED) return false;
  if (to->pipe[0] >= 0) return true;
  if (p->pool->no_pipes || side(p, i)->fast < FAST) return false;
  return pool_pipe(p->pool, to->pipe) == 0;
}

/* True: there may be more. */
static bool read_by_pipe(struct sbx_pump* p, int i) {
  struct sbx_pump_side* from = side(p, i);
  struct sbx_pump_side* to = side(p, 1 - i);
  ssize_t n = move(from->fd, to->pipe[1], PIPE_SIZE);

  if (n == -EAGAIN) return false;
  if (n == -EINVAL) p->pool->no_pipes = true; /* sockets that cannot */
  if (n == 0) from->eof = true;
  if (n < PIPE_IDLE) from->fast = 0;
  if (n > 0) to->piped = (size_t) n;
  if (n < 0 && n != -EINVAL) reset(p, i);
  else if (flush_pipe(p, to) != 0) reset(p, 1 - i);
  else if (to->piped == 0 && from->fast == 0) pool_unpipe(p->pool, to);
  return n > 0 || n == -EINVAL;
}

/* True: there may be more. */
static bool read_by_copy(struct sbx_pump* p, int i) {
  struct sbx_pump_side* s = side(p, i);
  ssize_t n = get(p, i);

  if (n == -EAGAIN || n == -EWOULDBLOCK) return false;
  if (n < 0) {
    reset(p, i);
    return false;
  }
  s->fast = n == SBX_PUMP_READ ? s->fast + 1 : 0;
  take(p, i, (size_t) n);
  return n == SBX_PUMP_READ;
}

static void read_side(struct sbx_pump* p, int i) {
  for (int turn = 0; turn < TURNS && wants_bytes(p, i); turn++)
    if (!(is_piped(p, i) ? read_by_pipe(p, i) : read_by_copy(p, i))) return;
}

static void on_poll(uv_poll_t* handle, int status, int events) {
  struct sbx_pump* p = handle->data;
  int i = handle == &p->server.poll;

  if (p->phase >= OVER) return;
  if (status != 0) {
    reset(p, i);
    return;
  }
  if ((events & UV_WRITABLE) != 0 && is_stuck(side(p, i)) &&
      flush(p, i) != 0) {
    reset(p, i);
    return;
  }
  if ((events & UV_READABLE) != 0) read_side(p, i);
  if (p->phase < OVER) settle(p);
}
