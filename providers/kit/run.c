/* One command of the user's, wrapped: its argv, and its two streams with the
 * marks that say how it ended. */
#include "run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../native/utf8.h"
#include "internal.h"

enum {
  TEXT_MAX = 4096,
  PREFIX_LEN = 36, /* "SBX", nonce, and "=" or "+" */
  HELD_MAX = 112   /* the longest mark is a head: 90 */
};

/* Bytes that may be the first part of a mark are held back. */
struct stream {
  char held[HELD_MAX];
  size_t len;
  bool headed; /* follow: its head came */
  bool ended;
  uint64_t offset;
};

struct sbx_kit_run {
  struct sbx__command command;
  struct sbx_kit_run_events events;
  char marks[3][PREFIX_LEN + 1]; /* end; follow: head, end by the command */
  size_t marks_len;
  bool follow;
  bool terminal;
  bool done;
  char kind; /* of the first end mark, 0: none came */
  int code;
  struct stream streams[2];
};

static int fail_memory(struct sbx_error* error) {
  return sbx_error_set(error, SBX_E_INTERNAL, ENOMEM, "processes.start",
                       "Out of memory.");
}

/* --- the argv ------------------------------------------------------------- */

static bool is_variable(const char* name, size_t len) {
  if (len == 0 || (name[0] >= '0' && name[0] <= '9')) return false;
  for (size_t i = 0; i < len; i++) {
    char c = name[i];
    bool fits = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
                (c >= '0' && c <= '9') || c == '_';
    if (!fits) return false;
  }
  return true;
}

static int check_variables(const struct sbx_kit_run_spec* spec,
                           struct sbx_error* error) {
  for (size_t i = 0; i < spec->envc + spec->unset_len; i++) {
    bool set = i < spec->envc;
    const char* name = set ? spec->env[i] : spec->unset[i - spec->envc];
    size_t len = strcspn(name, "=");
    if (!is_variable(name, len) || (name[len] == '=') != set)
      return sbx_error_set(error, SBX_E_INVALID_INPUT, 0, "processes.start",
                           "\"%.100s\" is no name of an environment variable "
                           "(letters, digits and _).", name);
  }
  return 0;
}

/* For lists: the arguments with spaces between, cut between code points. */
static void add_text(struct sbx__command* c,
                     const struct sbx_kit_run_spec* spec) {
  char text[TEXT_MAX];
  size_t at = 0;
  for (size_t i = 0; i < spec->argc && at < sizeof(text); i++) {
    size_t len = strlen(spec->argv[i]);
    if (i > 0) text[at++] = ' ';
    if (len > sizeof(text) - at) len = sizeof(text) - at;
    memcpy(text + at, spec->argv[i], len);
    at += len;
  }
  sbx__command_bytes(c, text, at - sbx_utf8_tail(text, at));
}

static const char* flags_of(const struct sbx_kit_run_spec* spec) {
  if (spec->stdin_pipe) return spec->spool ? "si" : "i";
  return spec->spool ? "s" : "";
}

/* Whole seconds, for some sleeps know no others. */
static void add_seconds(struct sbx__command* c, uint64_t ms) {
  sbx__command_number(c, ms / 1000 + (ms % 1000 > 0));
}

static void make_argv(struct sbx__command* c,
                      const struct sbx_kit_place* place, const char* nonce,
                      const struct sbx_kit_run_spec* spec) {
  static const enum sbx__script plain[] = {SBX__SH_RUN, SBX__SH_END};
  static const enum sbx__script limited[] = {SBX__SH_TREE, SBX__SH_RUN,
                                             SBX__SH_END};
  uint64_t limit = spec->terminal ? 0 : spec->timeout_ms;
  sbx__command_add(c, "/bin/sh");
  sbx__command_add(c, "-c");
  sbx__command_scripts(c, limit ? limited : plain);
  sbx__command_add(c, "sbx-run");
  sbx__command_add(c, nonce);
  sbx__command_add(c, sbx__kit_tools(place));
  sbx__command_add(c, sbx__kit_folder(place));
  sbx__command_add(c, spec->terminal ? "t" : flags_of(spec));
  sbx__command_add(c, spec->cwd ? spec->cwd : "");
  add_seconds(c, limit);
  add_seconds(c, spec->grace_ms);
  add_text(c, spec);
  sbx__command_add(c, spec->cwd_else ? spec->cwd_else : "");
  sbx__command_number(c, spec->envc + spec->unset_len);
  for (size_t i = 0; i < spec->unset_len; i++)
    sbx__command_add(c, spec->unset[i]);
  for (size_t i = 0; i < spec->envc; i++) sbx__command_add(c, spec->env[i]);
  for (size_t i = 0; i < spec->argc; i++) sbx__command_add(c, spec->argv[i]);
}

