// sources: native/tar.c
/* The parser of archives: bytes cut anywhere give the same entries, no name
 * leads outside, and no data lies outside its file. */
#include "../native/cuts.h"
#include "native/tar.h"

struct seen {
  struct journal* journal;
  struct sbx_tar* tar;
  uint64_t size;
  uint64_t end;
};

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
  journal_event(s->journal, "path", e->path, strlen(e->path));
  journal_event(s->journal, "link", e->link, strlen(e->link));
  journal_number(s->journal, "size", (int64_t) e->size);
  journal_number(s->journal, "mtime", e->mtime);
  s->size = e->size;
  s->end = 0;
  return 0;
}

static int on_data(void* arg, uint64_t offset, const char* bytes, size_t len) {
  struct seen* s = arg;
  if (len == 0 || offset < s->end || len > s->size || offset > s->size - len)
    abort();
  if (offset != s->end) journal_number(s->journal, "hole", (int64_t) offset);
  s->end = offset + len;
  journal_data(s->journal, bytes, len);
  return 0;
}

static int on_end(void* arg) {
  journal_event(((struct seen*) arg)->journal, "end", "", 0);
  return 0;
}

static void* make(struct journal* journal) {
  struct seen* s = calloc(1, sizeof(*s));
  struct sbx_tar_sink sink = {s, on_entry, on_data, on_end};

  if (s == NULL || sbx_tar_new(&sink, &s->tar) != 0) abort();
  s->journal = journal;
  return s;
}

static int feed(void* parser, const char* bytes, size_t len) {
  return sbx_tar_feed(((struct seen*) parser)->tar, bytes, len);
}

static int finish(void* parser) {
  return sbx_tar_ended(((struct seen*) parser)->tar) ? 0 : -1;
}

static void release(void* parser) {
  sbx_tar_free(((struct seen*) parser)->tar);
  free(parser);
}

static const struct cut_parser archive_parser = {make, feed, finish, release};

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

  if (!copy) return 0;
  memcpy(copy, data, size);
  mend(copy, size);
  cuts_fuzz(&archive_parser, (const uint8_t*) copy, size);
  free(copy);
  return 0;
}
