/* Two groups, one in the other: the outer one has the limits, the processes are
 * in the inner one. PID 1 steps out into the outer one while it freezes the
 * inner. The kernel allows that because no controller is switched on in
 * between. Groups that a killed monitor left are swept by the next one: their
 * names tell whose they were.
 */
#include "sys.h" /* first: feature macros */

#include "cgroup.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>

#include "../remove.h"
#include "proc.h"

#define SBX__CGROUP2_MAGIC 0x63677270
#define SBX__INNER "run"

enum {
  SBX__PERIOD_US = 100000,
  SBX__SPARE_PROCESSES = 16, /* PID 1's own; RLIMIT_NPROC is the exact limit */
  SBX__REMOVE_TRIES = 500
};

/* ---- small files ---- */

static ssize_t sbx__read_at(int dir, const char* path, char* text,
                            size_t size) {
  int fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
  ssize_t n;

  if (fd < 0) return -1;
  n = read(fd, text, size - 1);
  close(fd);
  if (n >= 0) text[n] = '\0';
  return n;
}

static bool sbx__write_at(const struct sbx_cgroup* g, const char* path,
                          const char* text) {
  int create = g->fake ? O_CREAT : 0;
  int fd = openat(g->group, path, O_WRONLY | O_CLOEXEC | create, 0644);
  ssize_t n;

  if (fd < 0) return false;
  n = write(fd, text, strlen(text));
  close(fd);
  return n == (ssize_t) strlen(text);
}

static bool sbx__write_number(const struct sbx_cgroup* g, const char* path,
                              uint64_t number) {
  char text[32];

  snprintf(text, sizeof(text), "%llu", (unsigned long long) number);
  return sbx__write_at(g, path, text);
}

/* ---- where ---- */

