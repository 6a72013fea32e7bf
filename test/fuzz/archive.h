/* The parser of archives, for cuts.h. What it hands out is checked, too: no
 * name leads outside, and no data lies outside its file. */
#include "../native/cuts.h"
#include "../../native/archive/tar.h"

struct archive_seen {
  struct journal* journal;
  struct sbx_tar* tar;
  uint64_t size;
  uint64_t end;
};

static void archive_check_path(const char* path) {
  if (strlen(path) >= SBX_TAR_PATH_MAX || *path == '/') abort();
  for (const char* p = path; *p;) {
    size_t n = strcspn(p, "/");
    if (n == 0 || n > 255 || (n == 1 && *p == '.')) abort();
    if (n == 2 && memcmp(p, "..", 2) == 0) abort();
    p += n;
    if (*p == '/' && !*++p) abort();
  }
}

static int archive_on_entry(void* arg, const struct sbx_tar_entry* e) {
  struct archive_seen* s = arg;
  archive_check_path(e->path);
  if (e->type == SBX_TAR_HARD_LINK) archive_check_path(e->link);
  if (e->mode & ~01777u || e->mtime_ns >= 1000000000) abort();
  journal_event(s->journal, "path", e->path, strlen(e->path));
  journal_event(s->journal, "link", e->link, strlen(e->link));
  journal_number(s->journal, "size", (int64_t) e->size);
  journal_number(s->journal, "mtime", e->mtime);
  s->size = e->size;
  s->end = 0;
  return 0;
}

static int archive_on_data(void* arg, uint64_t offset, const char* bytes,
                           size_t len) {
  struct archive_seen* s = arg;
  if (len == 0 || offset < s->end || len > s->size || offset > s->size - len)
    abort();
  if (offset != s->end) journal_number(s->journal, "hole", (int64_t) offset);
  s->end = offset + len;
  journal_data(s->journal, bytes, len);
  return 0;
}

static int archive_on_end(void* arg) {
  journal_event(((struct archive_seen*) arg)->journal, "end", "", 0);
  return 0;
}

static void* archive_make(struct journal* journal) {
  struct archive_seen* s = calloc(1, sizeof(*s));
  struct sbx_tar_sink sink = {s, archive_on_entry, archive_on_data,
                              archive_on_end};

  if (s == NULL || sbx_tar_new(&sink, &s->tar) != 0) abort();
  s->journal = journal;
  return s;
}

static int archive_feed(void* parser, const char* bytes, size_t len) {
  return sbx_tar_feed(((struct archive_seen*) parser)->tar, bytes, len);
}

static int archive_finish(void* parser) {
  return sbx_tar_ended(((struct archive_seen*) parser)->tar) ? 0 : -1;
}

static void archive_release(void* parser) {
  sbx_tar_free(((struct archive_seen*) parser)->tar);
  free(parser);
}

static const struct cut_parser archive_parser = {
    archive_make, archive_feed, archive_finish, archive_release};
