/* Paths of a view: how they are spelled, and which of them a user may name. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdio.h>
#include <string.h>

#include "view_internal.h"

/* Folders that the sandbox makes itself; nothing of the user may cover them. */
static const char* const own_roots[] = {
    "/usr",    "/proc", "/dev", "/sys", "/etc",       "/bin", "/sbin", "/lib",
    "/lib32", "/lib64", "/libx32", "/opt", "/nix/store", "/boot"};

/* Parents of what the sandbox makes: free below, not themselves. */
static const char* const own_parents[] = {"/",     "/tmp", "/var", "/var/tmp",
                                          "/home", "/run", "/nix"};

bool sbx_view_below(const char* folder, const char* path) {
  size_t len = strlen(folder);

  if (strcmp(folder, "/") == 0) return path[0] == '/';
  return strncmp(folder, path, len) == 0 &&
         (path[len] == '\0' || path[len] == '/');
}

bool sbx__view_below_any(const char* const* list, size_t len,
                         const char* path) {
  for (size_t i = 0; i < len; i++)
    if (sbx_view_below(list[i], path)) return true;
  return false;
}

bool sbx__view_is_any(const char* const* list, size_t len, const char* path) {
  for (size_t i = 0; i < len; i++)
    if (strcmp(list[i], path) == 0) return true;
  return false;
}

bool sbx__view_is_normal(const char* path) {
  const char* at = path;

  if (path[0] != '/' || strlen(path) >= PATH_MAX) return false;
  if (path[1] == '\0') return true;
  while (*at == '/') {
    size_t len = strcspn(at + 1, "/");

    if (len == 0 || len > NAME_MAX) return false;
    if (len <= 2 && strspn(at + 1, ".") == len) return false;
    at += 1 + len;
  }
  return true;
}

bool sbx__view_parent_of(const char* path, char* out, size_t size) {
  const char* slash = strrchr(path, '/');
  size_t len = slash == path ? 1 : (size_t) (slash - path);

  if (len + 1 > size) return false;
  memcpy(out, path, len);
  out[len] = '\0';
  return true;
}

const char* sbx__view_name_of(const char* path) {
  return strrchr(path, '/') + 1;
}

bool sbx__view_join(char* out, size_t size, const char* folder,
                    const char* name) {
  const char* slash = strcmp(folder, "/") == 0 ? "" : "/";
  int n = snprintf(out, size, "%s%s%s", folder, slash, name);

  return n > 0 && (size_t) n < size;
}

int sbx_view_check_mountpoint(const char* option, const char* path,
                              struct sbx_error* error) {
  if (!sbx__view_is_normal(path))
    return sbx_error_set(error, SBX_E_INVALID_INPUT, 0, "open",
                         "%s must be an absolute path without \"..\", \".\", "
                         "\"//\" or a slash at the end, like \"/workspace\"; "
                         "got \"%.200s\".",
                         option, path);
  if (sbx__view_is_any(own_parents, SBX__VIEW_LEN(own_parents), path) ||
      sbx__view_below_any(own_roots, SBX__VIEW_LEN(own_roots), path))
    return sbx_error_set(error, SBX_E_INVALID_INPUT, 0, "open",
                         "%s must not cover the sandbox's own \"%.200s\" "
                         "(/, /usr, /etc, /proc, /dev, /sys, /opt, /bin, /lib "
                         "and the like): choose a path like \"/workspace\".",
                         option, path);
  return 0;
}

int sbx_view_check_bind(const char* option, const char* path,
                        const char* mountpoint, struct sbx_error* error) {
  static const char* const never[] = {"/proc", "/dev", "/sys"};

  if (!sbx__view_is_normal(path))
    return sbx_error_set(error, SBX_E_INVALID_INPUT, 0, "open",
                         "%s holds \"%.200s\": give absolute host paths "
                         "without \"..\", \".\", \"//\" or a slash at the end.",
                         option, path);
  if (sbx__view_is_any(own_parents, SBX__VIEW_LEN(own_parents), path) ||
      sbx__view_is_any(own_roots, SBX__VIEW_LEN(own_roots), path) ||
      sbx__view_below_any(never, SBX__VIEW_LEN(never), path))
    return sbx_error_set(error, SBX_E_INVALID_INPUT, 0, "open",
                         "%s holds \"%.200s\", which is the sandbox's own: "
                         "name the folders below it that are needed.",
                         option, path);
  if (sbx_view_below(mountpoint, path) || sbx_view_below(path, mountpoint))
    return sbx_error_set(error, SBX_E_INVALID_INPUT, 0, "open",
                         "%s holds \"%.200s\", which overlaps cwd "
                         "(\"%.200s\"): set cwd to another path.",
                         option, path, mountpoint);
  return 0;
}
