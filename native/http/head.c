/* Collects the lines of an answer's head, within bounds. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "internal.h"

enum { BYTES_MAX = 64 * 1024, COUNT_MAX = 256, FIRST_SIZE = 2048 };

void sbx__head_free(struct sbx__head* h) {
  free(h->text);
  free(h->at);
  free(h->pointers);
  memset(h, 0, sizeof(*h));
}

static int make_room(struct sbx__head* h, size_t need) {
  size_t size = h->size ? h->size : FIRST_SIZE;
  char* text;

  if (!h->at) h->at = malloc(2 * COUNT_MAX * sizeof(*h->at));
  if (!h->at) return UV_ENOMEM;
  while (size < h->len + need) size *= 2;
  if (size == h->size) return 0;
  text = realloc(h->text, size);
  if (!text) return UV_ENOMEM;
  h->text = text;
  h->size = size;
  return 0;
}

static int start(struct sbx__head* h, const char* line, size_t len) {
  size_t i = 5;

  h->len = h->count = 0;
  h->status = 0;
  while (i < len && line[i] != ' ') i++;
  for (size_t digits = 0; digits < 3; digits++) {
    if (++i >= len || !isdigit((unsigned char) line[i])) return UV_EPROTO;
    h->status = h->status * 10 + (line[i] - '0');
  }
  return h->status < 100 ? UV_EPROTO : 0;
}

static uint32_t put(struct sbx__head* h, const char* text, size_t len) {
  uint32_t at = (uint32_t) h->len;

  memcpy(h->text + h->len, text, len);
  h->text[h->len + len] = '\0';
  h->len += len + 1;
  return at;
}

static void lower(char* text) {
  for (; *text; text++) *text = (char) tolower((unsigned char) *text);
}

static int add(struct sbx__head* h, const char* line, size_t len) {
  const char* colon = memchr(line, ':', len);
  const char* value;
  size_t name_len;

  /* A line that goes on with the one before, or none: of no use to anyone. */
  if (!colon || colon == line || *line == ' ' || *line == '\t') return 0;
  if (h->count == COUNT_MAX) return UV_E2BIG;
  if (make_room(h, len + 2)) return UV_ENOMEM;
  name_len = (size_t) (colon - line);
  value = colon + 1;
  len -= name_len + 1;
  for (; len && (*value == ' ' || *value == '\t'); value++) len--;
  while (len && (value[len - 1] == ' ' || value[len - 1] == '\t')) len--;
  h->at[2 * h->count] = put(h, line, name_len);
  lower(h->text + h->at[2 * h->count]);
  h->at[2 * h->count + 1] = put(h, value, len);
  h->count++;
  return 0;
}

static int complete(struct sbx__head* h) {
  h->pointers = malloc((2 * h->count + 1) * sizeof(*h->pointers));
  if (!h->pointers) return UV_ENOMEM;
  for (size_t i = 0; i < h->count; i++) {
    h->pointers[i] = h->text + h->at[2 * i];
    h->pointers[h->count + i] = h->text + h->at[2 * i + 1];
  }
  h->view.status = h->status;
  h->view.names = h->pointers;
  h->view.values = h->pointers + h->count;
  h->view.count = h->count;
  h->complete = true;
  return 1;
}

int sbx__head_line(struct sbx__head* h, const char* line, size_t len) {
  h->total += len;
  if (h->total > BYTES_MAX) return UV_E2BIG;
  if (h->complete) return 0;
  while (len && (line[len - 1] == '\n' || line[len - 1] == '\r')) len--;
  if (len >= 5 && memcmp(line, "HTTP/", 5) == 0) return start(h, line, len);
  if (!h->status) return UV_EPROTO;
  if (len) return add(h, line, len);
  if (h->status >= 200 || h->status == 101) return complete(h);
  return 0;
}

const char* sbx_http_header(const struct sbx_http_head* head,
                            const char* name) {
  for (size_t i = 0; i < head->count; i++)
    if (strcmp(head->names[i], name) == 0) return head->values[i];
  return NULL;
}
