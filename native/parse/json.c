/* A bounded, strict JSON parse over cJSON, and getters that name the path.
 *
 * cJSON is lenient, and its strings end at the first NUL. So a scan of our own
 * comes first: it checks depth, count, numbers and bytes, and only where needed
 * it makes a copy, in which a NUL is C0 80, bytes that no valid text holds. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "json.h"

#include <cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../text.h"
#include "../utf8.h"

/* The largest integer below which a double holds every other one. */
#define EXACT_MAX INT64_C(9007199254740991)
#define NUL_MARK "\xc0\x80"
#define REPLACEMENT "\xef\xbf\xbd"

enum { PATH_TEXT_MAX = 200 };

struct sbx_json {
  cJSON* root;
  struct sbx_json_source source;
};

/* ---- the scan ---- */

struct scan {
  const char* at;
  const char* end;
  struct sbx_text* copy; /* NULL: only look */
  bool dirty;            /* a copy is needed */
  unsigned depth;
  size_t values;
  const char* wrong;
};

static void put(struct scan* s, const char* bytes, size_t len) {
  if (s->copy != NULL) sbx_text_add(s->copy, bytes, len);
}

static void keep(struct scan* s, size_t len) {
  put(s, s->at, len);
  s->at += len;
}

static void replace(struct scan* s, size_t len, const char* by) {
  put(s, by, strlen(by));
  s->at += len;
  s->dirty = true;
}

static size_t left(const struct scan* s) {
  return (size_t) (s->end - s->at);
}

static int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

/* The unit of "\uXXXX" at `at`, or -1. */
static int unit(const char* at, const char* end) {
  int value = 0;

  if (end - at < 6 || at[0] != '\\' || at[1] != 'u') return -1;
  for (int i = 2; i < 6; i++) {
    int digit = hex_digit(at[i]);

    if (digit < 0) return -1;
    value = value << 4 | digit;
  }
  return value;
}

static void escape(struct scan* s) {
  int first, second;

  if (left(s) < 2 || memchr("\"\\/bfnrtu", s->at[1], 9) == NULL) {
    s->wrong = "a bad escape";
    return;
  }
  if (s->at[1] != 'u') {
    keep(s, 2);
    return;
  }
  first = unit(s->at, s->end);
  second = left(s) > 6 ? unit(s->at + 6, s->end) : -1;
  if (first < 0)
    s->wrong = "a bad escape";
  else if (first == 0)
    replace(s, 6, NUL_MARK);
  else if (first < 0xd800 || first > 0xdfff)
    keep(s, 6);
  else if (first < 0xdc00 && second >= 0xdc00 && second <= 0xdfff)
    keep(s, 12);
  else
    replace(s, 6, REPLACEMENT);
}

static bool is_plain(char c) {
  return (unsigned char) c >= 0x20 && (unsigned char) c < 0x80 && c != '"' &&
         c != '\\';
}

#define EACH(byte) (UINT64_C(0x0101010101010101) * (byte))

/* The top bit of each byte that is 0; others behind the first may be wrong. */
static uint64_t zeros(uint64_t word) {
  return (word - EACH(1)) & ~word & EACH(0x80);
}

static bool is_plain_word(const char* at) {
  uint64_t word, low;

  memcpy(&word, at, sizeof(word));
  low = (word - EACH(0x20)) & ~word & EACH(0x80);
  return ((word & EACH(0x80)) | low | zeros(word ^ EACH('"')) |
          zeros(word ^ EACH('\\'))) == 0;
}

/* Output comes as long strings of base64. */
static void plain_run(struct scan* s) {
  const char* at = s->at;

  while (s->end - at >= 8 && is_plain_word(at)) at += 8;
  while (at < s->end && is_plain(*at)) at++;
  keep(s, (size_t) (at - s->at));
}

static void string(struct scan* s) {
  keep(s, 1);
  while (s->wrong == NULL) {
    bool valid;
    size_t n;

    plain_run(s);
    if (s->at == s->end) {
      s->wrong = "an open string";
    } else if (*s->at == '"') {
      keep(s, 1);
      return;
    } else if (*s->at == '\\') {
      escape(s);
    } else if ((unsigned char) *s->at < 0x20) {
      s->wrong = "a control character";
    } else {
      n = sbx_utf8_next(s->at, left(s), &valid);
      if (valid)
        keep(s, n);
      else
        replace(s, n, REPLACEMENT);
    }
  }
}

