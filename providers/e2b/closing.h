/* What it means that a command's input was not ended: whether another try could
 * go better. */
#ifndef SBX_E2B_CLOSING_H
#define SBX_E2B_CLOSING_H

#include "e2b.h"

struct sbx_e2b_closing {
  bool final; /* no try would go better: `error` says why */
  uint64_t wait_ms; /* for the command's own end, which would explain it */
};

/* `a` is no success. `error` may be NULL, and is set where it is final. */
struct sbx_e2b_closing sbx_e2b_closing(const struct sbx_e2b* e,
                                       const struct sbx_answer* a,
                                       const char* operation,
                                       struct sbx_error* error);

/* An answer that did not come from envd, which says nothing of the command. */
bool sbx_e2b_in_between(int status);

#endif
