/* One exchange: its attempts on the transport, its times and bounds, and what of
 * it the owner gets to see. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

enum { TIME_MS = 60000 };

/* ---- frames: the owner may close in any event ---- */

static void free_exchange(struct sbx_exchange* x) {
  struct sbx__chunk* chunk = x->first;

  while (chunk) {
    struct sbx__chunk* next = chunk->next;
    free(chunk);
    chunk = next;
  }
  sbx__head_free(&x->head);
  sbx__socket_free(x->socket);
  sbx__spec_unref(x->spec);
  free(x);
}

static void enter(struct sbx_exchange* x) {
  x->busy++;
}

static void leave(struct sbx_exchange* x) {
  if (--x->busy == 0 && x->closed) free_exchange(x);
}

static void link_exchange(struct sbx_http* http, struct sbx_exchange* x) {
  x->http = http;
  x->next = http->exchanges;
  x->link = &http->exchanges;
  if (x->next) x->next->link = &x->next;
  http->exchanges = x;
}

static void end_transfer(struct sbx_exchange* x) {
  if (x->transfer) x->http->ops->end(x->transfer);
  x->transfer = NULL;
}

void sbx_exchange_close(struct sbx_exchange* x) {
  if (x->closed) return;
  x->closed = true;
  x->stage = SBX__OVER;
  end_transfer(x);
  *x->link = x->next;
  if (x->next) x->next->link = x->link;
  if (!x->busy) free_exchange(x);
}

/* ---- ends ---- */

void sbx__exchange_end(struct sbx_exchange* x, const struct sbx_error* error) {
  if (x->stage == SBX__OVER) return;
  x->stage = SBX__OVER;
  x->due = 0;
  end_transfer(x);
  x->events.on_end(x->events.data, error);
}

static void expire(struct sbx_exchange* x, const char* what, uint64_t ms) {
  struct sbx_error error;

  sbx_error_set(&error, SBX_E_TIMEOUT, 0, "http", "%s: %s from %s in %.1f s",
                x->http->provider, what, x->host, (double) ms / 1000);
  error.retryable = true;
  sbx__exchange_end(x, &error);
}

void sbx_exchange_no_retry(struct sbx_exchange* x) {
  struct sbx_error error;

  x->attempts = UINT_MAX / 2;
  if (x->stage != SBX__WAIT) return;
  sbx_error_set(&error, SBX_E_ABORTED, 0, "http",
                "%s: the request was given up before its next attempt",
                x->http->provider);
  enter(x);
  sbx__exchange_end(x, &error);
  leave(x);
}

static void restart(struct sbx_exchange* x, int64_t ms) {
  end_transfer(x);
  sbx__head_free(&x->head);
  if (x->socket) sbx__socket_restart(x);
  x->stage = SBX__WAIT;
  sbx__exchange_due(x, sbx__now() + (uint64_t) ms);
}

void sbx__exchange_fail(struct sbx_exchange* x,
                        const struct sbx_failure* failure) {
  int64_t ms;
  struct sbx_error error;

  if (x->stage == SBX__OVER) return;
  ms = sbx__retry_failure(x, failure);
  if (ms >= 0) {
    restart(x, ms);
    return;
  }
  sbx__http_error(x, failure, &error);
  sbx__exchange_end(x, &error);
}

void sbx__exchange_bad_head(struct sbx_exchange* x, int rc) {
  struct sbx_failure failure = {
      .kind = rc == UV_ENOMEM ? SBX_FAIL_MEMORY : SBX_FAIL_PROTOCOL,
      .sent = true,
      .text = rc == UV_E2BIG ? "more than 256 headers or 64 KiB of them" : ""};

  sbx__exchange_fail(x, &failure);
}

bool sbx__exchange_count(struct sbx_exchange* x, size_t len) {
  struct sbx_error error;

  x->received += len;
  if (!x->max_body || x->received <= x->max_body) return true;
  sbx_error_set(&error, SBX_E_PROVIDER, EFBIG, "http",
                "%s: %s sent more than the %llu bytes that are taken",
                x->http->provider, x->host, (unsigned long long) x->max_body);
  sbx__exchange_end(x, &error);
  return false;
}

/* ---- heads ---- */

static void refuse_wait(struct sbx_exchange* x, int64_t ms) {
  struct sbx_error error;

  sbx_error_set(&error, SBX_E_RATE_LIMITED, 0, "http",
                "%s: %s answered %d and wants %lld s to pass before the next "
                "request, which is more than this call may take",
                x->http->provider, x->host, x->head.status,
                (long long) (ms + 499) / 1000);
  error.retryable = true;
  error.number = ms;
  sbx__exchange_end(x, &error);
}

static void refuse_proxy(struct sbx_exchange* x) {
  struct sbx_failure failure = {.kind = SBX_FAIL_PROXY_AUTH, .sent = true,
                                .text = ""};

  sbx__exchange_fail(x, &failure);
}

