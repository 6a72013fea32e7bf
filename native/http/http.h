/* HTTP exchanges and WebSockets on one loop.
 *
 * A client keeps connections and TLS sessions; one serves all sandboxes of a
 * loop that have the same proxy and CA. Beneath it stands one of two transports
 * with the same table: libcurl, loaded when first needed, or what the host of
 * the engine lends (transport.h). Redirects are never followed, only http,
 * https, ws and wss are spoken, and no header, token or query of a request ever
 * reaches an error's text.
 */
#ifndef SBX_HTTP_H
#define SBX_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "../error.h"

struct sbx_http;
struct sbx_exchange;
struct sbx_http_host; /* transport.h */

struct sbx_http_settings {
  const char* ca_file;  /* PEM that replaces the system's; NULL: environment
                           (NODE_EXTRA_CA_CERTS adds, SSL_CERT_FILE), system,
                           else the host's own roots */
  const char* proxy;    /* NULL: from the environment; "": none */
  const char* provider; /* for messages: "E2B"; static text */
  const struct sbx_http_host* host; /* what the engine's host lends, or NULL;
                                       outlives the client */
};

/* Starts nothing and loads nothing: the first exchange does. Its handles keep
 * no loop alive: the owner of an exchange does. The environment is read here:
 * HTTPS_PROXY, HTTP_PROXY, ALL_PROXY, NO_PROXY (also in lower case, which
 * wins), SSL_CERT_FILE, NODE_EXTRA_CA_CERTS, and SBX_HTTP_TRANSPORT ("libcurl"
 * or "host"; for tests). */
int sbx_http_new(uv_loop_t* loop, const struct sbx_http_settings* settings,
                 struct sbx_http** out);
/* Clients that are shared, of one loop; zeroed memory is an empty pool. */
struct sbx_http_pool {
  struct sbx_http* first;
};
/* The pool's client of the same settings and environment, a new one where there
 * is none. Each user ends his own exchanges, then calls leave; the last one,
 * for whom it returns true, closes it. */
int sbx_http_share(struct sbx_http_pool* pool, uv_loop_t* loop,
                   const struct sbx_http_settings* settings,
                   struct sbx_http** out);
bool sbx_http_leave(struct sbx_http* http);
/* Ends what is open, without events. `cb` when the memory is gone. */
void sbx_http_close(struct sbx_http* http, void (*cb)(void* arg), void* arg);

enum sbx_http_flag {
  /* Reading, or a call that may run twice: sent again after a failure or a
   * 429, 502, 503 or 504 answer while the deadline allows it, honouring
   * Retry-After. Without it only when no byte was sent, and after a 429 that
   * names a time. */
  SBX_HTTP_IDEMPOTENT = 1,
  SBX_HTTP_STREAM_BODY = 2, /* the body is what sbx_exchange_send brings */
  SBX_HTTP_PATIENT = 4      /* no idle limit: the answer may be silent for long */
};

struct sbx_http_request {
  const char* method;
  const char* url; /* ws: and wss: open a WebSocket */
  const char* const* headers; /* "Name: value"; a bad one is refused, and those
                                 of framing: Content-Length, Connection ... */
  size_t headers_len;
  const void* body;
  size_t body_len;
  int64_t stream_len; /* STREAM_BODY: bytes that will come, -1: unknown */
  unsigned flags;
  uint64_t head_ms; /* until the status line, with all retries; 0: 60 s. With
                       STREAM_BODY: since the last part of the body left */
  uint64_t idle_ms; /* between two reads of the body; 0: 60 s */
  uint64_t max_body; /* bytes after decoding; 0: no limit, and no compression.
                        Of a WebSocket: bytes of one message */
};

/* Valid during on_head. */
struct sbx_http_head {
  int status;
  const char* const* names; /* lower case */
  const char* const* values;
  size_t count; /* of all headers at most 256, 64 KiB together */
};

/* The first of that name (lower case), or NULL. */
const char* sbx_http_header(const struct sbx_http_head* head, const char* name);

struct sbx_http_events {
  void* data;
  void (*on_head)(void* data, const struct sbx_http_head* head);
  /* Cut anywhere. Of a WebSocket: part of a message's payload. */
  void (*on_bytes)(void* data, const char* bytes, size_t len);
  /* WebSocket: the message whose payload came is whole. */
  void (*on_message)(void* data, bool text);
  /* STREAM_BODY and WebSocket: what was sent has left; room for more. */
  void (*on_drain)(void* data);
  /* Once, the last; NULL where the answer came to its proper end. */
  void (*on_end)(void* data, const struct sbx_error* error);
};

/* Everything in `request` is copied. 0, or a negative code with `error` filled
 * and no event. Never calls back before it has returned. */
int sbx_http_open(struct sbx_http* http, const struct sbx_http_request* request,
                  const struct sbx_http_events* events,
                  struct sbx_exchange** out, struct sbx_error* error);

/* Part of the streamed body, or one WebSocket message; copied. 0, or a negative
 * code where the exchange takes no more. */
int sbx_exchange_send(struct sbx_exchange* x, const void* bytes, size_t len,
                      bool text);
/* End of the streamed body; of a WebSocket: the close frame. */
int sbx_exchange_finish(struct sbx_exchange* x);
/* Back-pressure: while paused nothing is read and no idle time counts. on_end
 * may still come where all bytes were handed out, or the connection broke. */
void sbx_exchange_pause(struct sbx_exchange* x, bool paused);
/* No further attempt: where it waits for one, it ends with SBX_E_ABORTED. */
void sbx_exchange_no_retry(struct sbx_exchange* x);
/* Gives it up at once: no more events, all memory and the connection (unless
 * others use it) go. Also needed after on_end, and allowed in any event. */
void sbx_exchange_close(struct sbx_exchange* x);

#endif
