/* JSON that a service or a sandbox sent: a bounded, strict parse over cJSON,
 * and typed getters whose errors name the service and the path ("E2B's answer
 * has no string steps[2].id").
 *
 * Of two equal keys the last counts, as in JavaScript; keys that nobody asks
 * for are ignored. A NUL in a string and integers that a double does not hold
 * exactly are errors, never a shorter string or a rounded number.
 */
#ifndef SBX_JSON_H
#define SBX_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../error.h"

enum {
  SBX_JSON_BYTES_MAX = 64 * 1024 * 1024,
  SBX_JSON_DEPTH_MAX = 64,
  SBX_JSON_VALUES_MAX = 1024 * 1024
};

/* Whose words they are, for messages. Static texts. */
struct sbx_json_source {
  const char* service;   /* "E2B" */
  const char* operation; /* as in struct sbx_error */
};

struct sbx_json;

/* One value; valid as long as its document. Without an item it is absent. */
struct sbx_json_node {
  const struct sbx_json* json;
  const void* item;
};

/* 0, or SBX_E_PROVIDER, whose message quotes at most one short line of what is
 * no JSON. Broken UTF-8 becomes U+FFFD. `bytes` are not needed any more. */
int sbx_json_parse(const char* bytes, size_t len,
                   const struct sbx_json_source* source, struct sbx_json** out,
                   struct sbx_error* error);
void sbx_json_free(struct sbx_json* json);

struct sbx_json_node sbx_json_root(const struct sbx_json* json);

/* The member `name` (of an object), without an error: absent where there is
 * none, or null. */
struct sbx_json_node sbx_json_get(struct sbx_json_node n, const char* name);
bool sbx_json_is_string(struct sbx_json_node n);

/* Children of an array or object, in order; absent at the end. */
struct sbx_json_node sbx_json_first(struct sbx_json_node n);
struct sbx_json_node sbx_json_next(struct sbx_json_node n);
size_t sbx_json_count(struct sbx_json_node n);
/* Of a child of an object; NULL of others. */
const char* sbx_json_key(struct sbx_json_node n);

/* Getters: the member `name` of an object; with NULL the value itself. They
 * return 0, or SBX_E_PROVIDER where it is missing or of another type. */
int sbx_json_string(struct sbx_json_node n, const char* name, const char** out,
                    struct sbx_error* error);
int sbx_json_object(struct sbx_json_node n, const char* name,
                    struct sbx_json_node* out, struct sbx_error* error);
int sbx_json_array(struct sbx_json_node n, const char* name,
                   struct sbx_json_node* out, struct sbx_error* error);
int sbx_json_bool(struct sbx_json_node n, const char* name, bool* out,
                  struct sbx_error* error);
int sbx_json_number(struct sbx_json_node n, const char* name, double* out,
                    struct sbx_error* error);
/* A whole number from min to max; also as a string of digits, as services
 * write 64-bit numbers. */
int sbx_json_integer(struct sbx_json_node n, const char* name, int64_t min,
                     int64_t max, int64_t* out, struct sbx_error* error);
/* A string that may hold NULs; for the caller to free, with one more NUL. */
int sbx_json_bytes(struct sbx_json_node n, const char* name, char** out,
                   size_t* len, struct sbx_error* error);

/* The same, but absent or null leaves `*out` as it is. */
int sbx_json_opt_string(struct sbx_json_node n, const char* name,
                        const char** out, struct sbx_error* error);
int sbx_json_opt_object(struct sbx_json_node n, const char* name,
                        struct sbx_json_node* out, struct sbx_error* error);
int sbx_json_opt_array(struct sbx_json_node n, const char* name,
                       struct sbx_json_node* out, struct sbx_error* error);
int sbx_json_opt_bool(struct sbx_json_node n, const char* name, bool* out,
                      struct sbx_error* error);
int sbx_json_opt_integer(struct sbx_json_node n, const char* name, int64_t min,
                         int64_t max, int64_t* out, struct sbx_error* error);

/* For checks of the caller's own: "E2B's answer: <path> <words>". */
int sbx_json_refuse(struct sbx_json_node n, const char* name, const char* words,
                    struct sbx_error* error);

#endif
