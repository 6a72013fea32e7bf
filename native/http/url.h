/* URLs: those that users and services name, taken apart and judged; and those
 * that we build. */
#ifndef SBX_URL_H
#define SBX_URL_H

#include <stdbool.h>
#include <stddef.h>

#include "../network/allow_list.h"
#include "../text.h"

enum { SBX_URL_MAX = 8192 };

struct sbx_url {
  char scheme[8];          /* "http", "https", "ws" or "wss" */
  bool tls;
  char host[SBX_HOST_MAX]; /* lower case, IPv6 without brackets */
  unsigned port;           /* the scheme's own where none was given */
  const char* path;        /* in the text: from the first '/', or "" */
  size_t path_len;         /* without the query */
  const char* query;       /* behind the '?', or "" */
  size_t query_len;
};

/* NULL, or what is wrong with it in words that follow the option's name ("must
 * not hold a user name or password"). Refuses other schemes, user info,
 * fragments, blanks, controls, backslashes, and hosts that are neither a name
 * nor an address. */
const char* sbx_url_parse(const char* text, size_t len, struct sbx_url* out);

bool sbx_url_same_origin(const struct sbx_url* a, const struct sbx_url* b);

/* `domain` itself or a name below it; never for addresses. */
bool sbx_host_below(const char* host, const char* domain);

/* Whether a URL that a service named may get the key: encrypted wherever `base`
 * is, and on the base's host or of `domain` (NULL or "": none). */
bool sbx_url_trusted(const struct sbx_url* named, const struct sbx_url* base,
                     const char* domain);

/* Building: zeroed memory is the start, any failure shows at take. */
struct sbx_url_builder {
  struct sbx_text text;
  bool query;
};

/* A base URL, whose path stays as a prefix, without the slash at its end. Fails
 * where sbx_url_parse refuses, or it has a query. */
void sbx_url_base(struct sbx_url_builder* b, const char* base);
/* As it is: "/v2/sandboxes", ours. */
void sbx_url_path(struct sbx_url_builder* b, const char* path);
/* "/" and one encoded segment. Fails for "", "." and "..", which servers would
 * take for another path. */
void sbx_url_segment(struct sbx_url_builder* b, const char* segment);
/* "name=value", encoded, behind '?' or '&'. */
void sbx_url_query(struct sbx_url_builder* b, const char* name,
                   const char* value);
/* For the caller to free; NULL where something failed. */
char* sbx_url_take(struct sbx_url_builder* b);

/* Everything but letters, digits and "-._~" as %XX. */
void sbx_url_encode(struct sbx_text* t, const void* bytes, size_t len);

#endif
