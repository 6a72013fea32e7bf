/* What an IP address is: only ordinary public ones may be reached unasked. */
#ifndef SBX_ADDRESS_H
#define SBX_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

/* NULL for a public address, else what it is, "a private address": loopback,
 * private, link-local (where clouds keep their metadata), carrier-grade NAT,
 * multicast, reserved, and the IPv6 forms that carry an IPv4 address. */
const char* sbx_address_special(const struct sockaddr* address);

/* Where a cloud tells a machine its credentials: link-local, and what some
 * clouds use besides. Nobody should be advised to allow it. */
bool sbx_address_is_metadata(const struct sockaddr* address);

/* Reads "1.2.3.4", "::1" or "[::1]", strictly; the port is 0. */
bool sbx_address_parse(const char* text, struct sockaddr_storage* out);

bool sbx_address_equal(const struct sockaddr* a, const struct sockaddr* b);

/* "1.2.3.4" or "::1". */
enum { SBX_ADDRESS_TEXT = 48 };
const char* sbx_address_text(const struct sockaddr* address,
                             char out[SBX_ADDRESS_TEXT]);

/* Bytes of a sockaddr of its family. */
socklen_t sbx_address_len(const struct sockaddr* address);

void sbx_address_set_port(struct sockaddr* address, unsigned port);

#endif
