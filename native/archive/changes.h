/* What a session changed on top of the template it lies on. */
#ifndef SBX_CHANGES_H
#define SBX_CHANGES_H

#include "../files/files.h"

struct sbx_changes_spec {
  int base;  /* the template's folder; taken over, as is `upper` */
  int upper; /* of the overlay */
};

/* Answers on the loop like a file request. The result's data are records: 'A',
 * 'M' or 'D' (added, modified, deleted), 'f', 'd', 'l' or 'o' (file, folder,
 * link, other), then the path and NUL; folders only where added or deleted.
 * Contents are compared, since times can be forged. Returns 0, or a negative
 * code, nothing called and the descriptors closed. */
int sbx_changes_request(uv_loop_t* loop, const struct sbx_changes_spec* spec,
                        sbx_file_cb cb, void* arg);

#endif
