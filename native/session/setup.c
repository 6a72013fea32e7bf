/* Names and remedies of the launcher's set-up steps. */
#include "setup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "../launcher/protocol.h"

static const struct {
  const char* name;
  const char* doing;
} steps[SBX_SETUP_COUNT] = {
    [SBX_SETUP_CONFIG] = {"config", "reading its configuration"},
    [SBX_SETUP_WORKSPACE] = {"workspace", "opening the workspace folder"},
    [SBX_SETUP_IDMAP] = {"idmap", "mapping the owners of the workspace"},
    [SBX_SETUP_NAMESPACES] = {"namespaces", "creating namespaces"},
    [SBX_SETUP_UID_MAP] = {"uid_map", "mapping user ids"},
    [SBX_SETUP_SETID] = {"setid", "becoming the sandbox's user"},
    [SBX_SETUP_LIFELINE] = {"lifeline", "tying the sandbox to this process"},
    [SBX_SETUP_ROOT] = {"root", "making a private root"},
    [SBX_SETUP_BINDS] = {"binds", "binding the system read-only"},
    [SBX_SETUP_FILES] = {"files", "writing the sandbox's own files"},
    [SBX_SETUP_PROC] = {"proc", "mounting /proc"},
    [SBX_SETUP_DEV] = {"dev", "making /dev"},
    [SBX_SETUP_MOUNT_WORKSPACE] = {"mount_workspace", "mounting the workspace"},
    [SBX_SETUP_PIVOT] = {"pivot", "changing the root"},
    [SBX_SETUP_LOOPBACK] = {"loopback", "bringing up the loopback interface"},
    [SBX_SETUP_HOSTNAME] = {"hostname", "setting the host name"},
    [SBX_SETUP_CAPABILITIES] = {"capabilities", "dropping capabilities"},
    [SBX_SETUP_RLIMITS] = {"rlimits", "setting resource limits"},
    [SBX_SETUP_NO_NEW_PRIVS] = {"no_new_privs", "setting no_new_privs"},
    [SBX_SETUP_LANDLOCK] = {"landlock", "applying Landlock"},
    [SBX_SETUP_SECCOMP] = {"seccomp", "applying the seccomp filter"},
    [SBX_SETUP_READY] = {"ready", "handing over the workspace"},
};

static bool known(int step) {
  return step > 0 && step < SBX_SETUP_COUNT && steps[step].name != NULL;
}

const char* sbx_setup_name(int step) {
  return known(step) ? steps[step].name : NULL;
}

static bool exists(const char* path) {
  return access(path, F_OK) == 0;
}

/* -1 where there is no such setting. */
static long setting(const char* path) {
  char text[32] = "";
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t n;

  if (fd < 0) return -1;
  n = read(fd, text, sizeof(text) - 1);
  close(fd);
  return n > 0 ? strtol(text, NULL, 10) : -1;
}

static bool has_env(const char* name) {
  char value[2];
  size_t size = sizeof(value);

  return uv_os_getenv(name, value, &size) != UV_ENOENT;
}

void sbx_setup_look(struct sbx_setup_place* place) {
  place->container = exists("/.dockerenv") || exists("/run/.containerenv") ||
                     has_env("KUBERNETES_SERVICE_HOST");
  place->function = has_env("AWS_LAMBDA_FUNCTION_NAME") || has_env("VERCEL");
  place->apparmor_restricts =
      setting("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") > 0;
  place->userns_disabled =
      setting("/proc/sys/user/max_user_namespaces") == 0 ||
      setting("/proc/sys/kernel/unprivileged_userns_clone") == 0;
  place->root = geteuid() == 0;
}

/* Steps that fail when user namespaces are refused or come without rights. */
static bool needs_namespaces(int step) {
  return step == SBX_SETUP_NAMESPACES || step == SBX_SETUP_UID_MAP ||
         (step >= SBX_SETUP_ROOT && step <= SBX_SETUP_HOSTNAME);
}

