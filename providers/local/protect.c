/* Files of a given `directory` that the host runs later, kept from the sandbox:
 * an agent that can write a git hook runs as the user who commits next. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "protect.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char* const defaults[] = {
    ".git/hooks",           ".git/config",
    ".git/commondir",       ".git/config.worktree",
    ".envrc",               ".husky",
    ".vscode/tasks.json",   ".vscode/settings.json",
    ".vscode/launch.json",  ".idea",
    "node_modules/sandbox-sdk-native"};

enum { DEFAULTS = sizeof(defaults) / sizeof(defaults[0]), PROTECT_MAX = 256 };

/* ---- options ---- */

static bool is_plain(const char* path) {
  size_t len;

  if (*path == '\0' || strlen(path) >= PATH_MAX - 256) return false;
  for (; *path != '\0'; path += len + (path[len] == '/')) {
    len = strcspn(path, "/");
    if (len == 0 || len > NAME_MAX || (path[len] == '/' && path[len + 1] == '\0'))
      return false;
    if ((len == 1 && path[0] == '.') || (len == 2 && memcmp(path, "..", 2) == 0))
      return false;
  }
  return true;
}

static int invalid(struct sbx_error* error, const char* text,
                   const char* value) {
  return sbx_error_set(error, SBX_E_INVALID_INPUT, 0, "open", text, value);
}

static int copy(struct sbx_local_list* out, size_t n,
                const char* (*item)(const void* from, size_t i),
                const void* from, struct sbx_error* error) {
  out->items = calloc(n + 1, sizeof(*out->items));
  for (size_t i = 0; out->items != NULL && i < n; i++) {
    out->items[i] = strdup(item(from, i));
    if (out->items[i] == NULL) break;
    out->len++;
  }
  if (out->items != NULL && out->len == n) return 0;
  return sbx_error_set(error, SBX_E_INTERNAL, ENOMEM, "open",
                       "Out of memory.");
}

static const char* default_item(const void* from, size_t i) {
  (void) from;
  return defaults[i];
}

static const char* given_item(const void* from, size_t i) {
  return sbx_options_item(from, "protect", i);
}

int sbx_local_protect_read(const struct sbx_options* o,
                           struct sbx_local_options* out,
                           struct sbx_error* error) {
  int type = sbx_options_type(o, "protect");
  size_t n = sbx_options_count(o, "protect");

  if (type == 0) {
    n = out->kind == SBX_LOCAL_DIRECTORY ? DEFAULTS : 0;
    return copy(&out->protect, n, default_item, NULL, error);
  }
  if (type != SBX_OPTION_LIST || n > PROTECT_MAX)
    return invalid(error, "protect must be a list of at most 256 paths%s.", "");
  if (n > 0 && out->kind != SBX_LOCAL_DIRECTORY)
    return invalid(error, "protect is for files of a given directory%s; leave "
                          "it out.", "");
  for (size_t i = 0; i < n; i++)
    if (!is_plain(given_item(o, i)))
      return invalid(error, "protect wants paths relative to the directory, "
                            "such as \".git/hooks\"; got \"%.200s\".",
                     given_item(o, i));
  out->protects = n > 0;
  return copy(&out->protect, n, given_item, o, error);
}

/* ---- in force ---- */

void sbx_local_protect_add(const struct sbx_local_options* o,
                           struct sbx_config* config) {
  for (size_t i = 0; i < o->protect.len; i++)
    sbx_config_add_text(config, SBX_CONFIG_PROTECT, o->protect.items[i]);
}

static bool is_there(const struct sbx_local_options* o, const char* path) {
  char full[2 * PATH_MAX];
  struct statx st;

  snprintf(full, sizeof(full), "%s/%s", o->directory, path);
  return statx(AT_FDCWD, full, AT_SYMLINK_NOFOLLOW, STATX_TYPE, &st) == 0 &&
         !S_ISLNK(st.stx_mode);
}

