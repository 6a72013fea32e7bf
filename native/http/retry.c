/* When a request is sent again: never where it might then run twice without
 * being meant to, and as late as the server wishes. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

#include "internal.h"

enum {
  FAILURES_MAX = 5, /* attempts where nobody named a time */
  ANSWERS_MAX = 20, /* where the server did */
  FIRST_MS = 150,
  LAST_MS = 5000
};

/* Far less than 2^31, so that it fits everywhere: what is later is never. */
static const int64_t NAMED_MAX_MS = 30LL * 24 * 3600 * 1000;

/* An even spread of clients matters, not secrecy. */
static unsigned next_random(struct sbx_http* http) {
  http->random = http->random * 1103515245u + 12345u;
  return http->random >> 16;
}

static int64_t backoff(struct sbx_exchange* x) {
  int64_t ms = FIRST_MS;

  for (unsigned i = 1; i < x->attempts && ms < LAST_MS; i++) ms *= 2;
  if (ms > LAST_MS) ms = LAST_MS;
  return ms / 2 + next_random(x->http) % (unsigned) (ms / 2 + 1);
}

static bool in_time(const struct sbx_exchange* x, int64_t ms) {
  return sbx__now() + (uint64_t) ms < x->head_due;
}

static bool passes(enum sbx_failure_kind kind) {
  return kind == SBX_FAIL_RESOLVE || kind == SBX_FAIL_CONNECT ||
         kind == SBX_FAIL_CONNECT_TIME || kind == SBX_FAIL_CLOSED ||
         kind == SBX_FAIL_PROXY;
}

int64_t sbx__retry_failure(struct sbx_exchange* x,
                           const struct sbx_failure* failure) {
  int64_t ms;

  if (x->stage != SBX__ATTEMPT || x->pulled) return -1;
  if (!passes(failure->kind) || x->attempts >= FAILURES_MAX) return -1;
  if (failure->sent && !(x->flags & SBX_HTTP_IDEMPOTENT)) return -1;
  ms = backoff(x);
  return in_time(x, ms) ? ms : -1;
}

/* ---- Retry-After ---- */

static int month_of(const char* name) {
  static const char names[] = "JanFebMarAprMayJunJulAugSepOctNovDec";

  for (int i = 0; i < 12; i++)
    if (memcmp(name, names + 3 * i, 3) == 0) return i;
  return -1;
}

/* "Sun, 06 Nov 1994 08:49:37 GMT"; -1 for anything else. */
static int64_t read_date(const char* text) {
  struct tm tm = {0};
  char month[4];
  int n = 0;

  if (sscanf(text, "%*3[A-Za-z], %2d %3[A-Za-z] %4d %2d:%2d:%2d GMT%n",
             &tm.tm_mday, month, &tm.tm_year, &tm.tm_hour, &tm.tm_min,
             &tm.tm_sec, &n) != 6 || !n || text[n])
    return -1;
  if (strlen(month) != 3 || (tm.tm_mon = month_of(month)) < 0) return -1;
  tm.tm_year -= 1900;
  return timegm(&tm);
}

/* Against the server's own clock where it tells it. */
static int64_t until(const struct sbx_http_head* head, int64_t then) {
  const char* date = sbx_http_header(head, "date");
  int64_t now = date ? read_date(date) : -1;

  if (now < 0) now = time(NULL);
  return then > now ? (then - now) * 1000 : 0;
}

/* "2" or "1.5" as ms, whatever the locale's point is; -1 for anything else. */
static int64_t read_seconds(const char* text) {
  int64_t ms = 0, unit = 100;

  for (; isdigit((unsigned char) *text); text++)
    if (ms <= NAMED_MAX_MS) ms = ms * 10 + (*text - '0') * 1000;
  if (*text == '.' && isdigit((unsigned char) text[1]))
    for (text++; isdigit((unsigned char) *text); text++, unit /= 10)
      ms += (*text - '0') * unit;
  return *text == '\0' ? ms : -1;
}

/* ms, or -1 where there is none that can be read. */
static int64_t read_retry_after(const struct sbx_http_head* head) {
  const char* value = sbx_http_header(head, "retry-after");
  int64_t ms;

  if (!value) return -1;
  if (isdigit((unsigned char) *value)) {
    ms = read_seconds(value);
    if (ms < 0) return -1;
  } else {
    int64_t then = read_date(value);
    if (then < 0) return -1;
    ms = until(head, then);
  }
  return ms < NAMED_MAX_MS ? ms : NAMED_MAX_MS;
}

static bool is_busy(int status) {
  return status == 429 || (status >= 502 && status <= 504);
}

int64_t sbx__retry_answer(struct sbx_exchange* x, bool* named) {
  int status = x->head.status;
  int64_t ms;

  *named = false;
  if (!is_busy(status) || x->pulled) return -1;
  ms = read_retry_after(&x->head.view);
  if (ms >= 0 && (status == 429 || (x->flags & SBX_HTTP_IDEMPOTENT))) {
    *named = true;
    if (x->attempts >= ANSWERS_MAX) return -1;
    return ms + next_random(x->http) % 100;
  }
  if (!(x->flags & SBX_HTTP_IDEMPOTENT) || x->attempts >= FAILURES_MAX)
    return -1;
  ms = backoff(x);
  return in_time(x, ms) ? ms : -1;
}
