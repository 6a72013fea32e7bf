/* Short jobs about commands: kill, signal, list; and what a new machine needs
 * first. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../native/utf8.h"
#include "internal.h"
#include "run.h"

enum {
  NONCE_LEN = SBX__NONCE_SIZE - 1,
  LIST_MAX = 4096, /* commands */
  TEXT_MAX = 4096,
  /* Each with its line. */
  ANSWER_MAX = LIST_MAX * (TEXT_MAX + 256)
};

struct sbx_kit_job {
  const char* operation;
  char* root;
  char* folder;
  struct sbx__command command;
  struct sbx__answer answer;
  struct sbx_kit_process* list;
  char nonce[SBX__NONCE_SIZE];
  int code; /* of feed */
};

static int job_new(const struct sbx_kit_place* place, const char* operation,
                   const enum sbx__script* scripts, size_t limit,
                   struct sbx_kit_job** out) {
  struct sbx_kit_job* job = calloc(1, sizeof(*job));
  if (!job) return SBX_E_INTERNAL;
  job->operation = operation;
  job->root = strdup(place->root);
  job->folder = strdup(sbx__kit_folder(place));
  *out = job;
  if (!job->root || !job->folder || sbx__kit_nonce(job->nonce) < 0)
    return SBX_E_INTERNAL;
  sbx__command_shell(&job->command, place, job->nonce, scripts);
  sbx__answer_start(&job->answer, job->nonce, !place->binary_output, limit);
  return 0;
}

static int job_ready(struct sbx_kit_job* job, int rc,
                     struct sbx_kit_job** out) {
  if (rc == 0) rc = sbx__command_finish(&job->command);
  *out = rc < 0 ? NULL : job;
  if (rc < 0) sbx_kit_job_free(job);
  return rc < 0 ? SBX_E_INTERNAL : 0;
}

static void add_pid(struct sbx_kit_job* job, uint32_t pid, uint64_t start) {
  sbx__command_number(&job->command, pid);
  sbx__command_number(&job->command, start);
}

int sbx_kit_job_kill(const struct sbx_kit_place* place, uint32_t pid,
                     uint64_t start, uint64_t grace_ms,
                     struct sbx_kit_job** out) {
  static const enum sbx__script scripts[] = {SBX__SH_JOB, SBX__SH_TREE,
                                             SBX__SH_KILL, SBX__SH_END};
  struct sbx_kit_job* job = NULL;
  int rc = job_new(place, "processes.kill", scripts, 64, &job);
  if (rc == 0) {
    add_pid(job, pid, start);
    sbx__command_number(&job->command, grace_ms / 100 + (grace_ms % 100 > 0));
  }
  return job_ready(job, rc, out);
}

int sbx_kit_job_signal(const struct sbx_kit_place* place, uint32_t pid,
                       uint64_t start, int signo, struct sbx_kit_job** out) {
  static const enum sbx__script scripts[] = {SBX__SH_JOB, SBX__SH_SIGNAL,
                                             SBX__SH_END};
  struct sbx_kit_job* job = NULL;
  int rc = job_new(place, "processes.signal", scripts, 4096, &job);
  if (rc == 0) {
    add_pid(job, pid, start);
    sbx__command_number(&job->command, signo > 0 ? (uint64_t)signo : 0);
  }
  return job_ready(job, rc, out);
}

int sbx_kit_job_list(const struct sbx_kit_place* place,
                     struct sbx_kit_job** out) {
  static const enum sbx__script scripts[] = {SBX__SH_JOB, SBX__SH_JOBS,
                                             SBX__SH_END};
  struct sbx_kit_job* job = NULL;
  int rc = job_new(place, "processes.list", scripts, ANSWER_MAX, &job);
  return job_ready(job, rc, out);
}

int sbx_kit_job_prepare(const struct sbx_kit_place* place,
                        struct sbx_kit_job** out) {
  static const enum sbx__script scripts[] = {SBX__SH_JOB, SBX__SH_PREPARE,
                                             SBX__SH_END};
  struct sbx_kit_job* job = NULL;
  int rc = job_new(place, "sandbox.create", scripts, 16 << 10, &job);
  return job_ready(job, rc, out);
}

