/* libcurl's multi interface on the loop: one poll handle per socket, one timer,
 * no thread.
 *
 * libcurl may not be called again from most of its callbacks, but owners may do
 * all they like in theirs: what comes while it is on the stack waits in `todo`.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "transport_curl.h"

enum { TURN_NS = 8000000 };

struct sbx__curl_socket {
  uv_poll_t poll;
  struct sbx__curl* client;
  struct sbx__curl_socket* next;
  struct sbx__curl_socket** link;
  curl_socket_t fd;
};

static struct sbx__curl* client_of(struct sbx_transport* t) {
  return (struct sbx__curl*) t;
}

static struct sbx__carry* carry_of(struct sbx_transfer* x) {
  return (struct sbx__carry*) x;
}

void sbx__curl_opened(struct sbx__curl* c, uv_handle_t* handle) {
  c->handles++;
  uv_unref(handle);
}

static void free_client(struct sbx__curl* c) {
  if (c->ca_fd >= 0) close(c->ca_fd);
  free(c->ca_file);
  free(c->ca_pem);
  free(c);
}

void sbx__curl_closed(struct sbx__curl* c) {
  void (*cb)(void* arg) = c->on_closed;
  void* arg = c->arg;

  if (--c->handles || !c->closing) return;
  free_client(c);
  if (cb) cb(arg);
}

/* ---- transfers ---- */

static CURL* take_easy(struct sbx__curl* c) {
  if (c->spares) return c->spare[--c->spares];
  return c->api->easy_init();
}

/* Only after a proper end: a handle that failed early keeps its buffer and then
 * refuses to be given a size for it. */
static void give_easy(struct sbx__curl* c, CURL* easy, bool good) {
  if (!good || c->spares == sizeof(c->spare) / sizeof(c->spare[0])) {
    c->api->easy_cleanup(easy);
    return;
  }
  c->api->easy_reset(easy);
  c->spare[c->spares++] = easy;
}

static void free_carry(struct sbx__carry* x) {
  struct sbx__curl* c = x->client;

  c->depth++;
  if (x->tunnel) sbx__tunnel_stop(x);
  if (x->added) c->api->multi_remove_handle(c->multi, x->easy);
  if (x->easy) give_easy(c, x->easy, x->good);
  c->depth--;
  c->api->slist_free_all(x->headers);
  sbx__spec_unref(x->spec);
  free(x);
}

static void fail_memory(struct sbx__carry* x) {
  struct sbx_failure failure = {.kind = SBX_FAIL_MEMORY, .text = ""};

  x->over = true;
  x->events.on_done(x->events.data, &failure);
}

static bool add(struct sbx__carry* x) {
  struct sbx__curl* c = x->client;
  CURLMcode rc;

  c->depth++;
  rc = c->api->multi_add_handle(c->multi, x->easy);
  c->depth--;
  return x->added = rc == CURLM_OK;
}

/* Hands out at once what libcurl has kept back. */
static void apply_pause(struct sbx__carry* x) {
  struct sbx__curl* c = x->client;
  int mask = CURLPAUSE_CONT;

  if (x->woken) x->send_paused = false;
  x->woken = false;
  if (x->paused && x->recv_paused) mask |= CURLPAUSE_RECV;
  if (x->send_paused) mask |= CURLPAUSE_SEND;
  x->recv_paused = x->paused && x->recv_paused;
  c->depth++;
  c->api->easy_pause(x->easy, mask);
  c->depth--;
}

static void work_on(struct sbx__carry* x) {
  if (x->doomed)
    free_carry(x);
  else if (x->tunnel)
    sbx__tunnel_run(x);
  else if (x->added && !x->over)
    apply_pause(x);
  else if (!x->added && !add(x))
    fail_memory(x);
}

/* At most as many as there are now: what a tunnel queues again, because it has
 * had its share, waits for the next turn. */
