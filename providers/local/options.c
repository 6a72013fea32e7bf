/* Checks the options of the Local provider. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "options.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#include "../../native/network/allow_list.h"
#include "protect.h"
#include "view.h"

enum { ID_MAX = 200, PREFIX_MAX = 40 };

struct reader {
  const struct sbx_options* o;
  struct sbx_local_options* out;
  struct sbx_error* error;
};

#define INVALID(r, ...) \
  sbx_error_set((r)->error, SBX_E_INVALID_INPUT, 0, "open", __VA_ARGS__)

static int no_memory(struct reader* r) {
  return sbx_error_set(r->error, SBX_E_INTERNAL, ENOMEM, "open",
                       "Out of memory.");
}

/* NULL or `fallback` where it is not given. */
static int read_string(struct reader* r, const char* name,
                       const char* fallback, char** out) {
  int type = sbx_options_type(r->o, name);

  if (type != 0 && type != SBX_OPTION_STRING)
    return INVALID(r, "%s must be a string.", name);
  return sbx_options_copy(r->o, name, fallback, out) == 0 ? 0 : no_memory(r);
}

static int read_count(struct reader* r, const char* name, double min,
                      double max, uint64_t* out) {
  int type = sbx_options_type(r->o, name);
  double v = sbx_options_number(r->o, name, (double) *out);

  if (type == 0) return 0;
  if (type != SBX_OPTION_NUMBER || !(v >= min && v <= max) ||
      v != (double) (int64_t) v)
    return INVALID(r, "%s must be a whole number from %.0f to %.0f.", name, min,
                   max);
  *out = (uint64_t) v;
  return 0;
}

/* ---- id ---- */

static int check_id(struct reader* r) {
  const char* id = r->out->id;
  size_t len;

  if (id == NULL) return 0;
  len = strlen(id);
  if (len == 0 || len > ID_MAX)
    return INVALID(r, "id must have 1 to %d bytes; got %zu.", ID_MAX, len);
  if (strcmp(id, ".") == 0 || strcmp(id, "..") == 0 || strchr(id, '/') != NULL)
    return INVALID(r, "id must be a plain name without \"/\"; got \"%s\".", id);
  for (size_t i = 0; i < len; i++)
    if ((unsigned char) id[i] < 0x20 || id[i] == 0x7f)
      return INVALID(r, "id must not hold control characters; got \"%s\".", id);
  return 0;
}

static uint64_t hash_of(const char* text) {
  uint64_t h = UINT64_C(0xcbf29ce484222325);

  for (; *text != '\0'; text++)
    h = (h ^ (unsigned char) *text) * UINT64_C(0x100000001b3);
  return h;
}

/* Two ids with one hash would share a folder; the id written into its lock file
 * keeps them apart. */
static int name_folder(struct reader* r) {
  static const char plain[] = "abcdefghijklmnopqrstuvwxyz"
                              "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
  char prefix[PREFIX_MAX + 1];
  const char* id = r->out->id;
  size_t len = 0;

  for (; id[len] != '\0' && len < PREFIX_MAX; len++)
    prefix[len] = strchr(plain, id[len]) != NULL ? id[len] : '_';
  prefix[len] = '\0';
  if (asprintf(&r->out->folder, "%s/%s-%016llx", r->out->root, prefix,
               (unsigned long long) hash_of(id)) < 0) {
    r->out->folder = NULL;
    return no_memory(r);
  }
  return 0;
}

/* ---- isolation, network ---- */

static int read_isolation(struct reader* r) {
  const char* name = sbx_options_string(r->o, "isolation");
  int type = sbx_options_type(r->o, "isolation");

  r->out->level = SBX_LEVEL_FULL;
  r->out->may_fall = type == 0;
  if (type == 0) return 0;
  if (type == SBX_OPTION_STRING) {
    r->out->may_fall = strcmp(name, "auto") == 0;
    if (r->out->may_fall || strcmp(name, "full") == 0) return 0;
    if (strcmp(name, "none") == 0) {
      r->out->level = SBX_LEVEL_NONE;
      return 0;
    }
    if (strcmp(name, "landlock") == 0) {
      r->out->level = SBX_LEVEL_LANDLOCK;
      return 0;
    }
  }
  return INVALID(r, "isolation must be \"auto\", \"full\", \"landlock\" or "
                    "\"none\"; got \"%s\".",
                 name == NULL ? "another type" : name);
}

