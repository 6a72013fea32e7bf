/* What a command of the Local provider can see of the host. Nothing of a home
 * folder but the tool managers of view_tools.c, each bound alone. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "view_internal.h"

static const char* const visible_roots[] = {
    "/usr", "/bin", "/sbin",   "/lib",      "/lib32",
    "/lib64", "/libx32", "/opt", "/nix/store"};

/* Names in /etc that programs need; a trailing '*' is any ending. */
static const char* const etc_names[] = {
    "ssl",         "pki",          "ca-certificates*", "crypto-policies",
    "ld.so.cache", "ld.so.conf*",  "alternatives",     "localtime",
    "timezone",    "mime.types",   "protocols",        "services",
    "inputrc",     "terminfo",     "java*",            "maven",
    "python*",     "perl",         "ruby*",            "php*",
    "R",           "fonts",        "magic",            "magic.mime",
    "os-release",  "lsb-release",  "debian_version",   "alpine-release",
    "locale.alias", "bash.bashrc", "host.conf",        "gai.conf",
    "ImageMagick*", "OpenCL",      "gss"};

/* Never readable inside, in whatever is bound. */
static const char* const masked_etc[] = {"/etc/ssl/private",
                                         "/etc/pki/tls/private",
                                         "/etc/pki/CA/private"};
static const char* const masked_names[] = {
    ".npmrc", "etc/npmrc", ".netrc",           ".git-credentials",
    ".env",   "credentials", "credentials.toml"};

/* ---- PATH and environment ---- */

bool sbx__view_path_has(const char* list, const char* entry) {
  size_t len = strlen(entry);
  const char* at = list;

  while (at != NULL && *at != '\0') {
    if (strncmp(at, entry, len) == 0 && (at[len] == ':' || at[len] == '\0'))
      return true;
    at = strchr(at, ':');
    if (at != NULL) at++;
  }
  return false;
}

void sbx__view_add_path(struct sbx__view_builder* b, const char* entry) {
  size_t old = b->view->path == NULL ? 0 : strlen(b->view->path);
  size_t len = strlen(entry);
  char* path;

  if (b->failed || (old > 0 && sbx__view_path_has(b->view->path, entry)))
    return;
  path = realloc(b->view->path, old + len + 2);
  if (path == NULL) {
    b->failed = true;
    return;
  }
  if (old > 0) path[old++] = ':';
  memcpy(path + old, entry, len + 1);
  b->view->path = path;
}

void sbx__view_add_env(struct sbx__view_builder* b, const char* name,
                       const char* value) {
  size_t size = strlen(name) + strlen(value) + 2;
  char* text;

  for (size_t i = 0; i < b->view->env_len; i++)
    if (strncmp(b->view->env[i], name, strlen(name)) == 0 &&
        b->view->env[i][strlen(name)] == '=')
      return;
  if (b->view->env_len == SBX_VIEW_ENV_MAX) return;
  text = malloc(size);
  if (text == NULL) {
    b->failed = true;
    return;
  }
  snprintf(text, size, "%s=%s", name, value);
  b->view->env[b->view->env_len++] = text;
}

/* ---- binds ---- */

bool sbx__view_is_system(const char* path) {
  return sbx__view_below_any(visible_roots, SBX__VIEW_LEN(visible_roots), path);
}

bool sbx__view_is_bound(const struct sbx__view_builder* b, const char* path) {
  for (size_t i = 0; i < b->bound_len; i++)
    if (sbx_view_below(b->bound[i], path)) return true;
  return sbx__view_is_system(path);
}

static void mask_credentials(struct sbx__view_builder* b, const char* folder) {
  char path[PATH_MAX];

  for (size_t i = 0; i < SBX__VIEW_LEN(masked_names); i++)
    if (sbx__view_join(path, sizeof(path), folder, masked_names[i]))
      sbx_config_add_text(b->config, SBX_CONFIG_MASK, path);
}

