/* The hosts that a sandbox may reach: names, wildcards, addresses, presets. */
#ifndef SBX_ALLOW_LIST_H
#define SBX_ALLOW_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#include "../error.h"

struct sbx_allow_list;

/* Longest host name with its NUL. */
enum { SBX_HOST_MAX = 256, SBX_ALLOW_MAX = 1000 };

/* An empty list, which allows nothing. */
int sbx_allow_list_new(struct sbx_allow_list** out);
void sbx_allow_list_free(struct sbx_allow_list* list);

/* "example.com", "example.com:8443", "*.example.com" (names below it, not
 * itself), "*" (every name), "10.0.0.5:5432", "[::1]:80", or the preset "npm",
 * "pip", "git" or "apt". Without a port: 80 and 443. SBX_E_INVALID_INPUT
 * names `option` and the entry. */
int sbx_allow_list_add(struct sbx_allow_list* list, const char* option,
                       const char* entry, struct sbx_error* error);

/* The hosts of the preset of that name, ending with NULL; or NULL. */
const char* const* sbx_allow_list_preset(const char* name);

/* `host` as sbx_host_clean left it. */
bool sbx_allow_list_host(const struct sbx_allow_list* list, const char* host,
                         unsigned port);

/* Whether this very address is an entry: only then may one that is not public
 * be reached. */
bool sbx_allow_list_address(const struct sbx_allow_list* list,
                            const struct sockaddr* address, unsigned port);

/* Copies a host name or address as a client wrote it: lower case, without
 * brackets and without the dot at the end. False for what is no name. */
bool sbx_host_clean(const char* text, size_t len, char out[SBX_HOST_MAX]);

/* Splits "host:port" or "[v6]:port"; `fallback` 0 means that the port must be
 * there. */
bool sbx_host_split(const char* text, size_t len, unsigned fallback,
                    char host[SBX_HOST_MAX], unsigned* port);

#endif
