/* What a command of the Local provider can see of the host. Nothing of a home
 * folder but the tool managers named here, each bound alone. */
#include "view.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#define STANDARD_PATH \
  "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

static const char* const visible_roots[] = {
    "/usr", "/bin", "/sbin",   "/lib",      "/lib32",
    "/lib64", "/libx32", "/opt", "/nix/store"};

/* Folders that the sandbox makes itself; nothing of the user may cover them. */
static const char* const own_roots[] = {
    "/usr",    "/proc", "/dev", "/sys", "/etc",       "/bin", "/sbin", "/lib",
    "/lib32", "/lib64", "/libx32", "/opt", "/nix/store", "/boot"};

/* Parents of what the sandbox makes: free below, not themselves. */
static const char* const own_parents[] = {"/",     "/tmp", "/var", "/var/tmp",
                                          "/home", "/run", "/nix"};

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

#define LEN(a) (sizeof(a) / sizeof((a)[0]))

struct builder {
  const struct sbx_view_host* host;
  const struct sbx_view_spec* spec;
  struct sbx_config* config;
  struct sbx_view* view;
  size_t path_size;
  char** bound; /* what is bound beside the system, for "already there" */
  size_t bound_len;
  bool failed;
};

/* ---- text ---- */

bool sbx_view_below(const char* folder, const char* path) {
  size_t len = strlen(folder);

  if (strcmp(folder, "/") == 0) return path[0] == '/';
  return strncmp(folder, path, len) == 0 &&
         (path[len] == '\0' || path[len] == '/');
}

static bool below_any(const char* const* list, size_t len, const char* path) {
  for (size_t i = 0; i < len; i++)
    if (sbx_view_below(list[i], path)) return true;
  return false;
}

static bool is_any(const char* const* list, size_t len, const char* path) {
  for (size_t i = 0; i < len; i++)
    if (strcmp(list[i], path) == 0) return true;
  return false;
}

