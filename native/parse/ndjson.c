/* One JSON value per line. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "ndjson.h"

#include <string.h>
#include <uv.h>

static bool is_blank(const char* line, size_t len) {
  for (size_t i = 0; i < len; i++)
    if (memchr(" \t\r", line[i], 3) == NULL) return false;
  return true;
}

static int on_line(void* data, const char* line, size_t len) {
  struct sbx_ndjson* n = data;
  struct sbx_json* json;
  int rc;

  if (is_blank(line, len)) return 0;
  rc = sbx_json_parse(line, len, &n->source, &json, n->error);
  if (rc != 0) return rc;
  rc = n->on_value(n->data, sbx_json_root(json), n->error);
  sbx_json_free(json);
  return rc;
}

/* The reader may have moved since the last call. */
static void settle(struct sbx_ndjson* n, struct sbx_error* error) {
  n->lines.max = n->max != 0 ? n->max : SBX_NDJSON_LINE_MAX;
  n->lines.data = n;
  n->lines.on_line = on_line;
  n->error = error;
}

static int tell(struct sbx_ndjson* n, int rc, struct sbx_error* error) {
  if (rc == UV_E2BIG)
    rc = sbx_error_set(error, SBX_E_PROVIDER, 0, n->source.operation,
                       "%s's stream has a line of more than %zu bytes",
                       n->source.service, n->lines.max);
  if (rc == UV_ENOMEM)
    rc = sbx_error_set(error, SBX_E_INTERNAL, 0, n->source.operation,
                       "no memory for %s's stream", n->source.service);
  n->failed = rc;
  return rc;
}

int sbx_ndjson_feed(struct sbx_ndjson* n, const char* bytes, size_t len,
                    struct sbx_error* error) {
  if (n->failed != 0) return n->failed;
  settle(n, error);
  return tell(n, sbx_lines_feed(&n->lines, bytes, len), error);
}

int sbx_ndjson_finish(struct sbx_ndjson* n, struct sbx_error* error) {
  struct sbx_json* json = NULL;
  bool open = n->lines.held.len > 0 &&
              !is_blank(n->lines.held.bytes, n->lines.held.len);

  if (n->failed != 0) return n->failed;
  settle(n, error);
  if (open && sbx_json_parse(n->lines.held.bytes, n->lines.held.len, &n->source,
                             &json, NULL) != 0)
    return n->failed = sbx_error_set(
               error, SBX_E_UNAVAILABLE, 0, n->source.operation,
               "%s's stream ended within a line", n->source.service);
  sbx_json_free(json);
  return tell(n, sbx_lines_finish(&n->lines), error);
}

void sbx_ndjson_free(struct sbx_ndjson* n) {
  sbx_lines_free(&n->lines);
}
