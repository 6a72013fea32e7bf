/* The reader of envelopes, for cuts.h. */
#include "../native/cuts.h"
#include "../../native/parse/envelope.h"

struct envelope_case {
  struct sbx_envelope_reader reader;
  struct journal* journal;
};

static int envelope_on_message(void* data, const char* bytes, size_t len,
                               struct sbx_error* error) {
  (void) error;
  journal_event(data, "message", bytes, len);
  return 0;
}

static int envelope_on_end(void* data, const struct sbx_fault* fault,
                           struct sbx_error* error) {
  (void) error;
  journal_event(data, "end", fault != NULL ? fault->code : "",
                fault != NULL ? strlen(fault->code) : 0);
  return 0;
}

static void* envelope_make(struct journal* journal) {
  struct envelope_case* c = calloc(1, sizeof(*c));

  if (c == NULL) abort();
  c->reader.source = (struct sbx_json_source){"E2B", "fuzz"};
  c->reader.max = 1024;
  c->reader.data = journal;
  c->reader.on_message = envelope_on_message;
  c->reader.on_end = envelope_on_end;
  c->journal = journal;
  return c;
}

/* Errors are the same, too. */
static int envelope_say(struct envelope_case* c, int rc,
                        const struct sbx_error* error) {
  if (rc != 0)
    journal_event(c->journal, "error", error->message, strlen(error->message));
  return rc;
}

static int envelope_feed(void* parser, const char* bytes, size_t len) {
  struct envelope_case* c = parser;
  struct sbx_error error = {0};

  return envelope_say(c, sbx_envelope_feed(&c->reader, bytes, len, &error),
                      &error);
}

static int envelope_finish(void* parser) {
  struct envelope_case* c = parser;
  struct sbx_error error = {0};

  return envelope_say(c, sbx_envelope_finish(&c->reader, &error), &error);
}

static void envelope_release(void* parser) {
  struct envelope_case* c = parser;

  sbx_envelope_free(&c->reader);
  free(c);
}

static const struct cut_parser envelope_parser = {
    envelope_make, envelope_feed, envelope_finish, envelope_release};
