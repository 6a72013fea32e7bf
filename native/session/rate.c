/* A bucket that holds one second of output, kept as the moment at which it will
 * be full again.
 */
#include "rate.h"

enum { STEP_MS = 20 };

static const uint64_t SECOND = 1000000000;

void sbx_rate_init(struct sbx_rate* r, uint64_t per_second, uint64_t now) {
  r->per_second = per_second;
  r->full_at = now;
}

size_t sbx_rate_allow(const struct sbx_rate* r, uint64_t now, size_t want) {
  uint64_t missing;
  double bytes;

  if (r->per_second == 0) return want;
  missing = r->full_at > now ? r->full_at - now : 0;
  if (missing >= SECOND) return 0;
  bytes = (double) (SECOND - missing) / (double) SECOND *
          (double) r->per_second;
  return bytes < (double) want ? (size_t) bytes : want;
}

void sbx_rate_take(struct sbx_rate* r, uint64_t now, size_t len) {
  if (r->per_second == 0) return;
  if (r->full_at < now) r->full_at = now;
  r->full_at += (uint64_t) ((double) len / (double) r->per_second *
                            (double) SECOND);
}

uint64_t sbx_rate_wait(const struct sbx_rate* r, uint64_t now) {
  uint64_t missing = r->full_at > now ? r->full_at - now : 0;

  if (missing < SECOND) return STEP_MS;
  return (missing - SECOND) / 1000000 + STEP_MS;
}
