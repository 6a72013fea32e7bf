/* The request head that a program sends to an HTTP proxy. */
#ifndef SBX_PROXY_HTTP_H
#define SBX_PROXY_HTTP_H

#include <stdbool.h>
#include <stddef.h>

#include "allow_list.h"

enum { SBX_PROXY_HEAD_MAX = 16 * 1024 };

enum sbx_proxy_verdict {
  SBX_PROXY_MORE = 0,
  SBX_PROXY_DONE,
  SBX_PROXY_BAD,    /* `why` says what */
  SBX_PROXY_LONG,   /* no end of the head in 16 KB */
  SBX_PROXY_MEMORY
};

struct sbx_proxy_request {
  bool connect;  /* a tunnel; else one request in absolute form */
  bool authorised;
  char host[SBX_HOST_MAX];
  unsigned port;
  size_t used;   /* bytes of the head; the body follows */
  char* head;    /* absolute form: the head for the server; free it */
  size_t head_len;
  const char* why;
};

/* `bytes` are all bytes so far. `credentials` is what has to follow "Basic ".
 * The new head names the host once, asks for one answer per connection (or for
 * an upgrade) and holds nothing that was for the proxy. `out->head` is only set
 * with DONE. */
enum sbx_proxy_verdict sbx_proxy_http_parse(const char* bytes, size_t len,
                                            const char* credentials,
                                            struct sbx_proxy_request* out);

#endif
