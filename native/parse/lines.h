/* Lines of a stream that is cut anywhere, bounded. */
#ifndef SBX_LINES_H
#define SBX_LINES_H

#include <stdbool.h>
#include <stddef.h>

#include "../text.h"

struct sbx_lines {
  /* To fill in; the rest zeroed. */
  size_t max;     /* bytes of one line */
  bool lone_cr;   /* a CR alone ends a line, too; else it belongs to it */
  void* data;
  /* Without its end. Not 0 ends the parse. */
  int (*on_line)(void* data, const char* line, size_t len);

  struct sbx_text held;
  bool after_cr; /* lone_cr: an LF that follows belongs to it */
};

/* 0, what on_line returned, UV_E2BIG for too long a line, or UV_ENOMEM. */
int sbx_lines_feed(struct sbx_lines* l, const char* bytes, size_t len);
/* A last line without an end, if there is one. */
int sbx_lines_finish(struct sbx_lines* l);
void sbx_lines_free(struct sbx_lines* l);

#endif
