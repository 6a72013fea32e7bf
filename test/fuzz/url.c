/* URLs: what is accepted is a clean host with a port, its parts lie in the text,
 * and an encoded segment and query stay what they are. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "native/http/url.h"

static void check_parts(const char* text, size_t len, const struct sbx_url* u) {
  char again[SBX_HOST_MAX];

  if (u->port == 0 || u->port > 65535) abort();
  if (!sbx_host_clean(u->host, strlen(u->host), again)) abort();
  if (strcmp(u->host, again) != 0) abort();
  if (memchr(text, '@', len) != NULL &&
      (const char*) memchr(text, '@', len) < u->path)
    abort();
  if (memchr(text, '\r', len) != NULL || memchr(text, '\n', len) != NULL)
    abort();
  if (u->path < text || u->path + u->path_len > text + len) abort();
  if (u->query_len > 0 && u->query + u->query_len != text + len) abort();
  if (!sbx_url_same_origin(u, u) || !sbx_url_trusted(u, u, NULL)) abort();
}

/* What is built from hostile parts stays one URL on the base's host. */
static void check_build(const char* part) {
  struct sbx_url_builder b = {0};
  struct sbx_url u;
  char* url;

  sbx_url_base(&b, "https://api.example/v1/");
  sbx_url_segment(&b, part);
  sbx_url_query(&b, part, part);
  url = sbx_url_take(&b);
  if (url == NULL) return;
  if (strlen(url) <= SBX_URL_MAX) {
    if (sbx_url_parse(url, strlen(url), &u) != NULL) abort();
    if (strcmp(u.host, "api.example") != 0 || u.query_len == 0) abort();
    if (memcmp(u.path, "/v1/", 4) != 0 ||
        memchr(u.path + 4, '/', u.path_len - 4) != NULL)
      abort();
  }
  free(url);
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  char* text = malloc(size + 1);
  struct sbx_url url;

  memcpy(text, data, size);
  text[size] = '\0';
  if (sbx_url_parse(text, size, &url) == NULL) check_parts(text, size, &url);
  check_build(text);
  sbx_host_below(text, "example.com");
  sbx_host_below("example.com", text);
  free(text);
  return 0;
}