static void work(struct sbx__curl* c) {
  size_t count = 0;

  for (struct sbx__carry* x = c->todo; x; x = x->next_todo) count++;
  c->depth++;
  while (c->todo && count--) {
    struct sbx__carry* x = c->todo;
    c->todo = x->next_todo;
    x->queued = false;
    work_on(x);
  }
  c->depth--;
}

void sbx__carry_queue(struct sbx__carry* x) {
  struct sbx__curl* c = x->client;
  struct sbx__carry** end = &c->todo;

  if (x->queued) return;
  while (*end) end = &(*end)->next_todo;
  x->next_todo = NULL;
  x->queued = true;
  *end = x;
  uv_timer_start(&c->kick, c->kick.timer_cb, 0, 0);
}

bool sbx__carry_spent(struct sbx__carry* x) {
  struct sbx__curl* c = x->client;
  uint64_t turn = uv_now(c->loop);

  if (c->turn != turn) {
    c->turn = turn;
    c->turn_end = uv_hrtime() + TURN_NS;
  }
  if (x->turn == turn) return uv_hrtime() > c->turn_end;
  x->turn = turn;
  return false;
}

static void unqueue(struct sbx__carry* x) {
  struct sbx__carry** p = &x->client->todo;

  while (*p && *p != x) p = &(*p)->next_todo;
  if (*p) *p = x->next_todo;
  x->queued = false;
}

/* ---- running libcurl ---- */

static void finish_close(struct sbx__curl* c);

static void done(struct sbx__carry* x, CURLcode result) {
  struct sbx_failure failure;

  if (x->doomed) return;
  x->over = true;
  x->good = result == CURLE_OK && !x->spec->tunnel;
  if (result == CURLE_OK && x->spec->tunnel) {
    if (sbx__tunnel_start(x) == 0) return;
    fail_memory(x);
    return;
  }
  failure = sbx__carry_failure(x, result);
  x->events.on_done(x->events.data, result == CURLE_OK ? NULL : &failure);
}

static void read_results(struct sbx__curl* c) {
  CURLMsg* message;
  struct sbx__carry* x;
  int left;

  while ((message = c->api->multi_info_read(c->multi, &left))) {
    CURLcode result = message->data.result;
    if (message->msg != CURLMSG_DONE) continue;
    if (c->api->easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &x))
      continue;
    c->depth++;
    done(x, result);
    c->depth--;
  }
}

/* The last thing that every entry does. What events asked for is begun in the
 * same turn: often it is the next request. */
static void leave(struct sbx__curl* c) {
  for (int round = 0; round < 2; round++) {
    read_results(c);
    work(c);
  }
  if (!c->todo) uv_timer_stop(&c->kick);
  if (c->closing) finish_close(c);
}

static void on_poll(uv_poll_t* poll, int status, int events) {
  struct sbx__curl_socket* s = poll->data;
  struct sbx__curl* c = s->client;
  int mask = 0, running;

  if (status < 0) mask = CURL_CSELECT_ERR;
  if (events & UV_READABLE) mask |= CURL_CSELECT_IN;
  if (events & UV_WRITABLE) mask |= CURL_CSELECT_OUT;
  c->depth++;
  c->api->multi_socket_action(c->multi, s->fd, mask, &running);
  c->depth--;
  leave(c);
}

static void on_timer(uv_timer_t* timer) {
  struct sbx__curl* c = timer->data;
  int running;

  c->depth++;
  c->api->multi_socket_action(c->multi, CURL_SOCKET_TIMEOUT, 0, &running);
  c->depth--;
  leave(c);
}

static void on_kick(uv_timer_t* timer) {
  leave(timer->data);
}

static int on_timeout(CURLM* multi, long ms, void* arg) {
  struct sbx__curl* c = arg;

  (void) multi;
  if (c->closing) return 0;
  if (ms < 0) return uv_timer_stop(&c->timer);
  uv_timer_start(&c->timer, on_timer, (uint64_t) ms, 0);
  return 0;
}

static void on_socket_closed(uv_handle_t* handle) {
  struct sbx__curl_socket* s = handle->data;
  struct sbx__curl* c = s->client;

  free(s);
  sbx__curl_closed(c);
}

