/* A path is refused or becomes a relative one without "." or ".." parts, and
 * spelling that one again gives the same. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "native/path.h"

static const struct sbx_place place = {"/workspace", "/srv/project"};

static void check_parts(const char* path) {
  if (path[0] == '/') abort();
  for (const char* p = path; *p;) {
    size_t n = strcspn(p, "/");
    if (n == 0 || (n == 1 && p[0] == '.')) abort();
    if (n == 2 && p[0] == '.' && p[1] == '.') abort();
    p += n;
    if (*p == '/' && !*++p) abort();
  }
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  char first[512], second[600], again[600];
  struct sbx_error error;
  if (size >= sizeof(first) - 2) return 0;
  if (sbx_path_relative(&place, (const char*)data, size, first, sizeof(first),
                        &error))
    return 0;
  check_parts(first);
  /* An absolute prefix is taken off once, so the mount point must be named. */
  second[0] = 0;
  strcat(strcat(second, "/workspace/"), first);
  if (sbx_path_relative(&place, second, strlen(second), again, sizeof(again),
                        &error))
    abort();
  if (strcmp(first, again)) abort();
  return 0;
}
