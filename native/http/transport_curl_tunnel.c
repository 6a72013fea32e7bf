/* A connection that libcurl made (proxy, TLS) and that carries bytes of ours:
 * read and written as the loop says it can be. */
#include <stdlib.h>

#include "transport_curl.h"

enum { SHARE = 64 }; /* reads in one turn */

static void on_poll(uv_poll_t* poll, int status, int events) {
  struct sbx__tunnel* t = poll->data;

  (void) status, (void) events;
  if (t->carry) sbx__carry_queue(t->carry);
}

static void on_closed(uv_handle_t* handle) {
  struct sbx__tunnel* t = handle->data;
  struct sbx__curl* c = t->client;

  free(t);
  sbx__curl_closed(c);
}

static void watch(struct sbx__tunnel* t, int events) {
  if (t->events == events) return;
  t->events = events;
  if (events)
    uv_poll_start(&t->poll, events, on_poll);
  else
    uv_poll_stop(&t->poll);
}

static void fail(struct sbx__carry* x, int sys) {
  struct sbx_failure failure = {
      .kind = SBX_FAIL_CLOSED, .sys = sys, .sent = true, .text = ""};

  watch(x->tunnel, 0);
  x->over = true;
  x->events.on_done(x->events.data, &failure);
}

/* 1: more may wait; 0: nothing now; negative: over, and said so. */
static int read_some(struct sbx__carry* x) {
  char bytes[16384];
  size_t n = 0;
  CURLcode rc =
      x->client->api->easy_recv(x->easy, bytes, sizeof(bytes), &n);

  if (rc == CURLE_AGAIN) return 0;
  if (rc != CURLE_OK || n == 0) {
    x->over = true;
    watch(x->tunnel, 0);
    if (rc == CURLE_OK)
      x->events.on_done(x->events.data, NULL);
    else
      fail(x, 0);
    return -1;
  }
  x->events.on_bytes(x->events.data, bytes, n);
  return x->doomed ? -1 : 1;
}

static bool fill(struct sbx__carry* x) {
  struct sbx__tunnel* t = x->tunnel;
  ssize_t n;

  if (t->len) return true;
  if (t->ended) return false;
  n = x->events.on_pull(x->events.data, t->out, sizeof(t->out));
  if (n < 0) t->ended = true;
  if (n <= 0 || x->doomed) return false;
  t->start = 0;
  t->len = (size_t) n;
  return true;
}

/* As read_some. */
static int write_some(struct sbx__carry* x) {
  struct sbx__tunnel* t = x->tunnel;
  size_t n = 0;
  CURLcode rc;

  if (!fill(x)) return x->doomed ? -1 : 0;
  rc = x->client->api->easy_send(x->easy, t->out + t->start, t->len, &n);
  if (rc == CURLE_AGAIN) return 0;
  if (rc != CURLE_OK) {
    fail(x, 0);
    return -1;
  }
  t->start += n;
  t->len -= n;
  return 1;
}

/* Reading first: what the peer said before it closed is not lost. */
void sbx__tunnel_run(struct sbx__carry* x) {
  struct sbx__tunnel* t = x->tunnel;
  int rc = 1;

  if (x->over) return;
  for (int i = 0; !x->paused && rc > 0 && i < SHARE; i++)
    if ((rc = read_some(x)) < 0) return;
  if (!x->paused && rc > 0) sbx__carry_queue(x); /* TLS may hold it already */
  do rc = write_some(x);
  while (rc > 0);
  if (rc < 0) return;
  watch(t, (x->paused ? 0 : UV_READABLE) | (t->len ? UV_WRITABLE : 0));
}

int sbx__tunnel_start(struct sbx__carry* x) {
  struct sbx__tunnel* t = calloc(1, sizeof(*t));
  curl_socket_t fd = CURL_SOCKET_BAD;

  if (!t) return UV_ENOMEM;
  x->client->api->easy_getinfo(x->easy, CURLINFO_ACTIVESOCKET, &fd);
  if (fd != CURL_SOCKET_BAD) sbx__curl_forget(x->client, fd);
  if (fd == CURL_SOCKET_BAD ||
      uv_poll_init_socket(x->client->loop, &t->poll, fd)) {
    free(t);
    return UV_ENOMEM;
  }
  t->poll.data = t;
  t->carry = x;
  t->client = x->client;
  x->tunnel = t;
  x->over = false;
  sbx__curl_opened(x->client, (uv_handle_t*) &t->poll);
  x->events.on_open(x->events.data);
  if (!x->doomed) sbx__carry_queue(x);
  return 0;
}

void sbx__tunnel_stop(struct sbx__carry* x) {
  struct sbx__tunnel* t = x->tunnel;

  x->tunnel = NULL;
  t->carry = NULL;
  uv_close((uv_handle_t*) &t->poll, on_closed);
}