/* Whether `list`, joined by commas, has `path`. */
static bool holds(const char* list, const char* path) {
  size_t len = strlen(path);

  for (; list != NULL && *list != '\0'; list += list[0] == ',') {
    size_t part = strcspn(list, ",");

    if (part == len && memcmp(list, path, len) == 0) return true;
    list += part;
  }
  return false;
}

static char* joined(const struct sbx_local_options* o, const char* without,
                    bool (*wanted)(const struct sbx_local_options* o,
                                   const char* path)) {
  char* out = NULL;

  for (size_t i = 0; i < o->protect.len; i++) {
    const char* path = o->protect.items[i];
    char* longer;

    if (holds(without, path) || !wanted(o, path)) continue;
    if (asprintf(&longer, "%s%s%s", out == NULL ? "" : out,
                 out == NULL ? "" : ",", path) < 0)
      break;
    free(out);
    out = longer;
  }
  return out;
}

char* sbx_local_protect_present(const struct sbx_local_options* o) {
  return joined(o, NULL, is_there);
}

/* Of any kind: a link runs as well. */
static bool has_come(const struct sbx_local_options* o, const char* path) {
  char full[2 * PATH_MAX];
  struct statx st;

  snprintf(full, sizeof(full), "%s/%s", o->directory, path);
  return statx(AT_FDCWD, full, AT_SYMLINK_NOFOLLOW, STATX_TYPE, &st) == 0;
}

char* sbx_local_protect_existing(const struct sbx_local_options* o) {
  char* found;

  if (o->kind != SBX_LOCAL_DIRECTORY) return NULL;
  found = joined(o, NULL, has_come);
  return found != NULL ? found : strdup("");
}

char* sbx_local_protect_created(const struct sbx_local_options* o,
                                const char* before) {
  return o->kind == SBX_LOCAL_DIRECTORY ? joined(o, before, has_come) : NULL;
}

/* ---- the file tools ---- */

static bool changes(enum sbx_file_verb verb) {
  switch (verb) {
    case SBX_FILE_WRITE:
    case SBX_FILE_APPEND:
    case SBX_FILE_DELETE:
    case SBX_FILE_COPY:
    case SBX_FILE_MOVE:
    case SBX_FILE_MKDIR:
    case SBX_FILE_RMDIR: return true;
    default: return false;
  }
}

static bool below(const char* path, const char* top) {
  size_t len = strlen(top);

  return strncmp(path, top, len) == 0 &&
         (path[len] == '\0' || path[len] == '/');
}

bool sbx_local_protect_repository(const struct sbx_local_options* o) {
  return has_come(o, ".git");
}

static const char* protector(const struct sbx_local_options* o,
                             bool repository, const char* path, bool goes) {
  if (path == NULL) return NULL;
  for (size_t i = 0; i < o->protect.len; i++) {
    const char* p = o->protect.items[i];

    if (!o->protects && !repository && below(p, ".git")) continue;
    if (below(path, p)) return p;
    /* What holds it may not go either. */
    if (goes && below(p, path) && is_there(o, p)) return p;
  }
  return NULL;
}

int sbx_local_protect_check(const struct sbx_local_options* o,
                            bool repository,
                            const struct sbx_file_request* request,
                            struct sbx_error* error) {
  bool goes = request->verb == SBX_FILE_MOVE ||
              request->verb == SBX_FILE_RMDIR ||
              request->verb == SBX_FILE_DELETE;
  const char* found = NULL;

  if (o->protect.len == 0 || !changes(request->verb)) return 0;
  if (request->verb != SBX_FILE_COPY)
    found = protector(o, repository, request->path, goes);
  if (found == NULL)
    found = protector(o, repository, request->to,
                      request->verb == SBX_FILE_MOVE);
  if (found == NULL) return 0;
  return sbx_error_set(error, SBX_E_ACCESS, EROFS, "files.protect",
                       "/%s is protected, because this machine may run it "
                       "later: the protect option of local() lists such paths.",
                       found);
}
