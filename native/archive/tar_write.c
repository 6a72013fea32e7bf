/* Headers of the tar format. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tar_internal.h"

struct text {
  char* bytes;
  size_t len;
  size_t size;
  bool failed;
};

static void text_add(struct text* t, const void* bytes, size_t len) {
  if (t->failed) return;
  if (t->bytes == NULL || t->size - t->len < len) {
    size_t size = (t->size + len) * 2;
    char* more = realloc(t->bytes, size);

    if (more == NULL) {
      t->failed = true;
      return;
    }
    t->bytes = more;
    t->size = size;
  }
  memcpy(t->bytes + t->len, bytes, len);
  t->len += len;
}

static size_t digits_of(size_t n) {
  size_t digits = 1;

  while (n >= 10) {
    n /= 10;
    digits++;
  }
  return digits;
}

/* "LEN KEY=VALUE\n", where LEN counts itself. */
static void pax_add(struct text* t, const char* key, const char* value) {
  size_t rest = 1 + strlen(key) + 1 + strlen(value) + 1;
  size_t len = rest + digits_of(rest);
  char front[32];

  if (digits_of(len) != len - rest) len = rest + digits_of(len);
  snprintf(front, sizeof(front), "%zu ", len);
  text_add(t, front, strlen(front));
  text_add(t, key, strlen(key));
  text_add(t, "=", 1);
  text_add(t, value, strlen(value));
  text_add(t, "\n", 1);
}

static void pax_number(struct text* t, const char* key, uint64_t n) {
  char value[24];

  snprintf(value, sizeof(value), "%llu", (unsigned long long) n);
  pax_add(t, key, value);
}

static void pax_time(struct text* t, const struct sbx_tar_entry* e) {
  char value[40];
  int64_t s = e->mtime;
  uint32_t ns = e->mtime_ns;

  /* -0.25 is one second before, plus 0.75. */
  if (s < 0 && ns > 0) {
    s++;
    ns = 1000000000 - ns;
  }
  snprintf(value, sizeof(value), "%s%lld.%09u",
           e->mtime < 0 && s == 0 ? "-" : "", (long long) s, ns);
  pax_add(t, "mtime", value);
}

static void octal(char* field, size_t size, uint64_t n) {
  size_t i = size - 1;

  field[i] = '\0';
  while (i-- > 0) {
    field[i] = (char) ('0' + (n & 7));
    n >>= 3;
  }
}

static bool fits_octal(uint64_t n, size_t size) {
  return n >> (3 * (size - 1)) == 0;
}

static void seal(char* block) {
  unsigned sum = 0;

  memset(block + SUM_AT, ' ', 8);
  for (size_t i = 0; i < BLOCK; i++) sum += (unsigned char) block[i];
  octal(block + SUM_AT, 7, sum);
}

static void head(struct text* out, char type, const char* path,
                 const char* link, const struct sbx_tar_entry* e,
                 uint64_t size) {
  char block[BLOCK] = {0};

  memcpy(block + NAME_AT, path, strnlen(path, NAME_SIZE));
  memcpy(block + LINK_AT, link, strnlen(link, LINK_SIZE));
  octal(block + MODE_AT, 8, e->mode & 07777);
  octal(block + 108, 8, 0); /* owner and group: of whoever unpacks */
  octal(block + 116, 8, 0);
  octal(block + SIZE_AT, SIZE_SIZE, fits_octal(size, SIZE_SIZE) ? size : 0);
  octal(block + MTIME_AT, 12,
        e->mtime >= 0 && fits_octal((uint64_t) e->mtime, 12)
            ? (uint64_t) e->mtime
            : 0);
  block[TYPE_AT] = type;
  memcpy(block + MAGIC_AT, "ustar\00000", 8);
  seal(block);
  text_add(out, block, BLOCK);
}

static void pad(struct text* out, size_t from) {
  static const char zeros[BLOCK];
  size_t used = (out->len - from) % BLOCK;

  if (used != 0) text_add(out, zeros, BLOCK - used);
}

static void sparse_map(struct text* map, const struct sbx_tar_extent* x,
                       size_t len) {
  char line[64];

  snprintf(line, sizeof(line), "%zu\n", len);
  text_add(map, line, strlen(line));
  for (size_t i = 0; i < len; i++) {
    snprintf(line, sizeof(line), "%llu\n%llu\n",
             (unsigned long long) x[i].offset, (unsigned long long) x[i].len);
    text_add(map, line, strlen(line));
  }
  pad(map, 0);
}

static void pax_records(struct text* pax, const struct sbx_tar_entry* e,
                        const char* path, uint64_t stored, bool sparse) {
  if (e->mtime_ns != 0 || e->mtime < 0 || !fits_octal((uint64_t) e->mtime, 12))
    pax_time(pax, e);
  if (strlen(e->link) > LINK_SIZE) pax_add(pax, "linkpath", e->link);
  if (!fits_octal(stored, SIZE_SIZE)) pax_number(pax, "size", stored);
  if (!sparse) {
    if (strlen(path) > NAME_SIZE) pax_add(pax, "path", path);
    return;
  }
  pax_add(pax, "GNU.sparse.major", "1");
  pax_add(pax, "GNU.sparse.minor", "0");
  pax_add(pax, "GNU.sparse.name", path);
  pax_number(pax, "GNU.sparse.realsize", e->size);
}

static uint64_t data_size(const struct sbx_tar_entry* e,
                          const struct sbx_tar_extent* x, size_t len) {
  uint64_t size = 0;

  if (x == NULL) return e->type == SBX_TAR_FILE ? e->size : 0;
  for (size_t i = 0; i < len; i++) size += x[i].len;
  return size;
}

/* A top folder is "./", and folders end with a slash, as programs expect. */
static void spell(const struct sbx_tar_entry* e, char* out) {
  const char* path = e->path[0] == '\0' ? "." : e->path;

  snprintf(out, SBX_TAR_PATH_MAX + 2, "%s%s", path,
           e->type == SBX_TAR_FOLDER ? "/" : "");
}

char* sbx_tar_header(const struct sbx_tar_entry* e,
                     const struct sbx_tar_extent* x, size_t x_len,
                     size_t* len) {
  struct text pax = {0}, map = {0}, out = {0};
  char path[SBX_TAR_PATH_MAX + 2];
  uint64_t stored;

  spell(e, path);
  if (x != NULL) sparse_map(&map, x, x_len);
  stored = data_size(e, x, x_len) + map.len;
  pax_records(&pax, e, path, stored, x != NULL);
  if (pax.len > 0) {
    struct sbx_tar_entry plain = {.mode = 0644};

    head(&out, 'x', "././@PaxHeader", "", &plain, pax.len);
    text_add(&out, pax.bytes, pax.len);
    pad(&out, 0);
  }
  head(&out, (char) e->type, path, e->link, e, stored);
  if (map.len > 0) text_add(&out, map.bytes, map.len);
  if (pax.failed || map.failed) out.failed = true;
  free(pax.bytes);
  free(map.bytes);
  *len = out.len;
  if (!out.failed) return out.bytes;
  free(out.bytes);
  return NULL;
}
