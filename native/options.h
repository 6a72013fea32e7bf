/* A flat bag of named options, as the binding read them from a JS object.
 * Nested objects arrive with dotted names ("limits.processes"), arrays of
 * strings as lists. Lookups never allocate; the bag owns all bytes. */
#ifndef SBX_OPTIONS_H
#define SBX_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

struct sbx_options;

int sbx_options_new(struct sbx_options** out);
void sbx_options_free(struct sbx_options* options);

/* Each returns 0 or UV_ENOMEM. Strings may hold any byte but NUL. */
int sbx_options_add_string(struct sbx_options* o, const char* name,
                           const char* value, size_t len);
int sbx_options_add_number(struct sbx_options* o, const char* name, double v);
int sbx_options_add_bool(struct sbx_options* o, const char* name, bool v);
/* Appends one item to the list `name`; an empty list is made by value NULL. */
int sbx_options_add_item(struct sbx_options* o, const char* name,
                         const char* value, size_t len);

/* What the host of the engine lends (transport.h): not an option of the user's,
 * but it goes the same way. Outlives the bag. */
struct sbx_http_host;
void sbx_options_set_host(struct sbx_options* o,
                          const struct sbx_http_host* host);
const struct sbx_http_host* sbx_options_host(const struct sbx_options* o);

/* NULL, `fallback` or 0 items where the name is absent or of another type. */
const char* sbx_options_string(const struct sbx_options* o, const char* name);
/* A copy for the caller to free; of `fallback` where there is no such string,
 * and NULL if that is NULL. */
int sbx_options_copy(const struct sbx_options* o, const char* name,
                     const char* fallback, char** out);
/* A copy of a list: each item and the array are for the caller to free. */
int sbx_options_copy_list(const struct sbx_options* o, const char* name,
                          char*** items, size_t* len);
double sbx_options_number(const struct sbx_options* o, const char* name,
                          double fallback);
bool sbx_options_bool(const struct sbx_options* o, const char* name,
                      bool fallback);
/* 0 where the name is absent: tells a wrong type from an absent option. */
enum sbx_option_type {
  SBX_OPTION_STRING = 1,
  SBX_OPTION_NUMBER,
  SBX_OPTION_BOOL,
  SBX_OPTION_LIST
};
int sbx_options_type(const struct sbx_options* o, const char* name);

bool sbx_options_has(const struct sbx_options* o, const char* name);
size_t sbx_options_count(const struct sbx_options* o, const char* name);
const char* sbx_options_item(const struct sbx_options* o, const char* name,
                             size_t index);

#endif
