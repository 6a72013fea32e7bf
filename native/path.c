/* What a user's spelling of a path means: one relative path per file, decided
 * on the text alone. */
#include "path.h"

#include <limits.h>
#include <string.h>

struct sbx__prefix {
  const char* text;
  size_t len;
};

/* The path as it grows: components joined by '/', without a leading one. */
struct sbx__spelling {
  char* out;
  size_t len;
  size_t size;
  size_t floor; /* length of the prefix it went through; ".." stops there */
};

static struct sbx__prefix sbx__prefix_of(const char* text) {
  struct sbx__prefix prefix = {"", 0};
  if (!text) return prefix;
  while (*text == '/') text++;
  prefix.text = text;
  prefix.len = strlen(text);
  while (prefix.len > 0 && text[prefix.len - 1] == '/') prefix.len--;
  return prefix;
}

static bool sbx__spelling_is(const struct sbx__spelling* s,
                             const struct sbx__prefix* prefix) {
  return prefix->len > 0 && s->len == prefix->len &&
         memcmp(s->out, prefix->text, prefix->len) == 0;
}

static int sbx__spelling_push(struct sbx__spelling* s, const char* part,
                              size_t len) {
  size_t slash = s->len > 0;
  if (s->len + slash + len + 1 > s->size) return -1;
  if (slash) s->out[s->len++] = '/';
  memcpy(s->out + s->len, part, len);
  s->len += len;
  return 0;
}

static int sbx__spelling_pop(struct sbx__spelling* s) {
  if (s->len == 0) return -1;
  while (s->len > 0 && s->out[s->len - 1] != '/') s->len--;
  if (s->len > 0) s->len--;
  return s->len < s->floor ? -1 : 0;
}

static int sbx__path_long(struct sbx_error* error, size_t size) {
  return sbx_error_set(error, SBX_E_INVALID_INPUT, 0, "files.path",
                       "The path is longer than %zu bytes; use a shorter one.",
                       size - 1);
}

static int sbx__path_leaves(struct sbx_error* error, const char* path,
                            size_t len) {
  return sbx_error_set(
      error, SBX_E_ACCESS, 0, "files.path",
      "%.*s leads out of the workspace; use a path relative to its root.",
      (int)(len > 512 ? 512 : len), path);
}

/* Drops the prefix that the path went through, "/workspace/a" -> "a". */
static void sbx__spelling_strip(struct sbx__spelling* s) {
  if (s->floor == 0) return;
  size_t cut = s->len == s->floor ? s->floor : s->floor + 1;
  memmove(s->out, s->out + cut, s->len - cut);
  s->len -= cut;
}

int sbx_path_relative(const struct sbx_place* place, const char* path,
                      size_t len, char* out, size_t size,
                      struct sbx_error* error) {
  if (memchr(path, 0, len))
    return sbx_error_set(error, SBX_E_INVALID_INPUT, 0, "files.path",
                         "The path holds a NUL byte; remove it.");
  if (size == 0) return sbx__path_long(error, 1);
  bool absolute = len > 0 && path[0] == '/';
  struct sbx__prefix inside = sbx__prefix_of(absolute ? place->inside : NULL);
  struct sbx__prefix host = sbx__prefix_of(absolute ? place->host : NULL);
  struct sbx__spelling s = {out, 0, size, 0};

  for (size_t at = 0; at < len;) {
    const char* part = path + at;
    const char* slash = memchr(part, '/', len - at);
    size_t part_len = slash ? (size_t)(slash - part) : len - at;
    at += part_len + 1;
    if (part_len == 0 || (part_len == 1 && part[0] == '.')) continue;
    if (part_len == 2 && part[0] == '.' && part[1] == '.') {
      if (sbx__spelling_pop(&s) < 0) return sbx__path_leaves(error, path, len);
      continue;
    }
    if (sbx__spelling_push(&s, part, part_len) < 0)
      return sbx__path_long(error, size);
    if (s.floor == 0 &&
        (sbx__spelling_is(&s, &inside) || sbx__spelling_is(&s, &host)))
      s.floor = s.len;
  }
  sbx__spelling_strip(&s);
  s.out[s.len] = 0;
  return 0;
}
