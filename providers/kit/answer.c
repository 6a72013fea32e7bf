/* Answers of the kit's shell programs: claims of the sandbox, taken apart with
 * care. */
#include "internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../native/parse/base64.h"

/* --- between the marks ---------------------------------------------------- */

void sbx__answer_start(struct sbx__answer* a, const char* nonce, bool base64,
                       size_t limit) {
  memset(a, 0, sizeof(*a));
  snprintf(a->mark, sizeof(a->mark), "SBX%s%c", nonce, base64 ? '{' : '(');
  a->base64 = base64;
  /* In base64 with line ends everything is longer. */
  a->limit = base64 ? limit / 2 * 3 + 4096 : limit + 4096;
}

static int answer_put(struct sbx__answer* a, const char* bytes, size_t len) {
  if (a->begun && len > a->limit - a->len) return SBX_E_PROVIDER;
  if (len > a->size - a->len) {
    size_t size = a->size * 2 + len + 256;
    char* data = realloc(a->data, size);
    if (!data) return SBX_E_INTERNAL;
    a->data = data;
    a->size = size;
  }
  memcpy(a->data + a->len, bytes, len);
  a->len += len;
  return 0;
}

static void answer_drop(struct sbx__answer* a, size_t count) {
  memmove(a->data, a->data + count, a->len - count);
  a->len -= count;
}

/* Before the mark: only what may be the first part of it is kept. */
static void answer_seek(struct sbx__answer* a) {
  size_t mark = strlen(a->mark);
  char* found = memmem(a->data, a->len, a->mark, mark);
  if (found) {
    a->begun = true;
    answer_drop(a, (size_t)(found - a->data) + mark);
  } else if (a->len >= mark) {
    answer_drop(a, a->len - (mark - 1));
  }
}

int sbx__answer_feed(struct sbx__answer* a, const char* bytes, size_t len) {
  while (len > 0) {
    size_t step = a->begun || len < 4096 ? len : 4096;
    int rc = answer_put(a, bytes, step);
    if (rc < 0) return rc;
    if (!a->begun) answer_seek(a);
    bytes += step;
    len -= step;
  }
  return a->begun && a->len > a->limit ? SBX_E_PROVIDER : 0;
}

/* The last place of `want`. */
static char* find_last(char* data, size_t len, const char* want,
                       size_t want_len) {
  if (len < want_len) return NULL;
  for (char* at = data + (len - want_len);; at--) {
    if (memcmp(at, want, want_len) == 0) return at;
    if (at == data) return NULL;
  }
}

/* ")SBX<nonce>" or "}<nonce>" cuts the payload's end. */
static int answer_cut(const struct sbx__answer* a, char kind, size_t* len) {
  char mark[SBX__NONCE_SIZE + 8];
  size_t size = strlen(a->mark) - 1;
  if (kind == '}') {
    snprintf(mark, sizeof(mark), "}%.32s", a->mark + 3);
    size -= 2;
  } else {
    snprintf(mark, sizeof(mark), ")%.35s", a->mark);
    size += 1;
  }
  char* found = find_last(a->data, *len, mark, size);
  if (!found) return SBX_E_PROVIDER;
  *len = (size_t)(found - a->data);
  return 0;
}

static int answer_decode(struct sbx__answer* a) {
  size_t size = strlen(a->mark);
  int rc = answer_cut(a, '}', &a->len);
  if (rc < 0) return rc;
  /* In place: what comes out is behind what was read. */
  if (sbx_base64_decode(a->data, a->len, SBX_BASE64_BARE | SBX_BASE64_LINES,
                        a->data, &a->len) != 0)
    return SBX_E_PROVIDER;
  a->mark[size - 1] = '(';
  char* found = memmem(a->data, a->len, a->mark, size);
  if (!found) return SBX_E_PROVIDER;
  answer_drop(a, (size_t)(found - a->data) + size);
  return 0;
}

int sbx__answer_end(struct sbx__answer* a, char** payload, size_t* len) {
  if (!a->begun) return SBX_E_PROVIDER;
  int rc = a->base64 ? answer_decode(a) : 0;
  if (rc == 0) rc = answer_cut(a, ')', &a->len);
  *payload = a->data;
  *len = a->len;
  return rc;
}

void sbx__answer_free(struct sbx__answer* a) {
  free(a->data);
  memset(a, 0, sizeof(*a));
}

/* --- numbers and times ---------------------------------------------------- */

int sbx__number_parse(const char* text, size_t len, uint64_t* out) {
  uint64_t number = 0;
  if (len == 0 || len > 19) return SBX_E_PROVIDER;
  for (size_t i = 0; i < len; i++) {
    if (text[i] < '0' || text[i] > '9') return SBX_E_PROVIDER;
    number = number * 10 + (uint64_t)(text[i] - '0');
  }
  *out = number;
  return 0;
}

