/* What a program says to a SOCKS5 proxy (RFC 1928, 1929), up to its request. */
#ifndef SBX_SOCKS_H
#define SBX_SOCKS_H

#include <stddef.h>

#include "allow_list.h"

enum sbx_socks_event {
  SBX_SOCKS_MORE = 0,
  SBX_SOCKS_GREETED,     /* answer 05 02; a login follows */
  SBX_SOCKS_NO_METHOD,   /* answer 05 ff and close */
  SBX_SOCKS_LOGIN,       /* answer 01 00; a request follows */
  SBX_SOCKS_WRONG_LOGIN, /* answer 01 01 and close */
  SBX_SOCKS_REQUEST,     /* host and port are set */
  SBX_SOCKS_REFUSED,     /* `code` is the reply to give */
  SBX_SOCKS_BROKEN       /* no SOCKS5: close */
};

/* All zero at the start. */
struct sbx_socks {
  int step;
  unsigned char code;
  char host[SBX_HOST_MAX];
  unsigned port;
};

/* Reads one message from the front of `bytes`; `used` is its length, 0 with
 * MORE. Not to be called again after REQUEST or an event that closes. */
enum sbx_socks_event sbx_socks_read(struct sbx_socks* s, const char* token,
                                    const char* bytes, size_t len,
                                    size_t* used);

#endif