static const char* digits(const char* at, const char* end) {
  while (at < end && *at >= '0' && *at <= '9') at++;
  return at;
}

static void number(struct scan* s) {
  const char* at = s->at;
  const char* from;

  if (*at == '-') at++;
  from = at;
  at = digits(at, s->end);
  if (at == from || (*from == '0' && at - from > 1)) s->wrong = "a bad number";
  if (at < s->end && *at == '.') {
    from = ++at;
    at = digits(at, s->end);
    if (at == from) s->wrong = "a bad number";
  }
  if (at < s->end && (*at == 'e' || *at == 'E')) {
    at++;
    if (at < s->end && (*at == '+' || *at == '-')) at++;
    from = at;
    at = digits(at, s->end);
    if (at == from) s->wrong = "a bad number";
  }
  keep(s, (size_t) (at - s->at));
}

static void structure(struct scan* s) {
  char c = *s->at;

  if (c == '[' || c == '{') {
    s->values++;
    if (++s->depth > SBX_JSON_DEPTH_MAX) s->wrong = "too deep a nesting";
  } else if (c == ']' || c == '}') {
    if (s->depth-- == 0) s->wrong = "a stray bracket";
  } else if (c == ',') {
    s->values++;
  } else if ((unsigned char) c < 0x20 && memchr("\t\n\r", c, 3) == NULL) {
    s->wrong = "a control character";
  }
  if (s->values > SBX_JSON_VALUES_MAX) s->wrong = "too many values";
  keep(s, 1);
}

static void scan(struct scan* s) {
  while (s->at < s->end && s->wrong == NULL) {
    if (*s->at == '"')
      string(s);
    else if (*s->at == '-' || (*s->at >= '0' && *s->at <= '9'))
      number(s);
    else
      structure(s);
  }
  /* cJSON 1.7.15 reads behind the end of such an object. */
  if (s->wrong == NULL && s->depth > 0) s->wrong = "an open bracket";
}

/* ---- the parse ---- */

static bool only_blanks(const char* at, const char* end) {
  while (at < end && memchr(" \t\n\r", *at, 4) != NULL) at++;
  return at == end;
}

static cJSON* parse(const char* bytes, size_t len) {
  const char* end = NULL;
  cJSON* root = cJSON_ParseWithLengthOpts(bytes, len, &end, false);

  if (root == NULL || only_blanks(end, bytes + len)) return root;
  cJSON_Delete(root);
  return NULL;
}

/* What begins like JSON is never quoted: it may hold tokens. */
static int no_json(const struct sbx_json_source* source, const char* bytes,
                   size_t len, const char* wrong, struct sbx_error* error) {
  char quote[SBX_QUOTE_MAX];

  sbx_text_quote(bytes, len, quote);
  if (quote[0] == '\0')
    return sbx_error_set(error, SBX_E_PROVIDER, 0, source->operation,
                         "%s's answer is empty; JSON was expected",
                         source->service);
  if (strchr("{[\"", quote[0]) == NULL)
    return sbx_error_set(error, SBX_E_PROVIDER, 0, source->operation,
                         "%s's answer is not JSON: %s", source->service, quote);
  return sbx_error_set(error, SBX_E_PROVIDER, 0, source->operation,
                       "%s's answer of %zu bytes is not valid JSON: it %s%s",
                       source->service, len,
                       wrong != NULL ? "holds " : "is malformed",
                       wrong != NULL ? wrong : "");
}

static int out_of_memory(const struct sbx_json_source* source,
                         struct sbx_error* error) {
  return sbx_error_set(error, SBX_E_INTERNAL, 0, source->operation,
                       "no memory for %s's answer", source->service);
}

/* The text for cJSON: the bytes, or a copy in `copy`. */
static int prepare(const char** bytes, size_t* len, struct sbx_text* copy,
                   const struct sbx_json_source* source,
                   struct sbx_error* error) {
  struct scan s = {.at = *bytes, .end = *bytes + *len};

  if (*len > SBX_JSON_BYTES_MAX)
    return sbx_error_set(error, SBX_E_PROVIDER, 0, source->operation,
                         "%s's answer is longer than %d MiB", source->service,
                         SBX_JSON_BYTES_MAX >> 20);
  scan(&s);
  if (s.wrong != NULL) return no_json(source, *bytes, *len, s.wrong, error);
  if (!s.dirty) return 0;
  s = (struct scan){.at = *bytes, .end = *bytes + *len, .copy = copy};
  scan(&s);
  if (copy->failed) return out_of_memory(source, error);
  *bytes = copy->bytes;
  *len = copy->len;
  return 0;
}

