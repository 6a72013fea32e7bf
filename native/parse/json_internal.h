/* What the parts of the JSON reader know of each other; nothing public. */
#ifndef SBX_JSON_INTERNAL_H
#define SBX_JSON_INTERNAL_H

#include <cJSON.h>

#include "../text.h"
#include "json.h"

/* A NUL in a string, for cJSON. */
#define SBX__JSON_NUL "\xc0\x80"

/* U+FFFD, for bytes that are no text. */
#define SBX__JSON_REPLACEMENT "\xef\xbf\xbd"

struct sbx_json {
  cJSON* root;
  struct sbx_json_source source;
};

static inline const cJSON* sbx__json_item(struct sbx_json_node n) {
  return n.item;
}

/* ---- json_scan.c ---- */

struct sbx__json_scan {
  const char* at;
  const char* end;
  struct sbx_text* copy; /* NULL: only look */
  bool dirty;            /* a copy is needed */
  unsigned depth;
  size_t values;
  const char* wrong; /* what it holds that it must not */
};

void sbx__json_scan(struct sbx__json_scan* s);

/* ---- json_error.c: each returns the error's code ---- */

/* The bytes are no JSON; `wrong` may be NULL. */
int sbx__json_bad(const struct sbx_json_source* source, const char* bytes,
                  size_t len, const char* wrong, struct sbx_error* error);
int sbx__json_out_of_memory(const struct sbx_json_source* source,
                            struct sbx_error* error);
int sbx__json_missing(struct sbx_json_node n, const char* name,
                      const char* type, struct sbx_error* error);
/* `item` is the member `name` of `n`. */
int sbx__json_wrong_type(struct sbx_json_node n, const char* name,
                         const cJSON* item, const char* type,
                         struct sbx_error* error);

#endif
