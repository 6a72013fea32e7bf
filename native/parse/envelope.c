/* Connect's streaming envelopes. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "envelope.h"

static int broken(const struct sbx_envelope_reader* r, struct sbx_error* error,
                  const char* words) {
  return sbx_error_set(error, SBX_E_PROVIDER, 0, r->source.operation,
                       "%s's stream broke the Connect protocol: %s",
                       r->source.service, words);
}

static size_t limit(const struct sbx_envelope_reader* r) {
  return r->max != 0 ? r->max : SBX_ENVELOPE_MAX;
}

static int read_head(struct sbx_envelope_reader* r, struct sbx_error* error) {
  unsigned flags = r->head[0];

  r->want = (size_t) r->head[1] << 24 | (size_t) r->head[2] << 16 |
            (size_t) r->head[3] << 8 | r->head[4];
  if (flags & SBX_ENVELOPE_COMPRESSED)
    return broken(r, error, "it is compressed, which was not asked for");
  if (flags & ~(unsigned) SBX_ENVELOPE_END)
    return broken(r, error, "unknown flags");
  if (r->want > limit(r))
    return sbx_error_set(error, SBX_E_PROVIDER, 0, r->source.operation,
                         "%s's stream has a message of %zu bytes; at most %zu "
                         "are taken", r->source.service, r->want, limit(r));
  return 0;
}

static int trailer(struct sbx_envelope_reader* r, const char* bytes, size_t len,
                   struct sbx_error* error) {
  struct sbx_json_node root, inner = {NULL, NULL};
  struct sbx_fault fault;
  struct sbx_json* json;
  int rc;

  r->ended = true;
  rc = sbx_json_parse(bytes, len, &r->source, &json, error);
  if (rc != 0) return rc;
  root = sbx_json_root(json);
  rc = sbx_json_object(root, NULL, &root, error);
  if (rc == 0) rc = sbx_json_opt_object(root, "error", &inner, error);
  if (rc == 0 && inner.item != NULL) sbx_fault_of(inner, &fault);
  sbx_json_free(json);
  if (rc != 0) return rc;
  return r->on_end(r->data, inner.item != NULL ? &fault : NULL, error);
}

static int deliver(struct sbx_envelope_reader* r, const char* bytes,
                   struct sbx_error* error) {
  r->head_len = 0;
  r->held.len = 0;
  if (r->head[0] & SBX_ENVELOPE_END) return trailer(r, bytes, r->want, error);
  return r->on_message(r->data, bytes, r->want, error);
}

/* Bytes of a message; one that lies in one piece is not copied. */
static int take(struct sbx_envelope_reader* r, const char** at, size_t* len,
                struct sbx_error* error) {
  size_t missing = r->want - r->held.len;
  size_t n = missing < *len ? missing : *len;
  const char* whole = *at;

  if (r->held.len > 0 || n < missing) {
    sbx_text_add(&r->held, *at, n);
    if (r->held.failed)
      return sbx_error_set(error, SBX_E_INTERNAL, 0, r->source.operation,
                           "no memory for %s's stream", r->source.service);
    whole = r->held.bytes;
  }
  *at += n;
  *len -= n;
  return n == missing ? deliver(r, whole, error) : 0;
}

static int step(struct sbx_envelope_reader* r, const char** at, size_t* len,
                struct sbx_error* error) {
  int rc;

  if (r->ended) return broken(r, error, "bytes after its end");
  if (r->head_len == SBX_ENVELOPE_HEAD) return take(r, at, len, error);
  r->head[r->head_len++] = (unsigned char) **at;
  ++*at;
  --*len;
  if (r->head_len < SBX_ENVELOPE_HEAD) return 0;
  rc = read_head(r, error);
  return rc == 0 && r->want == 0 ? deliver(r, "", error) : rc;
}

int sbx_envelope_feed(struct sbx_envelope_reader* r, const char* bytes,
                      size_t len, struct sbx_error* error) {
  while (len > 0 && r->failed == 0) r->failed = step(r, &bytes, &len, error);
  return r->failed;
}

int sbx_envelope_finish(struct sbx_envelope_reader* r,
                        struct sbx_error* error) {
  if (r->failed != 0) return r->failed;
  if (r->ended) return 0;
  r->failed = sbx_error_set(error, SBX_E_UNAVAILABLE, 0, r->source.operation,
                            "%s's stream ended before it was complete",
                            r->source.service);
  return r->failed;
}

void sbx_envelope_free(struct sbx_envelope_reader* r) {
  sbx_text_free(&r->held);
}

char* sbx_envelope_encode(unsigned flags, const void* bytes, size_t len,
                          size_t* out_len) {
  struct sbx_text text = {0};
  char head[SBX_ENVELOPE_HEAD] = {(char) flags, (char) (len >> 24),
                                  (char) (len >> 16), (char) (len >> 8),
                                  (char) len};

  if (len > UINT32_MAX) return NULL;
  sbx_text_add(&text, head, sizeof(head));
  sbx_text_add(&text, bytes, len);
  return sbx_text_take(&text, out_len);
}
