/* Connect's streaming envelopes: one byte of flags, four of length, a message;
 * the last one is the trailer. Takes bytes cut anywhere. */
#ifndef SBX_ENVELOPE_H
#define SBX_ENVELOPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fault.h"
#include "../text.h"

enum {
  SBX_ENVELOPE_COMPRESSED = 1,
  SBX_ENVELOPE_END = 2,
  SBX_ENVELOPE_HEAD = 5,
  SBX_ENVELOPE_MAX = 8 * 1024 * 1024 /* of one message, by default */
};

struct sbx_envelope_reader {
  /* To fill in; the rest zeroed. */
  struct sbx_json_source source;
  size_t max; /* bytes of one message, 0: SBX_ENVELOPE_MAX */
  void* data;
  /* Not 0 ends the parse; the bytes are valid during the call. */
  int (*on_message)(void* data, const char* bytes, size_t len,
                    struct sbx_error* error);
  /* The trailer: `fault` is NULL where the call succeeded. Once, the last. */
  int (*on_end)(void* data, const struct sbx_fault* fault,
                struct sbx_error* error);

  unsigned char head[SBX_ENVELOPE_HEAD];
  unsigned head_len;
  size_t want; /* of the message that is coming */
  struct sbx_text held;
  bool ended;
  int failed;
};

/* 0, what a callback returned, or a negative code: SBX_E_PROVIDER for what
 * breaks the protocol (too long, compressed though nobody asked for it, bytes
 * after the trailer), SBX_E_INTERNAL
 * without memory. After a failure every call returns it again. */
int sbx_envelope_feed(struct sbx_envelope_reader* r, const char* bytes,
                      size_t len, struct sbx_error* error);
/* The body came to its end: SBX_E_UNAVAILABLE unless the trailer was seen. */
int sbx_envelope_finish(struct sbx_envelope_reader* r, struct sbx_error* error);
void sbx_envelope_free(struct sbx_envelope_reader* r);

/* One whole envelope, for the caller to free; NULL without memory or where the
 * length does not fit. */
char* sbx_envelope_encode(unsigned flags, const void* bytes, size_t len,
                          size_t* out_len);

#endif
