/* Finds the Host field of the first request, with no memory of its own. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "host_check.h"

#include <string.h>
#include <strings.h>

#include "allow_list.h"

enum { METHOD_MAX = 24 };

/* A method and a space. */
static enum sbx_host_verdict check_method(const char* bytes, size_t len) {
  for (size_t i = 0; i < len && i < METHOD_MAX; i++) {
    if (bytes[i] == ' ' && i > 0) return SBX_HOST_GOOD;
    if (bytes[i] < 'A' || bytes[i] > 'Z') return SBX_HOST_NOT_HTTP;
  }
  return len < METHOD_MAX ? SBX_HOST_MORE : SBX_HOST_NOT_HTTP;
}

static enum sbx_host_verdict check_tls(const char* bytes, size_t len) {
  if (len < 2) return SBX_HOST_MORE;
  return bytes[1] == 3 ? SBX_HOST_GOOD : SBX_HOST_NOT_HTTP;
}

static enum sbx_host_verdict check_host(const char* text, size_t len,
                                        unsigned port) {
  char host[SBX_HOST_MAX];
  unsigned given;

  while (len > 0 && (*text == ' ' || *text == '\t')) text++, len--;
  while (len > 0 && (text[len - 1] == ' ' || text[len - 1] == '\t')) len--;
  if (!sbx_host_split(text, len, 80, host, &given) || given != port)
    return SBX_HOST_WRONG;
  if (strcmp(host, "127.0.0.1") == 0 || strcmp(host, "localhost") == 0 ||
      strcmp(host, "::1") == 0)
    return SBX_HOST_GOOD;
  return SBX_HOST_WRONG;
}

/* The lines after the request line, up to the last complete one. */
static enum sbx_host_verdict check_fields(const char* at, const char* end,
                                          unsigned port) {
  const char* line = memchr(at, '\n', (size_t) (end - at));

  while (line != NULL && ++line < end) {
    const char* stop = memchr(line, '\n', (size_t) (end - line));
    size_t len;

    if (stop == NULL) return SBX_HOST_MORE;
    len = (size_t) (stop - line);
    if (len > 0 && line[len - 1] == '\r') len--;
    if (len == 0) return SBX_HOST_WRONG;
    if (len >= 5 && strncasecmp(line, "host:", 5) == 0)
      return check_host(line + 5, len - 5, port);
    line = stop;
  }
  return SBX_HOST_MORE;
}

enum sbx_host_verdict sbx_host_check(const char* bytes, size_t len,
                                     unsigned port) {
  enum sbx_host_verdict verdict;

  if (len == 0) return SBX_HOST_MORE;
  if (bytes[0] == 0x16) return check_tls(bytes, len);
  verdict = check_method(bytes, len);
  if (verdict == SBX_HOST_GOOD) verdict = check_fields(bytes, bytes + len, port);
  if (verdict == SBX_HOST_MORE && len >= SBX_HOST_HEAD_MAX)
    return SBX_HOST_LONG;
  return verdict;
}