/* "/a/b/c" and nothing else: no "//", ".", "..", no slash at the end. */
static bool normal(const char* path) {
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

/* Of a normal path that is not the root. */
static bool parent_of(const char* path, char* out, size_t size) {
  const char* slash = strrchr(path, '/');
  size_t len = slash == path ? 1 : (size_t) (slash - path);

  if (len + 1 > size) return false;
  memcpy(out, path, len);
  out[len] = '\0';
  return true;
}

static const char* name_of(const char* path) {
  return strrchr(path, '/') + 1;
}

static bool join(char* out, size_t size, const char* folder, const char* name) {
  const char* slash = strcmp(folder, "/") == 0 ? "" : "/";
  int n = snprintf(out, size, "%s%s%s", folder, slash, name);

  return n > 0 && (size_t) n < size;
}

/* ---- checks of what a user gives ---- */

int sbx_view_check_mountpoint(const char* option, const char* path,
                              struct sbx_error* error) {
  if (!normal(path))
    return sbx_error_set(error, SBX_E_INVALID_INPUT, 0, "open",
                         "%s must be an absolute path without \"..\", \".\", "
                         "\"//\" or a slash at the end, like \"/workspace\"; "
                         "got \"%.200s\".",
                         option, path);
  if (is_any(own_parents, LEN(own_parents), path) ||
      below_any(own_roots, LEN(own_roots), path))
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

  if (!normal(path))
    return sbx_error_set(error, SBX_E_INVALID_INPUT, 0, "open",
                         "%s holds \"%.200s\": give absolute host paths "
                         "without \"..\", \".\", \"//\" or a slash at the end.",
                         option, path);
  if (is_any(own_parents, LEN(own_parents), path) ||
      is_any(own_roots, LEN(own_roots), path) ||
      below_any(never, LEN(never), path))
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

/* ---- PATH and environment ---- */

static bool path_has(const char* list, const char* entry) {
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

static void add_path(struct builder* b, const char* entry) {
  size_t old = b->view->path == NULL ? 0 : strlen(b->view->path);
  size_t len = strlen(entry);
  char* path;

  if (b->failed || (old > 0 && path_has(b->view->path, entry))) return;
  path = realloc(b->view->path, old + len + 2);
  if (path == NULL) {
    b->failed = true;
    return;
  }
  if (old > 0) path[old++] = ':';
  memcpy(path + old, entry, len + 1);
  b->view->path = path;
}

static void add_env(struct builder* b, const char* name, const char* value) {
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

static bool is_bound(const struct builder* b, const char* path) {
  for (size_t i = 0; i < b->bound_len; i++)
    if (sbx_view_below(b->bound[i], path)) return true;
  return below_any(visible_roots, LEN(visible_roots), path);
}

static void mask_credentials(struct builder* b, const char* folder) {
  char path[PATH_MAX];

  for (size_t i = 0; i < LEN(masked_names); i++)
    if (join(path, sizeof(path), folder, masked_names[i]))
      sbx_config_add_text(b->config, SBX_CONFIG_MASK, path);
}

static void remember(struct builder* b, const char* path) {
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

/* A home folder, a folder of home folders, or above: never bound. */
static bool too_wide(const struct builder* b, const char* path) {
  static const char* const wide[] = {"/",    "/usr", "/home", "/root", "/var",
                                     "/tmp", "/etc", "/mnt",  "/srv",  "/run",
                                     "/Users"};
  char parent[PATH_MAX];

  if (is_any(wide, LEN(wide), path)) return true;
  if (b->host->home != NULL && sbx_view_below(path, b->host->home)) return true;
  return parent_of(path, parent, sizeof(parent)) &&
         strcmp(parent, "/home") == 0;
}

static void bind_folder(struct builder* b, const char* path) {
  if (!normal(path) || too_wide(b, path) || is_bound(b, path)) return;
  /* The workspace is mounted over it: not visible anyway. */
  if (sbx_view_below(b->spec->mountpoint, path)) return;
  sbx_config_add_pair(b->config, SBX_CONFIG_BIND_RO, path, path);
  remember(b, path);
  mask_credentials(b, path);
}

static enum sbx_host_kind kind(const struct builder* b, const char* path) {
  return b->host->kind(b->host->arg, path);
}

/* ---- the system ---- */

static void add_system(struct builder* b) {
  for (size_t i = 0; i < LEN(visible_roots); i++) {
    const char* path = visible_roots[i];
    char target[PATH_MAX];

    switch (kind(b, path)) {
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
  for (size_t i = 0; i < LEN(etc_names); i++) {
    size_t len = strlen(etc_names[i]);

    if (etc_names[i][len - 1] == '*' &&
        strncmp(name, etc_names[i], len - 1) == 0)
      return true;
    if (strcmp(name, etc_names[i]) == 0) return true;
  }
  return false;
}

static void add_etc(struct builder* b) {
  char path[PATH_MAX];

  for (size_t i = 0; i < b->host->etc_len; i++) {
    const char* name = b->host->etc[i];

    if (!etc_wanted(name) || !join(path, sizeof(path), "/etc", name)) continue;
    sbx_config_add_pair(b->config, SBX_CONFIG_BIND_RO, path, path);
  }
  if (b->spec->network)
    sbx_config_add_pair(b->config, SBX_CONFIG_BIND_RO, "/etc/resolv.conf",
                        "/etc/resolv.conf");
  for (size_t i = 0; i < LEN(masked_etc); i++)
    sbx_config_add_text(b->config, SBX_CONFIG_MASK, masked_etc[i]);
}

static void add_text_file(struct builder* b, const char* path,
                          const char* text) {
  sbx_config_add_file(b->config, path, text, strlen(text));
}

static void add_files(struct builder* b) {
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

/* ---- Node ---- */

static bool is_project(const struct builder* b, const char* folder) {
  char path[PATH_MAX];
  char parent[PATH_MAX];

  if (join(path, sizeof(path), folder, ".git") &&
      kind(b, path) != SBX_HOST_MISSING)
    return true;
  if (!join(path, sizeof(path), folder, "package.json") ||
      kind(b, path) == SBX_HOST_MISSING)
    return false;
  return !parent_of(folder, parent, sizeof(parent)) ||
         strcmp(name_of(parent), "node_modules") != 0;
}

/* A folder that holds Node and nothing else: one of a version manager or an
 * unpacked release. A bin folder that Node shares with other programs, like
 * ~/.local/bin, has a prefix with much that is private. */
static bool is_node_prefix(const struct builder* b, const char* prefix) {
  char parent[PATH_MAX];
  char path[PATH_MAX];
  const char* name = name_of(prefix);

  if (!parent_of(prefix, parent, sizeof(parent))) return false;
  if (strcmp(name_of(parent), "node_modules") == 0) return true; /* of npm */
  if (strstr(name, "node") == NULL && strstr(name_of(parent), "node") == NULL &&
      strcmp(name, "installation") != 0)
    return false;
  if (join(path, sizeof(path), prefix, "include/node") &&
      kind(b, path) == SBX_HOST_DIRECTORY)
    return true;
  return join(path, sizeof(path), prefix, "lib/node_modules/npm") &&
         kind(b, path) == SBX_HOST_DIRECTORY;
}

/* Node alone in a folder of other things: the binary, npm and its links. */
static void bind_node_alone(struct builder* b, const char* prefix,
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

  bind_folder(b, b->host->exec_path);
  if (!join(modules, sizeof(modules), prefix, "lib/node_modules")) return;
  for (size_t i = 0; i < LEN(tools); i++) {
    if (!join(target, sizeof(target), modules, tools[i].script)) continue;
    if (kind(b, target) != SBX_HOST_FILE) continue;
    if (i != 1 && join(path, sizeof(path), modules, tools[i].name))
      bind_folder(b, path);
    if (join(path, sizeof(path), bin, tools[i].name))
      sbx_config_add_pair(b->config, SBX_CONFIG_SYMLINK, target, path);
  }
}

/* The first `node` that the PATH so far finds is ours already. */
static bool standard_finds(const struct builder* b, const char* bin) {
  static const char* const dirs[] = {"/usr/local/sbin", "/usr/local/bin",
                                     "/usr/sbin", "/usr/bin"};
  char path[PATH_MAX];

  for (size_t i = 0; i < LEN(dirs); i++) {
    if (strcmp(dirs[i], bin) == 0) return true;
    if (join(path, sizeof(path), dirs[i], "node") &&
        kind(b, path) != SBX_HOST_MISSING)
      return false;
  }
  return false;
}

static int add_node(struct builder* b, struct sbx_error* error) {
  const char* exec = b->host->exec_path;
  char bin[PATH_MAX];
  char prefix[PATH_MAX];

  if (exec == NULL || !normal(exec)) return 0;
  if (!parent_of(exec, bin, sizeof(bin))) return 0;
  if (below_any(visible_roots, LEN(visible_roots), bin)) {
    if (!standard_finds(b, bin)) add_path(b, bin);
    return 0;
  }
  if (sbx_view_below(b->spec->mountpoint, exec))
    return sbx_error_set(error, SBX_E_INVALID_INPUT, 0, "start",
                         "cwd \"%.200s\" would cover the running Node "
                         "(\"%.200s\"): set cwd to another path, like "
                         "\"/workspace\".",
                         b->spec->mountpoint, exec);
  if (strcmp(name_of(bin), "bin") != 0 ||
      !parent_of(bin, prefix, sizeof(prefix)))
    snprintf(prefix, sizeof(prefix), "%s", bin);
  if (strcmp(prefix, bin) == 0 || too_wide(b, prefix) ||
      is_project(b, prefix) || !is_node_prefix(b, prefix))
    bind_node_alone(b, prefix, bin);
  else
    bind_folder(b, prefix);
  add_path(b, bin);
  return 0;
}

/* ---- tool managers ---- */

static const struct manager* manager_of(const char* entry,
                                        const char** piece) {
  char padded[PATH_MAX];
  size_t len = strlen(entry);

  if (len + 2 > sizeof(padded)) return NULL;
  memcpy(padded, entry, len);
  memcpy(padded + len, "/", 2);
  for (size_t i = 0; i < LEN(managers); i++) {
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

static void bind_needs(struct builder* b, const struct manager* m,
                       const char* base) {
  char path[PATH_MAX];

  for (size_t i = 0; i < LEN(m->needs) && m->needs[i] != NULL; i++) {
    if (!join(path, sizeof(path), base, m->needs[i])) continue;
    if (kind(b, path) == SBX_HOST_MISSING) continue;
    bind_folder(b, path);
    if (m->env != NULL && m->env_of == (int) i && is_bound(b, path))
      add_env(b, m->env, path);
  }
}

static void add_entry(struct builder* b, const char* entry) {
  const struct manager* m;
  const char* piece;
  char base[PATH_MAX];
  char real[PATH_MAX];

  if (!normal(entry) || kind(b, entry) == SBX_HOST_MISSING) return;
  if (!b->host->real(b->host->arg, entry, real, sizeof(real))) return;
  /* fnm and Nix put links in PATH that lead to where the tools are. */
  if (strstr(entry, "/fnm_multishells/") != NULL || is_bound(b, real))
    entry = real;
  m = manager_of(entry, &piece);
  if (m != NULL && m->needs[0] != NULL) {
    snprintf(base, sizeof(base), "%.*s", (int) (piece - entry), entry);
    bind_needs(b, m, base[0] == '\0' ? "/" : base);
  } else if (m != NULL && parent_of(entry, base, sizeof(base))) {
    bind_folder(b, base);
  }
  if (is_bound(b, entry) &&
      !sbx_view_below(b->spec->mountpoint, entry) &&
      !path_has(STANDARD_PATH, entry))
    add_path(b, entry);
}

static void add_managers(struct builder* b) {
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

static void add_host_env(struct builder* b) {
  for (size_t i = 0; i < b->host->env_len; i++) {
    const char* value = strchr(b->host->env[i], '=');
    size_t len;

    if (value == NULL) continue;
    len = (size_t) (value - b->host->env[i]);
    for (size_t k = 0; k < LEN(tool_variables); k++)
      if (strlen(tool_variables[k]) == len &&
          strncmp(tool_variables[k], b->host->env[i], len) == 0 &&
          is_bound(b, value + 1))
        add_env(b, tool_variables[k], value + 1);
  }
}

/* ---- the whole ---- */

static bool binds_below(const struct builder* b, const char* folder) {
  for (size_t i = 0; i < b->bound_len; i++)
    if (sbx_view_below(folder, b->bound[i])) return true;
  for (size_t i = 0; i < b->spec->read_only_len; i++)
    if (sbx_view_below(folder, b->spec->read_only[i])) return true;
  for (size_t i = 0; i < b->spec->read_write_len; i++)
    if (sbx_view_below(folder, b->spec->read_write[i])) return true;
  return false;
}

/* A tmpfs over a folder with binds in it would hide them. */
static void add_home(struct builder* b) {
  b->view->home = binds_below(b, "/home/user") ? "/home/sandbox" : "/home/user";
  if (strcmp(b->view->home, b->spec->mountpoint) != 0)
    sbx_config_add_text(b->config, SBX_CONFIG_TMPFS, b->view->home);
}

static void add_extra(struct builder* b) {
  const struct sbx_view_spec* spec = b->spec;

  for (size_t i = 0; i < spec->read_only_len; i++)
    sbx_config_add_pair(b->config, SBX_CONFIG_BIND_RO, spec->read_only[i],
                        spec->read_only[i]);
  for (size_t i = 0; i < spec->read_write_len; i++)
    sbx_config_add_pair(b->config, SBX_CONFIG_BIND_RW, spec->read_write[i],
                        spec->read_write[i]);
}

static void find_shell(struct builder* b) {
  bool bash = kind(b, "/bin/bash") != SBX_HOST_MISSING ||
              kind(b, "/usr/bin/bash") != SBX_HOST_MISSING;

  b->view->shell = "/bin/sh";
  if (bash)
    b->view->shell = kind(b, "/bin/bash") != SBX_HOST_MISSING
                         ? "/bin/bash"
                         : "/usr/bin/bash";
}

static void forget(struct builder* b) {
  for (size_t i = 0; i < b->bound_len; i++) free(b->bound[i]);
  free(b->bound);
}

int sbx_view_build(const struct sbx_view_host* host,
                   const struct sbx_view_spec* spec, struct sbx_config* config,
                   struct sbx_view* view, struct sbx_error* error) {
  struct builder b = {.host = host, .spec = spec, .config = config,
                      .view = view};
  int err;

  memset(view, 0, sizeof(*view));
  find_shell(&b);
  add_system(&b);
  add_etc(&b);
  err = add_node(&b, error);
  if (err == 0) {
    add_managers(&b);
    add_host_env(&b);
    add_path(&b, STANDARD_PATH);
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
