/* JSON: what is accepted comes out as valid UTF-8, what the writer makes of it is
 * read back as the same, and no error quotes what looks like JSON. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "native/parse/fault.h"
#include "native/parse/json_write.h"
#include "native/utf8.h"

static const struct sbx_json_source source = {"E2B", "fuzz"};

static void check_text(const char* text) {
  if (!sbx_utf8_valid(text, strlen(text))) abort();
}

static void copy(struct sbx_json_node n, struct sbx_json_writer* w,
                 const char* key) {
  struct sbx_error error = {0};
  struct sbx_json_node at;
  int64_t integer;
  double number;
  char* bytes;
  size_t len;
  bool flag;

  if (sbx_json_bytes(n, NULL, &bytes, &len, &error) == 0) {
    if (!sbx_utf8_valid(bytes, len)) abort();
    sbx_json_write_bytes(w, key, bytes, len);
    free(bytes);
  } else if (sbx_json_integer(n, NULL, INT64_MIN, INT64_MAX, &integer,
                              &error) == 0) {
    sbx_json_write_integer(w, key, integer);
  } else if (sbx_json_number(n, NULL, &number, &error) == 0) {
    sbx_json_write_number(w, key, number);
  } else if (sbx_json_bool(n, NULL, &flag, &error) == 0) {
    sbx_json_write_bool(w, key, flag);
  } else if (sbx_json_object(n, NULL, &at, &error) == 0) {
    sbx_json_write_object(w, key);
    for (at = sbx_json_first(n); at.item != NULL; at = sbx_json_next(at)) {
      check_text(sbx_json_key(at));
      copy(at, w, sbx_json_key(at));
    }
    sbx_json_write_end(w);
  } else if (sbx_json_array(n, NULL, &at, &error) == 0) {
    sbx_json_write_array(w, key);
    for (at = sbx_json_first(n); at.item != NULL; at = sbx_json_next(at))
      copy(at, w, NULL);
    sbx_json_write_end(w);
  } else {
    check_text(error.message);
    sbx_json_write_null(w, key);
  }
}

static char* write_again(const struct sbx_json* json, size_t* len) {
  struct sbx_json_writer w = {0};

  copy(sbx_json_root(json), &w, NULL);
  return sbx_json_write_take(&w, len);
}

/* A second trip changes nothing. */
static void check_trip(const struct sbx_json* json) {
  struct sbx_json* again;
  size_t len, second_len;
  char* first = write_again(json, &len);
  char* second;

  if (first == NULL) return; /* deeper than the writer goes */
  if (sbx_json_parse(first, len, &source, &again, NULL) != 0) abort();
  second = write_again(again, &second_len);
  if (second == NULL || second_len != len || memcmp(first, second, len) != 0)
    abort();
  free(first);
  free(second);
  sbx_json_free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  struct sbx_error error = {0};
  struct sbx_fault fault;
  struct sbx_json* json;

  sbx_fault_read((const char*) data, size, &fault);
  check_text(fault.code);
  check_text(fault.message);
  if (sbx_json_parse((const char*) data, size, &source, &json, &error) != 0) {
    check_text(error.message);
    if (json != NULL || error.code != SBX_E_PROVIDER) abort();
    return 0;
  }
  check_trip(json);
  sbx_json_free(json);
  return 0;
}
