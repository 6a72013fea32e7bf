/* The first bytes of a connection to an exposed port: is it a request for the
 * URL that we gave out?
 *
 * A web page whose name resolves to this machine (DNS rebinding) reaches the
 * port, but its browser says the page's own name in the Host field. */
#ifndef SBX_HOST_CHECK_H
#define SBX_HOST_CHECK_H

#include <stddef.h>

enum sbx_host_verdict {
  SBX_HOST_MORE = 0, /* not yet known */
  SBX_HOST_GOOD,     /* ours; or TLS, whose certificate the client checks */
  SBX_HOST_NOT_HTTP,
  SBX_HOST_WRONG, /* another host's, or no Host field */
  SBX_HOST_LONG   /* no Host field in the first 16 KB */
};

enum { SBX_HOST_HEAD_MAX = 16 * 1024 };

/* `bytes` are all bytes so far. Good hosts: 127.0.0.1, localhost and [::1] with
 * `port`. Only the first request is looked at: a browser does not use one
 * connection for two hosts. */
enum sbx_host_verdict sbx_host_check(const char* bytes, size_t len,
                                     unsigned port);

#endif