static int hex_parse(const char* text, size_t len, uint32_t* out) {
  uint32_t number = 0;
  if (len == 0 || len > 8) return SBX_E_PROVIDER;
  for (size_t i = 0; i < len; i++) {
    const char* digits = "0123456789abcdef";
    const char* found = text[i] ? strchr(digits, text[i]) : NULL;
    if (!found) return SBX_E_PROVIDER;
    number = number << 4 | (uint32_t)(found - digits);
  }
  *out = number;
  return 0;
}

/* Days since 1970 of a date in the Gregorian calendar: years begin in March,
 * so that the leap day is the last of one. */
static int64_t days_of(int64_t year, int64_t month, int64_t day) {
  year -= month <= 2;
  int64_t era = (year >= 0 ? year : year - 399) / 400;
  int64_t of_era = year - era * 400;
  int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
  int64_t day_of_era = of_era * 365 + of_era / 4 - of_era / 100 + of_year;
  return era * 146097 + day_of_era - 719468;
}

/* `count` digits at *at and the byte that follows them. */
static bool take_digits(const char** at, const char* end, int count,
                        char follows, int64_t* out) {
  *out = 0;
  for (; count > 0; count--, (*at)++) {
    if (*at == end || **at < '0' || **at > '9') return false;
    *out = *out * 10 + (**at - '0');
  }
  if (!follows) return true;
  if (*at == end || **at != follows) return false;
  (*at)++;
  return true;
}

static int64_t take_milliseconds(const char* at, const char* end) {
  int64_t ms = 0, unit = 100;
  if (at == end || *at != '.') return 0;
  for (at++; at < end && *at >= '0' && *at <= '9' && unit > 0; at++) {
    ms += (*at - '0') * unit;
    unit /= 10;
  }
  return ms;
}

int sbx__time_parse(const char* text, size_t len, int64_t* ms) {
  const char* end = text + len;
  const char* at = text;
  int64_t y, mo, d, h, mi, s;
  bool fits = take_digits(&at, end, 4, '-', &y) &&
              take_digits(&at, end, 2, '-', &mo) &&
              take_digits(&at, end, 2, ' ', &d) &&
              take_digits(&at, end, 2, ':', &h) &&
              take_digits(&at, end, 2, ':', &mi) &&
              take_digits(&at, end, 2, 0, &s);
  if (!fits || mo < 1 || mo > 12 || d < 1 || d > 31 || h > 23 || mi > 59 ||
      s > 60)
    return SBX_E_PROVIDER;
  *ms = (days_of(y, mo, d) * 86400 + h * 3600 + mi * 60 + s) * 1000 +
        take_milliseconds(at, end);
  return 0;
}

void sbx__time_format(int64_t ms, char out[40]) {
  int64_t days = ms / 86400000, rest = ms % 86400000;
  if (rest < 0) rest += 86400000, days--;
  int64_t z = days + 719468;
  int64_t era = (z >= 0 ? z : z - 146096) / 146097;
  int64_t doe = z - era * 146097;
  int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
  int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
  int64_t mp = (5 * doy + 2) / 153;
  int64_t month = mp < 10 ? mp + 3 : mp - 9;
  int64_t year = yoe + era * 400 + (month <= 2);
  if (year < 0 || year > 9999) year = 0; /* no file has that time */
  snprintf(out, 40, "%04d-%02d-%02d %02d:%02d:%02d.%03d", (int)year,
           (int)month, (int)(doy - (153 * mp + 2) / 5 + 1),
           (int)(rest / 3600000), (int)(rest / 60000 % 60),
           (int)(rest / 1000 % 60), (int)(rest % 1000));
}

/* --- facts ---------------------------------------------------------------- */

static uint8_t type_of(uint32_t mode) {
  if (S_ISREG(mode)) return SBX_TYPE_FILE;
  if (S_ISDIR(mode)) return SBX_TYPE_DIRECTORY;
  return S_ISLNK(mode) ? SBX_TYPE_LINK : SBX_TYPE_OTHER;
}

/* The field up to `stop`; moves behind it. */
static bool take_field(const char** at, const char* end, char stop,
                       const char** field, size_t* len) {
  const char* found = memchr(*at, stop, (size_t)(end - *at));
  if (!found) return false;
  *field = *at;
  *len = (size_t)(found - *at);
  *at = found + 1;
  return true;
}

