/* The Node.js that runs this program, for commands: its whole prefix where it
 * has one of its own, else the program and npm alone. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdio.h>
#include <string.h>

#include "view_internal.h"

static bool is_project(const struct sbx__view_builder* b, const char* folder) {
  char path[PATH_MAX];
  char parent[PATH_MAX];

  if (sbx__view_join(path, sizeof(path), folder, ".git") &&
      sbx__view_kind(b, path) != SBX_HOST_MISSING)
    return true;
  if (!sbx__view_join(path, sizeof(path), folder, "package.json") ||
      sbx__view_kind(b, path) == SBX_HOST_MISSING)
    return false;
  return !sbx__view_parent_of(folder, parent, sizeof(parent)) ||
         strcmp(sbx__view_name_of(parent), "node_modules") != 0;
}

/* A folder that holds Node and nothing else: one of a version manager or an
 * unpacked release. A bin folder that Node shares with other programs, like
 * ~/.local/bin, has a prefix with much that is private. */
static bool is_node_prefix(const struct sbx__view_builder* b,
                           const char* prefix) {
  char parent[PATH_MAX];
  char path[PATH_MAX];
  const char* name = sbx__view_name_of(prefix);

  if (!sbx__view_parent_of(prefix, parent, sizeof(parent))) return false;
  if (strcmp(sbx__view_name_of(parent), "node_modules") == 0)
    return true; /* of npm */
  if (strstr(name, "node") == NULL &&
      strstr(sbx__view_name_of(parent), "node") == NULL &&
      strcmp(name, "installation") != 0)
    return false;
  if (sbx__view_join(path, sizeof(path), prefix, "include/node") &&
      sbx__view_kind(b, path) == SBX_HOST_DIRECTORY)
    return true;
  return sbx__view_join(path, sizeof(path), prefix, "lib/node_modules/npm") &&
         sbx__view_kind(b, path) == SBX_HOST_DIRECTORY;
}

/* Node alone in a folder of other things: the binary, npm and its links. */
static void bind_node_alone(struct sbx__view_builder* b, const char* prefix,
                            const char* bin) {
  static const struct {
    const char* name;
    const char* script;
  } tools[] = {{"npm", "npm/bin/npm-cli.js"},
               {"npx", "npm/bin/npx-cli.js"},
               {"corepack", "corepack/dist/corepack.js"}};
  char path[PATH_MAX];
  char modules[PATH_MAX];
  char target[PATH_MAX];

  sbx__view_bind(b, b->host->exec_path);
  if (!sbx__view_join(modules, sizeof(modules), prefix, "lib/node_modules"))
    return;
  for (size_t i = 0; i < SBX__VIEW_LEN(tools); i++) {
    if (!sbx__view_join(target, sizeof(target), modules, tools[i].script))
      continue;
    if (sbx__view_kind(b, target) != SBX_HOST_FILE) continue;
    if (i != 1 && sbx__view_join(path, sizeof(path), modules, tools[i].name))
      sbx__view_bind(b, path);
    if (sbx__view_join(path, sizeof(path), bin, tools[i].name))
      sbx_config_add_pair(b->config, SBX_CONFIG_SYMLINK, target, path);
  }
}

/* The first `node` that the PATH so far finds is ours already. */
static bool standard_finds(const struct sbx__view_builder* b, const char* bin) {
  static const char* const dirs[] = {"/usr/local/sbin", "/usr/local/bin",
                                     "/usr/sbin", "/usr/bin"};
  char path[PATH_MAX];

  for (size_t i = 0; i < SBX__VIEW_LEN(dirs); i++) {
    if (strcmp(dirs[i], bin) == 0) return true;
    if (sbx__view_join(path, sizeof(path), dirs[i], "node") &&
        sbx__view_kind(b, path) != SBX_HOST_MISSING)
      return false;
  }
  return false;
}

int sbx__view_add_node(struct sbx__view_builder* b, struct sbx_error* error) {
  const char* exec = b->host->exec_path;
  char bin[PATH_MAX];
  char prefix[PATH_MAX];

  if (exec == NULL || !sbx__view_is_normal(exec)) return 0;
  if (!sbx__view_parent_of(exec, bin, sizeof(bin))) return 0;
  if (sbx__view_is_system(bin)) {
    if (!standard_finds(b, bin)) sbx__view_add_path(b, bin);
    return 0;
  }
  if (sbx_view_below(b->spec->mountpoint, exec))
    return sbx_error_set(error, SBX_E_INVALID_INPUT, 0, "start",
                         "cwd \"%.200s\" would cover the running Node "
                         "(\"%.200s\"): set cwd to another path, like "
                         "\"/workspace\".",
                         b->spec->mountpoint, exec);
  if (strcmp(sbx__view_name_of(bin), "bin") != 0 ||
      !sbx__view_parent_of(bin, prefix, sizeof(prefix)))
    snprintf(prefix, sizeof(prefix), "%s", bin);
  if (strcmp(prefix, bin) == 0 || sbx__view_is_too_wide(b, prefix) ||
      is_project(b, prefix) || !is_node_prefix(b, prefix))
    bind_node_alone(b, prefix, bin);
  else
    sbx__view_bind(b, prefix);
  sbx__view_add_path(b, bin);
  return 0;
}
