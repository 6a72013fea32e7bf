/* One file call on a sandbox that has a shell: which commands and transfers it
 * takes, and what their answers mean. */
#include "internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../native/utf8.h"
#include "list.h"

enum {
  INLINE_DEFAULT = 64 << 10,
  INLINE_TEXT_MAX = 120 << 10,   /* one argument with some room */
  INLINE_BASE64_MAX = 90 << 10,
  GUARD_MAX = 8,
  AGAIN = 1 /* one more command */
};

enum phase {
  PHASE_RUN,
  PHASE_UPLOAD,
  PHASE_DOWNLOAD,
  PHASE_GUARD, /* the file that a text is to replace is read first */
  PHASE_DONE
};

struct sbx_kit_call {
  struct sbx_kit_place place;
  struct sbx_file_request request;
  enum phase phase;
  int code; /* of a call that is done */
  char nonce[SBX__NONCE_SIZE];
  char upload[PATH_MAX]; /* private file; "" if the content goes along */
  char* download;
  struct sbx__command command;
  struct sbx__answer answer;
  struct sbx_file_result result;
  size_t room; /* of result.data, for a download */
  struct sbx_error error;
  struct sbx_kit_call* guard;
  unsigned guards;
  char* after; /* gather: goes on after this, for what came held nothing */
  bool guarded; /* expected_mtime_ms is the guard's */
};

static const char* operation(const struct sbx_kit_call* call) {
  return sbx__operation(call->request.verb);
}

static int finish(struct sbx_kit_call* call, int code) {
  call->phase = PHASE_DONE;
  call->code = code;
  return code;
}

static int fail_memory(struct sbx_kit_call* call) {
  return finish(call, sbx_error_set(&call->error, SBX_E_INTERNAL, ENOMEM,
                                    operation(call), "Out of memory."));
}

static int fail_answer(struct sbx_kit_call* call, const char* what) {
  return finish(call, sbx_error_set(&call->error, SBX_E_PROVIDER, 0,
                                    operation(call), "/%s: %s",
                                    call->request.path, what));
}

static uint64_t inline_max(const struct sbx_kit_call* call, uint64_t most) {
  uint64_t want = call->place.inline_max;
  if (want == 0) want = INLINE_DEFAULT;
  return want < most ? want : most;
}

/* --- the commands --------------------------------------------------------- */

static bool is_text(const struct sbx_file_request* r) {
  return !memchr(r->data, 0, r->data_len) &&
         sbx_utf8_valid(r->data, r->data_len);
}

static bool has_content(const struct sbx_kit_call* call) {
  return call->request.verb == SBX_FILE_WRITE ||
         call->request.verb == SBX_FILE_APPEND;
}

static bool needs_upload(const struct sbx_kit_call* call) {
  const struct sbx_file_request* r = &call->request;
  if (!has_content(call)) return false;
  if (r->data_len > inline_max(call, INLINE_TEXT_MAX)) return true;
  if (r->data_len <= inline_max(call, INLINE_BASE64_MAX)) return false;
  return !is_text(r);
}

static void add_path(struct sbx__command* c, const char* path) {
  sbx__command_arg(c, path, strlen(path));
}

static void add_mode(struct sbx__command* c, uint32_t mode) {
  char text[16] = "";
  if (mode) snprintf(text, sizeof(text), "%o", mode & 01777);
  sbx__command_add(c, text);
}

static void add_content(struct sbx_kit_call* call) {
  const struct sbx_file_request* r = &call->request;
  struct sbx__command* c = &call->command;
  bool text = !call->upload[0] && (r->data_len == 0 || is_text(r));
  sbx__command_add(c, call->upload[0] ? "f" : text ? "r" : "b");
  if (call->upload[0])
    sbx__command_add(c, strrchr(call->upload, '/') + 1);
  else if (text)
    sbx__command_arg(c, r->data ? r->data : "", r->data_len);
  else
    sbx__command_base64(c, r->data, r->data_len);
}

static void shell(struct sbx_kit_call* call, const enum sbx__script* scripts) {
  sbx__command_shell(&call->command, &call->place, call->nonce, scripts);
}