static struct sbx_kit_run* run_new(const struct sbx_kit_run_events* events,
                                   char nonce[SBX__NONCE_SIZE]) {
  struct sbx_kit_run* run = calloc(1, sizeof(*run));
  if (!run || sbx__kit_nonce(nonce) < 0) {
    free(run);
    return NULL;
  }
  run->events = *events;
  snprintf(run->marks[0], sizeof(run->marks[0]), "SBX%s=", nonce);
  run->marks_len = 1;
  return run;
}

static int run_ready(struct sbx_kit_run* run, struct sbx_kit_run** out,
                     struct sbx_error* error) {
  int rc = sbx__command_finish(&run->command);
  if (rc == 0) {
    *out = run;
    return 0;
  }
  sbx_kit_run_free(run);
  if (rc != SBX_E_INVALID_INPUT) return fail_memory(error);
  return sbx_error_set(error, rc, E2BIG, "processes.start",
                       "An argument or variable of the command is longer than "
                       "128 KiB; write it to a file or to its stdin.");
}

int sbx_kit_run_new(const struct sbx_kit_place* place,
                    const struct sbx_kit_run_spec* spec,
                    const struct sbx_kit_run_events* events,
                    struct sbx_kit_run** out, struct sbx_error* error) {
  char nonce[SBX__NONCE_SIZE];
  if (spec->argc == 0)
    return sbx_error_set(error, SBX_E_INVALID_INPUT, 0, "processes.start",
                         "The command is empty.");
  int rc = check_variables(spec, error);
  if (rc < 0) return rc;
  struct sbx_kit_run* run = run_new(events, nonce);
  if (!run) return fail_memory(error);
  run->terminal = spec->terminal;
  make_argv(&run->command, place, nonce, spec);
  return run_ready(run, out, error);
}

int sbx_kit_run_follow(const struct sbx_kit_place* place, uint32_t pid,
                       uint64_t start, const uint64_t offsets[2],
                       const struct sbx_kit_run_events* events,
                       struct sbx_kit_run** out, struct sbx_error* error) {
  static const enum sbx__script scripts[] = {SBX__SH_JOB, SBX__SH_FOLLOW,
                                             SBX__SH_END};
  char nonce[SBX__NONCE_SIZE];
  struct sbx_kit_run* run = run_new(events, nonce);
  if (!run) return fail_memory(error);
  struct sbx__command* c = &run->command;
  sbx__command_add(c, "/bin/sh");
  sbx__command_add(c, "-c");
  sbx__command_scripts(c, scripts);
  sbx__command_add(c, "sbx-follow");
  sbx__command_add(c, nonce);
  sbx__command_add(c, sbx__kit_tools(place));
  sbx__command_add(c, sbx__kit_folder(place));
  sbx__command_add(c, place->root);
  sbx__command_number(c, pid);
  sbx__command_number(c, start);
  for (int i = 0; i < 2; i++) {
    sbx__command_number(c, offsets[i]);
    run->streams[i].offset = offsets[i];
  }
  run->follow = true;
  snprintf(run->marks[1], sizeof(run->marks[1]), "SBX%s+", nonce);
  run->marks_len = 2;
  return run_ready(run, out, error);
}

int sbx_kit_run_join(const struct sbx_kit_run_events* events,
                     struct sbx_kit_run** out, struct sbx_error* error) {
  char nonce[SBX__NONCE_SIZE];
  struct sbx_kit_run* run = run_new(events, nonce);
  if (!run) return fail_memory(error);
  run->terminal = true;
  *out = run;
  return 0;
}

