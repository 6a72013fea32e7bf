/* Answers that the control socket had no room for yet. */
#ifndef SBX_LAUNCHER_OUTBOX_H
#define SBX_LAUNCHER_OUTBOX_H

#include <stddef.h>

#include "protocol.h"

struct sbx_packet {
  struct sbx_packet* next;
  size_t len;
  char bytes[sizeof(struct sbx_msg) + sizeof(struct sbx_usage)];
};

/* All zero is empty. */
struct sbx_outbox {
  struct sbx_packet* first;
  struct sbx_packet* last; /* of one that is not empty */
};

/* Copies the packet to the end. -1: no memory. */
int sbx_outbox_put(struct sbx_outbox* box, const struct sbx_packet* packet);

/* Drops the first one, which must be there. */
void sbx_outbox_drop(struct sbx_outbox* box);

#endif
