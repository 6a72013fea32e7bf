/* Reads a proxy request and writes the head that goes on to the server.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "proxy_http.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct text {
  const char* at;
  size_t len;
};

/* Bytes up to and with the empty line, or 0. */
static size_t head_end(const char* bytes, size_t len) {
  const char* end = bytes + len;
  const char* line = memchr(bytes, '\n', len);

  while (line != NULL && ++line < end) {
    if (*line == '\n') return (size_t) (line + 1 - bytes);
    if (*line == '\r' && line + 1 < end && line[1] == '\n')
      return (size_t) (line + 2 - bytes);
    line = memchr(line, '\n', (size_t) (end - line));
  }
  return 0;
}

/* The next line without its end; `rest` moves on. */
static struct text next_line(struct text* rest) {
  const char* stop = memchr(rest->at, '\n', rest->len);
  struct text line = {rest->at, (size_t) (stop - rest->at)};

  rest->len -= line.len + 1;
  rest->at = stop + 1;
  if (line.len > 0 && line.at[line.len - 1] == '\r') line.len--;
  return line;
}

static struct text next_word(struct text* rest) {
  const char* stop = memchr(rest->at, ' ', rest->len);
  struct text word = {rest->at, rest->len};

  if (stop != NULL) word.len = (size_t) (stop - rest->at);
  rest->at += word.len;
  rest->len -= word.len;
  if (rest->len > 0) rest->at++, rest->len--;
  return word;
}

static bool is(struct text t, const char* word) {
  return t.len == strlen(word) && strncasecmp(t.at, word, t.len) == 0;
}

static bool begins(struct text t, const char* word) {
  return t.len >= strlen(word) && strncasecmp(t.at, word, strlen(word)) == 0;
}

static struct text trimmed(struct text t) {
  while (t.len > 0 && (*t.at == ' ' || *t.at == '\t')) t.at++, t.len--;
  while (t.len > 0 && (t.at[t.len - 1] == ' ' || t.at[t.len - 1] == '\t'))
    t.len--;
  return t;
}

static bool clean(struct text t) {
  for (size_t i = 0; i < t.len; i++)
    if ((unsigned char) t.at[i] < 0x20 && t.at[i] != '\t') return false;
  return true;
}

/* A field name and its value. */
static bool split_field(struct text line, struct text* name,
                        struct text* value) {
  const char* colon = memchr(line.at, ':', line.len);

  if (colon == NULL || colon == line.at || !clean(line)) return false;
  name->at = line.at;
  name->len = (size_t) (colon - line.at);
  /* Also lines that go on the line before. */
  if (memchr(name->at, ' ', name->len) || memchr(name->at, '\t', name->len))
    return false;
  value->at = colon + 1;
  value->len = line.len - name->len - 1;
  *value = trimmed(*value);
  return true;
}

static bool same_secret(struct text given, const char* wanted) {
  unsigned char differ = 0;

  if (given.len != strlen(wanted)) return false;
  for (size_t i = 0; i < given.len; i++)
    differ |= (unsigned char) (given.at[i] ^ wanted[i]);
  return differ == 0;
}

static void check_secret(struct text value, const char* credentials,
                         struct sbx_proxy_request* out) {
  struct text rest = value;

  if (!is(next_word(&rest), "basic")) return;
  if (same_secret(trimmed(rest), credentials)) out->authorised = true;
}

/* ---- the new head ---- */

static void put(struct sbx_proxy_request* r, const char* bytes, size_t len) {
  memcpy(r->head + r->head_len, bytes, len);
  r->head_len += len;
}

static void put_word(struct sbx_proxy_request* r, const char* word) {
  put(r, word, strlen(word));
}

static void put_host(struct sbx_proxy_request* r) {
  bool v6 = strchr(r->host, ':') != NULL;
  char port[16];

  put_word(r, "Host: ");
  if (v6) put_word(r, "[");
  put_word(r, r->host);
  if (v6) put_word(r, "]");
  snprintf(port, sizeof(port), ":%u", r->port);
  if (r->port != 80) put_word(r, port);
  put_word(r, "\r\n");
}

