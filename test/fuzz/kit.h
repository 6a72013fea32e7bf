/* The kit's answers as cuts.h drives parsers. The first byte says which; then
 * byte 1 stands for the mark of this call and byte 2 changes the stream. */
#ifndef SBX_FUZZ_KIT_H
#define SBX_FUZZ_KIT_H

#include "native/files/files.h"
#include "providers/kit/run.h"
#include "test/native/cuts.h"

struct kit_case {
  struct journal* journal;
  int kind; /* -1: the first byte has not come */
  int stream;
  char mark[40];
  struct journal text[2]; /* joined, whichever came first */
  struct sbx_kit_call* call;
  struct sbx_kit_run* run;
  struct sbx_kit_job* job;
};

static const enum sbx_file_verb kit_verbs[] = {
    SBX_FILE_READ, SBX_FILE_WRITE,  SBX_FILE_STAT, SBX_FILE_EXISTS,
    SBX_FILE_WALK, SBX_FILE_READDIR, SBX_FILE_GATHER, SBX_FILE_REALPATH,
    SBX_FILE_MOVE};
enum { KIT_VERBS = 9, KIT_RUN = 2 * KIT_VERBS, KIT_FOLLOW, KIT_LIST,
       KIT_PREPARE, KIT_KILL, KIT_KINDS };

static inline void kit_output(void* data, int stream, const char* bytes,
                              size_t len) {
  struct kit_case* c = data;
  if (len == 0 || c->kind < KIT_RUN) abort();
  journal__put(&c->text[stream], bytes, len);
}

static inline void kit_dropped(void* data, int stream, uint64_t count) {
  struct kit_case* c = data;
  if (count == 0) abort();
  journal_number(c->journal, stream ? "dropped2" : "dropped1", (int64_t)count);
}

static inline void kit_exit(void* data, const struct sbx_kit_run_exit* exit) {
  struct kit_case* c = data;
  if (exit->exit_code < 0 || exit->exit_code > 255) abort();
  journal_number(c->journal, "end", exit->end * 1000 + exit->exit_code);
}

static inline void kit_check_entries(const struct sbx_file_result* r,
                                     bool contents) {
  const unsigned char* at = r->data;
  const unsigned char* end = at + r->len;
  for (uint32_t i = 0; i < r->count; i++) {
    uint32_t name_len, target_len;
    uint64_t size;
    if (end - at < SBX_ENTRY_HEADER) abort();
    memcpy(&name_len, at + 4, 4);
    memcpy(&target_len, at + 8, 4);
    memcpy(&size, at + 12, 8);
    at += SBX_ENTRY_HEADER;
    uint64_t more = (uint64_t)name_len + target_len + (contents ? size : 0);
    if (name_len == 0 || more > (uint64_t)(end - at)) abort();
    if (at[0] == '/' || memchr(at, 0, name_len)) abort();
    at += more;
  }
  if (at != end) abort();
}

static inline void kit_start(struct kit_case* c) {
  struct sbx_kit_place place = {.root = "/w", .inside = "/w"};
  struct sbx_kit_run_events events = {.data = c, .on_output = kit_output,
                                      .on_dropped = kit_dropped,
                                      .on_exit = kit_exit};
  const char* const argv[] = {"true"};
  struct sbx_kit_run_spec spec = {.argv = argv, .argc = 1};
  const uint64_t offsets[2] = {3, 0};
  struct sbx_error error;
  int rc = 0;
  place.binary_output = c->kind < KIT_VERBS || c->kind >= KIT_RUN;
  if (c->kind < KIT_RUN) {
    struct sbx_file_request r = {.verb = kit_verbs[c->kind % KIT_VERBS],
                                 .path = "d", .to = "e", .data = "x",
                                 .data_len = 1, .expected_mtime_ms = INT64_MIN};
    rc = sbx_kit_call_new(&place, &r, &c->call, &error);
  } else if (c->kind == KIT_RUN) {
    rc = sbx_kit_run_new(&place, &spec, &events, &c->run, &error);
  } else if (c->kind == KIT_FOLLOW) {
    rc = sbx_kit_run_follow(&place, 7, 0, offsets, &events, &c->run, &error);
  } else if (c->kind == KIT_LIST) {
    rc = sbx_kit_job_list(&place, &c->job);
  } else if (c->kind == KIT_PREPARE) {
    rc = sbx_kit_job_prepare(&place, &c->job);
  } else {
    rc = sbx_kit_job_kill(&place, 7, 0, 0, &c->job);
  }
  if (rc < 0) abort();
}