static int read_texts(struct reader* r, const char* name,
                      struct sbx_local_list* out) {
  return sbx_options_copy_list(r->o, name, &out->items, &out->len) == 0
             ? 0
             : no_memory(r);
}

/* So that a wrong entry is told where it was written. */
static int check_hosts(struct reader* r, const char* name, size_t n) {
  struct sbx_allow_list* list;
  int err = 0;

  if (sbx_allow_list_new(&list) != 0) return no_memory(r);
  for (size_t i = 0; err == 0 && i < n; i++)
    err = sbx_allow_list_add(list, "network", sbx_options_item(r->o, name, i),
                             r->error);
  sbx_allow_list_free(list);
  return err;
}

static int read_hosts(struct reader* r, const char* name) {
  size_t n = sbx_options_count(r->o, name);
  int err = check_hosts(r, name, n);

  if (err != 0 || n == 0) return err;
  if (r->out->level == SBX_LEVEL_NONE)
    return INVALID(r, "network with a list of hosts needs isolation: at "
                      "isolation \"none\" every host can be reached.");
  return read_texts(r, name, &r->out->allow);
}

static int read_network(struct reader* r) {
  const char* name = sbx_options_string(r->o, "network");

  if (sbx_options_type(r->o, "network.allow") == SBX_OPTION_LIST)
    return read_hosts(r, "network.allow");
  if (!sbx_options_has(r->o, "network")) return 0;
  if (name != NULL && strcmp(name, "allow") == 0) {
    r->out->network = true;
    return 0;
  }
  if (name != NULL && strcmp(name, "deny") == 0)
    return r->out->level != SBX_LEVEL_NONE
               ? 0
               : INVALID(r, "network \"deny\" needs isolation%s: at isolation "
                            "\"none\" every host can be reached; leave "
                            "network out, or write \"allow\".",
                         "");
  if (sbx_options_type(r->o, "network") == SBX_OPTION_LIST)
    return read_hosts(r, "network");
  return INVALID(r, "network must be \"deny\" or \"allow\", or a list of hosts; "
                    "got \"%s\".",
                 name == NULL ? "another type" : name);
}

/* Texts of numbers, which is what a list can hold. */
static int read_ports(struct reader* r) {
  size_t n = sbx_options_count(r->o, "ports");

  if (n > SBX_LOCAL_PORTS_MAX)
    return INVALID(r, "ports can hold %d ports; got %zu.", SBX_LOCAL_PORTS_MAX,
                   n);
  for (size_t i = 0; i < n; i++) {
    const char* text = sbx_options_item(r->o, "ports", i);
    char* end;
    unsigned long port = strtoul(text, &end, 10);

    if (*end != '\0' || port < 1 || port > 65535)
      return INVALID(r, "ports must hold numbers from 1 to 65535; got "
                        "\"%.20s\".",
                     text);
    r->out->ports[r->out->ports_len++] = (uint16_t) port;
  }
  return 0;
}

/* ---- paths ---- */

static bool is_link(const char* path) {
  struct statx st;

  return statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, STATX_TYPE, &st) == 0 &&
         S_ISLNK(st.stx_mode);
}

/* 0, or the errno of looking at it. */
static int look(const char* path, struct statx* st) {
  return statx(AT_FDCWD, path, 0, STATX_TYPE | STATX_MODE, st) == 0 ? 0 : errno;
}

static int check_absolute(struct reader* r, const char* name,
                          const char* path) {
  if (path[0] == '/' && strlen(path) < PATH_MAX - 128) return 0;
  return INVALID(r, "%s must be an absolute path; got \"%.200s\".", name, path);
}

/* Folders of the kernel and of the system itself. As a workspace they would
 * give commands what the sandbox is there to keep from them. */