const char* const* sbx_kit_job_argv(const struct sbx_kit_job* job,
                                    size_t* argc) {
  *argc = job->command.argc;
  return job->command.argv;
}

int sbx_kit_job_feed(struct sbx_kit_job* job, const char* bytes, size_t len) {
  if (job->code == 0) job->code = sbx__answer_feed(&job->answer, bytes, len);
  return job->code;
}

void sbx_kit_job_free(struct sbx_kit_job* job) {
  if (!job) return;
  sbx__command_free(&job->command);
  sbx__answer_free(&job->answer);
  free(job->list);
  free(job->root);
  free(job->folder);
  free(job);
}

/* --- answers -------------------------------------------------------------- */

static bool take_number(const char** at, const char* end, uint64_t* out) {
  if (*at >= end) return false;
  const char* space = memchr(*at, ' ', (size_t)(end - *at));
  if (!space || sbx__number_parse(*at, (size_t)(space - *at), out) < 0)
    return false;
  *at = space + 1;
  return true;
}

static int exit_code_of(char end, uint64_t code) {
  return end == '-' || code > 255 ? -1 : (int)code;
}

/* "pid start seconds flags child running end code" */
static bool line_parse(const char* at, const char* end,
                       struct sbx_kit_process* p) {
  uint64_t pid, seconds, running, code;
  if (!take_number(&at, end, &pid) || pid < 2 || pid > UINT32_MAX ||
      !take_number(&at, end, &p->start) || !take_number(&at, end, &seconds) ||
      seconds > INT64_MAX / 1000)
    return false;
  const char* space = memchr(at, ' ', (size_t)(end - at));
  if (!space) return false;
  p->spooled = memchr(at, 's', (size_t)(space - at)) != NULL;
  p->terminal = memchr(at, 't', (size_t)(space - at)) != NULL;
  p->stdin_pipe = memchr(at, 'i', (size_t)(space - at)) != NULL;
  at = space + 1;
  if (!take_number(&at, end, &running) || end - at < 3 || at[1] != ' ' ||
      sbx__number_parse(at + 2, (size_t)(end - at - 2), &code) < 0)
    return false;
  p->pid = (uint32_t)pid;
  p->started_ms = (int64_t)seconds * 1000;
  p->running = running == 1;
  p->exit_code = p->running ? 0 : exit_code_of(at[0], code);
  return true;
}

static int by_start(const void* a, const void* b) {
  const struct sbx_kit_process* x = a;
  const struct sbx_kit_process* y = b;
  return (x->start > y->start) - (x->start < y->start);
}

/* The end of a text, which may hold anything else. */
static char* mark_find(const struct sbx_kit_job* job, char* at,
                       const char* end) {
  char mark[1 + NONCE_LEN] = "";
  memcpy(mark + 1, job->nonce, NONCE_LEN);
  return memmem(at, (size_t)(end - at), mark, sizeof(mark));
}

/* What follows the record's first line, shortened. */
static char* text_of(char* record, char* nul) {
  char* line = memchr(record, '\n', (size_t)(nul - record));
  char* text = line ? line + 1 : nul;
  if (nul - text >= TEXT_MAX) text[TEXT_MAX - 1] = 0;
  return text;
}

/* One that no wrapper of ours has left is left out, or it would hide the
 * others. */
static int take_list(struct sbx_kit_job* job, char* at, const char* end,
                     struct sbx_kit_job_result* result) {
  job->list = calloc(LIST_MAX, sizeof(*job->list));
  if (!job->list) return SBX_E_INTERNAL;
  while (at < end && result->count < LIST_MAX) {
    char* line = memchr(at, '\n', (size_t)(end - at));
    char* nul = line ? mark_find(job, line, end) : NULL;
    struct sbx_kit_process* p = &job->list[result->count];
    if (!nul) return SBX_E_PROVIDER;
    p->command = text_of(line + 1, nul);
    result->count += line_parse(at, line, p);
    at = nul + 1 + NONCE_LEN;
  }
  qsort(job->list, result->count, sizeof(*job->list), by_start);
  result->list = job->list;
  return 0;
}

