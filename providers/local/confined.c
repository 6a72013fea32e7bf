/* Level landlock as the Local provider sees it. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "confined.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "view.h"

/* ---- ids ---- */

static bool anybody_enters(const char* folder) {
  struct statx st;

  if (statx(AT_FDCWD, folder, 0, STATX_MODE, &st) != 0) return false;
  return (st.stx_mode & S_IXOTH) != 0;
}

/* Every folder above `path`, which itself may be missing. */
static bool is_reachable(const char* path) {
  char folder[PATH_MAX];
  const char* slash = path;

  while ((slash = strchr(slash + 1, '/')) != NULL) {
    snprintf(folder, sizeof(folder), "%.*s", (int) (slash - path), path);
    if (!anybody_enters(folder)) return false;
  }
  return true;
}

static bool is_missing(const char* path) {
  struct statx st;

  return statx(AT_FDCWD, path, 0, STATX_TYPE, &st) != 0;
}

static bool view_is_reachable(const struct sbx_config* config) {
  const struct sbx_config_item* item;
  const char* payload;
  size_t at = 0;

  while ((item = sbx_config_next(config, &at, &payload)) != NULL) {
    if (item->tag != SBX_CONFIG_BIND_RO && item->tag != SBX_CONFIG_BIND_RW)
      continue;
    if (!is_missing(payload) && !is_reachable(payload)) return false;
  }
  return true;
}

bool sbx_confined_may_own(const struct sbx_local_options* o,
                          const struct sbx_config* config) {
  const char* place = o->kind == SBX_LOCAL_ROOT ? o->root : o->tmpdir;

  if (o->kind == SBX_LOCAL_DIRECTORY || o->read_write.len > 0) return false;
  if (!is_reachable(place) || !is_reachable(o->tmpdir)) return false;
  if (!anybody_enters(o->tmpdir)) return false;
  if (!is_missing(place) && !anybody_enters(place)) return false;
  return view_is_reachable(config);
}

/* ---- records ---- */

void sbx_confined_add(const struct sbx_local_options* o,
                      const struct sbx_local_folder* f,
                      struct sbx_config* c) {
  sbx_config_add_text(c, SBX_CONFIG_SCRATCH, f->scratch);
  if (f->run_uid >= 0) {
    sbx_config_add_number(c, SBX_CONFIG_RUN_UID, (uint64_t) f->run_uid);
    sbx_config_add_number(c, SBX_CONFIG_RUN_GID, (uint64_t) f->run_gid);
  }
  for (size_t i = 0; i < o->ports_len; i++)
    sbx_config_add_number(c, SBX_CONFIG_TCP_PORT, o->ports[i]);
}

/* ---- the ladder ---- */

bool sbx_confined_refused(int step, int sys) {
  bool refused = sys == EPERM || sys == EACCES || sys == ENOSYS;

  switch (step) {
    case SBX_SETUP_NAMESPACES: /* switched off, or none left */
      return refused || sys == EINVAL || sys == ENOSPC || sys == EUSERS;
    case SBX_SETUP_UID_MAP:
    case SBX_SETUP_SETID:
    case SBX_SETUP_ROOT:
    case SBX_SETUP_PROC:
    case SBX_SETUP_DEV:
    case SBX_SETUP_PIVOT:
    case SBX_SETUP_LOOPBACK:
    case SBX_SETUP_HOSTNAME:
    case SBX_SETUP_CAPABILITIES:
      return refused;
    default:
      return false;
  }
}

/* ---- absolute paths ---- */

static const char* below(const char* folder, const char* path) {
  size_t len;

  if (folder == NULL) return NULL;
  folder += strspn(folder, "/");
  len = strlen(folder);
  if (strncmp(path, folder, len) != 0) return NULL;
  if (path[len] == '\0') return path + len;
  return path[len] == '/' ? path + len + 1 : NULL;
}

int sbx_confined_route(const struct sbx_local_folder* f, const char* alias,
                       const char* path, const char** rest) {
  if ((*rest = below(f->workspace, path)) != NULL) return 0;
  if ((*rest = below(alias, path)) != NULL) return 0;
  return (*rest = below(f->scratch, path)) != NULL ? 1 : -1;
}

void sbx_confined_env(const struct sbx_local_folder* f,
                      struct sbx_confined_env* e) {
  snprintf(e->home, PATH_MAX, "%s/home", f->scratch);
  snprintf(e->tmp, PATH_MAX, "%s/tmp", f->scratch);
  snprintf(e->shm, PATH_MAX, "%s/shm", f->scratch);
  snprintf(e->library, PATH_MAX, "%s/lib/%s", f->scratch, SBX_SCRATCH_LIBRARY);
}

/* ---- what is missing ---- */

struct text {
  char* out;
  size_t size;
  size_t len;
};

__attribute__((format(printf, 2, 3))) static void add(struct text* t,
                                                      const char* format, ...) {
  va_list args;
  int n;

  if (t->len > 0 && t->len + 1 < t->size) t->out[t->len++] = '\n';
  va_start(args, format);
  n = vsnprintf(t->out + t->len, t->size - t->len, format, args);
  va_end(args);
  if (n > 0) t->len += (size_t) n;
  if (t->len >= t->size) t->len = t->size - 1;
}

static void degraded_network(const struct sbx_local_options* o, uint32_t abi,
                             struct text* t) {
  if (o->network) return;
  if (abi < 4)
    add(t, "no network sockets at all, also not to localhost (the kernel is "
           "older than 6.7)");
  else if (o->ports_len == 0)
    add(t, "a server or a connection on localhost needs its port in the "
           "ports option");
  else
    add(t, "the declared TCP ports can be reached on every host, not on "
           "localhost alone; no UDP and no name resolution");
}

static void degraded_ids(const struct sbx_local_folder* f, uint32_t flags,
                         uint32_t abi, struct text* t) {
  bool notifier = (flags & SBX_READY_NOTIFIER) != 0;

  if ((flags & SBX_READY_SHARED_IDS) == 0) return;
  add(t, "commands have the user id of other processes of this machine; %s",
      sbx_confined_counts(f)
          ? "limits.processes counts those, too"
          : "it is root's, without rights, and limits.processes does not hold");
  if (!notifier)
    add(t, "chmod, chown, touch and file watches are refused (no seccomp "
           "listeners)");
  if (!notifier && abi < 6)
    add(t, "signals reach other processes of this user (the kernel is older "
           "than 6.12)");
}

bool sbx_confined_counts(const struct sbx_local_folder* f) {
  return f->run_uid > 0 || geteuid() != 0;
}

void sbx_confined_degraded(const struct sbx_local_options* o,
                           const struct sbx_local_folder* f, uint32_t flags,
                           uint32_t abi, char* out, size_t size) {
  struct text t = {out, size, 0};

  out[0] = '\0';
  add(&t, "this machine's processes and their command lines are visible");
  add(&t, "names, sizes and dates of this machine's files can be asked for, "
          "their contents not");
  add(&t, "/tmp and /dev/shm cannot be written: use $TMPDIR");
  add(&t, "no Unix sockets with a name, no System V memory, no message queues");
  degraded_network(o, abi, &t);
  degraded_ids(f, flags, abi, &t);
  if (abi < 2) add(&t, "files cannot be renamed or linked from one folder to "
                       "another (the kernel is older than 5.19)");
}