static int sbx__open_folder(int dir, const char* path) {
  return openat(dir, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
}

static int sbx__open_mount(void) {
  static const char* const places[] = {"/sys/fs/cgroup",
                                       "/sys/fs/cgroup/unified"};
  struct statfs fs;
  size_t i;

  for (i = 0; i < sizeof(places) / sizeof(places[0]); i++)
    if (statfs(places[i], &fs) == 0 && fs.f_type == SBX__CGROUP2_MAGIC)
      return sbx__open_folder(AT_FDCWD, places[i]);
  return -1;
}

/* The path of our own group below the mount, "" for the root itself. */
static bool sbx__own_path(char* out, size_t size) {
  char text[8192];
  char* at;

  if (sbx__read_at(AT_FDCWD, "/proc/self/cgroup", text, sizeof(text)) <= 0)
    return false;
  at = strncmp(text, "0::/", 4) == 0 ? text : strstr(text, "\n0::/");
  if (at == NULL) return false;
  at += at == text ? 4 : 5;
  at[strcspn(at, "\n")] = '\0';
  /* ".." at its front: the group lies outside what this namespace shows. */
  if (strlen(at) >= size || strncmp(at, "..", 2) == 0) return false;
  strcpy(out, at);
  return true;
}

static bool sbx__has_word(const char* text, const char* word) {
  size_t len = strlen(word);
  const char* at = text;

  while ((at = strstr(at, word)) != NULL) {
    bool begins = at == text || at[-1] == ' ';
    if (begins && strchr(" \n", at[len]) != NULL) return true;
    at += len;
  }
  return false;
}

/* Whether groups made in `dir` get all the controllers that are wanted. */
static bool sbx__gives(int dir, const struct sbx_config* c) {
  char text[512] = "";

  sbx__read_at(dir, "cgroup.subtree_control", text, sizeof(text));
  if (c->memory > 0 && !sbx__has_word(text, "memory")) return false;
  if (c->cpu > 0 && !sbx__has_word(text, "cpu")) return false;
  return sbx__has_word(text, "pids");
}

/* ---- sweeping ---- */

static void sbx__name(char* out, size_t size, int pid) {
  struct sbx_proc p;

  if (!sbx_proc_read(pid, &p)) p.start = 0;
  snprintf(out, size, "sbx-%d-%llu", pid, (unsigned long long) p.start);
}

static void sbx__remove_in(int dir, const char* name) {
  char inner[96];

  snprintf(inner, sizeof(inner), "%s/" SBX__INNER, name);
  unlinkat(dir, inner, AT_REMOVEDIR);
  unlinkat(dir, name, AT_REMOVEDIR);
}

/* What lives cannot be removed, so a mistake does no harm. */
static void sbx__sweep(int dir) {
  int copy = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* list = copy >= 0 ? fdopendir(copy) : NULL;
  struct dirent* entry;

  if (list == NULL) return;
  while ((entry = readdir(list)) != NULL) {
    char name[64];
    int pid;

    if (sscanf(entry->d_name, "sbx-%d-", &pid) != 1) continue;
    sbx__name(name, sizeof(name), pid);
    if (strcmp(name, entry->d_name) != 0) sbx__remove_in(dir, entry->d_name);
  }
  closedir(list);
}

/* ---- making ---- */

static bool sbx__make_in(struct sbx_cgroup* g, int dir) {
  sbx__name(g->name, sizeof(g->name), (int) getpid());
  if (mkdirat(dir, g->name, 0755) != 0) return false;
  g->group = sbx__open_folder(dir, g->name);
  if (g->group >= 0 && mkdirat(g->group, SBX__INNER, 0755) == 0) return true;
  if (g->group >= 0) close(g->group);
  g->group = -1;
  unlinkat(dir, g->name, AT_REMOVEDIR);
  return false;
}

/* In our own group, or beside it, as far up as that gives what is wanted. */
static void sbx__choose(struct sbx_cgroup* g, const struct sbx_config* c) {
  char path[4096];
  int mount = sbx__open_mount();
  int up;

  if (mount < 0) return;
  if (!sbx__own_path(path, sizeof(path))) path[0] = '\0';
  for (up = 0; up < 3; up++) {
    int dir = sbx__open_folder(mount, path[0] == '\0' ? "." : path);
    char* slash = strrchr(path, '/');

    if (dir >= 0 && g->parent < 0 && faccessat(dir, ".", W_OK, 0) == 0)
      g->parent = dup(dir);
    if (dir >= 0 && sbx__gives(dir, c) && faccessat(dir, ".", W_OK, 0) == 0) {
      if (g->parent >= 0) close(g->parent);
      g->parent = dir;
      break;
    }
    if (dir >= 0) close(dir);
    if (path[0] == '\0') break;
    *(slash == NULL ? path : slash) = '\0';
  }
  close(mount);
}

static void sbx__limit(struct sbx_cgroup* g, const struct sbx_config* c) {
  char text[64];

  if (c->memory > 0 && sbx__write_number(g, "memory.max", c->memory)) {
    sbx__write_at(g, "memory.swap.max", "0");
    g->flags |= SBX_READY_CGROUP_MEMORY;
    g->memory_events = openat(g->group, "memory.events",
                              O_RDONLY | O_CLOEXEC | (g->fake ? O_CREAT : 0),
                              0644);
  }
  if (sbx__write_number(g, "pids.max", c->nproc + SBX__SPARE_PROCESSES))
    g->flags |= SBX_READY_CGROUP_PIDS;
  snprintf(text, sizeof(text), "%llu %d",
           (unsigned long long) (c->cpu * SBX__PERIOD_US / 1000),
           SBX__PERIOD_US);
  if (c->cpu > 0 && sbx__write_at(g, "cpu.max", text))
    g->flags |= SBX_READY_CGROUP_CPU;
}

static void sbx__open_freezer(struct sbx_cgroup* g) {
  struct sbx_freezer* f = &g->freezer;

  if (g->fake) return;
  f->outer = openat(g->group, "cgroup.procs", O_WRONLY | O_CLOEXEC);
  f->inner = openat(g->group, SBX__INNER "/cgroup.procs",
                    O_WRONLY | O_CLOEXEC);
  f->freeze = openat(g->group, SBX__INNER "/cgroup.freeze",
                     O_WRONLY | O_CLOEXEC);
  f->events = openat(g->group, SBX__INNER "/cgroup.events",
                     O_RDONLY | O_CLOEXEC);
  if (f->outer >= 0 && f->inner >= 0 && f->freeze >= 0 && f->events >= 0)
    g->flags |= SBX_READY_FREEZER;
}

void sbx_cgroup_make(struct sbx_cgroup* g, const struct sbx_config* c) {
  memset(g, 0, sizeof(*g));
  g->parent = g->group = g->memory_events = -1;
  g->freezer = (struct sbx_freezer){-1, -1, -1, -1};
  g->fake = c->cgroup != NULL;
  if (g->fake)
    g->parent = sbx__open_folder(AT_FDCWD, c->cgroup);
  else
    sbx__choose(g, c);
  if (g->parent < 0) return;
  sbx__sweep(g->parent);
  if (!sbx__make_in(g, g->parent)) return;
  g->made = true;
  sbx__limit(g, c);
  sbx__open_freezer(g);
}

bool sbx_cgroup_enter(struct sbx_cgroup* g, pid_t pid) {
  if (!g->made) return false;
  if (sbx__write_number(g, SBX__INNER "/cgroup.procs", (uint64_t) pid))
    return true;
  sbx_cgroup_end(g);
  return false;
}

void sbx_cgroup_end(struct sbx_cgroup* g) {
  struct timespec pause = {0, 2000000};
  int tries;

  if (!g->made) return;
  g->made = false;
  if (g->fake) {
    sbx_remove_tree(g->parent, g->name);
    return;
  }
  sbx__write_at(g, "cgroup.kill", "1");
  for (tries = 0; tries < SBX__REMOVE_TRIES; tries++) {
    sbx__remove_in(g->parent, g->name);
    if (faccessat(g->parent, g->name, F_OK, 0) != 0) return;
    nanosleep(&pause, NULL); /* a killed process leaves when it is reaped */
  }
}

void sbx_cgroup_close(struct sbx_cgroup* g) {
  if (g->parent >= 0) close(g->parent);
  if (g->group >= 0) close(g->group);
  g->parent = g->group = -1;
}

uint64_t sbx_cgroup_kills(int fd) {
  char text[1024];
  ssize_t n = fd < 0 ? -1 : pread(fd, text, sizeof(text) - 1, 0);
  const char* at;

  if (n <= 0) return 0;
  text[n] = '\0';
  at = strstr(text, "oom_kill ");
  return at == NULL ? 0 : strtoull(at + strlen("oom_kill "), NULL, 10);
}

/* ---- freezing, inside ---- */

static bool sbx__put(int fd, const char* text) {
  return fd >= 0 && pwrite(fd, text, 1, 0) == 1;
}

int sbx_freezer_freeze(const struct sbx_freezer* f) {
  if (!sbx__put(f->outer, "0")) return -1;
  if (sbx__put(f->freeze, "1")) return 0;
  sbx__put(f->inner, "0");
  return -1;
}

void sbx_freezer_thaw(const struct sbx_freezer* f) {
  sbx__put(f->freeze, "0");
  sbx__put(f->inner, "0");
}

bool sbx_freezer_is_frozen(const struct sbx_freezer* f) {
  char text[256];
  ssize_t n = pread(f->events, text, sizeof(text) - 1, 0);

  if (n <= 0) return false;
  text[n] = '\0';
  return strstr(text, "frozen 1") != NULL;
}