static void make_look(struct sbx_kit_call* call) {
  static const enum sbx__script scripts[] = {SBX__SH_BASE, SBX__SH_LOOK,
                                             SBX__SH_END};
  const struct sbx_file_request* r = &call->request;
  struct sbx__command* c = &call->command;
  shell(call, scripts);
  sbx__command_add(c, r->verb == SBX_FILE_STAT     ? "stat"
                      : r->verb == SBX_FILE_EXISTS ? "exists"
                                                   : "realpath");
  add_path(c, r->path);
  sbx__command_add(c, r->flags & SBX_FILE_NOFOLLOW ? "" : "f");
}

static uint64_t read_limit(const struct sbx_file_request* r) {
  bool most = r->max_bytes == 0 || r->max_bytes > SBX__READ_MAX;
  return most ? SBX__READ_MAX : r->max_bytes;
}

static void make_read(struct sbx_kit_call* call) {
  static const enum sbx__script scripts[] = {SBX__SH_BASE, SBX__SH_READ,
                                             SBX__SH_END};
  uint64_t most = inline_max(call, 16 << 20);
  shell(call, scripts);
  add_path(&call->command, call->request.path);
  sbx__command_number(&call->command, read_limit(&call->request));
  sbx__command_number(&call->command, most);
  sbx__command_number(&call->command, most + 1);
  sbx__command_add(&call->command,
                   call->request.flags & SBX_FILE_BARE ? "q" : "");
}

static void make_write(struct sbx_kit_call* call) {
  static const enum sbx__script scripts[] = {
      SBX__SH_BASE, SBX__SH_LOCK, SBX__SH_REPLACE, SBX__SH_WRITE, SBX__SH_END};
  const struct sbx_file_request* r = &call->request;
  struct sbx__command* c = &call->command;
  char expected[40] = "", flags[4] = "";
  if (r->expected_mtime_ms != INT64_MIN)
    sbx__time_format(r->expected_mtime_ms, expected);
  if (r->flags & SBX_FILE_PARENTS) strcat(flags, "m");
  if (r->flags & SBX_FILE_EXCLUSIVE) strcat(flags, "x");
  if (r->flags & SBX_FILE_BARE) strcat(flags, "q");
  shell(call, scripts);
  add_path(c, r->path);
  sbx__command_add(c, flags);
  sbx__command_add(c, expected);
  add_mode(c, r->mode);
  add_content(call);
}

static void make_append(struct sbx_kit_call* call) {
  static const enum sbx__script scripts[] = {SBX__SH_BASE, SBX__SH_LOCK,
                                             SBX__SH_REPLACE, SBX__SH_APPEND,
                                             SBX__SH_END};
  shell(call, scripts);
  add_path(&call->command, call->request.path);
  add_mode(&call->command, call->request.mode);
  add_content(call);
}

static void make_folder(struct sbx_kit_call* call) {
  static const enum sbx__script scripts[] = {SBX__SH_BASE, SBX__SH_FOLDER,
                                             SBX__SH_END};
  const struct sbx_file_request* r = &call->request;
  struct sbx__command* c = &call->command;
  char flags[4] = "";
  if (r->flags & SBX_FILE_PARENTS) strcat(flags, "m");
  if (r->flags & SBX_FILE_FORCE) strcat(flags, "f");
  if (r->flags & SBX_FILE_RECURSIVE) strcat(flags, "r");
  shell(call, scripts);
  sbx__command_add(c, r->verb == SBX_FILE_MKDIR    ? "mkdir"
                      : r->verb == SBX_FILE_DELETE ? "delete"
                                                   : "rmdir");
  add_path(c, r->path);
  sbx__command_add(c, flags);
  add_mode(c, r->mode ? r->mode : 0755);
}

static void make_transfer(struct sbx_kit_call* call) {
  static const enum sbx__script scripts[] = {
      SBX__SH_BASE, SBX__SH_LOCK, SBX__SH_REPLACE, SBX__SH_TRANSFER,
      SBX__SH_END};
  const struct sbx_file_request* r = &call->request;
  struct sbx__command* c = &call->command;
  char flags[4] = "";
  if (r->flags & SBX_FILE_EXCLUSIVE) strcat(flags, "x");
  if (r->flags & SBX_FILE_RECURSIVE) strcat(flags, "r");
  shell(call, scripts);
  sbx__command_add(c, r->verb == SBX_FILE_COPY ? "copy" : "move");
  add_path(c, r->path);
  add_path(c, r->to);
  sbx__command_add(c, flags);
}

