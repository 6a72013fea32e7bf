/* A flat bag of named options: a list, for there are few. */
#include "options.h"

#include <stdlib.h>
#include <string.h>
#include <uv.h>

struct option {
  struct option* next;
  enum sbx_option_type type;
  double number;
  bool flag;
  char* text;
  char** items;
  size_t count;
  char name[];
};

struct sbx_options {
  struct option* first;
  const struct sbx_http_host* host;
};

void sbx_options_set_host(struct sbx_options* o,
                          const struct sbx_http_host* host) {
  o->host = host;
}

const struct sbx_http_host* sbx_options_host(const struct sbx_options* o) {
  return o->host;
}

int sbx_options_new(struct sbx_options** out) {
  *out = calloc(1, sizeof(**out));
  return *out == NULL ? UV_ENOMEM : 0;
}

static void option_free(struct option* option) {
  for (size_t i = 0; i < option->count; i++) free(option->items[i]);
  free(option->items);
  free(option->text);
  free(option);
}

void sbx_options_free(struct sbx_options* options) {
  if (options == NULL) return;
  while (options->first != NULL) {
    struct option* option = options->first;

    options->first = option->next;
    option_free(option);
  }
  free(options);
}

static struct option* find(const struct sbx_options* o, const char* name) {
  struct option* option = o->first;

  while (option != NULL && strcmp(option->name, name) != 0)
    option = option->next;
  return option;
}

static const struct option* typed(const struct sbx_options* o,
                                  const char* name, enum sbx_option_type type) {
  const struct option* option = find(o, name);

  return option != NULL && option->type == type ? option : NULL;
}

static char* copy(const char* value, size_t len) {
  char* text = malloc(len + 1);

  if (text == NULL) return NULL;
  memcpy(text, value, len);
  text[len] = '\0';
  return text;
}

/* The last value of a name wins: it stands in front of the others. */
static struct option* put(struct sbx_options* o, const char* name,
                          enum sbx_option_type type) {
  size_t len = strlen(name) + 1;
  struct option* option = calloc(1, sizeof(*option) + len);

  if (option == NULL) return NULL;
  memcpy(option->name, name, len);
  option->type = type;
  option->next = o->first;
  o->first = option;
  return option;
}

int sbx_options_add_string(struct sbx_options* o, const char* name,
                           const char* value, size_t len) {
  struct option* option = put(o, name, SBX_OPTION_STRING);

  if (option == NULL) return UV_ENOMEM;
  option->text = copy(value, len);
  return option->text == NULL ? UV_ENOMEM : 0;
}

int sbx_options_add_number(struct sbx_options* o, const char* name, double v) {
  struct option* option = put(o, name, SBX_OPTION_NUMBER);

  if (option == NULL) return UV_ENOMEM;
  option->number = v;
  return 0;
}

int sbx_options_add_bool(struct sbx_options* o, const char* name, bool v) {
  struct option* option = put(o, name, SBX_OPTION_BOOL);

  if (option == NULL) return UV_ENOMEM;
  option->flag = v;
  return 0;
}

int sbx_options_add_item(struct sbx_options* o, const char* name,
                         const char* value, size_t len) {
  struct option* option = find(o, name);
  char** items;
  char* text;

  if (option == NULL || option->type != SBX_OPTION_LIST)
    option = put(o, name, SBX_OPTION_LIST);
  if (option == NULL) return UV_ENOMEM;
  if (value == NULL) return 0;
  items = realloc(option->items, (option->count + 1) * sizeof(*items));
  if (items == NULL) return UV_ENOMEM;
  option->items = items;
  text = copy(value, len);
  if (text == NULL) return UV_ENOMEM;
  items[option->count++] = text;
  return 0;
}

const char* sbx_options_string(const struct sbx_options* o, const char* name) {
  const struct option* option = typed(o, name, SBX_OPTION_STRING);

  return option == NULL ? NULL : option->text;
}

int sbx_options_copy(const struct sbx_options* o, const char* name,
                     const char* fallback, char** out) {
  const char* text = sbx_options_string(o, name);

  *out = NULL;
  if (text == NULL) text = fallback;
  if (text == NULL) return 0;
  *out = copy(text, strlen(text));
  return *out == NULL ? UV_ENOMEM : 0;
}

double sbx_options_number(const struct sbx_options* o, const char* name,
                          double fallback) {
  const struct option* option = typed(o, name, SBX_OPTION_NUMBER);

  return option == NULL ? fallback : option->number;
}

bool sbx_options_bool(const struct sbx_options* o, const char* name,
                      bool fallback) {
  const struct option* option = typed(o, name, SBX_OPTION_BOOL);

  return option == NULL ? fallback : option->flag;
}

int sbx_options_type(const struct sbx_options* o, const char* name) {
  const struct option* option = find(o, name);

  return option == NULL ? 0 : (int) option->type;
}

bool sbx_options_has(const struct sbx_options* o, const char* name) {
  return find(o, name) != NULL;
}

size_t sbx_options_count(const struct sbx_options* o, const char* name) {
  const struct option* option = typed(o, name, SBX_OPTION_LIST);

  return option == NULL ? 0 : option->count;
}

const char* sbx_options_item(const struct sbx_options* o, const char* name,
                             size_t index) {
  const struct option* option = typed(o, name, SBX_OPTION_LIST);

  return option == NULL || index >= option->count ? NULL : option->items[index];
}

static void free_list(char** list, size_t len) {
  while (len > 0) free(list[--len]);
  free(list);
}

int sbx_options_copy_list(const struct sbx_options* o, const char* name,
                          char*** items, size_t* len) {
  size_t n = sbx_options_count(o, name);
  char** list = calloc(n + 1, sizeof(*list));

  for (size_t i = 0; list != NULL && i < n; i++) {
    list[i] = strdup(sbx_options_item(o, name, i));
    if (list[i] != NULL) continue;
    free_list(list, i);
    list = NULL;
  }
  *items = list;
  *len = list == NULL ? 0 : n;
  return list == NULL ? UV_ENOMEM : 0;
}
