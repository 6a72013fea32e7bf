/* A queue of short messages. */
#include "sys.h" /* first: feature macros */

#include "outbox.h"

#include <stdlib.h>

int sbx_outbox_put(struct sbx_outbox* box, const struct sbx_packet* packet) {
  struct sbx_packet* p = malloc(sizeof(*p));

  if (p == NULL) return -1;
  *p = *packet;
  p->next = NULL;
  if (box->first == NULL)
    box->first = p;
  else
    box->last->next = p;
  box->last = p;
  return 0;
}

void sbx_outbox_drop(struct sbx_outbox* box) {
  struct sbx_packet* p = box->first;

  box->first = p->next;
  free(p);
}
