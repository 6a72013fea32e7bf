/* A scratch folder with a root on it, and requests that wait for their end. */
#ifndef FILES_HELP_H
#define FILES_HELP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "native/files/internal.h"
#include "native/remove.h"

struct scratch {
  uv_loop_t loop;
  char path[64];
  int fd;
  struct sbx_root* root;
};

struct answer {
  int code;
  struct sbx_error error;
  struct sbx_file_result result;
  bool called;
};

static inline int scratch_open(void** state) {
  struct scratch* s = calloc(1, sizeof(*s));
  strcpy(s->path, "/tmp/sbx-files-XXXXXX");
  assert_non_null(mkdtemp(s->path));
  assert_int_equal(chmod(s->path, 0755), 0);
  s->fd = open(s->path, O_PATH | O_DIRECTORY | O_CLOEXEC);
  struct sbx_root_spec spec = {dup(s->fd), "/workspace", -1, -1};
  assert_int_equal(uv_loop_init(&s->loop), 0);
  assert_int_equal(sbx_root_new(&spec, &s->root), 0);
  *state = s;
  return 0;
}

static inline int scratch_close(void** state) {
  struct scratch* s = *state;
  sbx_root_unref(s->root);
  assert_int_equal(uv_loop_close(&s->loop), 0);
  close(s->fd);
  int tmp = open("/tmp", O_PATH | O_DIRECTORY | O_CLOEXEC);
  int rc = sbx_remove_tree(tmp, s->path + strlen("/tmp/"));
  strcat(s->path, ".out"); /* what some tests make beside it */
  sbx_remove_tree(tmp, s->path + strlen("/tmp/"));
  close(tmp);
  free(s);
  return rc;
}

static inline void on_answer(void* arg, const struct sbx_error* error,
                             struct sbx_file_result* result) {
  struct answer* a = arg;
  assert_false(a->called);
  a->called = true;
  a->code = error ? error->code : 0;
  if (error) a->error = *error;
  if (error && getenv("SBX_SHOW")) fprintf(stderr, "%s\n", error->message);
  a->result = *result;
}

static inline struct answer ask(struct scratch* s,
                                const struct sbx_file_request* request) {
  struct answer a = {0};
  assert_int_equal(
      sbx_files_request(&s->loop, s->root, request, on_answer, &a), 0);
  uv_run(&s->loop, UV_RUN_DEFAULT);
  assert_true(a.called);
  return a;
}

#define REQUEST(...)                                                \
  ((struct sbx_file_request){.expected_mtime_ms = INT64_MIN, __VA_ARGS__})

/* The code of a request whose answer does not matter. */
static inline int code_of(struct scratch* s, struct sbx_file_request request) {
  struct answer a = ask(s, &request);
  free(a.result.data);
  return a.code;
}

static inline int put(struct scratch* s, const char* path, const char* text,
                      unsigned flags) {
  return code_of(s, REQUEST(.verb = SBX_FILE_WRITE, .path = path,
                            .data = text, .data_len = strlen(text),
                            .flags = flags));
}

static inline int simple(struct scratch* s, enum sbx_file_verb verb,
                         const char* path, unsigned flags) {
  return code_of(s, REQUEST(.verb = verb, .path = path, .flags = flags));
}

static inline int pair(struct scratch* s, enum sbx_file_verb verb,
                       const char* path, const char* to, unsigned flags) {
  return code_of(s, REQUEST(.verb = verb, .path = path, .to = to,
                            .flags = flags));
}

static inline bool exists(struct scratch* s, const char* path) {
  struct sbx_file_request request =
      REQUEST(.verb = SBX_FILE_EXISTS, .path = path);
  struct answer a = ask(s, &request);
  assert_int_equal(a.code, 0);
  return a.result.exists;
}

static inline struct sbx_file_stat stat_of(struct scratch* s, const char* path,
                                           unsigned flags) {
  struct sbx_file_request request =
      REQUEST(.verb = SBX_FILE_STAT, .path = path, .flags = flags);
  struct answer a = ask(s, &request);
  assert_int_equal(a.code, 0);
  return a.result.stat;
}

static inline void assert_content(struct scratch* s, const char* path,
                                  const char* text) {
  struct sbx_file_request request =
      REQUEST(.verb = SBX_FILE_READ, .path = path);
  struct answer a = ask(s, &request);
  assert_int_equal(a.code, 0);
  assert_int_equal(a.result.len, strlen(text));
  assert_memory_equal(a.result.data, text, a.result.len);
  free(a.result.data);
}

/* "a/ a/b=3 l@" : folders, sizes, links; OTHER as "|". */
static inline char* list_text(const struct sbx_file_result* result) {
  char* out = calloc(1, result->len * 2 + 64);
  const unsigned char* at = result->data;
  char* to = out;
  for (uint32_t i = 0; i < result->count; i++) {
    uint32_t name_len, target_len;
    uint64_t size;
    memcpy(&name_len, at + 4, 4);
    memcpy(&target_len, at + 8, 4);
    memcpy(&size, at + 12, 8);
    to += sprintf(to, "%s%.*s", i ? " " : "", (int)name_len,
                  (const char*)at + SBX_ENTRY_HEADER);
    if (at[0] == SBX_TYPE_DIRECTORY) *to++ = '/';
    if (at[0] == SBX_TYPE_OTHER) *to++ = '|';
    if (at[1]) *to++ = '@';
    if (at[2]) to += sprintf(to, "=%llu", (unsigned long long)size);
    at += SBX_ENTRY_HEADER + name_len + target_len;
  }
  return out;
}

static inline void assert_list(struct scratch* s,
                               struct sbx_file_request request,
                               const char* text) {
  struct answer a = ask(s, &request);
  assert_int_equal(a.code, 0);
  char* found = list_text(&a.result);
  assert_string_equal(found, text);
  free(found);
  free(a.result.data);
}

/* A shell in the scratch folder, as a command inside would be. */
static inline void shell(struct scratch* s, const char* script) {
  char line[4096];
  snprintf(line, sizeof(line), "cd %s && umask 022 && { %s\n}", s->path,
           script);
  assert_int_equal(system(line), 0);
}

#endif
