/* One error shape for the whole engine.
 *
 * Engine calls return 0 or a negative code and, where a message can help,
 * fill a caller-owned struct sbx_error. `code` is what a program tests, the
 * message names the thing and the remedy for a person.
 */
#ifndef SBX_ERROR_H
#define SBX_ERROR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum sbx_code {
  SBX_OK = 0,

  /* The twelve codes of SandboxError on the normalised surface. */
  SBX_E_INVALID_INPUT = -1001,  /* "invalid_input" */
  SBX_E_AUTHENTICATION = -1002, /* "authentication" */
  SBX_E_PERMISSION = -1003,     /* "permission" */
  SBX_E_NOT_FOUND = -1004,      /* "not_found" */
  SBX_E_CONFLICT = -1005,       /* "conflict" */
  SBX_E_RATE_LIMITED = -1006,   /* "rate_limited" */
  SBX_E_TIMEOUT = -1007,        /* "timeout" */
  SBX_E_ABORTED = -1008,        /* "aborted" */
  SBX_E_UNSUPPORTED = -1009,    /* "unsupported" */
  SBX_E_UNAVAILABLE = -1010,    /* "unavailable": also a failed set-up of the
                                   isolation, a session that died */
  SBX_E_PROVIDER = -1011,       /* "provider_error" */
  SBX_E_INTERNAL = -1012,       /* "internal": a fault of this package */

  /* File-system answers; each is one of Mastra's classes on that surface. */
  SBX_E_FILE_NOT_FOUND = -1101,
  SBX_E_DIRECTORY_NOT_FOUND = -1102,
  SBX_E_FILE_EXISTS = -1103,
  SBX_E_IS_DIRECTORY = -1104,
  SBX_E_NOT_DIRECTORY = -1105,
  SBX_E_NOT_EMPTY = -1106,
  SBX_E_ACCESS = -1107,      /* PermissionError: refused or outside */
  SBX_E_STALE = -1108,       /* expectedMtime; `number` is the actual time */
  SBX_E_IO = -1109,          /* anything else of the kernel, `sys` says what */
  SBX_E_SPECIAL_FILE = -1110 /* FIFO, socket or device */
};

enum { SBX_MESSAGE_MAX = 1024 };

struct sbx_error {
  int code;               /* enum sbx_code */
  int sys;                /* errno behind it, 0 if none */
  int step;               /* enum sbx_setup of a failed set-up, 0 if none */
  bool retryable;         /* the same call may succeed later, unchanged */
  int64_t number;         /* SBX_E_STALE: actual mtime in ms */
  const char* operation;  /* static text, e.g. "files.write" */
  char message[SBX_MESSAGE_MAX];
};

/* Fills `error` (which may be NULL) and returns `code`. The format is printf's;
 * control characters that %s brings in are replaced, so a hostile name cannot
 * reach a terminal raw. */
int sbx_error_set(struct sbx_error* error, int code, int sys,
                  const char* operation, const char* format, ...)
    __attribute__((format(printf, 5, 6)));

/* The error in `copy`, or NULL for NULL: for one that goes with its owner before
 * it is told. */
const struct sbx_error* sbx_error_keep(struct sbx_error* copy,
                                       const struct sbx_error* error);

/* The kernel's words for an errno: uv_strerror leaks for those it does not
 * know. The text is in `buffer`, which is also returned. */
enum { SBX_SYS_TEXT_MAX = 80 };
const char* sbx_sys_text(int sys, char buffer[SBX_SYS_TEXT_MAX]);

/* "invalid_input" ... for the twelve, "ENOENT" ... for the file ones. */
const char* sbx_code_name(int code);

#endif
