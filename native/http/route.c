/* Which proxy a request goes through: the settings and the usual variables. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "internal.h"

/* Programs that a web server runs see a header "Proxy:" as HTTP_PROXY. */
static const char* variable(const char* lower, const char* upper) {
  const char* value = getenv(lower);

  if (value && *value) return value;
  if (!upper || (strcmp(upper, "HTTP_PROXY") == 0 && getenv("REQUEST_METHOD")))
    return NULL;
  value = getenv(upper);
  return value && *value ? value : NULL;
}

static int copy(char** out, const char* value) {
  if (!value) return 0;
  return (*out = strdup(value)) ? 0 : UV_ENOMEM;
}

int sbx__route_load(struct sbx__route* r) {
  if (copy(&r->https, variable("https_proxy", "HTTPS_PROXY")) ||
      copy(&r->http, variable("http_proxy", "HTTP_PROXY")) ||
      copy(&r->all, variable("all_proxy", "ALL_PROXY")) ||
      copy(&r->none, variable("no_proxy", "NO_PROXY")))
    return UV_ENOMEM;
  return 0;
}

void sbx__route_free(struct sbx__route* r) {
  free(r->https);
  free(r->http);
  free(r->all);
  free(r->none);
  memset(r, 0, sizeof(*r));
}

/* "host:80" or "[::1]:80": splits the port off, 0 without one. */
static unsigned split_port(const char** item, size_t* len) {
  const char* text = *item;
  const char* colon = memrchr(text, ':', *len);
  unsigned port;

  if (*len && *text == '[') {
    const char* end = memchr(text, ']', *len);
    if (!end) return 0;
    port = end[1] == ':' ? (unsigned) atoi(end + 2) : 0;
    *item = text + 1;
    *len = (size_t) (end - text) - 1;
    return port;
  }
  if (!colon || memchr(text, ':', (size_t) (colon - text))) return 0;
  *len = (size_t) (colon - text);
  return (unsigned) atoi(colon + 1);
}

/* "example.com" and ".example.com" mean the host and all below it. */
static bool matches(const char* item, size_t len, const struct sbx_url* url) {
  unsigned port = split_port(&item, &len);
  size_t host_len = strlen(url->host);

  if (port && port != url->port) return false;
  if (len == 1 && *item == '*') return true;
  if (len > 1 && *item == '*' && item[1] == '.') item++, len--;
  if (len && *item == '.') item++, len--;
  if (!len || len > host_len) return false;
  if (strncasecmp(url->host + host_len - len, item, len) != 0) return false;
  return len == host_len || url->host[host_len - len - 1] == '.';
}

static bool excluded(const char* list, const struct sbx_url* url) {
  while (list && *list) {
    size_t len;
    list += strspn(list, ", \t");
    len = strcspn(list, ", \t");
    if (len && matches(list, len, url)) return true;
    list += len;
  }
  return false;
}

const char* sbx__route_choose(const struct sbx__route* r, const char* setting,
                              const struct sbx_url* url, const char** name) {
  *name = "the proxy option";
  if (setting) return *setting ? setting : NULL;
  if (excluded(r->none, url)) return NULL;
  *name = url->tls ? "HTTPS_PROXY" : "HTTP_PROXY";
  if (url->tls && r->https) return r->https;
  if (!url->tls && r->http) return r->http;
  *name = "ALL_PROXY";
  return r->all;
}

static bool known_scheme(const char* url) {
  static const char* const schemes[] = {"http://",   "https://",  "socks4://",
                                        "socks4a://", "socks5://", "socks5h://"};

  for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
    size_t len = strlen(schemes[i]);
    if (strncasecmp(url, schemes[i], len) == 0 && url[len]) return true;
  }
  return false;
}

char* sbx__route_check(const char* proxy, const char* name,
                       struct sbx_error* error) {
  const char* scheme = strstr(proxy, "://") ? "" : "http://";
  size_t size = strlen(scheme) + strlen(proxy) + 1;
  char* url = malloc(size);

  if (!url) {
    sbx_error_set(error, SBX_E_INTERNAL, ENOMEM, "http", "out of memory");
    return NULL;
  }
  snprintf(url, size, "%s%s", scheme, proxy);
  for (const char* p = url; *p; p++)
    if ((unsigned char) *p <= ' ' || *p == 0x7f) goto refuse;
  if (known_scheme(url)) return url;
refuse:
  free(url);
  sbx_error_set(error, SBX_E_INVALID_INPUT, 0, "http",
                "%s must be the URL of a proxy, as http://host:3128 or "
                "socks5h://host:1080",
                name);
  return NULL;
}