static size_t answer_limit(const struct sbx_kit_call* call) {
  switch (call->request.verb) {
    case SBX_FILE_READ:
      return (size_t)inline_max(call, 16 << 20) + PATH_MAX;
    case SBX_FILE_READDIR:
    case SBX_FILE_WALK:
      return SBX__LIST_LIMIT;
    case SBX_FILE_GATHER:
      return sbx__gather_limit(&call->request);
    default:
      return 16 << 10;
  }
}

/* A new command with a nonce of its own. */
static int make(struct sbx_kit_call* call) {
  sbx__command_free(&call->command);
  sbx__answer_free(&call->answer);
  if (sbx__kit_nonce(call->nonce) < 0) return fail_memory(call);
  switch (call->request.verb) {
    case SBX_FILE_READ:
      make_read(call);
      break;
    case SBX_FILE_WRITE:
      make_write(call);
      break;
    case SBX_FILE_APPEND:
      make_append(call);
      break;
    case SBX_FILE_COPY:
    case SBX_FILE_MOVE:
      make_transfer(call);
      break;
    case SBX_FILE_DELETE:
    case SBX_FILE_MKDIR:
    case SBX_FILE_RMDIR:
      make_folder(call);
      break;
    case SBX_FILE_READDIR:
    case SBX_FILE_WALK:
      sbx__list_command(&call->command, &call->place, call->nonce,
                        &call->request);
      break;
    case SBX_FILE_GATHER:
      sbx__gather_command(&call->command, &call->place, call->nonce,
                          &call->request);
      break;
    default:
      make_look(call);
  }
  int rc = sbx__command_finish(&call->command);
  if (rc == SBX_E_INVALID_INPUT)
    return finish(call, sbx_error_set(&call->error, rc, E2BIG, operation(call),
                                      "/%s: the names in it are too long for "
                                      "one command; shorten them.",
                                      call->request.path));
  if (rc < 0) return fail_memory(call);
  sbx__answer_start(&call->answer, call->nonce, !call->place.binary_output,
                    answer_limit(call));
  call->phase = PHASE_RUN;
  return 0;
}

/* --- before a text replaces what may be no text --------------------------- */

static bool needs_guard(const struct sbx_file_request* r) {
  return r->verb == SBX_FILE_WRITE && r->flags & SBX_FILE_TEXT &&
         r->data_len > 0 &&
         memmem(r->data, r->data_len, "\xef\xbf\xbd", 3);
}

static int guard_start(struct sbx_kit_call* call) {
  struct sbx_file_request read = {.verb = SBX_FILE_READ,
                                  .path = call->request.path,
                                  .expected_mtime_ms = INT64_MIN};
  if (call->guards++ == GUARD_MAX)
    return fail_answer(call, "it changes all the time; try again.");
  call->phase = PHASE_GUARD;
  int rc = sbx_kit_call_new(&call->place, &read, &call->guard, &call->error);
  return rc < 0 ? finish(call, rc) : 0;
}

static int fail_not_text(struct sbx_kit_call* call) {
  return finish(
      call,
      sbx_error_set(&call->error, SBX_E_INVALID_INPUT, 0, operation(call),
                    "/%s is not UTF-8, and the new text has U+FFFD where its "
                    "bytes were: they would be lost. Edit it with a command "
                    "(sed, iconv) or write bytes.", call->request.path));
}

/* What was read, whatever it is, may be replaced; only bytes that are no text
 * may not. The write then wants the file as it was seen. */
static int guard_end(struct sbx_kit_call* call) {
  struct sbx_file_result seen = {0};
  int rc = sbx_kit_call_result(call->guard, &seen, &call->error);
  bool valid = rc < 0 || sbx_utf8_valid(seen.data, seen.len);
  free(seen.data);
  sbx_kit_call_free(call->guard);
  call->guard = NULL;
  if (rc == SBX_E_PROVIDER || rc == SBX_E_INTERNAL) return finish(call, rc);
  memset(&call->error, 0, sizeof(call->error));
  if (!valid) return fail_not_text(call);
  if (rc == 0 && call->request.expected_mtime_ms == INT64_MIN) {
    call->request.expected_mtime_ms = seen.stat.modified_ms;
    call->guarded = true;
  }
  if (needs_upload(call) && !call->upload[0]) {
    call->phase = PHASE_UPLOAD;
    return 0;
  }
  return make(call);
}