int sbx_json_parse(const char* bytes, size_t len,
                   const struct sbx_json_source* source, struct sbx_json** out,
                   struct sbx_error* error) {
  struct sbx_text copy = {0};
  const char* text = bytes;
  size_t text_len = len;
  struct sbx_json* json;
  int rc;

  *out = NULL;
  if (len == 0) return no_json(source, "", 0, NULL, error);
  rc = prepare(&text, &text_len, &copy, source, error);
  json = rc == 0 ? calloc(1, sizeof(*json)) : NULL;
  if (rc == 0 && json == NULL) rc = out_of_memory(source, error);
  if (rc == 0) {
    json->source = *source;
    json->root = parse(text, text_len);
    if (json->root == NULL) rc = no_json(source, bytes, len, NULL, error);
  }
  sbx_text_free(&copy);
  if (rc == 0)
    *out = json;
  else
    free(json);
  return rc;
}

void sbx_json_free(struct sbx_json* json) {
  if (json == NULL) return;
  cJSON_Delete(json->root);
  free(json);
}

/* ---- walking ---- */

static struct sbx_json_node node(const struct sbx_json* json,
                                 const cJSON* item) {
  return (struct sbx_json_node){json, item};
}

struct sbx_json_node sbx_json_root(const struct sbx_json* json) {
  return node(json, json->root);
}

static const cJSON* item_of(struct sbx_json_node n) {
  return n.item;
}

static const cJSON* child_of(struct sbx_json_node n) {
  const cJSON* item = n.item;

  return cJSON_IsObject(item) || cJSON_IsArray(item) ? item->child : NULL;
}

struct sbx_json_node sbx_json_get(struct sbx_json_node n, const char* name) {
  const cJSON* found = NULL;

  if (!cJSON_IsObject(item_of(n))) return node(n.json, NULL);
  for (const cJSON* at = child_of(n); at != NULL; at = at->next)
    if (strcmp(at->string, name) == 0) found = at;
  return node(n.json, cJSON_IsNull(found) ? NULL : found);
}

struct sbx_json_node sbx_json_first(struct sbx_json_node n) {
  return node(n.json, child_of(n));
}

struct sbx_json_node sbx_json_next(struct sbx_json_node n) {
  return node(n.json, n.item == NULL ? NULL : item_of(n)->next);
}

size_t sbx_json_count(struct sbx_json_node n) {
  size_t count = 0;

  for (const cJSON* at = child_of(n); at != NULL; at = at->next) count++;
  return count;
}

const char* sbx_json_key(struct sbx_json_node n) {
  const char* key = n.item == NULL ? NULL : item_of(n)->string;

  return key != NULL && strstr(key, NUL_MARK) != NULL ? "" : key;
}

bool sbx_json_is_string(struct sbx_json_node n) {
  return cJSON_IsString(item_of(n));
}

/* ---- errors ---- */

static bool is_word(const char* key) {
  if (*key == '\0') return false;
  for (; *key != '\0'; key++)
    if (!((*key >= '0' && *key <= '9') || (*key >= 'a' && *key <= 'z') ||
          (*key >= 'A' && *key <= 'Z') || *key == '_' || *key == '-'))
      return false;
  return true;
}

/* Of a key that may be long, cut between code points. */
static int shown(const char* key) {
  size_t len = strnlen(key, 40);

  return (int) (len - sbx_utf8_tail(key, len));
}

static void add_step(char* path, const char* key, size_t index) {
  size_t used = strlen(path);
  size_t room = PATH_TEXT_MAX - used;

  if (key == NULL)
    snprintf(path + used, room, "[%zu]", index);
  else if (is_word(key))
    snprintf(path + used, room, "%s%s", used > 0 ? "." : "", key);
  else
    snprintf(path + used, room, "[\"%.*s\"]", shown(key), key);
  used = strlen(path);
  path[used - sbx_utf8_tail(path, used)] = '\0';
}

/* Items know no parents: the tree is searched, for a message only. */
static bool find_path(const cJSON* at, const cJSON* want, char* path) {
  size_t used = strlen(path);
  size_t index = 0;

  if (at == want) return true;
  for (const cJSON* child = at->child; child != NULL; child = child->next) {
    if (child == want || child->child != NULL) {
      add_step(path, child->string, index);
      if (find_path(child, want, path)) return true;
      path[used] = '\0';
    }
    index++;
  }
  return false;
}

