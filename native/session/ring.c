/* The newest bytes of a stream. */
#include "ring.h"

#include <stdlib.h>
#include <string.h>

#include "../utf8.h"

/* A ring smaller than one read would turn every read into many. */
enum { RING_SIZE_MIN = 64 * 1024 };

void sbx_ring_init(struct sbx_ring* ring, size_t limit) {
  memset(ring, 0, sizeof(*ring));
  ring->limit = limit;
}

static void drop_stale(struct sbx_ring* ring) {
  free(ring->stale);
  ring->stale = NULL;
}

void sbx_ring_free(struct sbx_ring* ring) {
  drop_stale(ring);
  free(ring->data);
  sbx_ring_init(ring, ring->limit);
}

static size_t size_max(const struct sbx_ring* ring) {
  return ring->limit > RING_SIZE_MIN ? ring->limit : RING_SIZE_MIN;
}

/* `start` leaves 0 only when the ring is full. */
static bool wraps(const struct sbx_ring* ring) {
  return ring->start > 0;
}

/* Grows by doubling, so that the copies (or mremaps) stay few. */
static void grow(struct sbx_ring* ring, size_t want) {
  size_t max = size_max(ring);
  size_t size = ring->size > 0 ? ring->size * 2 : 0;
  char* data;

  if (ring->size >= max || wraps(ring)) return;
  if (size < ring->len + want) size = ring->len + want;
  if (size > max) size = max;
  data = realloc(ring->data, size);
  if (data == NULL) return;
  ring->data = data;
  ring->size = size;
}

char* sbx_ring_reserve(struct sbx_ring* ring, size_t want, size_t* got) {
  size_t end;
  size_t room;

  drop_stale(ring);
  if (ring->size - ring->len < want) grow(ring, want);
  if (ring->size == 0) return NULL;
  end = (ring->start + ring->len) % ring->size;
  room = ring->size - end;
  *got = room < want ? room : want;
  return ring->data + end;
}

void sbx_ring_commit(struct sbx_ring* ring, size_t n) {
  size_t room = ring->size - ring->len;

  ring->total += n;
  if (n <= room) {
    ring->len += n;
    return;
  }
  ring->start = (ring->start + n - room) % ring->size;
  ring->len = ring->size;
}

void sbx_ring_append(struct sbx_ring* ring, const char* bytes, size_t len) {
  while (len > 0) {
    size_t got;
    char* place = sbx_ring_reserve(ring, len, &got);

    if (place == NULL) {
      ring->total += len;
      return;
    }
    memcpy(place, bytes, got);
    sbx_ring_commit(ring, got);
    bytes += got;
    len -= got;
  }
}

void sbx_ring_drop(struct sbx_ring* ring, uint64_t count) {
  ring->total += count;
}

void sbx_ring_trim(struct sbx_ring* ring) {
  char* data;

  drop_stale(ring);
  if (wraps(ring) || ring->pinned || ring->len == ring->size) return;
  if (ring->len == 0) {
    free(ring->data);
    ring->data = NULL;
    ring->size = 0;
    return;
  }
  data = realloc(ring->data, ring->len);
  if (data == NULL) return;
  ring->data = data;
  ring->size = ring->len;
}

static bool straighten(struct sbx_ring* ring) {
  size_t first = ring->size - ring->start;
  char* data;

  if (ring->start + ring->len <= ring->size) return true;
  data = malloc(ring->size);
  if (data == NULL) return false;
  memcpy(data, ring->data + ring->start, first);
  memcpy(data + first, ring->data, ring->len - first);
  if (ring->pinned)
    ring->stale = ring->data;
  else
    free(ring->data);
  ring->data = data;
  ring->start = 0;
  return true;
}

const char* sbx_ring_view(struct sbx_ring* ring, size_t* len,
                          uint64_t* dropped) {
  size_t keep = ring->len < ring->limit ? ring->len : ring->limit;
  const char* bytes;

  *len = 0;
  *dropped = ring->total;
  if (keep == 0) return "";
  if (straighten(ring)) {
    bytes = ring->data + ring->start + ring->len - keep;
  } else {
    size_t newer = ring->start + ring->len - ring->size;

    if (keep > newer) keep = newer;
    bytes = ring->data + newer - keep;
  }
  if (ring->total > keep) {
    size_t head = sbx_utf8_head(bytes, keep);

    bytes += head;
    keep -= head;
  }
  *len = keep;
  *dropped = ring->total - keep;
  return bytes;
}