static void remember(struct sbx__view_builder* b, const char* path) {
  char** list = realloc(b->bound, (b->bound_len + 1) * sizeof(*list));

  if (list == NULL) {
    b->failed = true;
    return;
  }
  b->bound = list;
  list[b->bound_len] = strdup(path);
  if (list[b->bound_len] == NULL)
    b->failed = true;
  else
    b->bound_len++;
}

bool sbx__view_is_too_wide(const struct sbx__view_builder* b,
                           const char* path) {
  static const char* const wide[] = {"/",    "/usr", "/home", "/root",
                                     "/var", "/tmp", "/etc",  "/mnt",
                                     "/srv", "/run", "/Users"};
  char parent[PATH_MAX];

  if (sbx__view_is_any(wide, SBX__VIEW_LEN(wide), path)) return true;
  if (b->host->home != NULL && sbx_view_below(path, b->host->home)) return true;
  return sbx__view_parent_of(path, parent, sizeof(parent)) &&
         strcmp(parent, "/home") == 0;
}

void sbx__view_bind(struct sbx__view_builder* b, const char* path) {
  if (!sbx__view_is_normal(path) || sbx__view_is_too_wide(b, path) ||
      sbx__view_is_bound(b, path))
    return;
  /* The workspace is mounted over it: not visible anyway. */
  if (sbx_view_below(b->spec->mountpoint, path)) return;
  sbx_config_add_pair(b->config, SBX_CONFIG_BIND_RO, path, path);
  remember(b, path);
  mask_credentials(b, path);
}

enum sbx_host_kind sbx__view_kind(const struct sbx__view_builder* b,
                                  const char* path) {
  return b->host->kind(b->host->arg, path);
}

/* ---- the system ---- */

static void add_system(struct sbx__view_builder* b) {
  for (size_t i = 0; i < SBX__VIEW_LEN(visible_roots); i++) {
    const char* path = visible_roots[i];
    char target[PATH_MAX];

    switch (sbx__view_kind(b, path)) {
      case SBX_HOST_LINK:
        if (b->host->link(b->host->arg, path, target, sizeof(target)))
          sbx_config_add_pair(b->config, SBX_CONFIG_SYMLINK, target, path);
        break;
      case SBX_HOST_DIRECTORY:
        sbx_config_add_pair(b->config, SBX_CONFIG_BIND_RO, path, path);
        break;
      default: break;
    }
  }
}

static bool etc_wanted(const char* name) {
  for (size_t i = 0; i < SBX__VIEW_LEN(etc_names); i++) {
    size_t len = strlen(etc_names[i]);

    if (etc_names[i][len - 1] == '*' &&
        strncmp(name, etc_names[i], len - 1) == 0)
      return true;
    if (strcmp(name, etc_names[i]) == 0) return true;
  }
  return false;
}

static void add_etc(struct sbx__view_builder* b) {
  char path[PATH_MAX];

  for (size_t i = 0; i < b->host->etc_len; i++) {
    const char* name = b->host->etc[i];

    if (!etc_wanted(name) || !sbx__view_join(path, sizeof(path), "/etc", name))
      continue;
    sbx_config_add_pair(b->config, SBX_CONFIG_BIND_RO, path, path);
  }
  if (b->spec->network)
    sbx_config_add_pair(b->config, SBX_CONFIG_BIND_RO, "/etc/resolv.conf",
                        "/etc/resolv.conf");
  for (size_t i = 0; i < SBX__VIEW_LEN(masked_etc); i++)
    sbx_config_add_text(b->config, SBX_CONFIG_MASK, masked_etc[i]);
}

static void add_text_file(struct sbx__view_builder* b, const char* path,
                          const char* text) {
  sbx_config_add_file(b->config, path, text, strlen(text));
}

