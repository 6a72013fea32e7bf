/* How a command ended, from the words of Go's runtime that envd passes on. */
#ifndef SBX_E2B_EXIT_H
#define SBX_E2B_EXIT_H

#include <stdint.h>

#include "../remote/service.h"

/* `code` is -1 where a signal ended it, and `status` then names that: "signal:
 * killed", "signal: segmentation fault (core dumped)", "signal: signal 34". A
 * signal makes 128 and its number, as in a shell. */
struct sbx_emit_exit sbx_e2b_exit(int64_t code, const char* status);

#endif