static bool retried(struct sbx_exchange* x) {
  bool named;
  int64_t ms = sbx__retry_answer(x, &named);

  if (ms < 0) return false;
  if (sbx__now() + (uint64_t) ms < x->head_due) {
    restart(x, ms);
    return true;
  }
  if (!named) return false;
  refuse_wait(x, ms);
  return true;
}

static void start_idle(struct sbx_exchange* x) {
  bool limited = !(x->flags & SBX_HTTP_PATIENT) && !x->paused;

  sbx__exchange_due(x, limited ? sbx__now() + x->idle_ms : 0);
}

bool sbx__exchange_head(struct sbx_exchange* x) {
  if (retried(x)) return false;
  if (x->head.status == 407 && x->spec->proxy) {
    refuse_proxy(x);
    return false;
  }
  x->stage = SBX__BODY;
  start_idle(x);
  x->events.on_head(x->events.data, &x->head.view);
  return x->stage != SBX__OVER;
}

/* ---- what the transport says ---- */

static void on_open(void* data) {
  struct sbx_exchange* x = data;

  enter(x);
  sbx__socket_open(x);
  leave(x);
}

static void on_line(void* data, const char* line, size_t len) {
  struct sbx_exchange* x = data;
  int rc;

  if (x->stage == SBX__OVER) return;
  enter(x);
  rc = sbx__head_line(&x->head, line, len);
  if (rc > 0)
    sbx__exchange_head(x);
  else if (rc < 0)
    sbx__exchange_bad_head(x, rc);
  leave(x);
}

static void on_bytes(void* data, const char* bytes, size_t len) {
  struct sbx_exchange* x = data;

  if (x->stage == SBX__OVER) return;
  enter(x);
  if (x->socket) {
    sbx__socket_bytes(x, bytes, len);
  } else if (x->stage == SBX__BODY && sbx__exchange_count(x, len)) {
    start_idle(x);
    x->events.on_bytes(x->events.data, bytes, len);
  }
  leave(x);
}

static void on_done(void* data, const struct sbx_failure* failure) {
  struct sbx_exchange* x = data;
  struct sbx_failure cut = {.kind = SBX_FAIL_CLOSED, .sent = true, .text = ""};

  enter(x);
  if (x->socket)
    sbx__socket_done(x, failure);
  else if (failure)
    sbx__exchange_fail(x, failure);
  else if (x->stage != SBX__BODY)
    sbx__exchange_fail(x, &cut); /* a head without its end */
  else
    sbx__exchange_end(x, NULL);
  leave(x);
}

/* ---- the streamed body ---- */

static void drop_first(struct sbx_exchange* x) {
  struct sbx__chunk* chunk = x->first;

  x->first = chunk->next;
  if (!x->first) x->last = &x->first;
  x->offset = 0;
  free(chunk);
}

static size_t take(struct sbx_exchange* x, char* out, size_t len) {
  size_t done = 0;

  while (x->first && done < len) {
    size_t left = x->first->len - x->offset;
    size_t n = left < len - done ? left : len - done;
    memcpy(out + done, x->first->bytes + x->offset, n);
    done += n;
    x->offset += n;
    if (n == left) drop_first(x);
  }
  return done;
}

static ssize_t pull_body(struct sbx_exchange* x, char* out, size_t len) {
  size_t n = take(x, out, len);

  if (!n) return x->finished ? -1 : 0;
  x->pulled = true;
  if (x->stage == SBX__ATTEMPT) {
    x->head_due = sbx__now() + x->head_ms;
    sbx__exchange_due(x, x->head_due);
  }
  if (!x->first && !x->finished && x->events.on_drain)
    x->events.on_drain(x->events.data);
  return (ssize_t) n;
}

static ssize_t on_pull(void* data, char* out, size_t len) {
  struct sbx_exchange* x = data;
  ssize_t n;

  if (x->stage == SBX__OVER) return 0;
  enter(x);
  n = x->socket ? sbx__socket_pull(x, out, len) : pull_body(x, out, len);
  leave(x);
  return n;
}

static int put_chunk(struct sbx_exchange* x, const void* bytes, size_t len) {
  struct sbx__chunk* chunk;

  if (!len) return 0;
  chunk = malloc(sizeof(*chunk) + len);
  if (!chunk) return SBX_E_INTERNAL;
  chunk->next = NULL;
  chunk->len = len;
  memcpy(chunk->bytes, bytes, len);
  *x->last = chunk;
  x->last = &chunk->next;
  return 0;
}

static void wake(struct sbx_exchange* x) {
  if (x->transfer) x->http->ops->wake(x->transfer);
}

int sbx_exchange_send(struct sbx_exchange* x, const void* bytes, size_t len,
                      bool text) {
  int rc;

  if (x->stage == SBX__OVER || x->finished) return SBX_E_CONFLICT;
  if (x->socket)
    rc = sbx__socket_send(x, bytes, len, text);
  else if (x->spec->stream)
    rc = put_chunk(x, bytes, len);
  else
    return SBX_E_CONFLICT;
  if (!rc) wake(x);
  return rc;
}