int sbx__facts_parse(const char* text, size_t len, struct sbx_file_stat* out) {
  const char* end = text + len;
  const char* at = text;
  const char* field;
  size_t n;
  uint32_t mode;
  int64_t times[3];
  if (!take_field(&at, end, ' ', &field, &n) || hex_parse(field, n, &mode) < 0)
    return SBX_E_PROVIDER;
  if (!take_field(&at, end, '|', &field, &n) ||
      sbx__number_parse(field, n, &out->size) < 0)
    return SBX_E_PROVIDER;
  for (int i = 0; i < 3; i++)
    if (!take_field(&at, end, '|', &field, &n) ||
        sbx__time_parse(field, n, &times[i]) < 0)
      return SBX_E_PROVIDER;
  if (!take_field(&at, end, '|', &field, &n)) return SBX_E_PROVIDER;
  out->type = type_of(mode);
  out->mode = mode & 07777;
  out->modified_ms = times[0];
  out->created_ms = times[0];
  if (sbx__time_parse(field, n, &out->created_ms) == 0) return 0;
  for (int i = 1; i < 3; i++)
    if (times[i] < out->created_ms) out->created_ms = times[i];
  return 0;
}

/* --- errors --------------------------------------------------------------- */

const char* sbx__kit_quote(const char* text, size_t len,
                           char out[SBX__QUOTE_SIZE]) {
  size_t at = 0;
  while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == ' ')) len--;
  for (size_t i = 0; i < len && at < SBX__QUOTE_SIZE - 1; i++) {
    unsigned char c = (unsigned char)text[i];
    out[at++] = c < 0x20 || c >= 0x7f ? ' ' : (char)c;
  }
  out[at] = 0;
  return out;
}

/* What tools of glibc, musl, busybox and the shells call an errno. */
static const struct {
  const char* text;
  int sys;
} words[] = {
    {"No such file or directory", ENOENT},
    {"Directory nonexistent", ENOENT},
    {"directory nonexistent", ENOENT},
    {"nonexistent directory", ENOENT},
    {"Not a directory", ENOTDIR},
    {"Is a directory", EISDIR},
    {"File exists", EEXIST},
    {"Directory not empty", ENOTEMPTY},
    {"Permission denied", EACCES},
    {"Operation not permitted", EPERM},
    {"Read-only file system", EROFS},
    {"No space left on device", ENOSPC},
    {"Disk quota exceeded", EDQUOT},
    {"Quota exceeded", EDQUOT},
    {"File name too long", ENAMETOOLONG},
    {"Filename too long", ENAMETOOLONG},
    {"Too many levels of symbolic links", ELOOP},
    {"Symbolic link loop", ELOOP},
    {"Device or resource busy", EBUSY},
    {"Resource busy", EBUSY},
    {"Text file busy", ETXTBSY},
    {"File too large", EFBIG},
    {"Invalid argument", EINVAL},
    {"Cannot allocate memory", ENOMEM},
    {"Out of memory", ENOMEM},
    {"Too many open files", EMFILE},
    {"Argument list too long", E2BIG},
    {"Operation not supported", EOPNOTSUPP},
};

/* By the end of the first line, for names in it are the sandbox's. */
static int sys_of(const char* text, size_t len) {
  const char* line_end = memchr(text, '\n', len);
  if (line_end) len = (size_t)(line_end - text);
  for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
    size_t n = strlen(words[i].text);
    if (len >= n && memcmp(text + len - n, words[i].text, n) == 0)
      return words[i].sys;
  }
  return EIO;
}

static const struct {
  const char* name;
  int sys;
} names[] = {
    {"ENOENT", ENOENT}, {"ENOTDIR", ENOTDIR}, {"EISDIR", EISDIR},
    {"EEXIST", EEXIST}, {"ENOTEMPTY", ENOTEMPTY}, {"EXDEV", EXDEV},
    {"EACCES", EACCES}, {"ELOOP", ELOOP},
};

static int fail_stale(struct sbx__job* job, const char* path,
                      const char* text, size_t len) {
  int64_t ms = 0;
  if (sbx__time_parse(text, len, &ms) < 0) return SBX_E_PROVIDER;
  int code = sbx_error_set(
      job->error, SBX_E_STALE, 0, sbx__operation(job->request->verb),
      "/%s was changed by somebody else since it was read; read it again.",
      path);
  if (job->error) job->error->number = ms;
  return code;
}

static int fail_large(struct sbx__job* job, const char* path) {
  uint64_t most = job->request->max_bytes;
  if (most == 0 || most > SBX__READ_MAX) most = SBX__READ_MAX;
  return sbx_error_set(
      job->error, SBX_E_IO, EFBIG, sbx__operation(job->request->verb),
      "/%s is larger than the %llu bytes that one read returns; read a part "
      "of it with a command (head, tail, dd).",
      path, (unsigned long long)most);
}

