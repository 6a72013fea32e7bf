/* Reads the three messages of a SOCKS5 client.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "socks.h"

#include <arpa/inet.h>
#include <string.h>

enum { GREETING, LOGIN, REQUEST };
enum { IPV4 = 1, NAME = 3, IPV6 = 4, CONNECT = 1 };
enum { BAD_COMMAND = 7, BAD_ADDRESS = 8 };

typedef const unsigned char* bytes_t;

static enum sbx_socks_event read_greeting(struct sbx_socks* s, bytes_t b,
                                          size_t len, size_t* used) {
  if (len < 2 || len < 2u + b[1]) return SBX_SOCKS_MORE;
  *used = 2u + b[1];
  if (memchr(b + 2, 2, b[1]) == NULL) return SBX_SOCKS_NO_METHOD;
  s->step = LOGIN;
  return SBX_SOCKS_GREETED;
}

static enum sbx_socks_event read_login(struct sbx_socks* s, const char* token,
                                       bytes_t b, size_t len, size_t* used) {
  size_t wanted = strlen(token), user, word;
  unsigned char differ = 0;

  if (len < 1) return SBX_SOCKS_MORE;
  if (b[0] != 1) return SBX_SOCKS_BROKEN;
  if (len < 2 || len < 3u + b[1]) return SBX_SOCKS_MORE;
  user = b[1];
  word = b[2 + user];
  if (len < 3 + user + word) return SBX_SOCKS_MORE;
  *used = 3 + user + word;
  s->step = REQUEST;
  if (word != wanted) return SBX_SOCKS_WRONG_LOGIN;
  for (size_t i = 0; i < word; i++)
    differ |= (unsigned char) (b[3 + user + i] ^ (unsigned char) token[i]);
  return differ == 0 ? SBX_SOCKS_LOGIN : SBX_SOCKS_WRONG_LOGIN;
}

static size_t address_len(bytes_t b, size_t len) {
  if (b[3] == IPV4) return 4;
  if (b[3] == IPV6) return 16;
  return len > 4 ? 1u + b[4] : 1;
}

static bool read_host(struct sbx_socks* s, bytes_t b) {
  if (b[3] == NAME) return sbx_host_clean((const char*) b + 5, b[4], s->host);
  return inet_ntop(b[3] == IPV4 ? AF_INET : AF_INET6, b + 4, s->host,
                   sizeof(s->host)) != NULL;
}

static enum sbx_socks_event refuse(struct sbx_socks* s, unsigned char code) {
  s->code = code;
  return SBX_SOCKS_REFUSED;
}

static enum sbx_socks_event read_request(struct sbx_socks* s, bytes_t b,
                                         size_t len, size_t* used) {
  size_t address;

  if (len < 4) return SBX_SOCKS_MORE;
  if (b[3] != IPV4 && b[3] != NAME && b[3] != IPV6)
    return refuse(s, BAD_ADDRESS);
  address = address_len(b, len);
  if (len < 4 + address + 2 || len < 5) return SBX_SOCKS_MORE;
  *used = 4 + address + 2;
  if (b[1] != CONNECT) return refuse(s, BAD_COMMAND);
  s->port = (unsigned) b[4 + address] << 8 | b[5 + address];
  if (s->port == 0 || !read_host(s, b)) return refuse(s, BAD_ADDRESS);
  return SBX_SOCKS_REQUEST;
}

enum sbx_socks_event sbx_socks_read(struct sbx_socks* s, const char* token,
                                    const char* bytes, size_t len,
                                    size_t* used) {
  bytes_t b = (bytes_t) bytes;

  *used = 0;
  if (s->step == LOGIN) return read_login(s, token, b, len, used);
  if (len > 0 && b[0] != 5) return SBX_SOCKS_BROKEN;
  if (s->step == GREETING) return read_greeting(s, b, len, used);
  return read_request(s, b, len, used);
}