static int fail_folder(struct sbx_kit_job* job, struct sbx_error* error) {
  return sbx_error_set(error, SBX_E_UNAVAILABLE, EACCES, job->operation,
                       "The folder %s in the sandbox cannot be made or is "
                       "somebody else's; remove it.", job->folder);
}

/* A path that can stand in a message, a variable and an agent's prompt. */
static bool is_plain_path(const char* path) {
  size_t len = strlen(path);
  if (path[0] != '/' || len > 1024 || !sbx_utf8_valid(path, len)) return false;
  for (; *path; path++)
    if ((unsigned char)*path < 0x20 || *path == 0x7f) return false;
  return true;
}

/* "10 1000 /bin/bash\n/home/user"; the text stays in the answer. */
static int take_prepared(struct sbx_kit_job* job, char* at, char* end,
                         struct sbx_kit_job_result* result,
                         struct sbx_error* error) {
  uint64_t uid;
  const char* uid_at = at + 3;
  if (end - at < 4 || at[2] != ' ') return SBX_E_PROVIDER;
  if (at[1] != '1') return fail_folder(job, error);
  result->made = at[0] == '1';
  char* line = memchr(at, '\n', (size_t)(end - at));
  if (!line || !take_number(&uid_at, line, &uid) || uid > UINT32_MAX)
    return SBX_E_PROVIDER;
  result->uid = (uint32_t)uid;
  *line = 0;
  size_t len = (size_t)(line - uid_at);
  bool bash = len > 5 && memcmp(line - 5, "/bash", 5) == 0;
  bash = bash && is_plain_path(uid_at);
  result->shell = bash ? uid_at : "/bin/sh";
  if (memchr(line + 1, 0, (size_t)(end - line - 1))) return SBX_E_PROVIDER;
  *end = 0; /* the end mark was there */
  result->home = is_plain_path(line + 1) ? line + 1 : "";
  return 0;
}

static int fail_gone(struct sbx_kit_job* job, struct sbx_error* error) {
  return sbx_error_set(error, SBX_E_NOT_FOUND, ESRCH, job->operation,
                       "The process does not run any more.");
}

static int fail_signal(struct sbx_kit_job* job, const char* text, size_t len,
                       struct sbx_error* error) {
  char quote[SBX__QUOTE_SIZE];
  return sbx_error_set(error, SBX_E_PERMISSION, EPERM, job->operation,
                       "The signal could not be sent: %s",
                       sbx__kit_quote(text, len, quote));
}

static int take_answer(struct sbx_kit_job* job, char* text, size_t len,
                       struct sbx_kit_job_result* result,
                       struct sbx_error* error) {
  if (len == 0) return SBX_E_PROVIDER;
  switch (text[0]) {
    case 'K':
      return 0;
    case 'N':
      return fail_gone(job, error);
    case 'T':
      return fail_signal(job, text + 1, len - 1, error);
    case 'J':
      return take_list(job, text + 1, text + len, result);
    case 'P':
      return take_prepared(job, text + 1, text + len, result, error);
    default:
      return SBX_E_PROVIDER;
  }
}

int sbx_kit_job_result(struct sbx_kit_job* job, int exit_code,
                       const char* stderr_text, size_t stderr_len,
                       struct sbx_kit_job_result* result,
                       struct sbx_error* error) {
  char quote[SBX__QUOTE_SIZE];
  char* text;
  size_t len;
  memset(result, 0, sizeof(*result));
  int rc = job->code;
  if (rc == 0) rc = sbx__answer_end(&job->answer, &text, &len);
  if (rc == 0) rc = take_answer(job, text, len, result, error);
  if (rc == SBX_E_PROVIDER)
    sbx_error_set(error, rc, 0, job->operation,
                  "The sandbox's shell gave no answer that makes sense (exit "
                  "code %d): %s", exit_code,
                  sbx__kit_quote(stderr_text, stderr_len, quote));
  if (rc == SBX_E_INTERNAL)
    sbx_error_set(error, rc, ENOMEM, job->operation, "Out of memory.");
  return rc;
}
