/* Typed getters of a parsed answer. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "json_internal.h"

/* The largest integer below which a double holds every other one. */
#define EXACT_MAX INT64_C(9007199254740991)

/* The member of that type; *out is NULL where it may be absent and is. */
static int fetch(struct sbx_json_node n, const char* name, int type,
                 const char* type_name, bool optional, const cJSON** out,
                 struct sbx_error* error) {
  const cJSON* item = sbx__json_item(n);

  *out = NULL;
  if (name != NULL) {
    if (item != NULL && !cJSON_IsObject(item))
      return sbx__json_wrong_type(n, NULL, item, "object", error);
    item = sbx_json_get(n, name).item;
  }
  if (item == NULL || (cJSON_IsNull(item) && optional))
    return optional ? 0 : sbx__json_missing(n, name, type_name, error);
  if ((item->type & type) == 0)
    return sbx__json_wrong_type(n, name, item, type_name, error);
  *out = item;
  return 0;
}

static int get_string(struct sbx_json_node n, const char* name, bool optional,
                      const char** out, struct sbx_error* error) {
  const cJSON* item;
  int rc = fetch(n, name, cJSON_String, "string", optional, &item, error);

  if (rc != 0 || item == NULL) return rc;
  if (strstr(item->valuestring, SBX__JSON_NUL) != NULL)
    return sbx_json_refuse(n, name, "holds a NUL", error);
  *out = item->valuestring;
  return 0;
}

static int get_node(struct sbx_json_node n, const char* name, int type,
                    const char* type_name, bool optional,
                    struct sbx_json_node* out, struct sbx_error* error) {
  const cJSON* item;
  int rc = fetch(n, name, type, type_name, optional, &item, error);

  if (rc == 0 && item != NULL) *out = (struct sbx_json_node){n.json, item};
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
  while ((mark = strstr(at, SBX__JSON_NUL)) != NULL) {
    sbx_text_add(&text, at, (size_t) (mark - at));
    sbx_text_add(&text, "", 1);
    at = mark + 2;
  }
  sbx_text_puts(&text, at);
  *out = sbx_text_take(&text, len);
  return *out != NULL ? 0 : sbx__json_out_of_memory(&n.json->source, error);
}
