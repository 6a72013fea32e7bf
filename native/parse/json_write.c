/* JSON straight into bytes. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "json_write.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base64.h"
#include "../utf8.h"

static bool is_plain(unsigned char c) {
  return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

static void put_escape(struct sbx_text* t, unsigned char c) {
  static const char from[] = "\"\\\b\f\n\r\t";
  static const char to[] = "\"\\bfnrt";
  const char* at = c != 0 ? strchr(from, c) : NULL;
  char text[8];

  if (at != NULL)
    snprintf(text, sizeof(text), "\\%c", to[at - from]);
  else
    snprintf(text, sizeof(text), "\\u%04x", c);
  sbx_text_puts(t, text);
}

static void put_string(struct sbx_text* t, const char* at, size_t len) {
  const char* end = at + len;

  sbx_text_add(t, "\"", 1);
  while (at < end) {
    const char* from = at;
    bool valid;
    size_t n;

    while (at < end && is_plain((unsigned char) *at)) at++;
    sbx_text_add(t, from, (size_t) (at - from));
    if (at == end) break;
    n = sbx_utf8_next(at, (size_t) (end - at), &valid);
    if ((unsigned char) *at < 0x80)
      put_escape(t, (unsigned char) *at);
    else
      sbx_text_add(t, valid ? at : "\xef\xbf\xbd", valid ? n : 3);
    at += n;
  }
  sbx_text_add(t, "\"", 1);
}

/* What stands before a value. Inside an object every value has a key, elsewhere
 * none has; of the whole there is one. */
static void lead(struct sbx_json_writer* w, const char* key) {
  bool inside = w->depth > 0 && w->close[w->depth - 1] == '}';

  if (inside != (key != NULL) || (w->depth == 0 && w->text.len > 0))
    w->text.failed = true;
  if (w->comma) sbx_text_add(&w->text, ",", 1);
  w->comma = true;
  if (key == NULL) return;
  put_string(&w->text, key, strlen(key));
  sbx_text_add(&w->text, ":", 1);
}

static void open_with(struct sbx_json_writer* w, const char* key,
                      const char* pair) {
  lead(w, key);
  if (w->depth == SBX_JSON_WRITE_DEPTH) {
    w->text.failed = true;
    return;
  }
  sbx_text_add(&w->text, pair, 1);
  w->close[w->depth++] = pair[1];
  w->comma = false;
}

void sbx_json_write_object(struct sbx_json_writer* w, const char* key) {
  open_with(w, key, "{}");
}

void sbx_json_write_array(struct sbx_json_writer* w, const char* key) {
  open_with(w, key, "[]");
}

void sbx_json_write_end(struct sbx_json_writer* w) {
  if (w->depth == 0) {
    w->text.failed = true;
    return;
  }
  sbx_text_add(&w->text, &w->close[--w->depth], 1);
  w->comma = true;
}

void sbx_json_write_bytes(struct sbx_json_writer* w, const char* key,
                          const void* bytes, size_t len) {
  lead(w, key);
  put_string(&w->text, len > 0 ? bytes : "", len);
}

void sbx_json_write_string(struct sbx_json_writer* w, const char* key,
                           const char* value) {
  sbx_json_write_bytes(w, key, value, strlen(value));
}

void sbx_json_write_base64(struct sbx_json_writer* w, const char* key,
                           const void* bytes, size_t len) {
  char* at;

  lead(w, key);
  sbx_text_add(&w->text, "\"", 1);
  at = sbx_text_grow(&w->text, SBX_BASE64_ENCODED(len));
  if (at != NULL) sbx_base64_encode(bytes, len, 0, at);
  sbx_text_add(&w->text, "\"", 1);
}

static void put_word(struct sbx_json_writer* w, const char* key,
                     const char* word) {
  lead(w, key);
  sbx_text_puts(&w->text, word);
}

void sbx_json_write_integer(struct sbx_json_writer* w, const char* key,
                            int64_t value) {
  char text[24];

  snprintf(text, sizeof(text), "%lld", (long long) value);
  put_word(w, key, text);
}

void sbx_json_write_number(struct sbx_json_writer* w, const char* key,
                           double value) {
  char text[40];
  char* comma;

  if (!isfinite(value)) {
    sbx_json_write_null(w, key);
    return;
  }
  /* 15 digits where they are enough: 0.1, not 0.10000000000000001. */
  snprintf(text, sizeof(text), "%.15g", value);
  if (strtod(text, NULL) != value)
    snprintf(text, sizeof(text), "%.17g", value);
  comma = strchr(text, ','); /* of a locale */
  if (comma != NULL) *comma = '.';
  put_word(w, key, text);
}

void sbx_json_write_bool(struct sbx_json_writer* w, const char* key,
                         bool value) {
  put_word(w, key, value ? "true" : "false");
}

void sbx_json_write_null(struct sbx_json_writer* w, const char* key) {
  put_word(w, key, "null");
}

char* sbx_json_write_take(struct sbx_json_writer* w, size_t* len) {
  char* bytes;

  if (w->depth > 0 || w->text.len == 0) w->text.failed = true;
  bytes = sbx_text_take(&w->text, len);
  *w = (struct sbx_json_writer){0};
  return bytes;
}
