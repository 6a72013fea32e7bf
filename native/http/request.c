/* Checks a request and copies it into what a transport takes: one block of
 * memory that attempts share. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "internal.h"

enum { HEADERS_MAX = 256, HEADER_MAX = 64 * 1024, CONNECT_MS = 15000 };

/* Names that say how a message is framed, and where it goes: the engine's. */
static const char* const reserved[] = {
    "Content-Length", "Transfer-Encoding", "Connection", "Upgrade",
    "Host",           "Expect",            "TE",         "Trailer",
    "Keep-Alive",     "Proxy-Connection",  "Accept-Encoding"};

struct sbx_transfer_spec* sbx__spec_ref(struct sbx_transfer_spec* spec) {
  spec->refs++;
  return spec;
}

void sbx__spec_unref(struct sbx_transfer_spec* spec) {
  if (!spec || --spec->refs) return;
  free((void*) spec->headers);
  free((void*) spec->body);
  free((void*) spec->url);
  free((void*) spec->proxy);
  free(spec);
}

static int refuse(struct sbx_error* error, const char* what) {
  return sbx_error_set(error, SBX_E_INVALID_INPUT, 0, "http", "%s", what);
}

static bool is_token(const char* text, size_t len) {
  for (size_t i = 0; i < len; i++) {
    unsigned char c = (unsigned char) text[i];
    if (!isalnum(c) && !strchr("!#$%&'*+-.^_`|~", c)) return false;
  }
  return len > 0;
}

static bool is_reserved(const char* name, size_t len) {
  for (size_t i = 0; i < sizeof(reserved) / sizeof(reserved[0]); i++)
    if (strlen(reserved[i]) == len && strncasecmp(reserved[i], name, len) == 0)
      return true;
  return false;
}

/* Its value is never shown: it may be a key. */
static int check_header(const char* header, struct sbx_error* error) {
  const char* colon = strchr(header, ':');
  size_t len = colon ? (size_t) (colon - header) : 0;

  if (!is_token(header, len))
    return refuse(error, "a request header must be \"Name: value\"");
  if (len > 100 || strlen(header) > HEADER_MAX)
    return refuse(error, "a request header is too long");
  if (is_reserved(header, len))
    return sbx_error_set(error, SBX_E_INVALID_INPUT, 0, "http",
                         "the request header %.*s is set by the engine",
                         (int) len, header);
  for (const char* p = colon + 1; *p; p++)
    if (((unsigned char) *p < ' ' && *p != '\t') || *p == 0x7f)
      return sbx_error_set(error, SBX_E_INVALID_INPUT, 0, "http",
                           "the value of the request header %.*s holds a "
                           "control character",
                           (int) len, header);
  return 0;
}

static int check(const struct sbx_http_request* r, struct sbx_url* url,
                 struct sbx_error* error) {
  const char* wrong = sbx_url_parse(r->url, strlen(r->url), url);

  if (wrong)
    return sbx_error_set(error, SBX_E_INVALID_INPUT, 0, "http",
                         "the address of a request %s", wrong);
  if (!r->method || !is_token(r->method, strlen(r->method)) ||
      strlen(r->method) > 32)
    return refuse(error, "the method of a request must be a token");
  if (r->headers_len > HEADERS_MAX)
    return refuse(error, "a request has more than 256 headers");
  for (size_t i = 0; i < r->headers_len; i++)
    if (check_header(r->headers[i], error)) return SBX_E_INVALID_INPUT;
  return 0;
}

/* An array of pointers, and behind it the texts and the method. */
static int copy_headers(struct sbx_transfer_spec* spec,
                        const struct sbx_http_request* r) {
  size_t size = (r->headers_len + 1) * sizeof(char*) + strlen(r->method) + 1;
  const char** pointers;
  char* at;

  for (size_t i = 0; i < r->headers_len; i++) size += strlen(r->headers[i]) + 1;
  pointers = malloc(size);
  if (!pointers) return UV_ENOMEM;
  at = (char*) (pointers + r->headers_len + 1);
  for (size_t i = 0; i < r->headers_len; i++) {
    pointers[i] = at;
    at = stpcpy(at, r->headers[i]) + 1;
  }
  stpcpy(at, r->method);
  spec->method = at;
  spec->headers = pointers;
  spec->headers_len = r->headers_len;
  return 0;
}

static int copy_body(struct sbx_transfer_spec* spec,
                     const struct sbx_http_request* r) {
  void* body;

  if (!r->body_len) return 0;
  body = malloc(r->body_len);
  if (!body) return UV_ENOMEM;
  memcpy(body, r->body, r->body_len);
  spec->body = body;
  spec->body_len = r->body_len;
  return 0;
}

/* Transports know "http" and "https": the scheme of a WebSocket becomes theirs. */
static int copy_url(struct sbx_transfer_spec* spec, const char* text,
                    const struct sbx_url* url) {
  const char* rest = text + strlen(url->scheme);
  size_t size = strlen(rest) + sizeof("https");
  char* copy = malloc(size);

  if (!copy) return UV_ENOMEM;
  snprintf(copy, size, "%s%s", url->tls ? "https" : "http", rest);
  spec->url = copy;
  return 0;
}

struct sbx_transfer_spec* sbx__request_check(const struct sbx_http_request* r,
                                             struct sbx_url* url,
                                             struct sbx_error* error) {
  struct sbx_transfer_spec* spec;

  if (check(r, url, error)) return NULL;
  spec = calloc(1, sizeof(*spec));
  if (!spec) goto memory;
  spec->refs = 1;
  if (copy_headers(spec, r) || copy_body(spec, r) || copy_url(spec, r->url, url))
    goto memory;
  spec->stream = r->flags & SBX_HTTP_STREAM_BODY;
  spec->stream_len = r->stream_len;
  spec->again = r->flags & SBX_HTTP_IDEMPOTENT;
  spec->decode = r->max_body != 0;
  spec->tunnel = url->scheme[0] == 'w';
  spec->connect_ms = CONNECT_MS;
  return spec;
memory:
  sbx__spec_unref(spec);
  sbx_error_set(error, SBX_E_INTERNAL, ENOMEM, "http", "out of memory");
  return NULL;
}
