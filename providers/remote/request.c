/* Builds requests; see request.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "request.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../native/parse/envelope.h"

void sbx_request_init(struct sbx_request* r, const char* method,
                      const char* base, const char* path) {
  memset(r, 0, sizeof(*r));
  r->http.method = method;
  sbx_url_base(&r->url, base);
  sbx_url_path(&r->url, path);
}

void sbx_request_free(struct sbx_request* r) {
  for (size_t i = 0; i < r->http.headers_len; i++) free(r->headers[i]);
  free((char*) r->http.url);
  sbx_text_free(&r->url.text);
  free(r->body);
  memset(r, 0, sizeof(*r));
}

void sbx_request_header(struct sbx_request* r, const char* format, ...) {
  va_list args;
  char* text;
  int len;

  va_start(args, format);
  len = vasprintf(&text, format, args);
  va_end(args);
  if (len >= 0 && r->http.headers_len < SBX_REQUEST_HEADERS) {
    r->headers[r->http.headers_len++] = text;
    return;
  }
  if (len >= 0) free(text);
  r->failed = true;
}

static void put_body(struct sbx_request* r, char* body, size_t len) {
  free(r->body);
  r->http.body = r->body = body;
  r->http.body_len = len;
  if (body == NULL) r->failed = true;
}

void sbx_request_json(struct sbx_request* r, struct sbx_json_writer* w) {
  size_t len = 0;
  char* text = sbx_json_write_take(w, &len);

  put_body(r, text, len);
}

void sbx_request_envelope(struct sbx_request* r, struct sbx_json_writer* w) {
  size_t len = 0, whole = 0;
  char* text = sbx_json_write_take(w, &len);
  char* body = text == NULL ? NULL : sbx_envelope_encode(0, text, len, &whole);

  free(text);
  put_body(r, body, whole);
}

int sbx_request_ready(struct sbx_request* r) {
  if (r->http.url == NULL) r->http.url = sbx_url_take(&r->url);
  r->http.headers = (const char* const*) r->headers;
  return r->failed || r->http.url == NULL ? SBX_E_INTERNAL : 0;
}