static struct sbx__curl_socket* open_socket(struct sbx__curl* c, curl_socket_t fd) {
  struct sbx__curl_socket* s = calloc(1, sizeof(*s));

  if (!s) return NULL;
  if (uv_poll_init_socket(c->loop, &s->poll, fd)) {
    free(s);
    return NULL;
  }
  s->client = c;
  s->fd = fd;
  s->poll.data = s;
  s->link = &c->sockets;
  s->next = c->sockets;
  if (s->next) s->next->link = &s->next;
  c->sockets = s;
  sbx__curl_opened(c, (uv_handle_t*) &s->poll);
  c->api->multi_assign(c->multi, fd, s);
  return s;
}

static void close_socket(struct sbx__curl_socket* s) {
  struct sbx__curl* c = s->client;

  *s->link = s->next;
  if (s->next) s->next->link = s->link;
  c->api->multi_assign(c->multi, s->fd, NULL);
  uv_close((uv_handle_t*) &s->poll, on_socket_closed);
}

void sbx__curl_forget(struct sbx__curl* c, curl_socket_t fd) {
  struct sbx__curl_socket* s = c->sockets;

  while (s && s->fd != fd) s = s->next;
  if (s) close_socket(s);
}

/* An error would end every transfer of the multi handle. Without memory this one
 * meets its deadline. */
static int on_socket(CURL* easy, curl_socket_t fd, int what, void* arg,
                     void* socket) {
  struct sbx__curl* c = arg;
  struct sbx__curl_socket* s = socket;
  int events = 0;

  (void) easy;
  if (what == CURL_POLL_REMOVE) {
    if (s) close_socket(s);
    return 0;
  }
  if (what & CURL_POLL_IN) events |= UV_READABLE;
  if (what & CURL_POLL_OUT) events |= UV_WRITABLE;
  if (!s && !(s = open_socket(c, fd))) return 0;
  uv_poll_start(&s->poll, events, on_poll);
  return 0;
}

/* ---- the table ---- */

static void on_handle_closed(uv_handle_t* handle) {
  sbx__curl_closed(handle->data);
}

static void finish_close(struct sbx__curl* c) {
  if (c->depth || uv_is_closing((uv_handle_t*) &c->timer)) return;
  while (c->spares) c->api->easy_cleanup(c->spare[--c->spares]);
  c->api->multi_cleanup(c->multi);
  c->api->share_cleanup(c->share);
  uv_close((uv_handle_t*) &c->timer, on_handle_closed);
  uv_close((uv_handle_t*) &c->kick, on_handle_closed);
}

static void curl_close(struct sbx_transport* t, void (*cb)(void* arg),
                       void* arg) {
  struct sbx__curl* c = client_of(t);

  c->closing = true;
  c->on_closed = cb;
  c->arg = arg;
  if (!c->depth) leave(c);
}

/* libcurl keeps parsed roots between connections only where they come from a
 * file. */
static int hold_ca(struct sbx__curl* c, const void* pem, size_t len) {
  char path[32];

  c->ca_fd = memfd_create("roots", MFD_CLOEXEC);
  if (c->ca_fd >= 0 && write(c->ca_fd, pem, len) == (ssize_t) len) {
    snprintf(path, sizeof(path), "/proc/self/fd/%d", c->ca_fd);
    if (access(path, R_OK) == 0)
      return (c->ca_file = strdup(path)) ? 0 : UV_ENOMEM;
  }
  c->ca_pem = malloc(len);
  if (!c->ca_pem) return UV_ENOMEM;
  memcpy(c->ca_pem, pem, len);
  c->ca_len = len;
  return 0;
}

static int take_ca(struct sbx__curl* c,
                   const struct sbx_transport_config* config) {
  if (config->ca_len) return hold_ca(c, config->ca_pem, config->ca_len);
  if (!config->ca_file) return 0;
  return (c->ca_file = strdup(config->ca_file)) ? 0 : UV_ENOMEM;
}

