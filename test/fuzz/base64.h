/* The streaming decoder of base64, for cuts.h. */
#include "../native/cuts.h"
#include "../../native/parse/base64.h"

struct base64_case {
  struct sbx_base64 decoder;
  struct journal* journal;
};

enum {
  BASE64_CASE_FLAGS = SBX_BASE64_URL | SBX_BASE64_BARE | SBX_BASE64_LINES
};

static void* base64_make(struct journal* journal) {
  struct base64_case* c = calloc(1, sizeof(*c));

  if (c == NULL) abort();
  c->journal = journal;
  return c;
}

static int base64_feed(void* parser, const char* bytes, size_t len) {
  struct base64_case* c = parser;
  char* out = malloc(SBX_BASE64_DECODED(len + 3));
  size_t out_len = 0;
  int rc = sbx_base64_feed(&c->decoder, bytes, len, BASE64_CASE_FLAGS, out,
                           &out_len);

  journal_data(c->journal, out, out_len);
  free(out);
  return rc;
}

static int base64_finish(void* parser) {
  struct base64_case* c = parser;
  char out[2];
  size_t out_len = 0;
  int rc = sbx_base64_finish(&c->decoder, BASE64_CASE_FLAGS, out, &out_len);

  journal_data(c->journal, out, out_len);
  return rc;
}

static const struct cut_parser base64_parser = {base64_make, base64_feed,
                                                base64_finish, free};
