/* Which limit is held by what: the control group where there is one, limits of
 * the kernel for each process, the watcher in PID 1, or the engine itself.
 */
#include "limits.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum { PROCESSES_DEFAULT = 4096 };

#define MIB ((double) (1 << 20))
#define BYTES_MAX 9007199254740991.0 /* what a JavaScript number holds exactly */

struct kind {
  const char* name;
  double min, max, scale;
  bool whole;
  const char* what; /* for the error */
  size_t offset;
};

#define FIELD(f) offsetof(struct sbx_local_limits, f)

static const struct kind kinds[] = {
    {"processes", 8, 4194304, 1, true, "a whole number from 8 to 4194304",
     FIELD(processes)},
    {"memory", 16 * MIB, BYTES_MAX, 1, true,
     "a whole number of bytes from 16777216 (16 MiB), for example "
     "512 * 1024 * 1024",
     FIELD(memory)},
    {"cpu", 0.01, 4096, 1000, false,
     "a number of cores from 0.01 to 4096, for example 1.5", FIELD(cpu)},
    {"openFiles", 32, 1048576, 1, true,
     "a whole number from 32 to 1048576, for each process", FIELD(open_files)},
    {"fileSize", 4096, BYTES_MAX, 1, true,
     "a whole number of bytes from 4096, for each file", FIELD(file_size)},
    {"workspaceSize", MIB, BYTES_MAX, 1, true,
     "a whole number of bytes from 1048576 (1 MiB)", FIELD(workspace_size)},
    {"outputRate", 1024, BYTES_MAX, 1, true,
     "a whole number of bytes per second from 1024, for each command",
     FIELD(output_rate)},
};

enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

static uint64_t* field(struct sbx_local_limits* l, const struct kind* k) {
  return (uint64_t*) (void*) ((char*) l + k->offset);
}

static int read_one(const struct sbx_options* o, const struct kind* k,
                    struct sbx_local_limits* out, struct sbx_error* error) {
  char name[48];
  double v;
  int type;

  snprintf(name, sizeof(name), "limits.%s", k->name);
  type = sbx_options_type(o, name);
  if (type == 0) return 0;
  v = sbx_options_number(o, name, 0);
  if (type != SBX_OPTION_NUMBER || !(v >= k->min && v <= k->max) ||
      (k->whole && v != (double) (int64_t) v))
    return sbx_error_set(error, SBX_E_INVALID_INPUT, 0, "open",
                         "%s must be %s.", name, k->what);
  *field(out, k) = (uint64_t) (v * k->scale + (k->whole ? 0 : 0.5));
  return 0;
}

int sbx_local_limits_read(const struct sbx_options* o,
                          struct sbx_local_limits* out,
                          struct sbx_error* error) {
  int err = 0;

  memset(out, 0, sizeof(*out));
  out->processes = PROCESSES_DEFAULT;
  for (size_t i = 0; i < KINDS && err == 0; i++)
    err = read_one(o, &kinds[i], out, error);
  return err;
}

static void add(struct sbx_config* c, uint32_t tag, uint64_t value) {
  if (value > 0) sbx_config_add_number(c, tag, value);
}

void sbx_local_limits_add(const struct sbx_local_limits* l, uint64_t tmp_bytes,
                          struct sbx_config* c) {
  /* What lies in a temporary folder is memory. */
  if (l->memory > 0 && l->memory < tmp_bytes) tmp_bytes = l->memory;
  sbx_config_add_number(c, SBX_CONFIG_TMP_BYTES, tmp_bytes);
  sbx_config_add_number(c, SBX_CONFIG_NPROC, l->processes);
  add(c, SBX_CONFIG_NOFILE, l->open_files);
  add(c, SBX_CONFIG_MEMORY, l->memory);
  add(c, SBX_CONFIG_CPU, l->cpu);
  add(c, SBX_CONFIG_FILE_SIZE, l->file_size);
  add(c, SBX_CONFIG_WORKSPACE_SIZE, l->workspace_size);
}

/* NULL: nothing does. The number of processes is the kernel's count of a user
 * namespace, so that only one of our own makes it the session's. */
static const char* enforcer(const struct kind* k, bool counted,
                            uint32_t ready) {
  switch (k->offset) {
    case FIELD(processes):
      if (ready & SBX_READY_CGROUP_PIDS) return "cgroup v2";
      return counted ? "rlimit" : NULL;
    case FIELD(memory):
      return ready & SBX_READY_CGROUP_MEMORY ? "cgroup v2" : "watcher";
    case FIELD(cpu):
      return ready & SBX_READY_CGROUP_CPU ? "cgroup v2" : NULL;
    case FIELD(workspace_size): return "watcher";
    case FIELD(output_rate): return "engine";
    default: return "rlimit";
  }
}

void sbx_local_limits_tell(const struct sbx_local_limits* l,
                           bool counted, uint32_t ready,
                           sbx_fact_cb cb, void* arg) {
  for (size_t i = 0; i < KINDS; i++) {
    uint64_t value = *field((struct sbx_local_limits*) (uintptr_t) l,
                            &kinds[i]);
    const char* by = enforcer(&kinds[i], counted, ready);
    char name[64], text[32];

    if (value == 0 || by == NULL) continue;
    snprintf(name, sizeof(name), "limits.%s", kinds[i].name);
    snprintf(text, sizeof(text), "%.15g", (double) value / kinds[i].scale);
    cb(arg, name, text);
    snprintf(name, sizeof(name), "limits.%s.enforcedBy", kinds[i].name);
    cb(arg, name, by);
  }
}

size_t sbx_local_limits_degraded(const struct sbx_local_limits* l,
                                 bool counted, uint32_t ready,
                                 char* out, size_t size) {
  size_t len = 0;

  out[0] = '\0';
  for (size_t i = 0; i < KINDS; i++) {
    uint64_t value = *field((struct sbx_local_limits*) (uintptr_t) l,
                            &kinds[i]);

    if (value == 0 || enforcer(&kinds[i], counted, ready) != NULL) continue;
    if (kinds[i].offset == FIELD(processes) && value == PROCESSES_DEFAULT)
      continue; /* nobody asked */
    if (len < size)
      len += (size_t) snprintf(out + len, size - len,
                               "limits.%s is not enforced: this machine gives "
                               "no control group (v2) to this process\n",
                               kinds[i].name);
  }
  return len < size ? len : size - 1;
}
