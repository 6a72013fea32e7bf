/* Multipart bodies: any cut gives the same parts; what is written with hostile
 * names and content is read back as one part with that content. */
#include "multipart.h"

static void check_trip(const char* text, size_t size) {
  char type[SBX_MULTIPART_TYPE_MAX];
  struct sbx_multipart_frame f;
  struct journal j = {0}, want = {0};
  struct sbx_multipart_events events = {&j, multipart_on_part,
                                        multipart_on_data,
                                        multipart_on_part_end};
  struct sbx_multipart* m;
  struct sbx_text body = {0};

  if (sbx_multipart_begin(&f) != 0) return;
  sbx_multipart_head(&f, &body, "file", "x", "text/plain");
  sbx_text_add(&body, text, size);
  sbx_multipart_tail(&f, &body);
  multipart_on_part(
      &want, &(struct sbx_multipart_part){"file", "x", "text/plain", -1});
  journal_data(&want, text, size);
  multipart_on_part_end(&want);
  if (sbx_multipart_new(sbx_multipart_type(&f, type), &events, &m) != 0)
    abort();
  if (sbx_multipart_feed(m, body.bytes, body.len) != 0 ||
      sbx_multipart_finish(m) != 0)
    abort();
  if (j.len != want.len || memcmp(j.bytes, want.bytes, j.len) != 0) abort();
  sbx_multipart_free(m);
  sbx_text_free(&body);
  free(j.bytes);
  free(want.bytes);
}

static void check_names(const char* text) {
  struct sbx_multipart_events events = {NULL, NULL, NULL, NULL};
  struct sbx_multipart_frame f;
  struct sbx_multipart* m;
  struct sbx_text head = {0};

  if (sbx_multipart_begin(&f) != 0) return;
  sbx_multipart_head(&f, &head, text, text, NULL);
  /* One header line, then the empty one. */
  for (size_t i = 0, lines = 0; i < head.len; i++)
    if (head.bytes[i] == '\n' && ++lines > 3) abort();
  sbx_text_free(&head);
  if (sbx_multipart_new(text, &events, &m) == 0) sbx_multipart_free(m);
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  char* text = malloc(size + 1);

  memcpy(text, data, size);
  text[size] = '\0';
  cuts_fuzz(&multipart_parser, data, size);
  check_trip(text, size);
  check_names(text);
  free(text);
  return 0;
}
