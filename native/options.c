/* A flat bag of named options: one growing array, looked up by name. */
#include "options.h"

#include <stdlib.h>
#include <string.h>
#include <uv.h>

struct option {
  char* name;
  enum sbx_option_type type;
  double number;
  bool flag;
  char* text;
  char** items;
  size_t count;
};

struct sbx_options {
  struct option* list;
  size_t count;
};

int sbx_options_new(struct sbx_options** out) {
  *out = calloc(1, sizeof(**out));
  return *out == NULL ? UV_ENOMEM : 0;
}

static void option_clear(struct option* option) {
  for (size_t i = 0; i < option->count; i++) free(option->items[i]);
  free(option->items);
  free(option->text);
  free(option->name);
}

void sbx_options_free(struct sbx_options* options) {
  if (options == NULL) return;
  for (size_t i = 0; i < options->count; i++) option_clear(&options->list[i]);
  free(options->list);
  free(options);
}

static struct option* find(const struct sbx_options* o, const char* name) {
  for (size_t i = 0; i < o->count; i++)
    if (strcmp(o->list[i].name, name) == 0) return &o->list[i];
  return NULL;
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

/* The last value of a name wins; lists are appended to. */
static struct option* put(struct sbx_options* o, const char* name,
                          enum sbx_option_type type) {
  struct option* option = find(o, name);
  struct option* list;
  char* own;

  if (option != NULL && type == SBX_OPTION_LIST && option->type == type)
    return option;
  own = copy(name, strlen(name));
  if (own == NULL) return NULL;
  if (option == NULL) {
    list = realloc(o->list, (o->count + 1) * sizeof(*list));
    if (list == NULL) {
      free(own);
      return NULL;
    }
    o->list = list;
    option = &list[o->count++];
  } else {
    option_clear(option);
  }
  memset(option, 0, sizeof(*option));
  option->name = own;
  option->type = type;
  return option;
}

int sbx_options_add_string(struct sbx_options* o, const char* name,
                           const char* value, size_t len) {
  char* text = copy(value, len);
  struct option* option;

  if (text == NULL) return UV_ENOMEM;
  option = put(o, name, SBX_OPTION_STRING);
  if (option == NULL) {
    free(text);
    return UV_ENOMEM;
  }
  option->text = text;
  return 0;
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
  struct option* option = put(o, name, SBX_OPTION_LIST);
  char** items;
  char* text;

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
