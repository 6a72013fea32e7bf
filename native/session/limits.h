/* What a reached limit is called, for the people and models that read it. */
#ifndef SBX_LIMITS_H
#define SBX_LIMITS_H

#include <stddef.h>
#include <stdint.h>

enum { SBX_BYTES_TEXT_MAX = 32, SBX_REASON_MAX = 160 };

/* "512 MiB", "1.5 GiB", "100 bytes" */
const char* sbx_bytes_text(uint64_t bytes, char out[SBX_BYTES_TEXT_MAX]);

/* One sentence for enum sbx_limit; NULL for a number that is none. */
const char* sbx_limit_reason(uint32_t limit, uint64_t value,
                             char out[SBX_REASON_MAX]);

#endif
