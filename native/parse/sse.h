/* Server-sent events (the HTML standard's event stream), cut anywhere. */
#ifndef SBX_SSE_H
#define SBX_SSE_H

#include <stddef.h>
#include <stdint.h>

#include "lines.h"

enum { SBX_SSE_EVENT_MAX = 8 * 1024 * 1024, SBX_SSE_NAME_MAX = 1024 };

struct sbx_sse_event {
  const char* type; /* "message" where none was given */
  const char* data; /* lines joined by LF; any bytes, a NUL behind them */
  size_t len;
  const char* id; /* the last one so far, "" if none */
};

struct sbx_sse {
  /* To fill in; the rest zeroed. */
  size_t max; /* bytes of one event's data, and of a line; 0: EVENT_MAX */
  void* arg;
  /* Not 0 ends the parse; valid during the call. */
  int (*on_event)(void* arg, const struct sbx_sse_event* event);

  int64_t retry_ms; /* the last one asked for; 0: none */
  struct sbx_lines lines;
  struct sbx_text data;
  char type[SBX_SSE_NAME_MAX];
  char id[SBX_SSE_NAME_MAX];
  unsigned bom; /* its bytes seen so far; 3: past it */
  int failed;
};

/* 0, what on_event returned, UV_E2BIG for what is too long, or UV_ENOMEM. After
 * a failure every call returns it again. An event without its blank line at the
 * end of the stream is dropped, as the standard wants. */
int sbx_sse_feed(struct sbx_sse* s, const char* bytes, size_t len);
void sbx_sse_free(struct sbx_sse* s);

#endif
