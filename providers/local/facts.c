/* What a Local sandbox tells of itself. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "confined.h"
#include "internal.h"
#include "protect.h"

static const char* uid_mode(const struct sbx__local* l) {
  if (l->options.level == SBX_LEVEL_NONE) return "none";
  if (l->folder.base < 0)
    return l->folder.run_uid < 0 ? "self" : "owner";
  if (!l->folder.idmap) return "range";
  return (l->ready.flags & SBX_READY_IDMAPPED) != 0 ? "idmapped" : "owner";
}

/* The file system takes no id-mapped mount and its owner is root: commands have
 * root's id, without any of its powers but the owner's own. */
static bool runs_as_root(const struct sbx__local* l) {
  return strcmp(uid_mode(l), "owner") == 0 && l->folder.owner_uid == 0;
}

/* Only mounts can take parts out of a folder that is to be written. */
static void degraded_protect(const struct sbx__local* l, char* out,
                             size_t size) {
  size_t len = strlen(out);

  if (l->options.protect.len == 0) return;
  snprintf(out + len, size - len,
           "%sprotect holds for the file tools only: commands can change those "
           "paths, too",
           len > 0 ? "\n" : "");
}

/* The kernel counts processes by user and user namespace. */
static bool counts_processes(const struct sbx__local* l) {
  if (l->level == SBX_LEVEL_LANDLOCK) return sbx_confined_counts(&l->folder);
  return l->level == SBX_LEVEL_FULL;
}

static void degraded(const struct sbx__local* l, char* out, size_t size) {
  size_t len = l->state != SBX__LOCAL_RUNNING
                   ? 0
                   : sbx_local_limits_degraded(&l->options.limits,
                                               counts_processes(l),
                                               l->ready.flags, out, size);

  out[len] = '\0';
  if (l->options.level == SBX_LEVEL_NONE) {
    snprintf(out + len, size - len,
             "isolation \"none\": commands run as this user, see the whole "
             "machine and its network");
    if (l->options.protects) degraded_protect(l, out, size);
    return;
  }
  if (l->state != SBX__LOCAL_RUNNING) return;
  if (l->level == SBX_LEVEL_LANDLOCK) {
    sbx_confined_degraded(&l->options, &l->folder, l->ready.flags,
                          l->ready.landlock_abi, out + len, size - len);
    degraded_protect(l, out, size);
    return;
  }
  snprintf(out + len, size - len, "%s%s%s%s",
           runs_as_root(l)
               ? "the file system of the workspace cannot map owners: commands "
                 "have root's id (no capabilities) and read what only root may "
                 "in the folders they see\n"
               : "",
           l->ready.landlock_abi == 0
               ? "this kernel has no Landlock; the other layers hold\n"
               : "",
           (l->ready.flags & SBX_READY_NOTIFIER) == 0
               ? "chmod with set-id bits is refused instead of supervised\n"
               : "",
           (l->ready.flags & SBX_READY_OWN_PROC) == 0
               ? "/proc is not the sandbox's own\n"
               : "");
  if (out[0] != '\0') out[strlen(out) - 1] = '\0';
}

static void facts_of_host(const struct sbx__local* l, sbx_fact_cb cb,
                          void* arg) {
  const struct sbx_local_options* o = &l->options;
  char number[32];
  char text[2048];

  snprintf(number, sizeof(number), "%u", l->ready.landlock_abi);
  cb(arg, "landlockAbi", number);
  sbx_local_limits_tell(&o->limits, counts_processes(l), l->ready.flags, cb,
                        arg);
  sbx_local_network_facts(&l->network, cb, arg);
  cb(arg, "uidMode", uid_mode(l));
  degraded(l, text, sizeof(text));
  if (text[0] != '\0') cb(arg, "degraded", text);
}

