/* Finds a libcurl on this machine, checks it and fills the table. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "curl.h"

#include <stdio.h>
#include <string.h>
#include <uv.h>

#include "../dl.h"

/* With it came CURLOPT_QUICK_EXIT, without which giving up a name look-up blocks
 * the loop until the look-up ends. */
enum { OLDEST = 0x075700 };

static const char* const names[] = {"libcurl.so.4", "libcurl-gnutls.so.4"};

/* One per process: the library's own state is global, too. Written once. */
static struct {
  uv_once_t once;
  bool usable;
  struct sbx_curl table;
  char why[256];
} loaded = {.once = UV_ONCE_INIT};

static bool fail(const char* name, const char* what) {
  size_t len = strlen(loaded.why);

  snprintf(loaded.why + len, sizeof(loaded.why) - len, "%s%s: %s",
           len ? "; " : "", name, what);
  return false;
}

static bool find_all(void* library, const char* name) {
  void* found;

#define FIND(function)                                          \
  found = dlsym(library, "curl_" #function);                    \
  if (!found) return fail(name, "lacks curl_" #function);       \
  memcpy(&loaded.table.function, &found, sizeof(found));
  SBX_CURL_EACH(FIND)
#undef FIND
  return true;
}

static bool check(const char* name) {
  const curl_version_info_data* info =
      loaded.table.version_info(CURLVERSION_FIRST);

  if (!info || info->version_num < OLDEST)
    return fail(name, "is older than 7.87");
  if (!(info->features & CURL_VERSION_SSL)) return fail(name, "speaks no TLS");
  if (!(info->features & CURL_VERSION_ASYNCHDNS))
    return fail(name, "blocks while it looks up names");
  return true;
}

static bool try_one(const char* name) {
  void* library = dlopen(name, SBX_DL_FLAGS);

  if (!library) return fail(name, dlerror());
  if (find_all(library, name) && check(name)) {
    if (loaded.table.global_init(CURL_GLOBAL_ALL) == CURLE_OK) return true;
    fail(name, "does not start");
  }
  dlclose(library);
  return false;
}

static void load(void) {
  for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
    if ((loaded.usable = try_one(names[i]))) return;
}

const struct sbx_curl* sbx_curl_load(const char** why) {
  uv_once(&loaded.once, load);
  *why = loaded.why;
  return loaded.usable ? &loaded.table : NULL;
}
