/* The reader of JSON lines, for cuts.h. */
#include "../native/cuts.h"
#include "../../native/parse/ndjson.h"

struct ndjson_case {
  struct sbx_ndjson reader;
  struct journal* journal;
};

static int ndjson_on_value(void* data, struct sbx_json_node value,
                           struct sbx_error* error) {
  const char* text = "";

  (void) error;
  sbx_json_opt_string(value, "data", &text, NULL);
  journal_number(data, "value", (int64_t) sbx_json_count(value));
  journal_event(data, "text", text, strlen(text));
  return 0;
}

static void* ndjson_make(struct journal* journal) {
  struct ndjson_case* c = calloc(1, sizeof(*c));

  if (c == NULL) abort();
  c->reader.source = (struct sbx_json_source){"Vercel", "fuzz"};
  c->reader.max = 256;
  c->reader.data = journal;
  c->reader.on_value = ndjson_on_value;
  c->journal = journal;
  return c;
}

static int ndjson_say(struct ndjson_case* c, int rc,
                      const struct sbx_error* error) {
  if (rc != 0)
    journal_event(c->journal, "error", error->message, strlen(error->message));
  return rc;
}

static int ndjson_feed(void* parser, const char* bytes, size_t len) {
  struct ndjson_case* c = parser;
  struct sbx_error error = {0};

  return ndjson_say(c, sbx_ndjson_feed(&c->reader, bytes, len, &error), &error);
}

static int ndjson_finish(void* parser) {
  struct ndjson_case* c = parser;
  struct sbx_error error = {0};

  return ndjson_say(c, sbx_ndjson_finish(&c->reader, &error), &error);
}

static void ndjson_release(void* parser) {
  struct ndjson_case* c = parser;

  sbx_ndjson_free(&c->reader);
  free(c);
}

static const struct cut_parser ndjson_parser = {ndjson_make, ndjson_feed,
                                                ndjson_finish, ndjson_release};
