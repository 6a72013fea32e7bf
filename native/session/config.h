/* Builder of the launcher's configuration: records of protocol.h in a buffer,
 * handed over in a sealed memfd. */
#ifndef SBX_CONFIG_H
#define SBX_CONFIG_H

#include <stddef.h>
#include <stdint.h>

#include "../launcher/protocol.h"

struct sbx_config;

int sbx_config_new(struct sbx_config** out);
void sbx_config_free(struct sbx_config* config);

/* The adders copy. Lack of memory is remembered and told by sbx_config_open,
 * so a list of records needs no check per line. */
void sbx_config_add_number(struct sbx_config* c, enum sbx_config_tag tag,
                           uint64_t number);
void sbx_config_add_text(struct sbx_config* c, enum sbx_config_tag tag,
                         const char* text);
/* "first\0second\0": source and destination, target and path. */
void sbx_config_add_pair(struct sbx_config* c, enum sbx_config_tag tag,
                         const char* first, const char* second);
void sbx_config_add_file(struct sbx_config* c, const char* path,
                         const char* bytes, size_t len);

/* One record after another: *offset starts at 0. NULL at the end. */
const struct sbx_config_item* sbx_config_next(const struct sbx_config* c,
                                              size_t* offset,
                                              const char** payload);

/* A sealed, close-on-exec memfd with the records, read position at 0. Returns
 * the descriptor or a negative errno. */
int sbx_config_open(const struct sbx_config* c);

#endif
