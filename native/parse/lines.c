/* Lines of a stream that is cut anywhere. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "lines.h"

#include <string.h>
#include <uv.h>

static const char* find_end(const struct sbx_lines* l, const char* at,
                            size_t len) {
  const char* lf = memchr(at, '\n', len);
  const char* cr;

  if (!l->lone_cr) return lf;
  cr = memchr(at, '\r', lf != NULL ? (size_t) (lf - at) : len);
  return cr != NULL ? cr : lf;
}

static int deliver(struct sbx_lines* l, const char* line, size_t len) {
  l->held.len = 0;
  if (!l->lone_cr && len > 0 && line[len - 1] == '\r') len--;
  return l->on_line(l->data, line, len);
}

/* One that lies in one piece is not copied. */
static int piece(struct sbx_lines* l, const char* at, size_t len, bool ends) {
  if (len > l->max - l->held.len) return UV_E2BIG;
  if (ends && l->held.len == 0) return deliver(l, at, len);
  sbx_text_add(&l->held, at, len);
  if (l->held.failed) return UV_ENOMEM;
  return ends ? deliver(l, l->held.bytes, l->held.len) : 0;
}

int sbx_lines_feed(struct sbx_lines* l, const char* bytes, size_t len) {
  const char* end = len > 0 ? bytes + len : bytes;

  while (bytes < end) {
    const char* stop;
    int rc;

    if (l->after_cr) {
      l->after_cr = false;
      if (*bytes == '\n' && ++bytes == end) return 0;
    }
    stop = find_end(l, bytes, (size_t) (end - bytes));
    rc = piece(l, bytes, (size_t) ((stop != NULL ? stop : end) - bytes),
               stop != NULL);
    if (rc != 0 || stop == NULL) return rc;
    l->after_cr = *stop == '\r';
    bytes = stop + 1;
  }
  return 0;
}

int sbx_lines_finish(struct sbx_lines* l) {
  return l->held.len > 0 ? deliver(l, l->held.bytes, l->held.len) : 0;
}

void sbx_lines_free(struct sbx_lines* l) {
  sbx_text_free(&l->held);
}
