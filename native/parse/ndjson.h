/* One JSON value per line, of a stream that is cut anywhere. */
#ifndef SBX_NDJSON_H
#define SBX_NDJSON_H

#include "json.h"
#include "lines.h"

enum { SBX_NDJSON_LINE_MAX = 8 * 1024 * 1024 };

struct sbx_ndjson {
  /* To fill in; the rest zeroed. */
  struct sbx_json_source source;
  size_t max; /* bytes of one line, 0: SBX_NDJSON_LINE_MAX */
  void* data;
  /* Not 0 ends the parse. The node is valid during the call. */
  int (*on_value)(void* data, struct sbx_json_node value,
                  struct sbx_error* error);

  struct sbx_lines lines;
  struct sbx_error* error;
  int failed;
};

/* 0, what the callback returned, SBX_E_PROVIDER for a line that is no JSON or
 * too long, or SBX_E_INTERNAL without memory. Blank lines are skipped. After a
 * failure every call returns it again. */
int sbx_ndjson_feed(struct sbx_ndjson* n, const char* bytes, size_t len,
                    struct sbx_error* error);
/* The last line needs no end; one that was cut is SBX_E_UNAVAILABLE. */
int sbx_ndjson_finish(struct sbx_ndjson* n, struct sbx_error* error);
void sbx_ndjson_free(struct sbx_ndjson* n);

#endif