/* --- life ----------------------------------------------------------------- */

/* What the errors of local files are made from. */
static struct sbx__job job_of(struct sbx_kit_call* call) {
  return (struct sbx__job){.request = &call->request,
                           .result = &call->result,
                           .error = &call->error};
}

static int check_names(struct sbx_kit_call* call, const char* path) {
  const char* at = path;
  bool fits = !path || strlen(path) < PATH_MAX;
  while (fits && at && *at) {
    size_t len = strcspn(at, "/");
    fits = len <= NAME_MAX;
    at += len + (at[len] == '/');
  }
  if (fits) return 0;
  struct sbx__job job = job_of(call);
  return finish(call, sbx__fail(&job, ENAMETOOLONG, path, SBX__SOURCE));
}

/* A name that no file can have is no question to the sandbox. */
static int check(struct sbx_kit_call* call) {
  int rc = check_names(call, call->request.path);
  if (rc == 0) rc = check_names(call, call->request.to);
  if (rc < 0 && call->request.verb == SBX_FILE_EXISTS) finish(call, 0);
  return rc;
}

static int upload_name(struct sbx_kit_call* call) {
  char nonce[SBX__NONCE_SIZE];
  const char* folder = sbx__kit_folder(&call->place);
  if (sbx__kit_nonce(nonce) < 0) return fail_memory(call);
  int len = snprintf(call->upload, sizeof(call->upload), "%s/u.%s", folder,
                     nonce);
  return len < (int)sizeof(call->upload) ? 0 : fail_memory(call);
}

static void begin(struct sbx_kit_call* call) {
  if (check(call) < 0) return;
  if (needs_guard(&call->request)) guard_start(call);
  else if (needs_upload(call)) call->phase = PHASE_UPLOAD;
  else make(call);
}

int sbx_kit_call_new(const struct sbx_kit_place* place,
                     const struct sbx_file_request* request,
                     struct sbx_kit_call** out, struct sbx_error* error) {
  if (!sbx__is_sound(request))
    return sbx_error_set(error, SBX_E_INTERNAL, 0, "files",
                         "A file request that is none.");
  struct sbx_kit_call* call = calloc(1, sizeof(*call));
  if (!call)
    return sbx_error_set(error, SBX_E_INTERNAL, ENOMEM,
                         sbx__operation(request->verb), "Out of memory.");
  call->place = *place;
  call->request = *request;
  begin(call);
  *out = call;
  return 0;
}

void sbx_kit_call_free(struct sbx_kit_call* call) {
  if (!call) return;
  sbx_kit_call_free(call->guard);
  sbx__command_free(&call->command);
  sbx__answer_free(&call->answer);
  free(call->result.data);
  free(call->download);
  free(call->after);
  free(call);
}

static void next_upload(struct sbx_kit_call* call, struct sbx_kit_next* out) {
  if (!call->upload[0] && upload_name(call) < 0) {
    out->step = SBX_KIT_DONE;
    return;
  }
  out->step = SBX_KIT_UPLOAD;
  out->path = call->upload;
  out->data = call->request.data;
  out->data_len = call->request.data_len;
}

void sbx_kit_call_next(struct sbx_kit_call* call, struct sbx_kit_next* out) {
  memset(out, 0, sizeof(*out));
  switch (call->phase) {
    case PHASE_GUARD:
      sbx_kit_call_next(call->guard, out);
      break;
    case PHASE_RUN:
      out->step = SBX_KIT_RUN;
      out->argv = call->command.argv;
      out->argc = call->command.argc;
      break;
    case PHASE_UPLOAD:
      next_upload(call, out);
      break;
    case PHASE_DOWNLOAD:
      out->step = SBX_KIT_DOWNLOAD;
      out->path = call->download;
      break;
    default:
      out->step = SBX_KIT_DONE;
  }
}

/* --- answers -------------------------------------------------------------- */

static int download_feed(struct sbx_kit_call* call, const char* bytes,
                         size_t len) {
  struct sbx_file_result* r = &call->result;
  if (r->len + len > read_limit(&call->request)) {
    struct sbx__job job = job_of(call);
    return finish(call, sbx__kit_error(&job, &call->place, "Eps LARGE ", 10));
  }
  if (len > call->room - r->len) {
    size_t room = r->len + len + r->len / 2;
    char* data = realloc(r->data, room);
    if (!data) return fail_memory(call);
    r->data = data;
    call->room = room;
  }
  memcpy((char*)r->data + r->len, bytes, len);
  r->len += len;
  return 0;
}

