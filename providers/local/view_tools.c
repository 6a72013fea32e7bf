/* Tool managers: the folders on PATH that are theirs, and nothing else of a
 * home folder. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdio.h>
#include <string.h>

#include "view_internal.h"

/* A tool manager, recognised by a piece of a PATH entry. What it needs is
 * relative to the folder in front of that piece; no `needs` is the parent of
 * the PATH entry (one version's own prefix). */
static const struct manager {
  const char* piece;
  const char* needs[3];
  const char* env; /* variable that says where needs[0] (or [1]) is */
  int env_of;
} managers[] = {
    {"/.nvm/versions/", {0}, NULL, 0},
    {"/nvm/versions/node/", {0}, NULL, 0},
    {"/node-versions/", {0}, NULL, 0}, /* fnm */
    {"/.nodenv/", {".nodenv"}, "NODENV_ROOT", 0},
    {"/n/versions/", {0}, NULL, 0},
    {"/.volta/", {".volta"}, "VOLTA_HOME", 0},
    {"/.asdf/", {".asdf"}, "ASDF_DATA_DIR", 0},
    {"/.local/share/mise/",
     {".local/share/mise", ".local/bin/mise"},
     "MISE_DATA_DIR",
     0},
    {"/.pyenv/", {".pyenv"}, "PYENV_ROOT", 0},
    {"/.rbenv/", {".rbenv"}, "RBENV_ROOT", 0},
    {"/.goenv/", {".goenv"}, "GOENV_ROOT", 0},
    {"/.cargo/bin", {".cargo/bin", ".rustup"}, "RUSTUP_HOME", 1},
    {"/.rustup/toolchains/", {".rustup"}, "RUSTUP_HOME", 0},
    {"/.linuxbrew/", {".linuxbrew"}, NULL, 0},
    {"/.bun/bin", {".bun/bin", ".bun/install/global"}, NULL, 0},
    {"/.deno/bin", {".deno/bin"}, NULL, 0},
    {"/.sdkman/candidates/", {".sdkman/candidates"}, NULL, 0},
    {"/.local/share/pnpm", {".local/share/pnpm"}, NULL, 0},
    {"/.npm-global/", {".npm-global"}, NULL, 0},
    {"/.ghcup/bin", {".ghcup/bin", ".ghcup/ghc"}, NULL, 0},
    {"/.juliaup/bin", {".juliaup/bin", ".julia/juliaup"}, NULL, 0},
    {"/.dotnet", {".dotnet"}, "DOTNET_ROOT", 0},
    {"/go/bin", {"go/bin"}, NULL, 0},
};

/* Variables of the host that name a folder of a tool. CARGO_HOME is none: it
 * must be writable. */
static const char* const tool_variables[] = {
    "RUSTUP_HOME", "PYENV_ROOT", "JAVA_HOME",  "GOROOT",     "VOLTA_HOME",
    "DOTNET_ROOT", "M2_HOME",    "MAVEN_HOME", "GRADLE_HOME"};

static const struct manager* manager_of(const char* entry, const char** piece) {
  char padded[PATH_MAX];
  size_t len = strlen(entry);

  if (len + 2 > sizeof(padded)) return NULL;
  memcpy(padded, entry, len);
  memcpy(padded + len, "/", 2);
  for (size_t i = 0; i < SBX__VIEW_LEN(managers); i++) {
    const char* at = strstr(padded, managers[i].piece);
    size_t end;

    if (at == NULL) continue;
    end = strlen(managers[i].piece);
    if (managers[i].piece[end - 1] != '/' && at[end] != '/') continue;
    *piece = entry + (at - padded);
    return &managers[i];
  }
  return NULL;
}

static void bind_needs(struct sbx__view_builder* b, const struct manager* m,
                       const char* base) {
  char path[PATH_MAX];

  for (size_t i = 0; i < SBX__VIEW_LEN(m->needs) && m->needs[i] != NULL; i++) {
    if (!sbx__view_join(path, sizeof(path), base, m->needs[i])) continue;
    if (sbx__view_kind(b, path) == SBX_HOST_MISSING) continue;
    sbx__view_bind(b, path);
    if (m->env != NULL && m->env_of == (int) i && sbx__view_is_bound(b, path))
      sbx__view_add_env(b, m->env, path);
  }
}

static void add_entry(struct sbx__view_builder* b, const char* entry) {
  const struct manager* m;
  const char* piece;
  char base[PATH_MAX];
  char real[PATH_MAX];

  if (!sbx__view_is_normal(entry) ||
      sbx__view_kind(b, entry) == SBX_HOST_MISSING)
    return;
  if (!b->host->real(b->host->arg, entry, real, sizeof(real))) return;
  /* fnm and Nix put links in PATH that lead to where the tools are. */
  if (strstr(entry, "/fnm_multishells/") != NULL || sbx__view_is_bound(b, real))
    entry = real;
  m = manager_of(entry, &piece);
  if (m != NULL && m->needs[0] != NULL) {
    snprintf(base, sizeof(base), "%.*s", (int) (piece - entry), entry);
    bind_needs(b, m, base[0] == '\0' ? "/" : base);
  } else if (m != NULL && sbx__view_parent_of(entry, base, sizeof(base))) {
    sbx__view_bind(b, base);
  }
  if (sbx__view_is_bound(b, entry) &&
      !sbx_view_below(b->spec->mountpoint, entry) &&
      !sbx__view_path_has(SBX__VIEW_PATH, entry))
    sbx__view_add_path(b, entry);
}

void sbx__view_add_managers(struct sbx__view_builder* b) {
  const char* at = b->host->path;
  char entry[PATH_MAX];

  while (at != NULL && *at != '\0') {
    size_t len = strcspn(at, ":");
    size_t kept = len;

    while (kept > 1 && at[kept - 1] == '/') kept--;
    if (kept > 0 && kept < sizeof(entry)) {
      memcpy(entry, at, kept);
      entry[kept] = '\0';
      add_entry(b, entry);
    }
    at += len + (at[len] == ':');
  }
}

void sbx__view_add_host_env(struct sbx__view_builder* b) {
  for (size_t i = 0; i < b->host->env_len; i++) {
    const char* value = strchr(b->host->env[i], '=');
    size_t len;

    if (value == NULL) continue;
    len = (size_t) (value - b->host->env[i]);
    for (size_t k = 0; k < SBX__VIEW_LEN(tool_variables); k++)
      if (strlen(tool_variables[k]) == len &&
          strncmp(tool_variables[k], b->host->env[i], len) == 0 &&
          sbx__view_is_bound(b, value + 1))
        sbx__view_add_env(b, tool_variables[k], value + 1);
  }
}
