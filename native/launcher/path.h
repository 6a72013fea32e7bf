/* What the text of a path tells. */
#ifndef SBX_LAUNCHER_PATH_H
#define SBX_LAUNCHER_PATH_H

#include <stdbool.h>
#include <string.h>

/* The folder itself counts. */
static inline bool sbx_path_below(const char* path, const char* folder) {
  size_t len = strlen(folder);

  return strncmp(path, folder, len) == 0 &&
         (path[len] == '\0' || path[len] == '/');
}

#endif
