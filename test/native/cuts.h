/* "Cut anywhere, it parses the same": one driver for all incremental parsers,
 * used by their tests and by their fuzz targets.
 *
 * A parser's adapter writes what it sees into a journal; runs of data are joined
 * there, so that two journals are equal exactly if the events are. */
#ifndef SBX_TEST_CUTS_H
#define SBX_TEST_CUTS_H

#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct journal {
  char* bytes;
  size_t len;
  size_t size;
  size_t run; /* where the length of an open run of data stands; 0: none */
};

static inline void journal__put(struct journal* j, const void* bytes,
                                size_t len) {
  if (j->size - j->len < len) {
    j->size = (j->size + len) * 2 + 64;
    j->bytes = realloc(j->bytes, j->size);
    if (j->bytes == NULL) abort();
  }
  if (len > 0) memcpy(j->bytes + j->len, bytes, len);
  j->len += len;
}

static inline void journal_event(struct journal* j, const char* name,
                                 const void* bytes, size_t len) {
  uint64_t n = len;

  j->run = 0;
  journal__put(j, name, strlen(name) + 1);
  journal__put(j, &n, sizeof(n));
  journal__put(j, bytes, len);
}

static inline void journal_number(struct journal* j, const char* name,
                                  int64_t number) {
  journal_event(j, name, &number, sizeof(number));
}

/* Part of a run. */
static inline void journal_data(struct journal* j, const void* bytes,
                                size_t len) {
  uint64_t n;

  if (len == 0) return;
  if (j->run == 0) {
    journal_event(j, "data", NULL, 0);
    j->run = j->len - sizeof(n);
  }
  journal__put(j, bytes, len);
  memcpy(&n, j->bytes + j->run, sizeof(n));
  n += len;
  memcpy(j->bytes + j->run, &n, sizeof(n));
}

/* What a parser under test is; `feed` and `finish` return 0 or a code. */
struct cut_parser {
  void* (*make)(struct journal* journal);
  int (*feed)(void* parser, const char* bytes, size_t len);
  int (*finish)(void* parser);
  void (*free)(void* parser);
};

/* Each piece lies in memory of its own, so that a sanitizer sees a read behind
 * its end. */
static inline int cuts__piece(const struct cut_parser* p, void* parser,
                              const char* bytes, size_t len) {
  char* own = malloc(len > 0 ? len : 1);
  int rc;

  if (own == NULL) abort();
  if (len > 0) memcpy(own, bytes, len);
  rc = p->feed(parser, own, len);
  free(own);
  return rc;
}

/* The journal of the bytes in pieces: the first ends at `first`, the others
 * have `step` bytes. */
static inline struct journal cuts_run(const struct cut_parser* p,
                                      const char* bytes, size_t len,
                                      size_t first, size_t step) {
  struct journal j = {0};
  void* parser = p->make(&j);
  int rc = 0;

  if (first > 0) rc = cuts__piece(p, parser, bytes, first);
  for (size_t at = first; at < len && rc == 0; at += step)
    rc = cuts__piece(p, parser, bytes + at,
                     len - at < step ? len - at : step);
  if (rc == 0) rc = p->finish(parser);
  journal_number(&j, "result", rc);
  p->free(parser);
  return j;
}

static inline bool cuts_same(const struct cut_parser* p, const char* bytes,
                             size_t len, const struct journal* whole,
                             size_t first, size_t step) {
  struct journal j = cuts_run(p, bytes, len, first, step);
  bool same = j.len == whole->len && memcmp(j.bytes, whole->bytes, j.len) == 0;

  free(j.bytes);
  return same;
}

/* -1, or where a cut makes a difference (`len` for "one byte at a time"). Long
 * inputs are cut at some places only. */
static inline long cuts_check(const struct cut_parser* p, const char* bytes,
                              size_t len) {
  struct journal whole = cuts_run(p, bytes, len, 0, len > 0 ? len : 1);
  size_t stride = len / 512 + 1;
  long bad = -1;

  if (!cuts_same(p, bytes, len, &whole, 0, 1)) bad = (long) len;
  for (size_t cut = 1; cut < len && bad < 0; cut += stride)
    if (!cuts_same(p, bytes, len, &whole, cut, len)) bad = (long) cut;
  free(whole.bytes);
  return bad;
}

/* For a fuzz target: one byte at a time, and one cut that the input chooses. */
static inline void cuts_fuzz(const struct cut_parser* p, const uint8_t* data,
                             size_t len) {
  const char* bytes = (const char*) data;
  struct journal whole = cuts_run(p, bytes, len, 0, len > 0 ? len : 1);
  size_t hash = len;

  for (size_t i = 0; i < len; i++) hash = hash * 31 + data[i];
  if (!cuts_same(p, bytes, len, &whole, 0, 1)) abort();
  if (len > 0 &&
      !cuts_same(p, bytes, len, &whole, hash % len, hash / len % 7 + 1))
    abort();
  free(whole.bytes);
}

static inline char* cuts_read(const char* folder, const char* name,
                              size_t* len) {
  char path[512];
  char* bytes = NULL;
  FILE* file;
  long size;

  snprintf(path, sizeof(path), "%s/%s", folder, name);
  file = fopen(path, "rb");
  if (file == NULL) return NULL;
  fseek(file, 0, SEEK_END);
  size = ftell(file);
  rewind(file);
  bytes = malloc(size > 0 ? (size_t) size : 1);
  if (bytes == NULL) abort();
  *len = fread(bytes, 1, (size_t) size, file);
  fclose(file);
  return bytes;
}

/* Checks every file of test/fuzz/corpus/NAME; their number. Prints and returns
 * -1 at the first that differs. */
static inline int cuts_corpus(const struct cut_parser* p, const char* name) {
  char folder[256];
  struct dirent* entry;
  int count = 0;
  DIR* dir;

  snprintf(folder, sizeof(folder), "test/fuzz/corpus/%s", name);
  dir = opendir(folder);
  if (dir == NULL) return -1;
  while ((entry = readdir(dir)) != NULL && count >= 0) {
    size_t len = 0;
    char* bytes;
    long bad;

    if (entry->d_name[0] == '.') continue;
    bytes = cuts_read(folder, entry->d_name, &len);
    bad = bytes != NULL ? cuts_check(p, bytes, len) : 0;
    if (bad >= 0) fprintf(stderr, "%s: cut at %ld\n", entry->d_name, bad);
    count = bad >= 0 ? -1 : count + 1;
    free(bytes);
  }
  closedir(dir);
  return count;
}

#endif
