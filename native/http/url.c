/* URLs, taken apart strictly, and built. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "url.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "../network/address.h"

static bool read_scheme(const char* text, size_t len, struct sbx_url* out,
                        size_t* used) {
  static const struct {
    const char* name;
    unsigned port;
  } schemes[] = {{"http", 80}, {"https", 443}, {"ws", 80}, {"wss", 443}};

  for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
    size_t n = strlen(schemes[i].name);

    if (len < n + 3 || strncasecmp(text, schemes[i].name, n) != 0 ||
        memcmp(text + n, "://", 3) != 0)
      continue;
    snprintf(out->scheme, sizeof(out->scheme), "%s", schemes[i].name);
    out->port = schemes[i].port;
    out->tls = schemes[i].port == 443;
    *used = n + 3;
    return true;
  }
  return false;
}

static const char* bad_byte(const char* text, size_t len) {
  for (size_t i = 0; i < len; i++) {
    unsigned char c = (unsigned char) text[i];

    if (c <= 0x20 || c == 0x7f)
      return "must not hold blanks or control characters";
    if (c >= 0x80) return "must be ASCII, other characters percent-encoded";
    if (c == '\\') return "must not hold a backslash";
    if (c == '#') return "must not hold a fragment (\"#\")";
  }
  return NULL;
}

static bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/* Programs read "127.1" and "0x7f000001" as addresses; we take only the plain
 * form. */
static bool odd_address(const char* host) {
  struct sockaddr_storage a;
  const char* dot = strrchr(host, '.');
  const char* last = dot != NULL ? dot + 1 : host;
  bool number = is_digit(*last);

  if (strchr(host, ':') != NULL) return false;
  for (const char* p = last; *p != '\0' && number; p++) number = is_digit(*p);
  if (last[0] == '0' && (last[1] == 'x' || last[1] == 'X')) number = true;
  return number && !sbx_address_parse(host, &a);
}

static const char* read_authority(const char* text, size_t len,
                                  struct sbx_url* out) {
  if (memchr(text, '@', len) != NULL)
    return "must not hold a user name or password";
  if (len == 0) return "must name a host";
  if (!sbx_host_split(text, len, out->port, out->host, &out->port))
    return "must name a host, and a port from 1 to 65535 if any";
  /* The text of an address without brackets would not be one of a URL. */
  if (strchr(out->host, ':') != NULL && text[0] != '[')
    return "must write an IPv6 address in brackets";
  return odd_address(out->host) ? "must name a host or a plain address" : NULL;
}

const char* sbx_url_parse(const char* text, size_t len, struct sbx_url* out) {
  const char* wrong;
  const char* at;
  const char* end = text + len;
  size_t used, n = 0;

  memset(out, 0, sizeof(*out));
  out->path = out->query = "";
  if (len > SBX_URL_MAX) return "must not be longer than 8192 bytes";
  wrong = bad_byte(text, len);
  if (wrong != NULL) return wrong;
  if (!read_scheme(text, len, out, &used))
    return "must begin with https:// or http://";
  at = text + used;
  while (at + n < end && at[n] != '/' && at[n] != '?') n++;
  wrong = read_authority(at, n, out);
  if (wrong != NULL) return wrong;
  at += n;
  out->path = at;
  while (at < end && *at != '?') at++;
  out->path_len = (size_t) (at - out->path);
  if (at < end) {
    out->query = at + 1;
    out->query_len = (size_t) (end - out->query);
  }
  return NULL;
}

bool sbx_url_same_origin(const struct sbx_url* a, const struct sbx_url* b) {
  return a->tls == b->tls && a->port == b->port &&
         strcmp(a->host, b->host) == 0;
}

static bool is_address(const char* host) {
  struct sockaddr_storage a;

  return sbx_address_parse(host, &a);
}

bool sbx_host_below(const char* host, const char* domain) {
  size_t h = strlen(host), d = strlen(domain);

  /* A dot at the end changes nothing. */
  if (h > 0 && host[h - 1] == '.') h--;
  if (d > 0 && domain[d - 1] == '.') d--;
  if (d == 0 || h < d || is_address(host)) return false;
  if (strncasecmp(host + h - d, domain, d) != 0) return false;
  return h == d || host[h - d - 1] == '.';
}

bool sbx_url_trusted(const struct sbx_url* named, const struct sbx_url* base,
                     const char* domain) {
  if (base->tls && !named->tls) return false;
  if (strcmp(named->host, base->host) == 0) return true;
  return domain != NULL && sbx_host_below(named->host, domain);
}

/* ---- building ---- */

void sbx_url_encode(struct sbx_text* t, const void* bytes, size_t len) {
  static const char hex[] = "0123456789ABCDEF";
  const char* at = bytes;
  const char* end = len > 0 ? at + len : at;

  for (; at < end; at++) {
    unsigned char c = (unsigned char) *at;
    char code[3] = {'%', hex[c >> 4], hex[c & 15]};
    bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                 is_digit(*at) || (c != 0 && strchr("-._~", c) != NULL);

    sbx_text_add(t, plain ? at : code, plain ? 1 : 3);
  }
}

void sbx_url_base(struct sbx_url_builder* b, const char* base) {
  struct sbx_url url;
  size_t len = strlen(base);

  if (sbx_url_parse(base, len, &url) != NULL || url.query_len > 0)
    b->text.failed = true;
  while (len > 0 && base[len - 1] == '/') len--;
  sbx_text_add(&b->text, base, len);
}

void sbx_url_path(struct sbx_url_builder* b, const char* path) {
  sbx_text_puts(&b->text, path);
}

void sbx_url_segment(struct sbx_url_builder* b, const char* segment) {
  if (segment[0] == '\0' || strcmp(segment, ".") == 0 ||
      strcmp(segment, "..") == 0)
    b->text.failed = true;
  sbx_text_add(&b->text, "/", 1);
  sbx_url_encode(&b->text, segment, strlen(segment));
}

void sbx_url_query(struct sbx_url_builder* b, const char* name,
                   const char* value) {
  sbx_text_add(&b->text, b->query ? "&" : "?", 1);
  b->query = true;
  sbx_url_encode(&b->text, name, strlen(name));
  sbx_text_add(&b->text, "=", 1);
  sbx_url_encode(&b->text, value, strlen(value));
}

char* sbx_url_take(struct sbx_url_builder* b) {
  char* url = sbx_text_take(&b->text, NULL);

  b->query = false;
  return url;
}