static void add_files(struct sbx__view_builder* b) {
  char passwd[512];

  snprintf(passwd, sizeof(passwd),
           "root:x:0:0:root:/root:/bin/sh\n"
           "user:x:1000:1000:user:%s:%s\n"
           "nobody:x:65534:65534:nobody:/nonexistent:/bin/false\n",
           b->view->home, b->view->shell);
  add_text_file(b, "/etc/passwd", passwd);
  add_text_file(b, "/etc/group",
                "root:x:0:\ntty:x:5:\nuser:x:1000:\nnogroup:x:65534:\n");
  add_text_file(b, "/etc/hosts",
                "127.0.0.1 localhost sandbox\n"
                "::1 localhost ip6-localhost ip6-loopback\n");
  add_text_file(b, "/etc/hostname", "sandbox\n");
  add_text_file(b, "/etc/nsswitch.conf",
                "passwd: files\ngroup: files\nshadow: files\n"
                "hosts: files dns\nnetworks: files\nprotocols: files\n"
                "services: files\n");
  /* Git would refuse a repository whose owner is mapped to another id. */
  add_text_file(b, "/etc/gitconfig", "[safe]\n\tdirectory = *\n");
  sbx_config_add_pair(b->config, SBX_CONFIG_SYMLINK, "/proc/self/mounts",
                      "/etc/mtab");
}

/* ---- the whole ---- */

static bool binds_below(const struct sbx__view_builder* b, const char* folder) {
  for (size_t i = 0; i < b->bound_len; i++)
    if (sbx_view_below(folder, b->bound[i])) return true;
  for (size_t i = 0; i < b->spec->read_only_len; i++)
    if (sbx_view_below(folder, b->spec->read_only[i])) return true;
  for (size_t i = 0; i < b->spec->read_write_len; i++)
    if (sbx_view_below(folder, b->spec->read_write[i])) return true;
  return false;
}

/* A tmpfs over a folder with binds in it would hide them. */
static void add_home(struct sbx__view_builder* b) {
  b->view->home = binds_below(b, "/home/user") ? "/home/sandbox" : "/home/user";
  if (strcmp(b->view->home, b->spec->mountpoint) != 0)
    sbx_config_add_text(b->config, SBX_CONFIG_TMPFS, b->view->home);
}

static void add_extra(struct sbx__view_builder* b) {
  const struct sbx_view_spec* spec = b->spec;

  for (size_t i = 0; i < spec->read_only_len; i++)
    sbx_config_add_pair(b->config, SBX_CONFIG_BIND_RO, spec->read_only[i],
                        spec->read_only[i]);
  for (size_t i = 0; i < spec->read_write_len; i++)
    sbx_config_add_pair(b->config, SBX_CONFIG_BIND_RW, spec->read_write[i],
                        spec->read_write[i]);
}

static void find_shell(struct sbx__view_builder* b) {
  bool bash = sbx__view_kind(b, "/bin/bash") != SBX_HOST_MISSING ||
              sbx__view_kind(b, "/usr/bin/bash") != SBX_HOST_MISSING;

  b->view->shell = "/bin/sh";
  if (bash)
    b->view->shell = sbx__view_kind(b, "/bin/bash") != SBX_HOST_MISSING
                         ? "/bin/bash"
                         : "/usr/bin/bash";
}

static void forget(struct sbx__view_builder* b) {
  for (size_t i = 0; i < b->bound_len; i++) free(b->bound[i]);
  free(b->bound);
}

int sbx_view_build(const struct sbx_view_host* host,
                   const struct sbx_view_spec* spec, struct sbx_config* config,
                   struct sbx_view* view, struct sbx_error* error) {
  struct sbx__view_builder b = {
      .host = host, .spec = spec, .config = config, .view = view};
  int err;

  memset(view, 0, sizeof(*view));
  find_shell(&b);
  add_system(&b);
  add_etc(&b);
  err = sbx__view_add_node(&b, error);
  if (err == 0) {
    sbx__view_add_managers(&b);
    sbx__view_add_host_env(&b);
    sbx__view_add_path(&b, SBX__VIEW_PATH);
    add_home(&b);
    add_extra(&b);
    add_files(&b);
    if (b.failed)
      err = sbx_error_set(error, SBX_E_INTERNAL, 0, "start", "Out of memory.");
  }
  forget(&b);
  if (err != 0) sbx_view_free(view);
  return err;
}

void sbx_view_free(struct sbx_view* view) {
  for (size_t i = 0; i < view->env_len; i++) free(view->env[i]);
  free(view->path);
  memset(view, 0, sizeof(*view));
}
