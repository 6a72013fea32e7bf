/* Fills struct sbx_error and names the codes. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static bool is_control(unsigned char byte) {
  return byte < 0x20 || byte == 0x7f;
}

/* Replaces C0 and C1 controls, and drops a sequence that was cut in half. */
static void clean(char* text) {
  unsigned char* p = (unsigned char*) text;
  size_t len = strlen(text);
  size_t tail = len;

  for (size_t i = 0; i < len; i++) {
    if (is_control(p[i])) p[i] = '?';
    if (p[i] == 0xc2 && p[i + 1] >= 0x80 && p[i + 1] <= 0x9f)
      p[i] = p[i + 1] = '?';
  }
  if (len < SBX_MESSAGE_MAX - 1) return;
  while (tail > 0 && (p[tail - 1] & 0xc0) == 0x80) tail--;
  if (tail > 0 && p[tail - 1] >= 0xc0) text[tail - 1] = '\0';
}

int sbx_error_set(struct sbx_error* error, int code, int sys,
                  const char* operation, const char* format, ...) {
  va_list args;

  if (error == NULL) return code;
  error->code = code;
  error->sys = sys;
  error->step = 0;
  error->retryable = false;
  error->number = 0;
  error->operation = operation;
  va_start(args, format);
  if (vsnprintf(error->message, sizeof(error->message), format, args) < 0)
    error->message[0] = '\0';
  va_end(args);
  clean(error->message);
  return code;
}

const struct sbx_error* sbx_error_keep(struct sbx_error* copy,
                                       const struct sbx_error* error) {
  if (error == NULL) return NULL;
  *copy = *error;
  return copy;
}

const char* sbx_sys_text(int sys, char buffer[SBX_SYS_TEXT_MAX]) {
  const char* text = strerror_r(sys, buffer, SBX_SYS_TEXT_MAX);

  if (text != buffer) snprintf(buffer, SBX_SYS_TEXT_MAX, "%s", text);
  return buffer;
}

const char* sbx_code_name(int code) {
  switch (code) {
    case SBX_E_INVALID_INPUT: return "invalid_input";
    case SBX_E_AUTHENTICATION: return "authentication";
    case SBX_E_PERMISSION: return "permission";
    case SBX_E_NOT_FOUND: return "not_found";
    case SBX_E_CONFLICT: return "conflict";
    case SBX_E_RATE_LIMITED: return "rate_limited";
    case SBX_E_TIMEOUT: return "timeout";
    case SBX_E_ABORTED: return "aborted";
    case SBX_E_UNSUPPORTED: return "unsupported";
    case SBX_E_UNAVAILABLE: return "unavailable";
    case SBX_E_PROVIDER: return "provider_error";
    case SBX_E_FILE_NOT_FOUND: return "ENOENT";
    case SBX_E_DIRECTORY_NOT_FOUND: return "ENOENT_DIR";
    case SBX_E_FILE_EXISTS: return "EEXIST";
    case SBX_E_IS_DIRECTORY: return "EISDIR";
    case SBX_E_NOT_DIRECTORY: return "ENOTDIR";
    case SBX_E_NOT_EMPTY: return "ENOTEMPTY";
    case SBX_E_ACCESS: return "EACCES";
    case SBX_E_STALE: return "ESTALE";
    case SBX_E_IO: return "EIO";
    case SBX_E_SPECIAL_FILE: return "ESPECIAL";
    default: return "internal";
  }
}