const char* const* sbx_kit_run_argv(const struct sbx_kit_run* run,
                                    size_t* argc) {
  *argc = run->command.argc;
  return run->command.argv;
}

uint64_t sbx_kit_run_offset(const struct sbx_kit_run* run, int stream) {
  return run->streams[stream].offset;
}

void sbx_kit_run_free(struct sbx_kit_run* run) {
  if (!run) return;
  sbx__command_free(&run->command);
  free(run);
}

/* --- how it ended --------------------------------------------------------- */

static enum sbx_kit_run_end end_of(char kind) {
  switch (kind) {
    case 'x':
      return SBX_KIT_EXITED;
    case 'c':
      return SBX_KIT_NO_CWD;
    case 'd':
      return SBX_KIT_CWD_NOT_FOLDER;
    case 'p':
      return SBX_KIT_CWD_DENIED;
    case 'n':
      return SBX_KIT_NOT_FOUND;
    case 'e':
      return SBX_KIT_NOT_EXECUTABLE;
    case 't':
      return SBX_KIT_TIMED_OUT;
    case 'l':
      return SBX_KIT_LOST;
    default:
      return 0;
  }
}

/* The owner may free the run in it. */
static void settle(struct sbx_kit_run* run, int exit_code, int signal) {
  struct sbx_kit_run_exit out = {SBX_KIT_UNTOLD, exit_code, signal};
  if (run->kind)
    out = (struct sbx_kit_run_exit){end_of(run->kind), run->code, 0};
  run->done = true;
  run->events.on_exit(run->events.data, &out);
}

/* --- marks ---------------------------------------------------------------- */

enum match { NO_MATCH, PART, WHOLE };

static bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/* "x000.", or "b000." for the beginning */
static enum match match_end(const char* text, size_t len) {
  if (len > 0 && text[0] != 'b' && !end_of(text[0])) return NO_MATCH;
  for (size_t i = 1; i < len && i < 4; i++)
    if (!is_digit(text[i])) return NO_MATCH;
  if (len < 5) return PART;
  return text[4] == '.' ? WHOLE : NO_MATCH;
}

/* "<nonce or none>,<offset>." */
static enum match match_head(const char* text, size_t len) {
  size_t i = 0;
  while (i < len && i < 32 &&
         (is_digit(text[i]) || (text[i] >= 'a' && text[i] <= 'z')))
    i++;
  if (i == len) return PART;
  if (text[i] != ',' || (i != 32 && i != 4)) return NO_MATCH;
  size_t first = ++i;
  while (i < len && is_digit(text[i])) i++;
  if (i - first > 19) return NO_MATCH;
  if (i == len) return PART;
  return text[i] == '.' && i > first ? WHOLE : NO_MATCH;
}

static enum match match_mark(const char* mark, const char* text, size_t len) {
  size_t n = len < PREFIX_LEN ? len : PREFIX_LEN;
  if (memcmp(mark, text, n) != 0) return NO_MATCH;
  if (len < PREFIX_LEN) return PART;
  text += PREFIX_LEN;
  len -= PREFIX_LEN;
  return mark[PREFIX_LEN - 1] == '+' ? match_head(text, len)
                                     : match_end(text, len);
}

static enum match match_any(const struct sbx_kit_run* run, const char* text,
                            size_t len, const char** mark) {
  enum match best = NO_MATCH;
  for (size_t i = 0; i < run->marks_len && best != WHOLE; i++) {
    enum match m = match_mark(run->marks[i], text, len);
    if (m <= best) continue;
    best = m;
    *mark = run->marks[i];
  }
  return best;
}

static void give(struct sbx_kit_run* run, int stream, const char* bytes,
                 size_t len) {
  struct stream* s = &run->streams[stream];
  if (len == 0 || (run->follow && !s->headed)) return;
  s->offset += len;
  run->events.on_output(run->events.data, stream, bytes, len);
}