/* Room for the old head, a host and our own fields. */
static bool open_head(struct sbx_proxy_request* r, struct text method,
                      struct text path) {
  r->head = malloc(r->used + SBX_HOST_MAX + 128);
  if (r->head == NULL) return false;
  r->head_len = 0;
  put(r, method.at, method.len);
  put_word(r, " ");
  if (path.len == 0 || path.at[0] != '/') put_word(r, "/");
  put(r, path.at, path.len);
  put_word(r, " HTTP/1.1\r\n");
  put_host(r);
  return true;
}

static bool for_the_proxy(struct text name) {
  return begins(name, "proxy-") || is(name, "connection") ||
         is(name, "keep-alive") || is(name, "host");
}

static const char* read_fields(struct text rest, const char* credentials,
                               struct sbx_proxy_request* r) {
  bool upgrade = false;

  while (rest.len > 0) {
    struct text line = next_line(&rest);
    struct text name, value;

    if (line.len == 0) break;
    if (!split_field(line, &name, &value)) return "a broken header field";
    if (is(name, "proxy-authorization"))
      check_secret(value, credentials, r);
    if (is(name, "upgrade")) upgrade = true;
    if (r->head == NULL || for_the_proxy(name)) continue;
    put(r, line.at, line.len);
    put_word(r, "\r\n");
  }
  if (r->head == NULL) return NULL;
  put_word(r, upgrade ? "Connection: Upgrade\r\n\r\n"
                      : "Connection: close\r\n\r\n");
  return NULL;
}

/* ---- the request line ---- */

static const char* read_target(struct text target, struct text* path,
                               struct sbx_proxy_request* r) {
  const char* at;
  size_t len;

  if (r->connect)
    return sbx_host_split(target.at, target.len, 0, r->host, &r->port)
               ? NULL
               : "no host and port";
  if (!begins(target, "http://"))
    return "a target that does not begin with http:// (this is a proxy)";
  target.at += 7;
  target.len -= 7;
  for (len = 0; len < target.len; len++)
    if (strchr("/?#", target.at[len]) != NULL) break;
  path->at = target.at + len;
  path->len = target.len - len;
  at = memrchr(target.at, '@', len);
  if (at != NULL) {
    len -= (size_t) (at + 1 - target.at);
    target.at = at + 1;
  }
  return sbx_host_split(target.at, len, 80, r->host, &r->port)
             ? NULL
             : "no valid host";
}

static const char* read_head(struct text head, const char* credentials,
                             struct sbx_proxy_request* r, bool* memory) {
  struct text line = next_line(&head);
  struct text method, target, version, path = {"", 0};
  const char* why;

  if (!clean(line)) return "a broken request line";
  method = next_word(&line);
  target = next_word(&line);
  version = next_word(&line);
  if (method.len == 0 || !begins(version, "HTTP/1.") || line.len > 0)
    return "no HTTP/1 request line";
  r->connect = is(method, "connect");
  why = read_target(target, &path, r);
  if (why != NULL) return why;
  if (!r->connect && !open_head(r, method, path)) {
    *memory = true;
    return "no memory";
  }
  return read_fields(head, credentials, r);
}

enum sbx_proxy_verdict sbx_proxy_http_parse(const char* bytes, size_t len,
                                            const char* credentials,
                                            struct sbx_proxy_request* out) {
  size_t limit = len < SBX_PROXY_HEAD_MAX ? len : SBX_PROXY_HEAD_MAX;
  size_t end = len > 0 ? head_end(bytes, limit) : 0;
  struct text head = {bytes, end};
  bool memory = false;

  memset(out, 0, sizeof(*out));
  if (end == 0) return len < SBX_PROXY_HEAD_MAX ? SBX_PROXY_MORE
                                                : SBX_PROXY_LONG;
  out->used = end;
  out->why = read_head(head, credentials, out, &memory);
  if (out->why == NULL) return SBX_PROXY_DONE;
  free(out->head);
  out->head = NULL;
  return memory ? SBX_PROXY_MEMORY : SBX_PROXY_BAD;
}
