/* Path text: what a user's spelling means, before the kernel sees it. */
#ifndef SBX_PATH_H
#define SBX_PATH_H

#include "error.h"

/* How a sandbox spells its workspace. */
struct sbx_place {
  const char* inside; /* "/workspace" */
  const char* host;   /* host path that is the same folder, or NULL */
};

/* Turns "/x", "x", "/workspace/x" or the host path into a relative path:
 * prefixes are taken off absolute paths only, once; "." and ".." are resolved
 * in the text; "" is the root. Writes at most `size` bytes with the NUL.
 * SBX_E_ACCESS when it leaves the workspace, SBX_E_INVALID_INPUT for a NUL
 * byte in it or when it is too long. */
int sbx_path_relative(const struct sbx_place* place, const char* path,
                      size_t len, char* out, size_t size,
                      struct sbx_error* error);

/* "png" -> "image/png": Mastra's table by lower-case extension; NULL if none. */
const char* sbx_path_mime(const char* path);

#endif
