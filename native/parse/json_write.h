/* Writes JSON without a tree, any bytes escaped right. */
#ifndef SBX_JSON_WRITE_H
#define SBX_JSON_WRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../text.h"

enum { SBX_JSON_WRITE_DEPTH = 32 };

/* Zeroed memory is its start. Nothing needs checking before the end. */
struct sbx_json_writer {
  struct sbx_text text;
  unsigned depth;
  bool comma;
  char close[SBX_JSON_WRITE_DEPTH];
};

/* `key` inside an object; NULL inside an array and for the whole. Bytes that
 * are no UTF-8 become U+FFFD. */
void sbx_json_write_object(struct sbx_json_writer* w, const char* key);
void sbx_json_write_array(struct sbx_json_writer* w, const char* key);
void sbx_json_write_end(struct sbx_json_writer* w); /* of either */
void sbx_json_write_string(struct sbx_json_writer* w, const char* key,
                           const char* value);
void sbx_json_write_bytes(struct sbx_json_writer* w, const char* key,
                          const void* bytes, size_t len);
/* As a string in base64. */
void sbx_json_write_base64(struct sbx_json_writer* w, const char* key,
                           const void* bytes, size_t len);
void sbx_json_write_integer(struct sbx_json_writer* w, const char* key,
                            int64_t value);
/* null where it is not finite. */
void sbx_json_write_number(struct sbx_json_writer* w, const char* key,
                           double value);
void sbx_json_write_bool(struct sbx_json_writer* w, const char* key,
                         bool value);
void sbx_json_write_null(struct sbx_json_writer* w, const char* key);

/* The document, for the caller to free, with a NUL behind it; NULL without
 * memory, or where something is left open or a key was missing or too many. The
 * writer is empty afterwards. */
char* sbx_json_write_take(struct sbx_json_writer* w, size_t* len);

#endif