/* The path of the member, "" for the whole answer. */
static void path_of(struct sbx_json_node n, const char* name, char* path) {
  path[0] = '\0';
  if (n.item != NULL) find_path(n.json->root, item_of(n), path);
  if (name != NULL) add_step(path, name, 0);
}

static const char* type_of(const cJSON* item) {
  switch (item->type & 0xff) {
    case cJSON_Object: return "an object";
    case cJSON_Array: return "an array";
    case cJSON_String: return "a string";
    case cJSON_Number: return "a number";
    case cJSON_NULL: return "null";
    default: return "a boolean";
  }
}

static int missing(struct sbx_json_node n, const char* name, const char* type,
                   struct sbx_error* error) {
  const struct sbx_json_source* source = &n.json->source;
  char path[PATH_TEXT_MAX];

  path_of(n, name, path);
  return sbx_error_set(error, SBX_E_PROVIDER, 0, source->operation,
                       "%s's answer has no %s %s", source->service, type, path);
}

int sbx_json_refuse(struct sbx_json_node n, const char* name, const char* words,
                    struct sbx_error* error) {
  const struct sbx_json_source* source = &n.json->source;
  char path[PATH_TEXT_MAX];

  path_of(n, name, path);
  return sbx_error_set(error, SBX_E_PROVIDER, 0, source->operation,
                       "%s's answer%s%s %s", source->service,
                       path[0] != '\0' ? ": " : "", path, words);
}

static int wrong_type(struct sbx_json_node n, const char* name,
                      const cJSON* item, const char* type,
                      struct sbx_error* error) {
  char words[64];

  snprintf(words, sizeof(words), "is %s, not %s %s", type_of(item),
           strchr("aio", type[0]) != NULL ? "an" : "a", type);
  return sbx_json_refuse(n, name, words, error);
}

/* ---- getters ---- */

/* The member of that type; *out is NULL where it may be absent and is. */
static int fetch(struct sbx_json_node n, const char* name, int type,
                 const char* type_name, bool optional, const cJSON** out,
                 struct sbx_error* error) {
  const cJSON* item = item_of(n);

  *out = NULL;
  if (name != NULL) {
    if (item != NULL && !cJSON_IsObject(item))
      return wrong_type(n, NULL, item, "object", error);
    item = sbx_json_get(n, name).item;
  }
  if (item == NULL || (cJSON_IsNull(item) && optional))
    return optional ? 0 : missing(n, name, type_name, error);
  if ((item->type & type) == 0)
    return wrong_type(n, name, item, type_name, error);
  *out = item;
  return 0;
}

static int get_string(struct sbx_json_node n, const char* name, bool optional,
                      const char** out, struct sbx_error* error) {
  const cJSON* item;
  int rc = fetch(n, name, cJSON_String, "string", optional, &item, error);

  if (rc != 0 || item == NULL) return rc;
  if (strstr(item->valuestring, NUL_MARK) != NULL)
    return sbx_json_refuse(n, name, "holds a NUL", error);
  *out = item->valuestring;
  return 0;
}

static int get_node(struct sbx_json_node n, const char* name, int type,
                    const char* type_name, bool optional,
                    struct sbx_json_node* out, struct sbx_error* error) {
  const cJSON* item;
  int rc = fetch(n, name, type, type_name, optional, &item, error);

  if (rc == 0 && item != NULL) *out = node(n.json, item);
  return rc;
}

static int get_bool(struct sbx_json_node n, const char* name, bool optional,
                    bool* out, struct sbx_error* error) {
  const cJSON* item;
  int rc = fetch(n, name, cJSON_True | cJSON_False, "boolean", optional, &item,
                 error);

  if (rc == 0 && item != NULL) *out = cJSON_IsTrue(item);
  return rc;
}

static bool parse_digits(const char* text, int64_t* out) {
  bool negative = *text == '-';
  size_t len;
  int64_t value = 0;

  if (negative) text++;
  len = strlen(text);
  if (len == 0 || (*text == '0' && len > 1)) return false;
  for (; *text != '\0'; text++) {
    int digit = *text - '0';

    if (digit < 0 || digit > 9) return false;
    if (__builtin_mul_overflow(value, 10, &value) ||
        __builtin_sub_overflow(value, digit, &value))
      return false;
  }
  return negative || !__builtin_sub_overflow(0, value, &value)
             ? (*out = value, true)
             : false;
}

