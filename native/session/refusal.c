/* Why a command was not started, in words. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "pipes.h"

int sbx__refusal_text(const struct sbx__pipes* p, int sys, char* text,
                      size_t size) {
  char words[SBX_SYS_TEXT_MAX];
  const char* why = sbx_sys_text(sys, words);

  if (sys == ENOENT && strchr(p->name, '/') == NULL) why = "command not found";
  if (sys == E2BIG)
    why = "argument list too long (at most 128 KiB in one argument or "
          "variable, 2 MiB in all)";
  snprintf(text, size, "sandbox: %.200s: %s\n", p->name, why);
  return sys == ENOENT ? SBX__EXIT_NOT_FOUND : SBX__EXIT_NOT_EXECUTABLE;
}

static void cwd_error(const struct sbx__pipes* p, int sys,
                      struct sbx_error* error) {
  const char* what = "cannot be entered";

  if (sys == ENOENT) what = "does not exist in the sandbox";
  if (sys == ENOTDIR) what = "is not a directory";
  sbx_error_set(error, sys == EACCES ? SBX_E_PERMISSION : SBX_E_NOT_FOUND, sys,
                "processes.start", "The working directory \"%.400s\" %s.",
                p->cwd, what);
}

void sbx__refusal_error(const struct sbx__pipes* p, uint32_t stage, int sys,
                        struct sbx_error* error) {
  char words[SBX_SYS_TEXT_MAX];

  if (stage == SBX_STAGE_CWD) {
    cwd_error(p, sys, error);
  } else if (stage == SBX_STAGE_FORK && sys == EAGAIN) {
    sbx_error_set(error, SBX_E_UNAVAILABLE, sys, "processes.start",
                  "The sandbox is at its limit of processes: end some, or "
                  "raise limits.processes.");
    error->retryable = true;
  } else {
    sbx_error_set(error, SBX_E_UNAVAILABLE, sys, "processes.start",
                  "The sandbox could not start \"%.200s\": %s.", p->name,
                  sbx_sys_text(sys, words));
  }
}

int sbx__refusal_here(int err, struct sbx_error* error) {
  char words[SBX_SYS_TEXT_MAX];
  int code = err == UV_ENOMEM ? SBX_E_INTERNAL : SBX_E_UNAVAILABLE;
  const char* hint = err == UV_EMFILE || err == UV_ENFILE
                         ? " (raise the limit on open files, ulimit -n)"
                         : "";

  sbx_error_set(error, code, -err, "processes.start",
                "The command could not be started: %s%s.",
                sbx_sys_text(-err, words), hint);
  if (error != NULL) error->retryable = err != UV_EPIPE;
  return code;
}
