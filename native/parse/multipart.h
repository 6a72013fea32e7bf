/* multipart/form-data and multipart/mixed: a reader that takes bytes cut
 * anywhere, and the frame of an upload. */
#ifndef SBX_MULTIPART_H
#define SBX_MULTIPART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../text.h"

enum {
  SBX_MULTIPART_BOUNDARY_MAX = 71, /* with the NUL */
  SBX_MULTIPART_HEAD_MAX = 16 * 1024, /* headers of one part */
  SBX_MULTIPART_PARTS_MAX = 100000
};

/* ---- reading ---- */

/* Strings are raw bytes of the sender, "" where absent. */
struct sbx_multipart_part {
  const char* name;
  const char* filename; /* of filename* where that is valid */
  const char* type;     /* Content-Type */
  int64_t length;       /* Content-Length, -1 without one */
};

/* Each returns 0, or a code that ends the parse; valid during the call. */
struct sbx_multipart_events {
  void* arg;
  int (*on_part)(void* arg, const struct sbx_multipart_part* part);
  int (*on_data)(void* arg, const char* bytes, size_t len);
  int (*on_part_end)(void* arg);
};

struct sbx_multipart;

/* `content_type` is the header's value. 0, UV_EINVAL where it names no type of
 * multipart with a boundary, or UV_ENOMEM. */
int sbx_multipart_new(const char* content_type,
                      const struct sbx_multipart_events* events,
                      struct sbx_multipart** out);
void sbx_multipart_free(struct sbx_multipart* m);

/* A part with a Content-Length has exactly so many bytes, whatever is in them;
 * others end at the boundary. 0, what an event returned, UV_EPROTO for what
 * breaks the format, UV_E2BIG for too many headers or parts, UV_ENOMEM. After a
 * failure every call returns it again. */
int sbx_multipart_feed(struct sbx_multipart* m, const char* bytes, size_t len);
/* UV_EOF unless the closing boundary was seen. */
int sbx_multipart_finish(struct sbx_multipart* m);

/* ---- writing ---- */

struct sbx_multipart_frame {
  char boundary[SBX_MULTIPART_BOUNDARY_MAX];
  bool begun;
};

/* A random boundary, which the content cannot foresee. 0 or a negative code. */
int sbx_multipart_begin(struct sbx_multipart_frame* f);
/* What stands before a part's bytes. `filename` and `type` may be NULL. */
void sbx_multipart_head(struct sbx_multipart_frame* f, struct sbx_text* t,
                        const char* name, const char* filename,
                        const char* type);
/* What stands behind the last part. */
void sbx_multipart_tail(struct sbx_multipart_frame* f, struct sbx_text* t);
/* "multipart/form-data; boundary=...": the header's value. */
enum { SBX_MULTIPART_TYPE_MAX = 128 };
const char* sbx_multipart_type(const struct sbx_multipart_frame* f,
                               char out[SBX_MULTIPART_TYPE_MAX]);

#endif