static bool is_system_folder(const char* path) {
  static const char* const whole[] = {
      "/proc", "/sys",   "/dev",   "/etc",     "/boot",     "/bin",    "/sbin",
      "/lib",  "/lib32", "/lib64", "/usr/bin", "/usr/sbin", "/usr/lib"};
  static const char* const alone[] = {"/usr", "/var", "/run", "/home"};
  char real[PATH_MAX];

  if (realpath(path, real) == NULL) snprintf(real, sizeof(real), "%s", path);
  if (sbx_view_below("/dev/shm", real) && strcmp(real, "/dev/shm") != 0)
    return false;
  for (size_t i = 0; i < sizeof(whole) / sizeof(whole[0]); i++)
    if (sbx_view_below(whole[i], real)) return true;
  for (size_t i = 0; i < sizeof(alone) / sizeof(alone[0]); i++)
    if (strcmp(real, alone[i]) == 0) return true;
  return false;
}

/* A folder that is there, or that can be made because its parent is. */
static int check_folder(struct reader* r, const char* name, const char* path) {
  struct statx st;
  char parent[PATH_MAX];
  char* slash;
  char words[SBX_SYS_TEXT_MAX];
  int err = check_absolute(r, name, path);

  if (err != 0) return err;
  if (strspn(path, "/.") == strlen(path))
    return INVALID(r, "%s must not be the root of this machine.", name);
  if (is_system_folder(path))
    return INVALID(r, "%s \"%.200s\" is a folder of the system itself: choose "
                      "one of yours.",
                   name, path);
  err = look(path, &st);
  if (err == 0 && !S_ISDIR(st.stx_mode))
    return INVALID(r, "%s \"%.200s\" is not a folder.", name, path);
  if (err == 0 && access(path, R_OK | X_OK) != 0)
    return INVALID(r, "%s \"%.200s\" cannot be read by this user: change its "
                      "permissions or choose another.",
                   name, path);
  if (err == 0) return 0;
  if (err != ENOENT)
    return INVALID(r, "%s \"%.200s\" cannot be used: %s.", name, path,
                   sbx_sys_text(err, words));
  if (is_link(path))
    return INVALID(r, "%s \"%.200s\" is a link to something that does not "
                      "exist: create that or name another folder.",
                   name, path);
  snprintf(parent, sizeof(parent), "%s", path);
  slash = strrchr(parent, '/');
  while (slash > parent && slash[1] == '\0') {
    *slash = '\0';
    slash = strrchr(parent, '/');
  }
  slash[slash == parent] = '\0';
  err = look(parent, &st);
  if (err == 0 && S_ISDIR(st.stx_mode)) {
    if (access(parent, W_OK | X_OK) == 0) return 0;
    return INVALID(r, "%s \"%.200s\" does not exist and cannot be made: this "
                      "user may not write to the folder above it.",
                   name, path);
  }
  return INVALID(r, "%s \"%.200s\" does not exist and neither does the folder "
                    "above it: create that first.",
                 name, path);
}

static int read_list(struct reader* r, const char* name,
                     struct sbx_local_list* out) {
  size_t n = sbx_options_count(r->o, name);
  int type = sbx_options_type(r->o, name);
  struct statx st;
  char words[SBX_SYS_TEXT_MAX];

  if (type == 0) return 0;
  if (type != SBX_OPTION_LIST)
    return INVALID(r, "%s must be a list of absolute host paths.", name);
  if (n == 0) return 0;
  out->items = calloc(n, sizeof(*out->items));
  if (out->items == NULL) return no_memory(r);
  for (size_t i = 0; i < n; i++) {
    const char* path = sbx_options_item(r->o, name, i);
    int err = sbx_view_check_bind(name, path, r->out->cwd, r->error);

    if (err != 0) return err;
    err = look(path, &st);
    if (err != 0)
      return INVALID(r, "%s holds \"%.200s\", which cannot be used: %s.", name,
                     path, sbx_sys_text(err, words));
    out->items[i] = strdup(path);
    if (out->items[i] == NULL) return no_memory(r);
    out->len++;
  }
  return 0;
}

static int read_cwd(struct reader* r) {
  int err = read_string(r, "cwd", "/workspace", &r->out->cwd);

  if (err != 0) return err;
  return sbx_view_check_mountpoint("cwd", r->out->cwd, r->error);
}

