/* What is wrong with an answer, in words that name the path. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdio.h>
#include <string.h>

#include "../utf8.h"
#include "json_internal.h"

enum { PATH_TEXT_MAX = 200, KEY_TEXT_MAX = 44 };

/* What begins like JSON is never quoted: it may hold tokens. */
int sbx__json_bad(const struct sbx_json_source* source, const char* bytes,
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

int sbx__json_out_of_memory(const struct sbx_json_source* source,
                            struct sbx_error* error) {
  return sbx_error_set(error, SBX_E_INTERNAL, 0, source->operation,
                       "no memory for %s's answer", source->service);
}

static bool is_word(const char* key) {
  if (*key == '\0') return false;
  for (; *key != '\0'; key++)
    if (!((*key >= '0' && *key <= '9') || (*key >= 'a' && *key <= 'z') ||
          (*key >= 'A' && *key <= 'Z') || *key == '_' || *key == '-'))
      return false;
  return true;
}

/* Of a key that may be long, or hold the sign for a NUL. */
static const char* shown(const char* key, char text[KEY_TEXT_MAX]) {
  size_t left = strlen(key), used = 0;

  while (left > 0) {
    bool valid;
    size_t n = sbx_utf8_next(key, left, &valid);
    const char* from = valid ? key : SBX__JSON_REPLACEMENT;
    size_t len = valid ? n : strlen(from);

    if (used + len >= KEY_TEXT_MAX) break;
    memcpy(text + used, from, len);
    used += len;
    key += n;
    left -= n;
  }
  text[used] = '\0';
  return text;
}

static void add_step(char* path, const char* key, size_t index) {
  size_t used = strlen(path);
  size_t room = PATH_TEXT_MAX - used;
  char text[KEY_TEXT_MAX];

  if (key == NULL)
    snprintf(path + used, room, "[%zu]", index);
  else if (is_word(key))
    snprintf(path + used, room, "%s%s", used > 0 ? "." : "", key);
  else
    snprintf(path + used, room, "[\"%s\"]", shown(key, text));
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
  if (n.item != NULL) find_path(n.json->root, sbx__json_item(n), path);
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

int sbx__json_missing(struct sbx_json_node n, const char* name,
                      const char* type, struct sbx_error* error) {
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

int sbx__json_wrong_type(struct sbx_json_node n, const char* name,
                         const cJSON* item, const char* type,
                         struct sbx_error* error) {
  char words[64];

  snprintf(words, sizeof(words), "is %s, not %s %s", type_of(item),
           strchr("aio", type[0]) != NULL ? "an" : "a", type);
  return sbx_json_refuse(n, name, words, error);
}
