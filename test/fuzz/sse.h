/* The reader of server-sent events, for cuts.h. */
#include "../native/cuts.h"
#include "../../native/parse/sse.h"

struct sse_case {
  struct sbx_sse reader;
  struct journal* journal;
};

static int sse_on_event(void* arg, const struct sbx_sse_event* event) {
  if (event->data[event->len] != '\0') abort();
  journal_event(arg, "type", event->type, strlen(event->type));
  journal_event(arg, "body", event->data, event->len);
  journal_event(arg, "id", event->id, strlen(event->id));
  return 0;
}

static void* sse_make(struct journal* journal) {
  struct sse_case* c = calloc(1, sizeof(*c));

  if (c == NULL) abort();
  c->reader.max = 256;
  c->reader.arg = journal;
  c->reader.on_event = sse_on_event;
  c->journal = journal;
  return c;
}

static int sse_feed(void* parser, const char* bytes, size_t len) {
  return sbx_sse_feed(&((struct sse_case*) parser)->reader, bytes, len);
}

static int sse_finish(void* parser) {
  struct sse_case* c = parser;

  journal_number(c->journal, "retry", c->reader.retry_ms);
  return 0;
}

static void sse_release(void* parser) {
  sbx_sse_free(&((struct sse_case*) parser)->reader);
  free(parser);
}

static const struct cut_parser sse_parser = {sse_make, sse_feed, sse_finish,
                                             sse_release};
