/* What carries one attempt of an exchange: connections, TLS and HTTP framing.
 *
 * http.c judges requests, retries, deadlines and bounds; a transport only moves
 * bytes. There are two, libcurl (transport_curl.c) and what the host of the
 * engine lends (struct sbx_http_host): under Node that is node:http and
 * node:tls, for machines without libcurl.
 */
#ifndef SBX_TRANSPORT_H
#define SBX_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "../error.h"

struct sbx_http_pool;
struct sbx_transport; /* one per client: its connections */
struct sbx_transfer;  /* one attempt */

/* What went wrong below HTTP. */
enum sbx_failure_kind {
  SBX_FAIL_RESOLVE = 1, /* the name */
  SBX_FAIL_CONNECT,
  SBX_FAIL_CONNECT_TIME,
  SBX_FAIL_TLS,
  SBX_FAIL_PROXY,      /* it could not be used or refused the way */
  SBX_FAIL_PROXY_AUTH, /* 407; of a SOCKS proxy `text` says so */
  SBX_FAIL_CLOSED,     /* reset or ended before its proper end */
  SBX_FAIL_PROTOCOL,   /* what came is no HTTP */
  SBX_FAIL_DECODE,     /* Content-Encoding */
  SBX_FAIL_UNSUPPORTED, /* by this transport; text says what and the remedy */
  SBX_FAIL_MEMORY,
  SBX_FAIL_OTHER
};

struct sbx_failure {
  enum sbx_failure_kind kind;
  int sys;          /* errno behind it, 0 if none */
  bool sent;        /* the request, or part of it, may have reached the server */
  const char* text; /* reason in words, "" if none; never the request's */
};

struct sbx_transport_config {
  uv_loop_t* loop;
  const char* ca_file; /* PEM; NULL with ca_len 0: the transport's own */
  const void* ca_pem;  /* used in place of a file where ca_len is not 0 */
  size_t ca_len;
};

/* Shared: a transfer keeps a reference for as long as it may look. */
struct sbx_transfer_spec {
  unsigned refs;
  const char* method;
  const char* url; /* http: or https: */
  const char* const* headers;
  size_t headers_len;
  const void* body;
  size_t body_len;
  bool stream;        /* the body is pulled */
  int64_t stream_len; /* -1: unknown */
  bool decode;        /* ask for compressed answers and hand out plain ones */
  bool again;         /* may be sent again on a new connection where a kept one
                         turns out dead */
  bool tunnel;        /* no HTTP: bytes both ways to the host and port of url */
  const char* proxy;  /* URL, NULL: none */
  uint64_t connect_ms;
};

struct sbx_transfer_spec* sbx__spec_ref(struct sbx_transfer_spec* spec);
void sbx__spec_unref(struct sbx_transfer_spec* spec);

/* None comes before `start` has returned, nor after `end`, which is allowed in
 * each. */
struct sbx_transfer_events {
  void* data;
  /* Tunnel: it stands; the first event. */
  void (*on_open)(void* data);
  /* A status line, a header ("Name: value") or an empty line, without or with
   * its line end; also of interim answers and trailers. */
  void (*on_line)(void* data, const char* line, size_t len);
  void (*on_bytes)(void* data, const char* bytes, size_t len);
  /* Body or tunnel: up to `len` bytes into `out`. 0: none now, `wake` says when;
   * -1: no more will come. */
  ssize_t (*on_pull)(void* data, char* out, size_t len);
  /* The last; NULL: proper end. */
  void (*on_done)(void* data, const struct sbx_failure* failure);
};

struct sbx_transport_ops {
  const char* name;
  /* 0, or a negative code with `error` filled. Copies the config. `lender` is
   * the host's. */
  int (*open)(void* lender, const struct sbx_transport_config* config,
              struct sbx_transport** out, struct sbx_error* error);
  /* Every transfer has been ended. `cb` when all memory is gone. */
  void (*close)(struct sbx_transport* t, void (*cb)(void* arg), void* arg);
  /* 0 or UV_ENOMEM. */
  int (*start)(struct sbx_transport* t, struct sbx_transfer_spec* spec,
               const struct sbx_transfer_events* events,
               struct sbx_transfer** out);
  /* While paused on_bytes does not come, nor much is read. */
  void (*pause)(struct sbx_transfer* x, bool paused);
  void (*wake)(struct sbx_transfer* x); /* there is something to pull */
  /* Gives it up and frees it; also needed after on_done. */
  void (*end)(struct sbx_transfer* x);
};

/* What the host of the engine lends; every field may be NULL. */
struct sbx_http_host {
  const struct sbx_transport_ops* ops;
  void* lender;
  /* The host's own CA roots as PEM, valid until the next call. */
  const char* (*roots)(void* lender, size_t* len);
  struct sbx_http_pool* pool; /* http.h; of the host's loop */
};

extern const struct sbx_transport_ops sbx_transport_curl;

#endif