static bool to_integer(const cJSON* item, int64_t* out) {
  double value = item->valuedouble;

  if (cJSON_IsString(item)) return parse_digits(item->valuestring, out);
  if (!(value >= -(double) EXACT_MAX && value <= (double) EXACT_MAX))
    return false;
  *out = (int64_t) value;
  return (double) *out == value;
}

static int get_integer(struct sbx_json_node n, const char* name, bool optional,
                       int64_t min, int64_t max, int64_t* out,
                       struct sbx_error* error) {
  const cJSON* item;
  char words[96];
  int64_t value;
  int rc = fetch(n, name, cJSON_Number | cJSON_String, "integer", optional,
                 &item, error);

  if (rc != 0 || item == NULL) return rc;
  if (to_integer(item, &value) && value >= min && value <= max) {
    *out = value;
    return 0;
  }
  snprintf(words, sizeof(words), "is no integer from %lld to %lld",
           (long long) min, (long long) max);
  return sbx_json_refuse(n, name, words, error);
}

int sbx_json_string(struct sbx_json_node n, const char* name, const char** out,
                    struct sbx_error* error) {
  return get_string(n, name, false, out, error);
}

int sbx_json_opt_string(struct sbx_json_node n, const char* name,
                        const char** out, struct sbx_error* error) {
  return get_string(n, name, true, out, error);
}

int sbx_json_object(struct sbx_json_node n, const char* name,
                    struct sbx_json_node* out, struct sbx_error* error) {
  return get_node(n, name, cJSON_Object, "object", false, out, error);
}

int sbx_json_opt_object(struct sbx_json_node n, const char* name,
                        struct sbx_json_node* out, struct sbx_error* error) {
  return get_node(n, name, cJSON_Object, "object", true, out, error);
}

int sbx_json_array(struct sbx_json_node n, const char* name,
                   struct sbx_json_node* out, struct sbx_error* error) {
  return get_node(n, name, cJSON_Array, "array", false, out, error);
}

int sbx_json_opt_array(struct sbx_json_node n, const char* name,
                       struct sbx_json_node* out, struct sbx_error* error) {
  return get_node(n, name, cJSON_Array, "array", true, out, error);
}

int sbx_json_bool(struct sbx_json_node n, const char* name, bool* out,
                  struct sbx_error* error) {
  return get_bool(n, name, false, out, error);
}

int sbx_json_opt_bool(struct sbx_json_node n, const char* name, bool* out,
                      struct sbx_error* error) {
  return get_bool(n, name, true, out, error);
}

int sbx_json_integer(struct sbx_json_node n, const char* name, int64_t min,
                     int64_t max, int64_t* out, struct sbx_error* error) {
  return get_integer(n, name, false, min, max, out, error);
}

int sbx_json_opt_integer(struct sbx_json_node n, const char* name, int64_t min,
                         int64_t max, int64_t* out, struct sbx_error* error) {
  return get_integer(n, name, true, min, max, out, error);
}

int sbx_json_number(struct sbx_json_node n, const char* name, double* out,
                    struct sbx_error* error) {
  const cJSON* item;
  int rc = fetch(n, name, cJSON_Number, "number", false, &item, error);

  if (rc != 0 || item == NULL) return rc;
  if (!isfinite(item->valuedouble))
    return sbx_json_refuse(n, name, "is too large a number", error);
  *out = item->valuedouble;
  return 0;
}

int sbx_json_bytes(struct sbx_json_node n, const char* name, char** out,
                   size_t* len, struct sbx_error* error) {
  struct sbx_text text = {0};
  const char* at;
  const char* mark;
  const cJSON* item;
  int rc = fetch(n, name, cJSON_String, "string", false, &item, error);

  if (rc != 0 || item == NULL) return rc;
  at = item->valuestring;
  while ((mark = strstr(at, NUL_MARK)) != NULL) {
    sbx_text_add(&text, at, (size_t) (mark - at));
    sbx_text_add(&text, "", 1);
    at = mark + 2;
  }
  sbx_text_puts(&text, at);
  *out = sbx_text_take(&text, len);
  return *out != NULL ? 0 : out_of_memory(&n.json->source, error);
}