int sbx_exchange_finish(struct sbx_exchange* x) {
  int rc = 0;

  if (x->stage == SBX__OVER || x->finished) return SBX_E_CONFLICT;
  x->finished = true;
  if (x->socket) rc = sbx__socket_finish(x);
  wake(x);
  return rc;
}

void sbx_exchange_pause(struct sbx_exchange* x, bool paused) {
  if (x->stage == SBX__OVER || x->paused == paused) return;
  x->paused = paused;
  if (x->transfer) x->http->ops->pause(x->transfer, paused);
  if (x->stage == SBX__BODY && !x->socket) start_idle(x);
}

/* ---- attempts ---- */

static const struct sbx_transfer_events transfer_events = {
    .on_open = on_open,
    .on_line = on_line,
    .on_bytes = on_bytes,
    .on_pull = on_pull,
    .on_done = on_done};

static int attempt(struct sbx_exchange* x) {
  struct sbx_transfer_events events = transfer_events;
  int rc;

  events.data = x;
  x->attempts++;
  x->stage = SBX__ATTEMPT;
  sbx__exchange_due(x, x->head_due);
  rc = x->http->ops->start(x->http->transport, x->spec, &events, &x->transfer);
  if (!rc && x->paused) x->http->ops->pause(x->transfer, true);
  return rc;
}

static void fail_memory(struct sbx_exchange* x) {
  struct sbx_failure failure = {.kind = SBX_FAIL_MEMORY, .text = ""};

  sbx__exchange_fail(x, &failure);
}

static void expire_stage(struct sbx_exchange* x) {
  if (x->stage == SBX__WAIT) {
    if (attempt(x)) fail_memory(x);
  } else if (x->stage == SBX__ATTEMPT) {
    expire(x, "no answer", x->head_ms);
  } else if (x->socket) {
    sbx__socket_expire(x);
  } else {
    expire(x, "nothing more", x->idle_ms);
  }
}

/* Something may have blocked the loop for longer than the limit: what came
 * meanwhile is read first. */
void sbx__exchange_expire(struct sbx_exchange* x) {
  if (x->stage != SBX__WAIT && !x->suspect) {
    sbx__exchange_due(x, sbx__now() + 2);
    x->suspect = true;
    return;
  }
  enter(x);
  expire_stage(x);
  leave(x);
}

/* ---- opening ---- */

static void fill(struct sbx_exchange* x, const struct sbx_http_request* r,
                 const struct sbx_http_events* events) {
  x->events = *events;
  x->flags = r->flags;
  x->last = &x->first;
  x->head_ms = r->head_ms ? r->head_ms : TIME_MS;
  x->idle_ms = r->idle_ms ? r->idle_ms : TIME_MS;
  x->max_body = r->max_body;
  x->head_due = sbx__now() + x->head_ms;
}

static int out_of_memory(struct sbx_error* error) {
  return sbx_error_set(error, SBX_E_INTERNAL, ENOMEM, "http", "out of memory");
}

static int choose_proxy(struct sbx_exchange* x, const struct sbx_url* url,
                        struct sbx_error* error) {
  const char* proxy = sbx__route_choose(&x->http->route, x->http->proxy, url,
                                        &x->proxy_name);

  if (!proxy) return 0;
  x->spec->proxy = sbx__route_check(proxy, x->proxy_name, error);
  return x->spec->proxy ? 0 : error->code;
}

static int start(struct sbx_exchange* x, const struct sbx_http_request* request,
                 struct sbx_error* error) {
  struct sbx_url url;
  int rc;

  x->spec = sbx__request_check(request, &url, error);
  if (!x->spec) return error->code;
  memcpy(x->host, url.host, sizeof(x->host));
  if ((rc = choose_proxy(x, &url, error))) return rc;
  if (x->spec->tunnel && sbx__socket_new(x, &url)) return out_of_memory(error);
  if ((rc = sbx__transport_need(x->http, error))) return rc;
  return attempt(x) ? out_of_memory(error) : 0;
}

int sbx_http_open(struct sbx_http* http, const struct sbx_http_request* request,
                  const struct sbx_http_events* events,
                  struct sbx_exchange** out, struct sbx_error* error) {
  struct sbx_exchange* x;
  struct sbx_error ignored;
  int rc;

  if (!error) error = &ignored;
  if (http->closing)
    return sbx_error_set(error, SBX_E_ABORTED, 0, "http", "%s: closed",
                         http->provider);
  x = calloc(1, sizeof(*x));
  if (!x) return out_of_memory(error);
  link_exchange(http, x);
  fill(x, request, events);
  rc = start(x, request, error);
  if (rc) {
    sbx_exchange_close(x);
    return rc;
  }
  *out = x;
  return 0;
}
