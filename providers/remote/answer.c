/* Reads answers of services, and turns bad ones into errors. */
#include "answer.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

void sbx_answer_clear(struct sbx_answer* a) {
  free(a->next);
  sbx_text_free(&a->body);
  sbx_json_free(a->json);
  memset(a, 0, sizeof(*a));
}

bool sbx_answer_good(const struct sbx_answer* a) {
  return a->status >= 200 && a->status < 300;
}

static bool begins(const char* text, const char* with) {
  return text != NULL && strncasecmp(text, with, strlen(with)) == 0;
}

/* Seconds only: the engine has waited for what was worth it. */
static int64_t read_seconds(const char* text) {
  int64_t value = 0;

  if (text == NULL || !isdigit((unsigned char) text[0])) return -1;
  for (; isdigit((unsigned char) *text); text++)
    if ((value = value * 10 + (*text - '0')) > INT32_MAX) return INT32_MAX;
  return *text == '\0' ? value : -1;
}

int sbx_answer_head(struct sbx_answer* a, const struct sbx_http_head* head,
                    const char* next) {
  const char* type = sbx_http_header(head, "content-type");
  const char* value = next == NULL ? NULL : sbx_http_header(head, next);

  sbx_answer_clear(a);
  a->status = head->status;
  a->streams = begins(type, "application/connect+json");
  a->html = begins(type, "text/html");
  a->retry_after = read_seconds(sbx_http_header(head, "retry-after"));
  if (value == NULL || value[0] == '\0') return 0;
  a->next = strdup(value);
  return a->next == NULL ? SBX_E_INTERNAL : 0;
}

int sbx_answer_bytes(struct sbx_answer* a, const char* bytes, size_t len) {
  bool good = sbx_answer_good(a);
  size_t limit = good ? SBX_ANSWER_MAX : SBX_ANSWER_ERROR_MAX;

  if (len > limit - a->body.len) {
    if (good) return SBX_E_PROVIDER;
    len = limit - a->body.len;
  }
  sbx_text_add(&a->body, bytes, len);
  return a->body.failed ? SBX_E_INTERNAL : 0;
}

static void scrub(char* message, const char* secret) {
  size_t len = strlen(secret);
  char* at = message;

  if (len < 3) return;
  while ((at = strstr(at, secret)) != NULL) {
    memcpy(at, "***", 3);
    memmove(at + 3, at + len, strlen(at + len) + 1);
    at += 3;
  }
}

void sbx_answer_scrub(const struct sbx_answer_words* words,
                      struct sbx_error* error) {
  const char* const* secret = words->secrets;

  for (; secret != NULL && *secret != NULL; secret++)
    scrub(error->message, *secret);
}

static bool is_markup(const struct sbx_answer* a) {
  size_t at = 0;

  while (at < a->body.len && isspace((unsigned char) a->body.bytes[at])) at++;
  return a->html || (at < a->body.len && a->body.bytes[at] == '<');
}

int sbx_answer_json(struct sbx_answer* a, const struct sbx_answer_words* words,
                    const char* operation, struct sbx_json_node* out,
                    struct sbx_error* error) {
  struct sbx_json_source source = {words->title, operation};
  int err = 0;

  if (is_markup(a))
    return sbx_error_set(error, SBX_E_PROVIDER, 0, operation,
                         "%s answered with an HTML page.%s", words->title,
                         words->address);
  if (a->json == NULL)
    err = sbx_json_parse(a->body.bytes, a->body.len, &source, &a->json, error);
  if (err == 0) *out = sbx_json_root(a->json);
  return err;
}

/* ---- errors ---- */

struct meaning {
  int status, code;
  bool retryable;
  const char* remedy;
};

static const struct meaning meanings[] = {
    {400, SBX_E_INVALID_INPUT, false, ""},
    {402, SBX_E_PERMISSION, false, " Check the account's plan."},
    {403, SBX_E_PERMISSION, false,
     " The key's account may not do this: check its plan and its rights."},
    {404, SBX_E_NOT_FOUND, false, ""},
    {408, SBX_E_TIMEOUT, true, " Try again."},
    {409, SBX_E_CONFLICT, true,
     " Something else is changing it: try again in a moment."},
    {410, SBX_E_NOT_FOUND, false, ""},
    {413, SBX_E_INVALID_INPUT, false, " It is too large."},
    {422, SBX_E_INVALID_INPUT, false, ""},
    {429, SBX_E_RATE_LIMITED, true, ""},
    {499, SBX_E_ABORTED, true, ""},
    {500, SBX_E_PROVIDER, true, " Try again."},
    {501, SBX_E_UNSUPPORTED, false, ""},
    {502, SBX_E_UNAVAILABLE, true, " Try again in a moment."},
    {503, SBX_E_UNAVAILABLE, true,
     " It has no capacity at the moment: try again later."},
    {504, SBX_E_TIMEOUT, true, " Try again."},
    {507, SBX_E_PROVIDER, false, " The sandbox's disk is full."},
};

static struct meaning meaning_of(int status,
                                 const struct sbx_answer_words* words) {
  struct meaning other = {status, SBX_E_PROVIDER, false, words->address};

  if (status == 401)
    return (struct meaning){401, SBX_E_AUTHENTICATION, false,
                            words->authentication};
  for (size_t i = 0; i < sizeof(meanings) / sizeof(meanings[0]); i++)
    if (meanings[i].status == status) return meanings[i];
  if (status >= 400 && status < 500) other.code = SBX_E_INVALID_INPUT;
  if (status >= 500) other.retryable = true;
  return other;
}

static void put_wait(int status, int64_t seconds, char* out, size_t size) {
  out[0] = '\0';
  if (status != 429) return;
  if (seconds >= 0)
    snprintf(out, size, " Try again in %lld s.", (long long) seconds);
  else
    snprintf(out, size, " Try again later, with fewer calls or sandboxes.");
}

/* Without the full stop that ours would follow. */
static int said(const char* text) {
  size_t len = strlen(text);

  while (len > 0 && (text[len - 1] == '.' || text[len - 1] == ' ')) len--;
  return (int) len;
}

int sbx_fault_error(int status, const struct sbx_fault* fault,
                    int64_t retry_after, const struct sbx_answer_words* words,
                    const char* operation, struct sbx_error* error) {
  struct meaning meaning = meaning_of(status, words);
  const char* text = fault->message;
  char wait[80];

  put_wait(status, retry_after, wait, sizeof(wait));
  sbx_error_set(error, meaning.code, status == 507 ? ENOSPC : 0, operation,
                "%s answered %d%s%.*s.%s%s", words->title, status,
                text[0] == '\0' ? "" : ": ", said(text), text, meaning.remedy,
                wait);
  if (error == NULL) return meaning.code;
  sbx_answer_scrub(words, error);
  error->retryable = meaning.retryable;
  if (status == 429 && retry_after >= 0) error->number = retry_after * 1000;
  return meaning.code;
}

int sbx_answer_error(const struct sbx_answer* a,
                     const struct sbx_answer_words* words,
                     const char* operation, struct sbx_error* error) {
  struct sbx_fault fault = {0};

  sbx_fault_read(a->body.bytes, a->body.len, &fault);
  return sbx_fault_error(a->status, &fault, a->retry_after, words, operation,
                         error);
}
