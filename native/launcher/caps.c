/* Drops capabilities and sets resource limits. */
#include "sys.h" /* first: feature macros */

#include "caps.h"

#include <linux/capability.h>
#include <linux/securebits.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>

enum { SBX__FILES_SOFT = 65536 };
#define SBX__MEMLOCK ((rlim_t) 8 << 20)
#define SBX__DATA_SPARE ((uint64_t) 512 << 20)

static const unsigned long sbx__secure =
    SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP |
    SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_KEEP_CAPS_LOCKED |
    SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED;

int sbx_caps_drop(void) {
  struct __user_cap_header_struct head = {
      .version = _LINUX_CAPABILITY_VERSION_3};
  struct __user_cap_data_struct none[2];
  unsigned long cap;

  for (cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++)
    if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) != 0) return -1;
  if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) != 0 &&
      errno != EINVAL)
    return -1;
  if (prctl(PR_SET_SECUREBITS, sbx__secure, 0, 0, 0) != 0) return -1;
  memset(none, 0, sizeof(none));
  if (syscall(SYS_capset, &head, none) != 0) return -1;
  return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

static uint64_t sbx__min(uint64_t a, uint64_t b) { return a < b ? a : b; }

static int sbx__cap(int which, rlim_t max) {
  struct rlimit now, next;

  if (getrlimit(which, &now) != 0) return -1;
  next.rlim_max = sbx__min(now.rlim_max, max);
  next.rlim_cur = sbx__min(now.rlim_cur, next.rlim_max);
  return setrlimit(which, &next);
}

/* A single file may take the whole workspace; a process half a gigabyte more
 * memory than all may use together, so that nothing is gone before the watcher
 * looks. */
static void sbx__sizes(const struct sbx_config* config,
                       struct sbx_limits* limits) {
  limits->file_size = config->file_size;
  if (config->workspace_size > 0 &&
      (limits->file_size == 0 || config->workspace_size < limits->file_size))
    limits->file_size = config->workspace_size;
  if (config->memory > 0) limits->data = config->memory + SBX__DATA_SPARE;
}

void sbx_limits_of_none(const struct sbx_config* config,
                        struct sbx_limits* limits) {
  struct rlimit files;

  sbx__sizes(config, limits);
  if (config->nofile == UINT64_MAX) return;
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  limits->files_hard = sbx__min(files.rlim_max, config->nofile);
  limits->files_soft = sbx__min(files.rlim_cur, limits->files_hard);
}

int sbx_limits_set(const struct sbx_config* config, struct sbx_limits* limits) {
  struct rlimit files, processes;

  /* A handler behind a pipe ignores 0, but a limit of 1 stops it. */
  if (sbx__cap(RLIMIT_CORE, 1) != 0) return -1;
  if (sbx__cap(RLIMIT_MEMLOCK, SBX__MEMLOCK) != 0) return -1;
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return -1;
  if (getrlimit(RLIMIT_NPROC, &processes) != 0) return -1;

  limits->apply = true;
  sbx__sizes(config, limits);
  limits->files_hard = sbx__min(files.rlim_max, config->nofile);
  limits->files_soft = sbx__min(limits->files_hard, SBX__FILES_SOFT);
  limits->processes = sbx__min(processes.rlim_max, config->nproc);

  files.rlim_cur = files.rlim_max; /* for the pipes that PID 1 drains */
  return setrlimit(RLIMIT_NOFILE, &files);
}

void sbx_caps_bound(void) {
  unsigned long cap;

  for (cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++)
    prctl(PR_CAPBSET_DROP, cap, 0, 0, 0);
  prctl(PR_SET_SECUREBITS, sbx__secure, 0, 0, 0);
}

int sbx_caps_clear(void) {
  struct __user_cap_header_struct head = {
      .version = _LINUX_CAPABILITY_VERSION_3};
  struct __user_cap_data_struct none[2];

  prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  memset(none, 0, sizeof(none));
  if (syscall(SYS_capset, &head, none) != 0) return -1;
  return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}
