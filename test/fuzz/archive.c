// sources: native/tar.c
/* The parser of archives: bytes cut anywhere give the same entries, no name
 * leads outside, and no data lies outside its file. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "native/tar.h"

struct seen {
  uint64_t hash;
  uint64_t size;
  uint64_t end;
};

static void mix(struct seen* s, const void* bytes, size_t len) {
  const unsigned char* at = bytes;
  while (len-- > 0) s->hash = (s->hash ^ *at++) * UINT64_C(0x100000001b3);
}

static void check_path(const char* path) {
  if (strlen(path) >= SBX_TAR_PATH_MAX || *path == '/') abort();
  for (const char* p = path; *p;) {
    size_t n = strcspn(p, "/");
    if (n == 0 || n > 255 || (n == 1 && *p == '.')) abort();
    if (n == 2 && memcmp(p, "..", 2) == 0) abort();
    p += n;
    if (*p == '/' && !*++p) abort();
  }
}

static int on_entry(void* arg, const struct sbx_tar_entry* e) {
  struct seen* s = arg;
  check_path(e->path);
  if (e->type == SBX_TAR_HARD_LINK) check_path(e->link);
  if (e->mode & ~01777u || e->mtime_ns >= 1000000000) abort();
  mix(s, e->path, strlen(e->path));
  mix(s, e->link, strlen(e->link));
  s->size = e->size;
  s->end = 0;
  return 0;
}

static int on_data(void* arg, uint64_t offset, const char* bytes, size_t len) {
  struct seen* s = arg;
  if (len == 0 || offset < s->end || len > s->size || offset > s->size - len)
    abort();
  s->end = offset + len;
  mix(s, bytes, len);
  return 0;
}

static int on_end(void* arg) {
  mix(arg, "e", 1);
  return 0;
}

static int parse(const char* data, size_t size, size_t piece, uint64_t* hash) {
  struct seen seen = {.hash = 1};
  struct sbx_tar_sink sink = {&seen, on_entry, on_data, on_end};
  struct sbx_tar* tar;
  int rc = 0;
  if (sbx_tar_new(&sink, &tar)) return -1;
  for (size_t at = 0; at < size && rc == 0; at += piece)
    rc = sbx_tar_feed(tar, data + at, size - at < piece ? size - at : piece);
  if (rc == 0) rc = sbx_tar_ended(tar);
  sbx_tar_free(tar);
  *hash = seen.hash;
  return rc;
}

/* Sums would stop nearly every mutation: they are made right first. */
static void mend(char* data, size_t size) {
  for (size_t at = 0; at + SBX_TAR_BLOCK <= size; at += SBX_TAR_BLOCK) {
    char* b = data + at;
    unsigned sum = 0;
    if (memcmp(b + 257, "ustar", 5)) continue;
    memset(b + 148, ' ', 8);
    for (int i = 0; i < SBX_TAR_BLOCK; i++) sum += (unsigned char)b[i];
    for (int i = 5; i >= 0; i--, sum >>= 3) b[148 + i] = '0' + (sum & 7);
    b[154] = 0;
  }
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  char* copy = malloc(size + 1);
  uint64_t whole, cut;
  if (!copy) return 0;
  memcpy(copy, data, size);
  mend(copy, size);
  int a = parse(copy, size, size + 1, &whole);
  int b = parse(copy, size, 511, &cut);
  if (a != b || whole != cut) abort();
  free(copy);
  return 0;
}
