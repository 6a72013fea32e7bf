/* The client: its settings, the transport beneath it, and the clock of its
 * exchanges. */
#include "http.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

uint64_t sbx__now(void) {
  return uv_hrtime() / 1000000;
}

/* ---- the clock ---- */

static uint64_t earliest(const struct sbx_http* http) {
  uint64_t due = 0;

  for (struct sbx_exchange* x = http->exchanges; x; x = x->next)
    if (x->due && (!due || x->due < due)) due = x->due;
  return due;
}

static void on_clock(uv_timer_t* timer);

static void arm(struct sbx_http* http, uint64_t due) {
  uint64_t now = sbx__now();

  http->armed = due;
  uv_timer_start(&http->clock, on_clock, due > now ? due - now : 1, 0);
}

/* The first exchange that is due, whose turn it has not been. */
static struct sbx_exchange* find_due(struct sbx_http* http, uint64_t now) {
  for (struct sbx_exchange* x = http->exchanges; x; x = x->next)
    if (x->due && x->due <= now) return x;
  return NULL;
}

static void on_clock(uv_timer_t* timer) {
  struct sbx_http* http = timer->data;
  struct sbx_exchange* x;
  uint64_t now = sbx__now();
  uint64_t due;

  http->armed = 0;
  while (!http->closing && (x = find_due(http, now))) sbx__exchange_expire(x);
  if (http->closing) return;
  if ((due = earliest(http))) arm(http, due);
}

/* Later times need nothing: the clock fires too early and looks again. */
void sbx__exchange_due(struct sbx_exchange* x, uint64_t due) {
  struct sbx_http* http = x->http;

  x->due = due;
  x->suspect = false;
  if (!due || http->closing) return;
  if (!http->armed || due < http->armed) arm(http, due);
}

/* ---- life ---- */

static int copy(char** out, const char* value) {
  if (!value) return 0;
  return (*out = strdup(value)) ? 0 : UV_ENOMEM;
}

static void free_http(struct sbx_http* http) {
  sbx__route_free(&http->route);
  free(http->ca_file);
  free(http->proxy);
  free(http->key);
  free(http);
}

static struct sbx_http* make(uv_loop_t* loop,
                             const struct sbx_http_settings* settings) {
  struct sbx_http* http = calloc(1, sizeof(*http));

  if (!http) return NULL;
  http->loop = loop;
  http->provider = settings->provider ? settings->provider : "HTTP";
  http->host = settings->host;
  http->random = (unsigned) uv_hrtime();
  if (copy(&http->ca_file, settings->ca_file) ||
      copy(&http->proxy, settings->proxy) || sbx__route_load(&http->route)) {
    free_http(http);
    return NULL;
  }
  return http;
}

static void start_clock(struct sbx_http* http) {
  uv_timer_init(http->loop, &http->clock);
  uv_unref((uv_handle_t*) &http->clock);
  http->clock.data = http;
  http->open_parts = 1;
}

int sbx_http_new(uv_loop_t* loop, const struct sbx_http_settings* settings,
                 struct sbx_http** out) {
  struct sbx_http* http = make(loop, settings);

  if (!http) return UV_ENOMEM;
  start_clock(http);
  *out = http;
  return 0;
}

/* ---- sharing ---- */

static const char* text_of(const char* value) {
  return value ? value : "\2";
}

/* Everything of the settings and the environment that a client depends on. */
static char* make_key(const struct sbx_http* http) {
  const struct sbx__route* route = &http->route;
  const char* parts[] = {http->provider, http->ca_file, http->proxy,
                         route->https, route->http, route->all, route->none,
                         getenv("SSL_CERT_FILE"),
                         getenv("NODE_EXTRA_CA_CERTS"),
                         getenv("SBX_HTTP_TRANSPORT")};
  size_t count = sizeof(parts) / sizeof(parts[0]), len = 1;
  char* key;
  char* at;

  for (size_t i = 0; i < count; i++) len += strlen(text_of(parts[i])) + 1;
  if (!(key = at = malloc(len))) return NULL;
  for (size_t i = 0; i < count; i++) {
    at = stpcpy(at, text_of(parts[i]));
    *at++ = 1;
  }
  *at = 0;
  return key;
}

static struct sbx_http* find_shared(const struct sbx_http_pool* pool,
                                    const struct sbx_http* like) {
  struct sbx_http* http = pool->first;

  while (http && (http->loop != like->loop || http->host != like->host ||
                  strcmp(http->key, like->key) != 0))
    http = http->next;
  return http;
}

static void enter_pool(struct sbx_http_pool* pool, struct sbx_http* http) {
  http->next = pool->first;
  http->link = &pool->first;
  if (http->next) http->next->link = &http->next;
  pool->first = http;
}

int sbx_http_share(struct sbx_http_pool* pool, uv_loop_t* loop,
                   const struct sbx_http_settings* settings,
                   struct sbx_http** out) {
  struct sbx_http* http = make(loop, settings);
  struct sbx_http* shared;

  if (!http || !(http->key = make_key(http))) {
    if (http) free_http(http);
    return UV_ENOMEM;
  }
  if ((shared = find_shared(pool, http))) {
    free_http(http);
  } else {
    start_clock(shared = http);
    enter_pool(pool, http);
  }
  shared->users++;
  *out = shared;
  return 0;
}

bool sbx_http_leave(struct sbx_http* http) {
  if (http->link && --http->users) return false;
  if (http->link) {
    *http->link = http->next;
    if (http->next) http->next->link = http->link;
  }
  http->link = NULL;
  return true;
}

static void part_closed(struct sbx_http* http) {
  void (*cb)(void* arg) = http->on_closed;
  void* arg = http->arg;

  if (--http->open_parts) return;
  free_http(http);
  if (cb) cb(arg);
}

static void on_clock_closed(uv_handle_t* handle) {
  part_closed(handle->data);
}

static void on_transport_closed(void* arg) {
  part_closed(arg);
}

void sbx_http_close(struct sbx_http* http, void (*cb)(void* arg), void* arg) {
  http->closing = true;
  http->on_closed = cb;
  http->arg = arg;
  while (http->exchanges) sbx_exchange_close(http->exchanges);
  uv_close((uv_handle_t*) &http->clock, on_clock_closed);
  if (http->transport)
    http->ops->close(http->transport, on_transport_closed, http);
}