int sbx_kit_call_feed(struct sbx_kit_call* call, const char* bytes,
                      size_t len) {
  if (len == 0) return 0;
  if (call->phase == PHASE_GUARD)
    return sbx_kit_call_feed(call->guard, bytes, len);
  if (call->phase == PHASE_DOWNLOAD) return download_feed(call, bytes, len);
  if (call->phase != PHASE_RUN) return 0;
  int rc = sbx__answer_feed(&call->answer, bytes, len);
  if (rc == SBX_E_PROVIDER)
    return fail_answer(call, "the sandbox's answer is too long.");
  return rc < 0 ? fail_memory(call) : 0;
}

/* "S<facts>" up to a line's end or the payload's. */
static int take_stat(struct sbx_kit_call* call, const char** text,
                     const char* end) {
  const char* line = memchr(*text, '\n', (size_t)(end - *text));
  size_t len = (size_t)((line ? line : end) - *text);
  if (len == 0 || **text != 'S') return SBX_E_PROVIDER;
  int rc = sbx__facts_parse(*text + 1, len - 1, &call->result.stat);
  *text = line ? line + 1 : end;
  return rc;
}

static int take_data(struct sbx_kit_call* call, const char* text,
                     size_t len) {
  call->result.data = malloc(len + 1);
  if (!call->result.data) return SBX_E_INTERNAL;
  memcpy(call->result.data, text, len);
  ((char*)call->result.data)[len] = 0;
  call->result.len = len;
  return 0;
}

static int take_download(struct sbx_kit_call* call, const char* text,
                         size_t len) {
  if (len == 0 || len > 2 * PATH_MAX || text[0] != '/' ||
      memchr(text, 0, len))
    return SBX_E_PROVIDER;
  call->download = strndup(text, len);
  if (!call->download) return SBX_E_INTERNAL;
  call->phase = PHASE_DOWNLOAD;
  return 0;
}

/* "Q<where it is>", NUL, and its beginning. */
static int answer_read_bare(struct sbx_kit_call* call, const char* text,
                            size_t len) {
  struct sbx__job job = job_of(call);
  const char* nul = len > 0 && text[0] == 'Q' ? memchr(text, 0, len) : NULL;
  if (!nul) return SBX_E_PROVIDER;
  size_t path_len = (size_t)(nul - text) - 1;
  size_t data_len = len - path_len - 2;
  if (data_len > read_limit(&call->request))
    return sbx__kit_error(&job, &call->place, "Eps LARGE ", 10);
  if (data_len > inline_max(call, 16 << 20))
    return take_download(call, text + 1, path_len);
  return take_data(call, nul + 1, data_len);
}

static int answer_read(struct sbx_kit_call* call, const char* text,
                       const char* end) {
  int rc = take_stat(call, &text, end);
  if (rc < 0) return rc;
  if (text == end) return SBX_E_PROVIDER;
  size_t len = (size_t)(end - text - 1);
  if (*text == 'P') return take_download(call, text + 1, len);
  return *text == 'D' ? take_data(call, text + 1, len) : SBX_E_PROVIDER;
}

static int answer_gather(struct sbx_kit_call* call, const char* text,
                         size_t len) {
  char* last = NULL;
  int rc = sbx__gather_answer(&call->request, call->nonce, text, len,
                              &call->result, &last);
  if (!last) return rc;
  free(call->after);
  call->request.to = call->after = last;
  return AGAIN;
}

