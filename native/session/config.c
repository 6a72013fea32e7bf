/* Builder of the launcher's configuration. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "config.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "../memfd.h"

struct sbx_config {
  char* bytes;
  size_t len;
  size_t size;
  bool failed;
};

int sbx_config_new(struct sbx_config** out) {
  *out = calloc(1, sizeof(**out));
  return *out == NULL ? -ENOMEM : 0;
}

void sbx_config_free(struct sbx_config* config) {
  if (config == NULL) return;
  free(config->bytes);
  free(config);
}

/* Appends a record of `len` bytes and returns its zeroed payload. */
static char* append(struct sbx_config* c, enum sbx_config_tag tag, size_t len) {
  size_t need = sizeof(struct sbx_config_item) + ((len + 7) & ~(size_t) 7);
  struct sbx_config_item item = {.tag = tag, .len = (uint32_t) len};
  char* at;

  if (c->failed || len > UINT32_MAX / 2) {
    c->failed = true;
    return NULL;
  }
  if (c->size - c->len < need) {
    size_t size = (c->size + need) * 2;
    char* bytes = realloc(c->bytes, size);

    if (bytes == NULL) {
      c->failed = true;
      return NULL;
    }
    c->bytes = bytes;
    c->size = size;
  }
  at = c->bytes + c->len;
  memset(at, 0, need);
  memcpy(at, &item, sizeof(item));
  c->len += need;
  return at + sizeof(item);
}

void sbx_config_add_number(struct sbx_config* c, enum sbx_config_tag tag,
                           uint64_t number) {
  char* at = append(c, tag, sizeof(number));

  if (at != NULL) memcpy(at, &number, sizeof(number));
}

void sbx_config_add_text(struct sbx_config* c, enum sbx_config_tag tag,
                         const char* text) {
  size_t len = strlen(text) + 1;
  char* at = append(c, tag, len);

  if (at != NULL) memcpy(at, text, len);
}

void sbx_config_add_pair(struct sbx_config* c, enum sbx_config_tag tag,
                         const char* first, const char* second) {
  size_t len = strlen(first) + 1;
  size_t rest = strlen(second) + 1;
  char* at = append(c, tag, len + rest);

  if (at == NULL) return;
  memcpy(at, first, len);
  memcpy(at + len, second, rest);
}

void sbx_config_add_file(struct sbx_config* c, const char* path,
                         const char* bytes, size_t len) {
  size_t path_len = strlen(path) + 1;
  char* at = append(c, SBX_CONFIG_FILE, path_len + len);

  if (at == NULL) return;
  memcpy(at, path, path_len);
  memcpy(at + path_len, bytes, len);
}

const struct sbx_config_item* sbx_config_next(const struct sbx_config* c,
                                              size_t* offset,
                                              const char** payload) {
  const struct sbx_config_item* item;

  if (*offset >= c->len) return NULL;
  item = (const struct sbx_config_item*) (const void*) (c->bytes + *offset);
  *payload = c->bytes + *offset + sizeof(*item);
  *offset += sizeof(*item) + ((item->len + 7) & ~(uint32_t) 7);
  return item;
}

int sbx_config_open(const struct sbx_config* c) {
  if (c->failed) return -ENOMEM;
  return sbx_memfd_sealed("sandbox-config", c->bytes, c->len, SBX_MEMFD_DATA);
}
