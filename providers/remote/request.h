/* Builds one HTTP request of a service: its texts are made and owned here.
 *
 * What goes wrong on the way (no memory, too many headers) is remembered and
 * shows at the end, so that builders need no check of each line. */
#ifndef SBX_REQUEST_H
#define SBX_REQUEST_H

#include "../../native/http/http.h"
#include "../../native/parse/json_write.h"
#include "../../native/http/url.h"

enum { SBX_REQUEST_HEADERS = 12 };

struct sbx_request {
  struct sbx_http_request http; /* of use once it is ready */
  struct sbx_url_builder url;
  char* headers[SBX_REQUEST_HEADERS];
  char* body; /* owned; NULL where http.body is the caller's */
  bool failed;
};

/* `method` is static; `base` with a path of our own behind it. */
void sbx_request_init(struct sbx_request* r, const char* method,
                      const char* base, const char* path);
void sbx_request_free(struct sbx_request* r);

void sbx_request_header(struct sbx_request* r, const char* format, ...)
    __attribute__((format(printf, 2, 3)));

/* The document is the body; the writer is empty afterwards. */
void sbx_request_json(struct sbx_request* r, struct sbx_json_writer* w);
/* The same as one message of Connect's streams. */
void sbx_request_envelope(struct sbx_request* r, struct sbx_json_writer* w);

/* Fills in `http`. 0, or SBX_E_INTERNAL where building failed. */
int sbx_request_ready(struct sbx_request* r);

#endif