static int answer_one(struct sbx_kit_call* call, const char* text,
                      const char* end) {
  size_t len = (size_t)(end - text);
  switch (call->request.verb) {
    case SBX_FILE_READ:
      return call->request.flags & SBX_FILE_BARE
                 ? answer_read_bare(call, text, len)
                 : answer_read(call, text, end);
    case SBX_FILE_WRITE:
      if (!(call->request.flags & SBX_FILE_BARE))
        return take_stat(call, &text, end);
      return len == 1 && text[0] == 'K' ? 0 : SBX_E_PROVIDER;
    case SBX_FILE_STAT:
    case SBX_FILE_APPEND:
      return take_stat(call, &text, end);
    case SBX_FILE_EXISTS:
      call->result.exists = len == 2 && text[1] == '1';
      return len == 2 && text[0] == 'X' ? 0 : SBX_E_PROVIDER;
    case SBX_FILE_REALPATH:
      if (len == 0 || text[0] != 'D' || memchr(text, 0, len))
        return SBX_E_PROVIDER;
      return take_data(call, text + 1, len - 1);
    case SBX_FILE_READDIR:
    case SBX_FILE_WALK:
      return sbx__list_answer(&call->request, text, len, &call->result);
    case SBX_FILE_GATHER:
      return answer_gather(call, text, len);
    default:
      return len == 1 && text[0] == 'K' ? 0 : SBX_E_PROVIDER;
  }
}

/* Our own time, and somebody changed the file meanwhile: look again. */
static int guard_again(struct sbx_kit_call* call) {
  call->request.expected_mtime_ms = INT64_MIN;
  call->guarded = false;
  memset(&call->error, 0, sizeof(call->error));
  return guard_start(call);
}

static int take_answer(struct sbx_kit_call* call, const char* text,
                       size_t len) {
  struct sbx__job job = job_of(call);
  bool failed = len > 0 && text[0] == 'E';
  int rc = failed ? sbx__kit_error(&job, &call->place, text, len)
                  : answer_one(call, text, text + len);
  if (failed && rc == SBX_E_STALE && call->guarded) return guard_again(call);
  if (rc == AGAIN) return make(call);
  if (rc == SBX_E_INTERNAL) return fail_memory(call);
  if (rc == SBX_E_PROVIDER)
    return fail_answer(call, "the sandbox's answer makes no sense.");
  if (rc < 0 || call->phase != PHASE_DOWNLOAD) finish(call, rc);
  return rc;
}

static int fail_no_answer(struct sbx_kit_call* call, int exit_code,
                          const char* text, size_t len) {
  char quote[SBX__QUOTE_SIZE];
  return finish(call,
                sbx_error_set(&call->error, SBX_E_PROVIDER, 0, operation(call),
                              "/%s: the sandbox's shell gave no answer "
                              "(exit code %d): %s", call->request.path,
                              exit_code, sbx__kit_quote(text, len, quote)));
}

size_t sbx_kit_call_size(const struct sbx_kit_call* call) {
  return call->guard ? call->guard->answer.len : call->answer.len;
}

int sbx_kit_call_ran(struct sbx_kit_call* call, int exit_code,
                     const char* stderr_text, size_t stderr_len) {
  char* text;
  size_t len;
  if (call->phase == PHASE_GUARD) {
    sbx_kit_call_ran(call->guard, exit_code, stderr_text, stderr_len);
    return call->guard->phase == PHASE_DONE ? guard_end(call) : 0;
  }
  if (call->phase != PHASE_RUN) return call->code;
  bool cut = call->request.verb == SBX_FILE_READ && exit_code != 0;
  if (cut || sbx__answer_end(&call->answer, &text, &len) < 0)
    return fail_no_answer(call, exit_code, stderr_text, stderr_len);
  return take_answer(call, text, len);
}

int sbx_kit_call_moved(struct sbx_kit_call* call,
                       const struct sbx_error* error) {
  if (call->phase == PHASE_GUARD) {
    sbx_kit_call_moved(call->guard, error);
    return call->guard->phase == PHASE_DONE ? guard_end(call) : 0;
  }
  if (call->phase != PHASE_UPLOAD && call->phase != PHASE_DOWNLOAD)
    return call->code;
  if (error) {
    call->error = *error;
    return finish(call, error->code);
  }
  return call->phase == PHASE_UPLOAD ? make(call) : finish(call, 0);
}

int sbx_kit_call_result(struct sbx_kit_call* call,
                        struct sbx_file_result* result,
                        struct sbx_error* error) {
  memset(result, 0, sizeof(*result));
  if (call->phase != PHASE_DONE)
    return sbx_error_set(error, SBX_E_INTERNAL, 0, operation(call),
                         "The file call is not done.");
  if (call->code < 0) {
    if (error) *error = call->error;
    return call->code;
  }
  *result = call->result;
  memset(&call->result, 0, sizeof(call->result));
  return 0;
}
