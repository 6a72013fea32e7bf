/* Sums up what processes use, cheaply as long as all is well: the sum of the
 * resident sizes counts shared pages several times, so only when that passes
 * the limit the exact numbers are read, which make the kernel walk page tables.
 */
#include "sys.h" /* first: feature macros */

#include "watch.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "shmem.h"

enum {
  SBX__TICK_MS = 250,
  SBX__SLOW_MS = 1000, /* where only the number of processes is of interest */
  SBX__CLOSE_MS = 50, /* when half of the memory is used */
  SBX__HIDDEN_MS = 500, /* between looks at what nobody has mapped */
  SBX__QUIET_MS = 200,  /* for the culprit's memory to go */
  SBX__DEPTH_MAX = 64
};

struct sbx__written {
  pid_t pid;
  uint64_t start;
  uint64_t bytes;
};

struct sbx_watch {
  struct sbx_watch_spec spec;
  uint64_t due;
  uint64_t exact_at; /* the next exact look; it may cost */
  uint64_t hidden_at;
  uint64_t hidden; /* bytes in memfds and detached segments */
  struct sbx__written* written; /* sorted by pid, as the scan was */
  size_t written_len;
};

struct sbx_watch* sbx_watch_new(const struct sbx_watch_spec* spec) {
  struct sbx_watch* w = calloc(1, sizeof(*w));

  if (w == NULL) return NULL;
  w->spec = *spec;
  w->due = UINT64_MAX;
  return w;
}

uint64_t sbx_watch_due(const struct sbx_watch* w) { return w->due; }
void sbx_watch_idle(struct sbx_watch* w) { w->due = UINT64_MAX; }

static uint64_t sbx__tick(const struct sbx_watch* w) {
  return w->spec.memory > 0 || w->spec.workspace ? SBX__TICK_MS : SBX__SLOW_MS;
}

void sbx_watch_started(struct sbx_watch* w, uint64_t now) {
  if (w->due == UINT64_MAX) w->due = now + sbx__tick(w);
}

/* ---- what one process uses ---- */

/* A small file of /proc/PID, with its NUL; -1 if it cannot be read. */
static ssize_t sbx__read(int proc, pid_t pid, const char* name, char* text,
                         size_t size) {
  char path[48];
  ssize_t n;
  int fd;

  snprintf(path, sizeof(path), "%d/%s", (int) pid, name);
  fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  n = read(fd, text, size - 1);
  close(fd);
  if (n <= 0) return -1;
  text[n] = '\0';
  return n;
}

static uint64_t sbx__resident(int proc, pid_t pid) {
  char text[256];
  char* second;

  if (sbx__read(proc, pid, "statm", text, sizeof(text)) < 0) return 0;
  second = strchr(text, ' ');
  if (second == NULL) return 0;
  return strtoull(second, NULL, 10) * (uint64_t) sysconf(_SC_PAGESIZE);
}

static uint64_t sbx__field(const char* text, const char* name) {
  const char* at = strstr(text, name);
  return at == NULL ? 0 : strtoull(at + strlen(name), NULL, 10);
}

/* Its share of the pages that are not a file's, and its memfds, mapped or not.
 * A process that hides its pages is counted with all it has. */
static uint64_t sbx__exact(int proc, pid_t pid, struct sbx_shmem_seen* seen) {
  uint64_t memfds = sbx_shmem_memfds(proc, pid, seen), shared;
  char text[2048];

  if (sbx__read(proc, pid, "smaps_rollup", text, sizeof(text)) < 0)
    return sbx__resident(proc, pid) + memfds;
  if (strstr(text, "\nPss_Anon:") == NULL)
    return sbx__field(text, "\nPss:") * 1024 + memfds;
  shared = sbx__field(text, "\nPss_Shmem:") * 1024;
  return sbx__field(text, "\nPss_Anon:") * 1024 +
         (shared > memfds ? shared : memfds);
}

static uint64_t sbx__wrote(int proc, pid_t pid) {
  char text[512];
  uint64_t wrote, cancelled;

  if (sbx__read(proc, pid, "io", text, sizeof(text)) < 0) return 0;
  wrote = sbx__field(text, "\nwrite_bytes:");
  cancelled = sbx__field(text, "\ncancelled_write_bytes:");
  return wrote > cancelled ? wrote - cancelled : 0;
}