static void facts_of_place(const struct sbx__local* l, sbx_fact_cb cb,
                           void* arg) {
  bool none = l->options.level == SBX_LEVEL_NONE;
  const char* real = l->folder.workspace;
  char* created;

  cb(arg, "workspaceInside",
     none && real != NULL ? real : l->base.place.inside);
  if (l->level == SBX_LEVEL_LANDLOCK && real != NULL)
    cb(arg, "hostPath", real);
  else if (l->base.place.host != NULL)
    cb(arg, "hostPath", l->base.place.host);
  if (l->folder.path != NULL) cb(arg, "folder", l->folder.path);
  if (l->protected != NULL) cb(arg, "protected", l->protected);
  created = l->existing == NULL
                ? NULL
                : sbx_local_protect_created(&l->options, l->existing);
  if (created != NULL) cb(arg, "protectedCreated", created);
  free(created);
  if (l->state == SBX__LOCAL_RUNNING &&
      (l->ready.flags & SBX_READY_OVERLAY) != 0)
    cb(arg, "template", "overlay");
}

static void facts_of_env(const struct sbx__local* l, sbx_fact_cb cb,
                         void* arg) {
  const struct sbx_local_options* o = &l->options;
  bool none = o->level == SBX_LEVEL_NONE;
  const char* home = none && o->host_home != NULL ? o->host_home
                                                  : l->view.home;
  const char* path = none && o->host_path != NULL ? o->host_path
                                                  : l->view.path;
  const char* shell = o->shell != NULL ? o->shell : l->view.shell;
  const char* tmp = none ? o->tmpdir : "/tmp";
  struct sbx_confined_env own;

  if (l->level == SBX_LEVEL_LANDLOCK && l->folder.scratch != NULL) {
    sbx_confined_env(&l->folder, &own);
    home = own.home;
    tmp = own.tmp;
    cb(arg, "env.SANDBOX_WORKSPACE", l->folder.workspace);
    cb(arg, "env.SANDBOX_SHM", own.shm);
    cb(arg, "env.LD_PRELOAD", own.library);
  }
  if (home != NULL) cb(arg, "home", home);
  if (shell != NULL) cb(arg, "shell", shell);
  if (path != NULL) cb(arg, "env.PATH", path);
  if (home != NULL) cb(arg, "env.HOME", home);
  if (shell != NULL) cb(arg, "env.SHELL", shell);
  cb(arg, "env.USER", "user");
  cb(arg, "env.LANG", "C.UTF-8");
  cb(arg, "env.TMPDIR", tmp);
  for (size_t i = 0; i < l->view.env_len; i++) {
    char key[64];
    const char* value = strchr(l->view.env[i], '=') + 1;

    snprintf(key, sizeof(key), "env.%.*s",
             (int) (value - 1 - l->view.env[i]), l->view.env[i]);
    cb(arg, key, value);
  }
}

static const char* level_name(const struct sbx__local* l) {
  if (l->level == SBX_LEVEL_LANDLOCK) return "landlock";
  return l->level == SBX_LEVEL_NONE ? "none" : "full";
}

static const char* mechanisms(const struct sbx__local* l) {
  if (l->level == SBX_LEVEL_NONE) return "";
  if (l->level == SBX_LEVEL_LANDLOCK) return "landlock,seccomp";
  return l->ready.landlock_abi > 0 ? "namespaces,seccomp,landlock"
                                   : "namespaces,seccomp";
}

void sbx__local_facts(struct sbx_sandbox* s, sbx_fact_cb cb, void* arg) {
  const struct sbx__local* l = (struct sbx__local*) s;

  cb(arg, "level", level_name(l));
  cb(arg, "mechanisms", mechanisms(l));
  facts_of_host(l, cb, arg);
  facts_of_place(l, cb, arg);
  facts_of_env(l, cb, arg);
}

const struct sbx_capability* sbx__local_capabilities(struct sbx_sandbox* s,
                                                     size_t* count) {
  static const struct sbx_capability list[] = {
      {"files", "native", NULL},
      {"commands", "native", NULL},
      {"processes", "native", NULL},
      {"stdin", "native", NULL},
      {"stdinClose", "native", NULL},
      {"streaming", "native", NULL},
      {"cancellation", "native", NULL},
      {"timeout", "native", NULL},
      {"signals", "native", NULL},
      {"ports", "native", NULL},
      {"snapshots", "native", NULL},
      {"pty", "native", NULL},
      {"networkPolicy", "native", NULL},
      {"pause", "native", NULL},
      {"watch", "unsupported",
       "no file call watches; fs.watch of Node does, on a directory of yours"},
      {"computer", "unsupported", "Local has no screen"},
  };

  (void) s;
  *count = sizeof(list) / sizeof(list[0]);
  return list;
}
