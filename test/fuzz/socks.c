/* A SOCKS client is answered step by step; the same bytes cut in two give the
 * same answers, and a host is a clean one. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "native/network/socks.h"

static bool goes_on(enum sbx_socks_event e) {
  return e == SBX_SOCKS_GREETED || e == SBX_SOCKS_LOGIN;
}

/* The last event of `size` bytes; *at is where the next message begins. */
static enum sbx_socks_event feed(struct sbx_socks* s, const char* bytes,
                                 size_t size, size_t* at) {
  enum sbx_socks_event e;
  size_t used;

  do {
    e = sbx_socks_read(s, "secret", bytes + *at, size - *at, &used);
    if (used > size - *at) abort();
    if (e == SBX_SOCKS_MORE && used != 0) abort();
    *at += used;
  } while (goes_on(e));
  return e;
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  struct sbx_socks whole = {0}, cut = {0};
  const char* bytes = (const char*) data;
  size_t a = 0, b = 0;
  char again[SBX_HOST_MAX];
  enum sbx_socks_event e = feed(&whole, bytes, size, &a);

  if (feed(&cut, bytes, size / 2, &b) == SBX_SOCKS_MORE &&
      feed(&cut, bytes, size, &b) != e)
    abort();
  if (e != SBX_SOCKS_REQUEST) return 0;
  if (whole.port == 0 || whole.port > 65535) abort();
  if (!sbx_host_clean(whole.host, strlen(whole.host), again)) abort();
  return 0;
}