static int read_shell(struct reader* r) {
  struct statx st;
  int err = read_string(r, "shell", NULL, &r->out->shell);

  if (err != 0 || r->out->shell == NULL) return err;
  err = check_absolute(r, "shell", r->out->shell);
  if (err != 0) return err;
  if (look(r->out->shell, &st) == 0 && S_ISREG(st.stx_mode) &&
      access(r->out->shell, X_OK) == 0)
    return 0;
  return INVALID(r, "shell \"%.200s\" is not a program that can be run.",
                 r->out->shell);
}

static int read_place(struct reader* r) {
  struct sbx_local_options* out = r->out;
  int err = read_string(r, "directory", NULL, &out->directory);

  if (err == 0) err = read_string(r, "root", NULL, &out->root);
  if (err != 0) return err;
  out->kind = SBX_LOCAL_TEMPORARY;
  if (out->directory != NULL && out->root != NULL)
    return INVALID(r, "Give either directory or root, not both.");
  if (out->directory != NULL) {
    out->kind = SBX_LOCAL_DIRECTORY;
    return check_folder(r, "directory", out->directory);
  }
  if (out->root == NULL) return 0;
  out->kind = SBX_LOCAL_ROOT;
  if (out->id == NULL)
    return INVALID(r, "root needs an id, by which its session is found again.");
  err = check_folder(r, "root", out->root);
  return err != 0 ? err : name_folder(r);
}

static int read_host(struct reader* r) {
  struct sbx_local_options* out = r->out;
  int err = read_string(r, "host.path", NULL, &out->host_path);

  if (err == 0) err = read_string(r, "host.home", NULL, &out->host_home);
  if (err == 0)
    err = read_string(r, "host.execPath", NULL, &out->exec_path);
  if (err == 0) err = read_string(r, "host.tmpdir", "/tmp", &out->tmpdir);
  if (err == 0) err = read_texts(r, "host.env", &r->out->host_env);
  if (err != 0) return err;
  return check_absolute(r, "TMPDIR of this process", out->tmpdir);
}

static int read_all(struct reader* r) {
  struct sbx_local_options* out = r->out;
  int err = read_string(r, "id", NULL, &out->id);

  if (err == 0) err = check_id(r);
  if (err == 0) err = read_isolation(r);
  if (err == 0) err = read_network(r);
  if (err == 0) err = read_ports(r);
  if (err == 0) err = read_cwd(r);
  if (err == 0) err = read_shell(r);
  if (err == 0) err = read_host(r);
  if (err == 0) err = read_place(r);
  if (err == 0) err = read_list(r, "readOnlyPaths", &out->read_only);
  if (err == 0) err = read_list(r, "readWritePaths", &out->read_write);
  if (err == 0) err = sbx_local_protect_read(r->o, out, r->error);
  if (err == 0) err = sbx_local_limits_read(r->o, &out->limits, r->error);
  if (err == 0) err = read_string(r, "test.cgroup", NULL, &out->cgroup);
  if (err == 0)
    err = read_count(r, "test.failStep", 0, SBX_SETUP_COUNT, &out->fail_step);
  if (err == 0)
    err = read_count(r, "test.failErrno", 0, 4095, &out->fail_errno);
  return err;
}

int sbx_local_options_read(const struct sbx_options* o,
                           struct sbx_local_options* out,
                           struct sbx_error* error) {
  struct reader r = {o, out, error};
  int err;

  memset(out, 0, sizeof(*out));
  out->fail_errno = EPERM;
  err = read_all(&r);
  if (err != 0) sbx_local_options_clear(out);
  return err;
}

static void list_clear(struct sbx_local_list* list) {
  for (size_t i = 0; i < list->len; i++) free(list->items[i]);
  free(list->items);
}

void sbx_local_options_clear(struct sbx_local_options* o) {
  list_clear(&o->host_env);
  list_clear(&o->allow);
  list_clear(&o->read_only);
  list_clear(&o->read_write);
  list_clear(&o->protect);
  free(o->id);
  free(o->directory);
  free(o->root);
  free(o->folder);
  free(o->cwd);
  free(o->shell);
  free(o->host_path);
  free(o->host_home);
  free(o->exec_path);
  free(o->tmpdir);
  free(o->cgroup);
  memset(o, 0, sizeof(*o));
}
