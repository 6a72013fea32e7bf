/* Server-sent events. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "sse.h"

#include <string.h>
#include <uv.h>

static bool is_name(const char* name, size_t len, const char* want) {
  return strlen(want) == len && memcmp(name, want, len) == 0;
}

static int keep(char* out, const char* value, size_t len) {
  if (len >= SBX_SSE_NAME_MAX) return UV_E2BIG;
  memcpy(out, value, len);
  out[len] = '\0';
  return 0;
}

/* Digits only; absurd ones are cut at a day. */
static void read_retry(struct sbx_sse* s, const char* value, size_t len) {
  const int64_t day = 24 * 3600 * 1000;
  int64_t ms = 0;

  if (len == 0) return;
  for (size_t i = 0; i < len; i++) {
    if (value[i] < '0' || value[i] > '9') return;
    if (ms <= day) ms = ms * 10 + (value[i] - '0');
  }
  s->retry_ms = ms < day ? ms : day;
}

static int field(struct sbx_sse* s, const char* name, size_t name_len,
                 const char* value, size_t len) {
  if (is_name(name, name_len, "data")) {
    if (len >= s->lines.max - s->data.len) return UV_E2BIG;
    sbx_text_add(&s->data, value, len);
    sbx_text_add(&s->data, "\n", 1);
    return s->data.failed ? UV_ENOMEM : 0;
  }
  if (is_name(name, name_len, "event")) return keep(s->type, value, len);
  if (is_name(name, name_len, "id") && memchr(value, '\0', len) == NULL)
    return keep(s->id, value, len);
  if (is_name(name, name_len, "retry")) read_retry(s, value, len);
  return 0;
}

static int dispatch(struct sbx_sse* s) {
  struct sbx_sse_event event;
  int rc;

  if (s->data.len == 0) {
    s->type[0] = '\0';
    return 0;
  }
  s->data.bytes[--s->data.len] = '\0';
  event = (struct sbx_sse_event){
      .type = s->type[0] != '\0' ? s->type : "message",
      .data = s->data.bytes,
      .len = s->data.len,
      .id = s->id};
  rc = s->on_event(s->arg, &event);
  s->data.len = 0;
  s->type[0] = '\0';
  return rc;
}

static int on_line(void* arg, const char* line, size_t len) {
  const char* colon = len > 0 ? memchr(line, ':', len) : NULL;
  const char* value = colon;

  if (len == 0) return dispatch(arg);
  if (colon == line) return 0;
  if (colon == NULL) return field(arg, line, len, "", 0);
  value = colon + 1;
  len -= (size_t) (value - line);
  if (len > 0 && *value == ' ') {
    value++;
    len--;
  }
  return field(arg, line, (size_t) (colon - line), value, len);
}

/* Takes the mark in front; what only began like it is a line's begin. */
static int skip_bom(struct sbx_sse* s, const char** bytes, size_t* len) {
  static const char mark[] = "\xef\xbb\xbf";
  unsigned seen = s->bom;

  while (*len > 0 && s->bom < 3 && **bytes == mark[s->bom]) {
    s->bom++;
    ++*bytes;
    --*len;
  }
  if (*len == 0 || s->bom == 3) return 0;
  seen = s->bom;
  s->bom = 3;
  return seen > 0 ? sbx_lines_feed(&s->lines, mark, seen) : 0;
}

int sbx_sse_feed(struct sbx_sse* s, const char* bytes, size_t len) {
  if (s->failed != 0) return s->failed;
  s->lines.max = s->max != 0 ? s->max : SBX_SSE_EVENT_MAX;
  s->lines.lone_cr = true;
  s->lines.data = s;
  s->lines.on_line = on_line;
  if (s->bom < 3) s->failed = skip_bom(s, &bytes, &len);
  if (s->failed == 0 && len > 0)
    s->failed = sbx_lines_feed(&s->lines, bytes, len);
  return s->failed;
}

void sbx_sse_free(struct sbx_sse* s) {
  sbx_lines_free(&s->lines);
  sbx_text_free(&s->data);
}
