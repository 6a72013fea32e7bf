/* SHA-1, for the WebSocket handshake, where it protects nothing. */
#ifndef SBX_SHA1_H
#define SBX_SHA1_H

#include <stddef.h>
#include <stdint.h>

enum { SBX_SHA1_LEN = 20, SBX_SHA1_INPUT_MAX = 183 };

/* Of at most SBX_SHA1_INPUT_MAX bytes. */
void sbx_sha1(const void* bytes, size_t len, uint8_t out[SBX_SHA1_LEN]);

#endif
