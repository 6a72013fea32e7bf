/* libcurl, loaded when first needed and never linked: Node exports an OpenSSL of
 * its own, to which a linked libcurl would bind. */
#ifndef SBX_CURL_H
#define SBX_CURL_H

#define CURL_DISABLE_TYPECHECK 1
#include <curl/curl.h>

#include "../error.h"

#define SBX_CURL_EACH(X) \
  X(global_init)         \
  X(version_info)        \
  X(easy_init)           \
  X(easy_cleanup)        \
  X(easy_reset)          \
  X(easy_setopt)         \
  X(easy_getinfo)        \
  X(easy_pause)          \
  X(easy_recv)           \
  X(easy_send)           \
  X(easy_strerror)       \
  X(multi_init)          \
  X(multi_cleanup)       \
  X(multi_setopt)        \
  X(multi_add_handle)    \
  X(multi_remove_handle) \
  X(multi_socket_action) \
  X(multi_assign)        \
  X(multi_info_read)     \
  X(share_init)          \
  X(share_cleanup)       \
  X(share_setopt)        \
  X(slist_append)        \
  X(slist_free_all)

struct sbx_curl {
#define SBX_CURL_POINTER(name) __typeof__(curl_##name)* name;
  SBX_CURL_EACH(SBX_CURL_POINTER)
#undef SBX_CURL_POINTER
};

/* The library of this process, loaded once and kept; NULL, with `why` naming
 * what is missing, where there is none that can be used. Any thread. */
const struct sbx_curl* sbx_curl_load(const char** why);

#endif