static inline void* kit_make(struct journal* journal) {
  struct kit_case* c = calloc(1, sizeof(*c));
  if (!c) abort();
  c->journal = journal;
  c->kind = -1;
  /* As getrandom below makes it. */
  strcpy(c->mark, "SBX000102030405060708090a0b0c0d0e0f");
  return c;
}

static inline int kit_give(struct kit_case* c, const char* bytes, size_t len) {
  if (c->call) return sbx_kit_call_feed(c->call, bytes, len);
  if (c->run) return sbx_kit_run_feed(c->run, c->stream, bytes, len);
  return sbx_kit_job_feed(c->job, bytes, len);
}

static inline int kit_feed(void* parser, const char* bytes, size_t len) {
  struct kit_case* c = parser;
  int rc = 0;
  while (len > 0 && rc == 0) {
    if (c->kind < 0) {
      c->kind = (unsigned char)*bytes % KIT_KINDS;
      kit_start(c);
      bytes++, len--;
      continue;
    }
    size_t n = 0;
    while (n < len && bytes[n] != 1 && bytes[n] != 2) n++;
    if (n > 0) rc = kit_give(c, bytes, n);
    bytes += n, len -= n;
    if (rc || len == 0) break;
    if (*bytes == 2) c->stream = !c->stream;
    else rc = kit_give(c, c->mark, strlen(c->mark));
    bytes++, len--;
  }
  return rc;
}

static inline int kit_call_finish(struct kit_case* c) {
  struct sbx_kit_next next;
  struct sbx_file_result r = {0};
  struct sbx_error error = {0};
  sbx_kit_call_ran(c->call, 1, "oops", 4);
  sbx_kit_call_next(c->call, &next);
  if (next.step == SBX_KIT_DOWNLOAD) {
    journal_event(c->journal, "download", next.path, strlen(next.path));
    return 0;
  }
  if (next.step == SBX_KIT_RUN) return 0; /* a search that goes on */
  if (next.step != SBX_KIT_DONE) abort();
  int rc = sbx_kit_call_result(c->call, &r, &error);
  if (rc != (rc < 0 ? error.code : 0)) abort();
  if (rc < 0 && !memchr(error.message, 0, sizeof(error.message))) abort();
  enum sbx_file_verb verb = kit_verbs[c->kind % KIT_VERBS];
  if (rc == 0 && (verb == SBX_FILE_WALK || verb == SBX_FILE_READDIR))
    kit_check_entries(&r, false);
  if (rc == 0 && verb == SBX_FILE_GATHER) kit_check_entries(&r, true);
  journal_number(c->journal, "code", rc);
  journal_event(c->journal, "data", r.data, r.len);
  journal_number(c->journal, "time", r.stat.modified_ms);
  free(r.data);
  return 0;
}

static inline int kit_job_finish(struct kit_case* c) {
  struct sbx_kit_job_result r;
  struct sbx_error error = {0};
  int rc = sbx_kit_job_result(c->job, 0, "", 0, &r, &error);
  journal_number(c->journal, "code", rc);
  for (size_t i = 0; rc == 0 && i < r.count; i++) {
    if (r.list[i].pid < 2 || r.list[i].exit_code > 255) abort();
    journal_event(c->journal, "command", r.list[i].command,
                  strlen(r.list[i].command));
  }
  if (rc == 0 && r.home) journal_event(c->journal, "home", r.home,
                                       strlen(r.home));
  return 0;
}

static inline int kit_finish(void* parser) {
  struct kit_case* c = parser;
  if (c->call) return kit_call_finish(c);
  if (c->job) return kit_job_finish(c);
  if (!c->run) return 0;
  sbx_kit_run_ended(c->run, 9, 0);
  for (int i = 0; i < 2; i++)
    journal_event(c->journal, "text", c->text[i].bytes, c->text[i].len);
  return 0;
}

static inline void kit_free(void* parser) {
  struct kit_case* c = parser;
  sbx_kit_call_free(c->call);
  sbx_kit_run_free(c->run);
  sbx_kit_job_free(c->job);
  for (int i = 0; i < 2; i++) free(c->text[i].bytes);
  free(c);
}

static const struct cut_parser kit_parser = {kit_make, kit_feed, kit_finish,
                                             kit_free};

#endif
