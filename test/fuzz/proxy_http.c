/* A proxy request is refused, or is one for a clean host; the head that goes on
 * is one head and names that host. A longer input never takes a verdict back. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "native/network/host_check.h"
#include "native/network/proxy_http.h"

static void check_host(const char* host, unsigned port) {
  char again[SBX_HOST_MAX];

  if (port == 0 || port > 65535) abort();
  if (!sbx_host_clean(host, strlen(host), again)) abort();
  if (strcmp(host, again) != 0) abort();
}

static void check_head(const struct sbx_proxy_request* r) {
  const char* end = memmem(r->head, r->head_len, "\r\n\r\n", 4);

  if (end == NULL || end + 4 != r->head + r->head_len) abort();
  if (memmem(r->head, r->head_len, "\r\nHost: ", 8) == NULL) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  struct sbx_proxy_request r, cut;
  const char* bytes = (const char*) data;
  enum sbx_proxy_verdict v = sbx_proxy_http_parse(bytes, size, "eDp5", &r);

  if (v == SBX_PROXY_DONE) {
    check_host(r.host, r.port);
    if (r.used > size || r.used > SBX_PROXY_HEAD_MAX) abort();
    if (r.connect != (r.head == NULL)) abort();
    if (r.head != NULL) check_head(&r);
    if (sbx_proxy_http_parse(bytes, r.used - 1, "eDp5", &cut) !=
        SBX_PROXY_MORE)
      abort();
    free(r.head);
  } else if (r.head != NULL) {
    abort();
  }
  return 0;
}
