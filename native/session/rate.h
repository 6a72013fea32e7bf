/* How much output of a command is read per second. */
#ifndef SBX_RATE_H
#define SBX_RATE_H

#include <stddef.h>
#include <stdint.h>

struct sbx_rate {
  uint64_t per_second; /* 0: no limit */
  uint64_t full_at;    /* ns: when a whole second's worth is there again */
};

void sbx_rate_init(struct sbx_rate* rate, uint64_t per_second, uint64_t now);

/* How many of `want` bytes may be read at `now` (ns). */
size_t sbx_rate_allow(const struct sbx_rate* rate, uint64_t now, size_t want);

/* `len` bytes were read. */
void sbx_rate_take(struct sbx_rate* rate, uint64_t now, size_t len);

/* ms until it is worth looking again. */
uint64_t sbx_rate_wait(const struct sbx_rate* rate, uint64_t now);

#endif
