/* Tables of the special address blocks (IANA's registries, RFC 6890 and those
 * after it).
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdint.h>
#include <string.h>

struct block4 {
  uint32_t first;
  unsigned bits;
  const char* what;
};

#define IP(a, b, c, d) \
  ((uint32_t) (a) << 24 | (uint32_t) (b) << 16 | (uint32_t) (c) << 8 | (d))

static const struct block4 blocks4[] = {
    {IP(0, 0, 0, 0), 8, "an unspecified address"},
    {IP(10, 0, 0, 0), 8, "a private address"},
    {IP(100, 64, 0, 0), 10, "an address of a carrier's own network"},
    {IP(127, 0, 0, 0), 8, "a loopback address"},
    {IP(169, 254, 0, 0), 16, "a link-local address"},
    {IP(172, 16, 0, 0), 12, "a private address"},
    {IP(192, 0, 0, 0), 24, "a reserved address"},
    {IP(192, 0, 2, 0), 24, "a reserved address"},
    {IP(192, 88, 99, 0), 24, "a relay address"},
    {IP(192, 168, 0, 0), 16, "a private address"},
    {IP(198, 18, 0, 0), 15, "a reserved address"},
    {IP(198, 51, 100, 0), 24, "a reserved address"},
    {IP(203, 0, 113, 0), 24, "a reserved address"},
    {IP(224, 0, 0, 0), 4, "a multicast address"},
    {IP(240, 0, 0, 0), 4, "a reserved address"},
};

struct block6 {
  uint8_t first[4]; /* no block below needs more */
  unsigned bits;
  const char* what;
};

/* Inside 2000::/3; what lies outside is special anyway. */
static const struct block6 blocks6[] = {
    {{0x20, 0x01, 0x00, 0x00}, 23, "a reserved or Teredo address"},
    {{0x20, 0x01, 0x0d, 0xb8}, 32, "a reserved address"},
    {{0x20, 0x02, 0x00, 0x00}, 16, "a 6to4 address"},
    {{0x3f, 0xff, 0x00, 0x00}, 20, "a reserved address"},
};

static bool starts(const uint8_t* bytes, const uint8_t* with, unsigned bits) {
  unsigned whole = bits / 8, rest = bits % 8;
  unsigned mask = 0xff00u >> rest & 0xff;

  if (memcmp(bytes, with, whole) != 0) return false;
  return rest == 0 || (bytes[whole] & mask) == (with[whole] & mask);
}

static const char* special4(uint32_t ip) {
  for (size_t i = 0; i < sizeof(blocks4) / sizeof(blocks4[0]); i++) {
    const struct block4* b = &blocks4[i];

    if ((ip ^ b->first) >> (32 - b->bits) == 0) return b->what;
  }
  return NULL;
}

static const char* outside6(const uint8_t* b) {
  static const uint8_t zero[15] = {0};
  static const uint8_t nat64[] = {0x00, 0x64, 0xff, 0x9b};

  if (memcmp(b, zero, 15) == 0 && b[15] <= 1)
    return b[15] == 1 ? "a loopback address" : "an unspecified address";
  if (memcmp(b, zero, 10) == 0) return "an IPv4 address in IPv6 form";
  if (memcmp(b, nat64, 4) == 0) return "a NAT64 address";
  if ((b[0] & 0xfe) == 0xfc) return "a private address";
  if (b[0] == 0xfe && (b[1] & 0xc0) == 0x80) return "a link-local address";
  if (b[0] == 0xff) return "a multicast address";
  return "a reserved address";
}

static const char* special6(const uint8_t* b) {
  if ((b[0] & 0xe0) != 0x20) return outside6(b);
  for (size_t i = 0; i < sizeof(blocks6) / sizeof(blocks6[0]); i++)
    if (starts(b, blocks6[i].first, blocks6[i].bits)) return blocks6[i].what;
  return NULL;
}

const char* sbx_address_special(const struct sockaddr* a) {
  if (a->sa_family == AF_INET)
    return special4(ntohl(((const struct sockaddr_in*) a)->sin_addr.s_addr));
  if (a->sa_family == AF_INET6)
    return special6(((const struct sockaddr_in6*) a)->sin6_addr.s6_addr);
  return "no internet address";
}

bool sbx_address_is_metadata(const struct sockaddr* a) {
  static const uint8_t aws[16] = {0xfd, 0x00, 0x0e, 0xc2, [14] = 0x02, 0x54};
  const uint8_t* b = ((const struct sockaddr_in6*) a)->sin6_addr.s6_addr;
  uint32_t ip = ntohl(((const struct sockaddr_in*) a)->sin_addr.s_addr);

  if (a->sa_family == AF_INET)
    return ip >> 16 == IP(169, 254, 0, 0) >> 16 || ip == IP(100, 100, 100, 200);
  if (a->sa_family != AF_INET6) return false;
  return (b[0] == 0xfe && (b[1] & 0xc0) == 0x80) || memcmp(b, aws, 16) == 0;
}

bool sbx_address_parse(const char* text, struct sockaddr_storage* out) {
  struct sockaddr_in* v4 = (struct sockaddr_in*) out;
  struct sockaddr_in6* v6 = (struct sockaddr_in6*) out;
  size_t len = strlen(text);
  char plain[INET6_ADDRSTRLEN];

  memset(out, 0, sizeof(*out));
  if (inet_pton(AF_INET, text, &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    return true;
  }
  if (len > 2 && text[0] == '[' && text[len - 1] == ']') {
    text++;
    len -= 2;
  }
  if (len >= sizeof(plain)) return false;
  memcpy(plain, text, len);
  plain[len] = '\0';
  if (inet_pton(AF_INET6, plain, &v6->sin6_addr) != 1) return false;
  v6->sin6_family = AF_INET6;
  return true;
}

bool sbx_address_equal(const struct sockaddr* a, const struct sockaddr* b) {
  if (a->sa_family != b->sa_family) return false;
  if (a->sa_family == AF_INET)
    return ((const struct sockaddr_in*) a)->sin_addr.s_addr ==
           ((const struct sockaddr_in*) b)->sin_addr.s_addr;
  return memcmp(&((const struct sockaddr_in6*) a)->sin6_addr,
                &((const struct sockaddr_in6*) b)->sin6_addr, 16) == 0;
}

const char* sbx_address_text(const struct sockaddr* a,
                             char out[SBX_ADDRESS_TEXT]) {
  const void* bytes = a->sa_family == AF_INET
                          ? (const void*) &((const struct sockaddr_in*) a)->sin_addr
                          : &((const struct sockaddr_in6*) a)->sin6_addr;

  if (inet_ntop(a->sa_family, bytes, out, SBX_ADDRESS_TEXT) == NULL)
    out[0] = '\0';
  return out;
}

socklen_t sbx_address_len(const struct sockaddr* a) {
  return a->sa_family == AF_INET ? sizeof(struct sockaddr_in)
                                 : sizeof(struct sockaddr_in6);
}

void sbx_address_set_port(struct sockaddr* a, unsigned port) {
  if (a->sa_family == AF_INET)
    ((struct sockaddr_in*) a)->sin_port = htons((uint16_t) port);
  else
    ((struct sockaddr_in6*) a)->sin6_port = htons((uint16_t) port);
}
