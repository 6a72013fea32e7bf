/* Reads the refusals of the call that ends a command's input. */
#include "closing.h"

#include <string.h>

enum {
  /* A command that has ended is not found any more; its end is on its way. */
  GONE_MS = 5000,
  BROKEN_MS = 1000 /* the same, but each of several tries waits for it */
};

bool sbx_e2b_in_between(int status) {
  return status == 429 || (status > 501 && status < 505);
}

/* 404 without words of envd is a server's that has no such call. */
static bool lacks_call(int status, bool known, const struct sbx_fault* fault) {
  if (status == 405 || status == 415 || status == 501) return true;
  return strcmp(fault->code, "unimplemented") == 0 ||
         (status == 404 && !known);
}

static void unsupported(const struct sbx_e2b* e, int status,
                        const char* operation, struct sbx_error* error) {
  sbx_error_set(error, SBX_E_UNSUPPORTED, 0, operation,
                "%s cannot end a command's input: it answered %d. Let the "
                "command read a file instead, or use a newer template.",
                e->envd_words.title, status);
}

struct sbx_e2b_closing sbx_e2b_closing(const struct sbx_e2b* e,
                                       const struct sbx_answer* a,
                                       const char* operation,
                                       struct sbx_error* error) {
  struct sbx_fault fault = {0};
  bool known = sbx_fault_read(a->body.bytes, a->body.len, &fault);

  /* 409 is the edge's while the sandbox is paused or woken. */
  if (sbx_e2b_in_between(a->status) || a->status == 409)
    return (struct sbx_e2b_closing){.final = false};
  if (lacks_call(a->status, known, &fault)) {
    unsupported(e, a->status, operation, error);
    return (struct sbx_e2b_closing){.final = true};
  }
  if (a->status >= 500)
    return (struct sbx_e2b_closing){.wait_ms = BROKEN_MS};
  sbx_e2b_envd_error(e, a, operation, error);
  if (a->status == 401 || a->status == 403)
    return (struct sbx_e2b_closing){.final = true};
  return (struct sbx_e2b_closing){.final = true, .wait_ms = GONE_MS};
}
