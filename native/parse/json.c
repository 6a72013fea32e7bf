/* A bounded, strict JSON parse over cJSON, and the walk over what it made. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "json.h"

#include <stdlib.h>
#include <string.h>

#include "json_internal.h"

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

/* The text for cJSON: the bytes, or a copy in `copy`. */
static int prepare(const char** bytes, size_t* len, struct sbx_text* copy,
                   const struct sbx_json_source* source,
                   struct sbx_error* error) {
  struct sbx__json_scan s = {.at = *bytes, .end = *bytes + *len};

  if (*len > SBX_JSON_BYTES_MAX)
    return sbx_error_set(error, SBX_E_PROVIDER, 0, source->operation,
                         "%s's answer is longer than %d MiB", source->service,
                         SBX_JSON_BYTES_MAX >> 20);
  sbx__json_scan(&s);
  if (s.wrong != NULL)
    return sbx__json_bad(source, *bytes, *len, s.wrong, error);
  if (!s.dirty) return 0;
  s = (struct sbx__json_scan){.at = *bytes, .end = *bytes + *len, .copy = copy};
  sbx__json_scan(&s);
  if (copy->failed) return sbx__json_out_of_memory(source, error);
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
  if (len == 0) return sbx__json_bad(source, "", 0, NULL, error);
  rc = prepare(&text, &text_len, &copy, source, error);
  json = rc == 0 ? calloc(1, sizeof(*json)) : NULL;
  if (rc == 0 && json == NULL) rc = sbx__json_out_of_memory(source, error);
  if (json != NULL) {
    json->source = *source;
    json->root = parse(text, text_len);
    if (json->root == NULL) rc = sbx__json_bad(source, bytes, len, NULL, error);
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

static const cJSON* child_of(struct sbx_json_node n) {
  const cJSON* item = n.item;

  return cJSON_IsObject(item) || cJSON_IsArray(item) ? item->child : NULL;
}

struct sbx_json_node sbx_json_get(struct sbx_json_node n, const char* name) {
  const cJSON* found = NULL;

  if (!cJSON_IsObject(sbx__json_item(n))) return node(n.json, NULL);
  for (const cJSON* at = child_of(n); at != NULL; at = at->next)
    if (strcmp(at->string, name) == 0) found = at;
  return node(n.json, cJSON_IsNull(found) ? NULL : found);
}

struct sbx_json_node sbx_json_first(struct sbx_json_node n) {
  return node(n.json, child_of(n));
}

struct sbx_json_node sbx_json_next(struct sbx_json_node n) {
  return node(n.json, n.item == NULL ? NULL : sbx__json_item(n)->next);
}

size_t sbx_json_count(struct sbx_json_node n) {
  size_t count = 0;

  for (const cJSON* at = child_of(n); at != NULL; at = at->next) count++;
  return count;
}

const char* sbx_json_key(struct sbx_json_node n) {
  const char* key = n.item == NULL ? NULL : sbx__json_item(n)->string;

  return key != NULL && strstr(key, SBX__JSON_NUL) != NULL ? "" : key;
}

bool sbx_json_is_string(struct sbx_json_node n) {
  return cJSON_IsString(sbx__json_item(n));
}