/* ---- whose it is ---- */

static bool sbx__is_command(const pid_t* commands, size_t count, pid_t pid) {
  size_t i;

  for (i = 0; i < count; i++)
    if (commands[i] == pid) return true;
  return false;
}

static struct sbx_culprit sbx__owner(const struct sbx_procs* procs,
                                     const struct sbx_proc* p,
                                     const pid_t* commands, size_t count) {
  struct sbx_culprit c = {0, p->session};
  int depth;

  for (depth = 0; p != NULL && depth < SBX__DEPTH_MAX; depth++) {
    if (sbx__is_command(commands, count, p->session)) c.command = p->session;
    if (sbx__is_command(commands, count, p->pid)) c.command = p->pid;
    if (c.command != 0) break;
    p = sbx_procs_find(procs, p->parent);
  }
  return c;
}

struct sbx__sum {
  struct sbx_culprit who;
  uint64_t amount;
};

static bool sbx__is_same(const struct sbx_culprit* a,
                         const struct sbx_culprit* b) {
  if (a->command != 0 || b->command != 0) return a->command == b->command;
  return a->session == b->session;
}

/* The one with the largest sum of amounts[i] of processes i. */
static bool sbx__largest(const struct sbx_procs* procs,
                         const uint64_t* amounts, const pid_t* commands,
                         size_t count, struct sbx_culprit* out) {
  struct sbx__sum* sums = calloc(procs->len + 1, sizeof(*sums));
  size_t len = 0, best = 0, i, j;

  if (sums == NULL) return false;
  for (i = 0; i < procs->len; i++) {
    struct sbx_culprit who;

    if (amounts[i] == 0) continue;
    who = sbx__owner(procs, &procs->list[i], commands, count);
    for (j = 0; j < len && !sbx__is_same(&sums[j].who, &who); j++) {
    }
    if (j == len) sums[len++].who = who;
    sums[j].amount += amounts[i];
    if (sums[j].amount > sums[best].amount) best = j;
  }
  *out = sums[best].who;
  free(sums);
  return len > 0;
}

void sbx_watch_kill(const struct sbx_procs* procs, const struct sbx_culprit* c) {
  size_t i;

  for (i = 0; i < procs->len; i++)
    if (procs->list[i].session == c->session)
      kill(procs->list[i].pid, SIGKILL);
}

void sbx_watch_keep_below(struct sbx_procs* procs) {
  pid_t self = getpid();
  size_t found, len = 0, i;

  do {
    for (found = 0, i = 0; i < procs->len; i++) {
      struct sbx_proc* p = &procs->list[i];
      const struct sbx_proc* parent = sbx_procs_find(procs, p->parent);
      if (p->member || (p->parent != self && (!parent || !parent->member)))
        continue;
      p->member = true;
      found++;
    }
  } while (found > 0);
  for (i = 0; i < procs->len; i++)
    if (procs->list[i].member) procs->list[len++] = procs->list[i];
  procs->len = len;
}

/* ---- memory ---- */

static uint64_t sbx__ms(void) {
  struct timespec t;

  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t) t.tv_sec * 1000 + (uint64_t) t.tv_nsec / 1000000;
}

static void sbx__look_hidden(struct sbx_watch* w,
                             const struct sbx_procs* procs, int proc,
                             uint64_t now) {
  struct sbx_shmem_seen seen = {0};
  size_t i;

  if (now < w->hidden_at) return;
  w->hidden_at = now + SBX__HIDDEN_MS;
  w->hidden = w->spec.alone ? sbx_shmem_detached(proc, 0) : 0;
  for (i = 0; i < procs->len; i++)
    w->hidden += sbx_shmem_memfds(proc, procs->list[i].pid, &seen);
  sbx_shmem_forget(&seen);
}