static bool start_curl(struct sbx__curl* c) {
  c->multi = c->api->multi_init();
  c->share = c->api->share_init();
  if (!c->multi || !c->share) return false;
  c->api->share_setopt(c->share, CURLSHOPT_SHARE, CURL_LOCK_DATA_SSL_SESSION);
  c->api->multi_setopt(c->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
  c->api->multi_setopt(c->multi, CURLMOPT_SOCKETDATA, c);
  c->api->multi_setopt(c->multi, CURLMOPT_TIMERFUNCTION, on_timeout);
  c->api->multi_setopt(c->multi, CURLMOPT_TIMERDATA, c);
  c->api->multi_setopt(c->multi, CURLMOPT_MAXCONNECTS, 64L);
  return true;
}

static void start_timers(struct sbx__curl* c) {
  uv_timer_init(c->loop, &c->timer);
  uv_timer_init(c->loop, &c->kick);
  c->timer.data = c->kick.data = c;
  c->kick.timer_cb = on_kick;
  sbx__curl_opened(c, (uv_handle_t*) &c->timer);
  sbx__curl_opened(c, (uv_handle_t*) &c->kick);
}

static int curl_open(void* lender, const struct sbx_transport_config* config,
                     struct sbx_transport** out, struct sbx_error* error) {
  const char* why;
  const struct sbx_curl* api = sbx_curl_load(&why);
  struct sbx__curl* c;

  (void) lender;
  if (!api)
    return sbx_error_set(error, SBX_E_UNSUPPORTED, 0, "http",
                         "no libcurl can be used (%s)", why);
  c = calloc(1, sizeof(*c));
  if (!c) goto memory;
  c->api = api;
  c->loop = config->loop;
  c->ca_fd = -1;
  if (take_ca(c, config) || !start_curl(c)) goto memory;
  start_timers(c);
  *out = (struct sbx_transport*) c;
  return 0;
memory:
  if (c && c->multi) api->multi_cleanup(c->multi);
  if (c && c->share) api->share_cleanup(c->share);
  if (c) free_client(c);
  return sbx_error_set(error, SBX_E_INTERNAL, ENOMEM, "http", "out of memory");
}

static int curl_start(struct sbx_transport* t,
                      struct sbx_transfer_spec* spec,
                      const struct sbx_transfer_events* events,
                      struct sbx_transfer** out) {
  struct sbx__curl* c = client_of(t);
  struct sbx__carry* x = calloc(1, sizeof(*x));

  if (!x) return UV_ENOMEM;
  x->client = c;
  x->events = *events;
  x->spec = sbx__spec_ref(spec);
  x->easy = take_easy(c);
  if (!x->easy || sbx__carry_configure(x) || (!c->depth && !add(x))) {
    free_carry(x);
    return UV_ENOMEM;
  }
  if (!x->added) sbx__carry_queue(x);
  *out = (struct sbx_transfer*) x;
  return 0;
}

static void curl_pause(struct sbx_transfer* transfer, bool paused) {
  struct sbx__carry* x = carry_of(transfer);

  if (x->paused == paused) return;
  x->paused = paused;
  if (!paused && (x->recv_paused || x->tunnel)) sbx__carry_queue(x);
}

static void curl_wake(struct sbx_transfer* transfer) {
  struct sbx__carry* x = carry_of(transfer);

  if (!x->send_paused && !x->tunnel) return;
  x->woken = true;
  sbx__carry_queue(x);
}

static void curl_end(struct sbx_transfer* transfer) {
  struct sbx__carry* x = carry_of(transfer);

  if (x->client->depth) {
    x->doomed = true;
    sbx__carry_queue(x);
    return;
  }
  if (x->queued) unqueue(x);
  free_carry(x);
}

const struct sbx_transport_ops sbx_transport_curl = {
    .name = "libcurl",
    .open = curl_open,
    .close = curl_close,
    .start = curl_start,
    .pause = curl_pause,
    .wake = curl_wake,
    .end = curl_end,
};
