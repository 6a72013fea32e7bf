/* The newest bytes of a stream: contiguous while all of them fit, then a true
 * ring over the oldest. Bytes are read straight into it. */
#ifndef SBX_RING_H
#define SBX_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sbx_ring {
  char* data;
  size_t size;    /* allocated */
  size_t start;   /* of the oldest byte */
  size_t len;     /* bytes held, may exceed `limit` up to `size` */
  size_t limit;   /* bytes shown at most */
  uint64_t total; /* bytes ever committed */
  char* stale;    /* buffer that a pinned view replaced */
  bool pinned;    /* pointers into data are in use: keep it alive */
};

void sbx_ring_init(struct sbx_ring* ring, size_t limit);
void sbx_ring_free(struct sbx_ring* ring);

/* A place for up to `want` bytes; `got` says how many fit (at least one). NULL
 * when there is no memory at all. Nothing changes until the commit, which takes
 * the first n bytes of that place. */
char* sbx_ring_reserve(struct sbx_ring* ring, size_t want, size_t* got);
void sbx_ring_commit(struct sbx_ring* ring, size_t n);

/* Copies; bytes that find no memory count as dropped. */
void sbx_ring_append(struct sbx_ring* ring, const char* bytes, size_t len);

/* Counts bytes of the stream that never came as dropped. */
void sbx_ring_drop(struct sbx_ring* ring, uint64_t count);

/* Gives unused memory back. */
void sbx_ring_trim(struct sbx_ring* ring);

/* The newest `limit` bytes in one piece, cut at a code-point border at the
 * front when older ones are gone. Valid until the next reserve. Without memory
 * to straighten the ring, only the newest part that lies in one piece. */
const char* sbx_ring_view(struct sbx_ring* ring, size_t* len,
                          uint64_t* dropped);

#endif