/* Each process's share into `amounts`; the sum with what belongs to none. */
static uint64_t sbx__sum_exact(const struct sbx_watch* w,
                               const struct sbx_procs* procs, int proc,
                               uint64_t* amounts) {
  uint64_t sum = w->spec.alone ? sbx_shmem_detached(proc, 0) : 0;
  struct sbx_shmem_seen seen = {0};
  size_t i;

  for (i = 0; i < procs->len; i++)
    sum += amounts[i] = sbx__exact(proc, procs->list[i].pid, &seen);
  sbx_shmem_forget(&seen);
  return sum;
}

bool sbx_watch_memory(struct sbx_watch* w, const struct sbx_procs* procs,
                      int proc, uint64_t now, const pid_t* commands,
                      size_t count, struct sbx_culprit* out) {
  uint64_t* amounts;
  uint64_t sum;
  bool over;
  size_t i;

  w->due = now + sbx__tick(w);
  if (w->spec.memory == 0) return false;
  sbx__look_hidden(w, procs, proc, now);
  for (sum = w->hidden, i = 0; i < procs->len; i++)
    sum += sbx__resident(proc, procs->list[i].pid);
  if (sum > w->spec.memory / 2) w->due = now + SBX__CLOSE_MS;
  if (sum <= w->spec.memory || now < w->exact_at) return false;

  amounts = calloc(procs->len + 1, sizeof(*amounts));
  if (amounts == NULL) return false;
  sum = sbx__sum_exact(w, procs, proc, amounts);
  w->exact_at = now + 10 * (sbx__ms() - now);
  over = sum > w->spec.memory &&
         sbx__largest(procs, amounts, commands, count, out);
  if (sum > w->spec.memory && w->spec.alone) sbx_shmem_detached(proc, 1);
  if (over) w->exact_at = now + SBX__QUIET_MS;
  free(amounts);
  return over;
}

/* ---- processes ---- */

/* The kernel counts threads, and those of PID 1 with them. */
bool sbx_watch_is_full(const struct sbx_watch* w,
                       const struct sbx_procs* procs) {
  uint64_t slack = w->spec.processes / 16 + 3, sum = 0;
  size_t i;

  if (w->spec.processes == 0) return false;
  if (slack > 8) slack = 8;
  for (i = 0; i < procs->len; i++) sum += procs->list[i].threads;
  return sum + slack >= w->spec.processes;
}

/* ---- writing ---- */

static int sbx__compare(const void* a, const void* b) {
  const struct sbx__written* x = a;
  const struct sbx__written* y = b;
  return x->pid < y->pid ? -1 : x->pid > y->pid;
}

static uint64_t sbx__before(const struct sbx_watch* w,
                            const struct sbx_proc* p) {
  struct sbx__written key = {.pid = p->pid};
  const struct sbx__written* at =
      w->written_len == 0 ? NULL
                          : bsearch(&key, w->written, w->written_len,
                                    sizeof(key), sbx__compare);

  return at != NULL && at->start == p->start ? at->bytes : 0;
}

void sbx_watch_sample(struct sbx_watch* w, const struct sbx_procs* procs,
                      int proc) {
  struct sbx__written* list;
  size_t i;

  if (!w->spec.workspace) return;
  list = calloc(procs->len + 1, sizeof(*list));
  if (list == NULL) return;
  for (i = 0; i < procs->len; i++) {
    const struct sbx_proc* p = &procs->list[i];
    list[i] = (struct sbx__written){p->pid, p->start, sbx__wrote(proc, p->pid)};
  }
  free(w->written);
  w->written = list;
  w->written_len = procs->len;
}

bool sbx_watch_writer(struct sbx_watch* w, const struct sbx_procs* procs,
                      int proc, const pid_t* commands, size_t count,
                      struct sbx_culprit* out) {
  uint64_t* amounts = calloc(procs->len + 1, sizeof(*amounts));
  bool found;
  size_t i;

  if (amounts == NULL) return false;
  for (i = 0; i < procs->len; i++) {
    uint64_t before = sbx__before(w, &procs->list[i]);
    uint64_t wrote = sbx__wrote(proc, procs->list[i].pid);
    amounts[i] = wrote > before ? wrote - before : 0;
  }
  found = sbx__largest(procs, amounts, commands, count, out);
  free(amounts);
  return found;
}