static int take_head(struct sbx_kit_run* run, int stream, const char* text,
                     size_t len) {
  struct stream* s = &run->streams[stream];
  const char* comma = memchr(text, ',', len);
  uint64_t offset;
  size_t at = (size_t)(comma - text) + 1;
  if (s->headed || sbx__number_parse(comma + 1, len - at - 1, &offset) < 0 ||
      offset < s->offset)
    return SBX_E_PROVIDER;
  if (at == 33) {
    snprintf(run->marks[2], sizeof(run->marks[2]), "SBX%.32s=", text);
    run->marks_len = 3;
  }
  s->headed = true;
  uint64_t dropped = offset - s->offset;
  s->offset = offset;
  if (dropped > 0 && run->events.on_dropped)
    run->events.on_dropped(run->events.data, stream, dropped);
  return 0;
}

static void take_end(struct sbx_kit_run* run, int stream, const char* text) {
  int code = (text[1] - '0') * 100 + (text[2] - '0') * 10 + (text[3] - '0');
  if (!run->kind || stream == 0) {
    run->kind = text[0];
    run->code = code & 255;
  }
  run->streams[stream].ended = true;
}

static bool all_ended(const struct sbx_kit_run* run) {
  if (run->terminal) return run->streams[0].ended || run->streams[1].ended;
  return run->streams[0].ended && run->streams[1].ended;
}

/* Where a mark may begin: the earliest place whose bytes up to the end, or a
 * whole prefix, are those of one. */
static size_t find_start(const struct sbx_kit_run* run, const char* bytes,
                         size_t len) {
  size_t from = 0;
  const char* mark;
  for (;;) {
    const char* at = memchr(bytes + from, 'S', len - from);
    if (!at || len - (size_t)(at - bytes) < 3) break;
    from = (size_t)(at - bytes);
    if (at[1] == 'B' && at[2] == 'X' &&
        match_any(run, at, len - from, &mark) != NO_MATCH)
      return from;
    from++;
  }
  if (len - from >= 2 && memcmp(bytes + len - 2, "SB", 2) == 0) return len - 2;
  return len > from && bytes[len - 1] == 'S' ? len - 1 : len;
}

/* What turned out to be no mark is output, but for what may begin one. */
static void release(struct sbx_kit_run* run, int stream) {
  struct stream* s = &run->streams[stream];
  const char* mark;
  size_t n = 1;
  while (n < s->len &&
         match_any(run, s->held + n, s->len - n, &mark) == NO_MATCH)
    n++;
  give(run, stream, s->held, n);
  memmove(s->held, s->held + n, s->len - n);
  s->len -= n;
}

static int take_mark(struct sbx_kit_run* run, int stream, const char* mark) {
  struct stream* s = &run->streams[stream];
  size_t len = s->len - PREFIX_LEN;
  s->len = 0;
  if (mark[PREFIX_LEN - 1] == '+')
    return take_head(run, stream, s->held + PREFIX_LEN, len);
  if (s->held[PREFIX_LEN] == 'b') {
    if (run->events.on_began) run->events.on_began(run->events.data);
    return 0;
  }
  if (run->follow && !s->headed) return SBX_E_PROVIDER;
  take_end(run, stream, s->held + PREFIX_LEN);
  return 0;
}

int sbx_kit_run_feed(struct sbx_kit_run* run, int stream, const char* bytes,
                     size_t len) {
  struct stream* s = &run->streams[stream];
  const char* mark = NULL;
  int rc = 0;
  while (len > 0 && !run->done && !s->ended && rc == 0) {
    if (s->len == 0) {
      size_t n = find_start(run, bytes, len);
      give(run, stream, bytes, n);
      bytes += n;
      len -= n;
      if (len == 0) break;
    }
    s->held[s->len++] = *bytes++;
    len--;
    enum match m = match_any(run, s->held, s->len, &mark);
    if (m == NO_MATCH) release(run, stream);
    if (m == WHOLE) rc = take_mark(run, stream, mark);
  }
  if (rc == 0 && !run->done && all_ended(run)) settle(run, 0, 0);
  return rc;
}

void sbx_kit_run_ended(struct sbx_kit_run* run, int exit_code, int signal) {
  if (run->done) return;
  for (int i = 0; i < 2; i++) {
    struct stream* s = &run->streams[i];
    size_t len = s->len;
    s->len = 0;
    if (!s->ended) give(run, i, s->held, len);
  }
  settle(run, exit_code, signal);
}
