/* Bytes that grow, and a quote of bytes that may be anything. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "text.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "utf8.h"

char* sbx_text_grow(struct sbx_text* t, size_t len) {
  char* at;

  if (t->failed) return NULL;
  if (t->size - t->len < len) {
    size_t size = t->size + len < 64 ? 64 : (t->size + len) * 2;
    char* more = len < SIZE_MAX / 4 - t->size ? realloc(t->bytes, size) : NULL;

    if (more == NULL) {
      t->failed = true;
      return NULL;
    }
    t->bytes = more;
    t->size = size;
  }
  at = t->bytes + t->len;
  t->len += len;
  return at;
}

void sbx_text_add(struct sbx_text* t, const void* bytes, size_t len) {
  char* at = len > 0 ? sbx_text_grow(t, len) : NULL;

  if (at != NULL) memcpy(at, bytes, len);
}

void sbx_text_puts(struct sbx_text* t, const char* s) {
  sbx_text_add(t, s, strlen(s));
}

char* sbx_text_take(struct sbx_text* t, size_t* len) {
  char* bytes;

  sbx_text_add(t, "", 1);
  if (t->failed) {
    sbx_text_free(t);
    return NULL;
  }
  bytes = t->bytes;
  if (len != NULL) *len = t->len - 1;
  *t = (struct sbx_text){0};
  return bytes;
}

void sbx_text_free(struct sbx_text* t) {
  free(t->bytes);
  *t = (struct sbx_text){0};
}

static bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static const char* find(const char* at, const char* end, const char* word) {
  size_t len = strlen(word);

  for (; (size_t) (end - at) >= len; at++)
    if (strncasecmp(at, word, len) == 0) return at;
  return NULL;
}

/* Narrows an HTML page to the text of its title; looks at its front only. */
static void narrow(const char** at, const char** end) {
  const char* limit = *end - *at > 4096 ? *at + 4096 : *end;
  const char* title = **at == '<' ? find(*at, limit, "<title>") : NULL;
  const char* stop = title != NULL ? find(title, limit, "</title>") : NULL;

  if (stop == NULL) return;
  *at = title + 7;
  *end = stop;
}

const char* sbx_text_quote(const void* bytes, size_t len,
                           char out[SBX_QUOTE_MAX]) {
  const char* at = bytes;
  const char* end = len > 0 ? at + len : at;
  size_t used = 0;

  while (at < end && is_blank(*at)) at++;
  if (at < end) narrow(&at, &end);
  while (at < end && is_blank(*at)) at++;
  while (at < end && *at != '\n' && *at != '\r') {
    bool valid;
    size_t n = sbx_utf8_next(at, (size_t) (end - at), &valid);
    bool control = (unsigned char) *at < 0x20 || *at == 0x7f ||
                   (n == 2 && (unsigned char) *at == 0xc2 &&
                    (unsigned char) at[1] < 0xa0);

    if (used + n + 4 > SBX_QUOTE_MAX) {
      memcpy(out + used, "...", 3);
      used += 3;
      break;
    }
    if (valid && !control) {
      memcpy(out + used, at, n);
      used += n;
    } else {
      out[used++] = '?';
    }
    at += n;
  }
  while (used > 0 && is_blank(out[used - 1])) used--;
  out[used] = '\0';
  return out;
}