static const char* remedy_namespaces(const struct sbx_setup_place* place,
                                     int step) {
  if (place->function)
    return "Functions on AWS Lambda and Vercel cannot create namespaces: use a "
           "cloud provider of this package (for example e2b or vercel) there";
  if (place->userns_disabled)
    return "User namespaces are switched off: run \"sysctl -w "
           "user.max_user_namespaces=15000\" (and "
           "kernel.unprivileged_userns_clone=1 where it exists) as root";
  if (place->apparmor_restricts && !place->root)
    return "AppArmor restricts user namespaces here (Ubuntu 23.10 and later): "
           "run \"sysctl -w "
           "kernel.apparmor_restrict_unprivileged_userns=0\" as root, or give "
           "this Node an AppArmor profile with \"userns,\"";
  if (place->container && step == SBX_SETUP_PROC)
    return "The container masks /proc: start it with \"--security-opt "
           "systempaths=unconfined\" (Kubernetes: procMount: Unmasked), or use "
           "a cloud provider";
  if (place->container)
    return "The container's seccomp profile refuses namespaces: start it with "
           "\"--security-opt seccomp=unconfined --security-opt "
           "apparmor=unconfined --security-opt systempaths=unconfined\", or "
           "use a cloud provider";
  return "The kernel or a security module refused it: allow unprivileged user "
         "namespaces for this process, or use a cloud provider";
}

static const char* remedy_space(int sys) {
  switch (sys) {
    case EMFILE:
    case ENFILE: return "Too many files are open: raise the limit (ulimit -n)";
    case ENOMEM: return "The machine is out of memory";
    case ENOSPC:
      return "A limit on namespaces or space is reached: see "
             "user.max_*_namespaces and the disk";
    case EAGAIN:
      return "The user's process limit is reached: raise it (ulimit -u)";
    default: return NULL;
  }
}

const char* sbx_setup_remedy(const struct sbx_setup_place* place, int step,
                             int sys) {
  bool refused = sys == EPERM || sys == EACCES || sys == ENOSYS;
  const char* space;

  if (needs_namespaces(step) && place->userns_disabled && sys == ENOSPC)
    return remedy_namespaces(place, step);
  space = remedy_space(sys);
  if (space != NULL) return space;
  if (needs_namespaces(step) && refused) return remedy_namespaces(place, step);
  if (step == SBX_SETUP_WORKSPACE)
    return "Give a folder that exists and that this user may enter";
  if (step == SBX_SETUP_IDMAP || step == SBX_SETUP_MOUNT_WORKSPACE)
    return "The file system of the folder may not allow it: choose a folder on "
           "a local disk";
  if (step == SBX_SETUP_BINDS)
    return "Check readOnlyPaths and readWritePaths, and that the paths exist";
  if (step == SBX_SETUP_LANDLOCK && (sys == ENOSYS || sys == EOPNOTSUPP))
    return "Level \"landlock\" needs Linux 5.13 or newer with Landlock switched "
           "on (\"landlock\" in lsm= on the kernel's command line): use a cloud "
           "provider, or a machine that allows user namespaces";
  if (step == SBX_SETUP_SECCOMP)
    return "The kernel needs seccomp filters (CONFIG_SECCOMP_FILTER)";
  return "Choose isolation: \"none\" only if the commands may run as this user "
         "without protection, or use a cloud provider";
}

int sbx_setup_error(struct sbx_error* error,
                    const struct sbx_setup_place* place, int step, int sys,
                    const char* detail) {
  const char* name = known(step) ? steps[step].name : "unknown";
  const char* doing = known(step) ? steps[step].doing : "an unknown step";
  char words[SBX_SYS_TEXT_MAX];
  bool with = detail != NULL && detail[0] != '\0';

  sbx_error_set(error, SBX_E_UNAVAILABLE, sys, "start",
                "The sandbox could not be set up: %s failed (step %s%s%s): "
                "%s. %s.",
                doing, name, with ? ", " : "", with ? detail : "",
                sys > 0 ? sbx_sys_text(sys, words) : "unknown reason",
                sbx_setup_remedy(place, step, sys));
  if (error != NULL) {
    error->step = known(step) ? step : 0;
    error->retryable = sys == EAGAIN || sys == ENOMEM || sys == EMFILE;
  }
  return SBX_E_UNAVAILABLE;
}
