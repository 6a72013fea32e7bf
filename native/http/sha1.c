/* SHA-1 of one short text (RFC 3174). */
#include "sha1.h"

#include <string.h>

static uint32_t roll(uint32_t value, unsigned by) {
  return value << by | value >> (32 - by);
}

static uint32_t mix(unsigned round, uint32_t b, uint32_t c, uint32_t d) {
  switch (round / 20) {
    case 0: return ((b & c) | (~b & d)) + 0x5a827999;
    case 1: return (b ^ c ^ d) + 0x6ed9eba1;
    case 2: return ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdc;
    default: return (b ^ c ^ d) + 0xca62c1d6;
  }
}

static void add_block(uint32_t state[5], const uint8_t* block) {
  uint32_t w[80], s[5];

  for (int i = 0; i < 16; i++)
    w[i] = (uint32_t) block[4 * i] << 24 | (uint32_t) block[4 * i + 1] << 16 |
           (uint32_t) block[4 * i + 2] << 8 | block[4 * i + 3];
  for (int i = 16; i < 80; i++)
    w[i] = roll(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
  memcpy(s, state, sizeof(s));
  for (unsigned i = 0; i < 80; i++) {
    uint32_t next = roll(s[0], 5) + mix(i, s[1], s[2], s[3]) + s[4] + w[i];
    s[4] = s[3];
    s[3] = s[2];
    s[2] = roll(s[1], 30);
    s[1] = s[0];
    s[0] = next;
  }
  for (int i = 0; i < 5; i++) state[i] += s[i];
}

void sbx_sha1(const void* bytes, size_t len, uint8_t out[SBX_SHA1_LEN]) {
  uint32_t state[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476,
                       0xc3d2e1f0};
  uint8_t text[192] = {0};
  size_t size = (len + 9 + 63) / 64 * 64;

  memcpy(text, bytes, len);
  text[len] = 0x80;
  text[size - 2] = (uint8_t) (len * 8 >> 8);
  text[size - 1] = (uint8_t) (len * 8);
  for (size_t i = 0; i < size; i += 64) add_block(state, text + i);
  for (int i = 0; i < SBX_SHA1_LEN; i++)
    out[i] = (uint8_t) (state[i / 4] >> (24 - i % 4 * 8));
}
