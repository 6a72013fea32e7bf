/* The reader of multipart bodies, for cuts.h. */
#include "../native/cuts.h"
#include "../../native/parse/multipart.h"

#define MULTIPART_CASE_TYPE \
  "multipart/form-data; boundary=DAYTONA-FILE-BOUNDARY"

static int multipart_on_part(void* arg, const struct sbx_multipart_part* p) {
  journal_event(arg, "name", p->name, strlen(p->name));
  journal_event(arg, "filename", p->filename, strlen(p->filename));
  journal_event(arg, "type", p->type, strlen(p->type));
  journal_number(arg, "length", p->length);
  return 0;
}

static int multipart_on_data(void* arg, const char* bytes, size_t len) {
  if (len == 0) abort();
  journal_data(arg, bytes, len);
  return 0;
}

static int multipart_on_part_end(void* arg) {
  journal_event(arg, "end", "", 0);
  return 0;
}

static void* multipart_make(struct journal* journal) {
  struct sbx_multipart_events events = {journal, multipart_on_part,
                                        multipart_on_data,
                                        multipart_on_part_end};
  struct sbx_multipart* m;

  if (sbx_multipart_new(MULTIPART_CASE_TYPE, &events, &m) != 0) abort();
  return m;
}

static int multipart_feed(void* parser, const char* bytes, size_t len) {
  return sbx_multipart_feed(parser, bytes, len);
}

static int multipart_finish(void* parser) {
  return sbx_multipart_finish(parser);
}

static void multipart_release(void* parser) {
  sbx_multipart_free(parser);
}

static const struct cut_parser multipart_parser = {
    multipart_make, multipart_feed, multipart_finish, multipart_release};