static int fail_root(struct sbx__job* job) {
  bool move = job->request->verb == SBX_FILE_MOVE;
  return sbx_error_set(job->error, SBX_E_ACCESS, 0,
                       sbx__operation(job->request->verb),
                       "The workspace's root cannot be %s; %s what is in it.",
                       move ? "moved or replaced" : "removed",
                       move ? "move" : "remove");
}

static int fail_locked(struct sbx__job* job, const char* path) {
  int code = sbx_error_set(
      job->error, SBX_E_UNAVAILABLE, EAGAIN,
      sbx__operation(job->request->verb),
      "/%s is being written by somebody else; try again.", path);
  if (job->error) job->error->retryable = true;
  return code;
}

static int fail_nested(struct sbx__job* job) {
  const struct sbx_file_request* request = job->request;
  return sbx_error_set(job->error, SBX_E_INVALID_INPUT, EINVAL,
                       sbx__operation(request->verb),
                       "/%s lies in /%s, which cannot go into itself; choose "
                       "another place.", request->to, request->path);
}

static unsigned kind_of(const char* text, size_t len) {
  if (len == 4 && memcmp(text, "fifo", 4) == 0) return S_IFIFO;
  return len == 6 && memcmp(text, "socket", 6) == 0 ? S_IFSOCK : S_IFCHR;
}

static bool is_word(const char* text, size_t len, const char* word) {
  return len == strlen(word) && memcmp(text, word, len) == 0;
}

/* `what` and its detail. */
static int fail_as(struct sbx__job* job, const struct sbx_kit_place* place,
                   const char* path, enum sbx__role role, const char* what,
                   size_t what_len, const char* detail, size_t len) {
  const char* operation = sbx__operation(job->request->verb);
  char quote[SBX__QUOTE_SIZE];
  if (is_word(what, what_len, "PARENT")) return sbx__fail_parent(job, path);
  if (is_word(what, what_len, "SPECIAL"))
    return sbx__fail_special(job, path, kind_of(detail, len));
  if (is_word(what, what_len, "STALE"))
    return fail_stale(job, path, detail, len);
  if (is_word(what, what_len, "LARGE")) return fail_large(job, path);
  if (is_word(what, what_len, "ROOT")) return fail_root(job);
  if (is_word(what, what_len, "LOCKED")) return fail_locked(job, path);
  if (is_word(what, what_len, "NEST")) return fail_nested(job);
  if (is_word(what, what_len, "RECURSE"))
    return sbx_error_set(job->error, SBX_E_IS_DIRECTORY, EISDIR, operation,
                         "/%s is a folder; copy it recursively.", path);
  if (is_word(what, what_len, "NOROOT"))
    return sbx_error_set(job->error, SBX_E_UNAVAILABLE, ENOENT, operation,
                         "The workspace folder %s does not exist in the "
                         "sandbox or cannot be entered.", place->root);
  if (is_word(what, what_len, "FOLDER"))
    return sbx_error_set(job->error, SBX_E_UNAVAILABLE, EACCES, operation,
                         "The folder %s in the sandbox cannot be made or is "
                         "somebody else's; remove it.",
                         sbx__kit_folder(place));
  if (is_word(what, what_len, "TEXT")) {
    int sys = sys_of(detail, len);
    int code = sbx__fail(job, sys, path, role);
    if (sys == EIO && job->error)
      sbx_error_set(job->error, SBX_E_IO, EIO, operation, "/%s: %s", path,
                    sbx__kit_quote(detail, len, quote));
    return code;
  }
  for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
    if (is_word(what, what_len, names[i].name))
      return sbx__fail(job, names[i].sys, path, role);
  return SBX_E_PROVIDER;
}

int sbx__kit_error(struct sbx__job* job, const struct sbx_kit_place* place,
                   const char* text, size_t len) {
  const char* end = text + len;
  if (len < 4 || text[0] != 'E' || text[3] != ' ') return SBX_E_PROVIDER;
  bool other = text[1] == 'q' && job->request->to;
  const char* path = other ? job->request->to : job->request->path;
  enum sbx__role role = text[2] == 's'   ? SBX__SOURCE
                        : text[2] == 't' ? SBX__TARGET
                                         : SBX__FOLDER;
  const char* what = text + 4;
  const char* space = memchr(what, ' ', (size_t)(end - what));
  if (!space) return SBX_E_PROVIDER;
  return fail_as(job, place, path, role, what, (size_t)(space - what),
                 space + 1, (size_t)(end - space - 1));
}
