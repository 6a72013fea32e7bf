/* Ends trees by stop-and-rescan. Members are stopped as they are found, since
 * a running one could fork away between two looks; only when a scan finds
 * nothing new and nothing running are they signalled. No step waits.
 */
#include "sys.h" /* first: feature macros */

#include "tree.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

enum {
  SBX__FREEZES_MAX = 100, /* then what cannot be stopped is killed anyhow */
  SBX__BELOW_MAX = 10000
};

enum sbx__phase { SBX__FREEZE, SBX__GRACE, SBX__KILLED };

struct sbx__member {
  pid_t pid;
  uint64_t start;
};

struct sbx_tree {
  struct sbx_tree_root root;
  struct sbx__member* members; /* sorted by pid */
  size_t len;
  size_t size;
  enum sbx__phase phase;
  uint64_t grace; /* 0: the next signal is KILL */
  uint64_t due;
  int freezes;
  bool rooted; /* the command's own process has been looked up */
};

struct sbx_tree* sbx_tree_new(const struct sbx_tree_root* root,
                              uint64_t grace_ms) {
  struct sbx_tree* t = calloc(1, sizeof(*t));

  if (t == NULL) return NULL;
  t->root = *root;
  t->grace = grace_ms;
  return t;
}

void sbx_tree_free(struct sbx_tree* t) {
  free(t->members);
  free(t);
}

uint32_t sbx_tree_id(const struct sbx_tree* t) { return t->root.id; }
uint64_t sbx_tree_due(const struct sbx_tree* t) { return t->due; }

void sbx_tree_hurry(struct sbx_tree* t, uint64_t now, uint64_t grace_ms) {
  if (t->phase == SBX__GRACE && now + grace_ms < t->due)
    t->due = now + grace_ms;
  if (t->phase == SBX__FREEZE && grace_ms < t->grace) t->grace = grace_ms;
}

static int sbx__compare(const void* a, const void* b) {
  const struct sbx__member* x = a;
  const struct sbx__member* y = b;
  return x->pid < y->pid ? -1 : x->pid > y->pid;
}

static struct sbx__member* sbx__find(const struct sbx_tree* t, pid_t pid) {
  struct sbx__member key = {.pid = pid};

  if (t->len == 0) return NULL;
  return bsearch(&key, t->members, t->len, sizeof(key), sbx__compare);
}

/* Makes `p` a member; one that had the pid before is gone. */
static bool sbx__join(struct sbx_tree* t, const struct sbx_proc* p) {
  struct sbx__member* m = sbx__find(t, p->pid);
  size_t i;

  if (m != NULL) {
    m->start = p->start;
    return true;
  }
  if (t->len == t->size) {
    size_t size = t->size == 0 ? 16 : t->size * 2;
    m = realloc(t->members, size * sizeof(*m));
    if (m == NULL) return false;
    t->members = m;
    t->size = size;
  }
  for (i = t->len++; i > 0 && t->members[i - 1].pid > p->pid; i--)
    t->members[i] = t->members[i - 1];
  t->members[i].pid = p->pid;
  t->members[i].start = p->start;
  return true;
}

/* The session of a member: a number that a later leader may have been given,
 * unless the leader there now is the member itself or nobody. */
static bool sbx__in_session(const struct sbx_tree* t,
                            const struct sbx_procs* procs,
                            const struct sbx_proc* p) {
  const struct sbx__member* m = sbx__find(t, p->session);
  const struct sbx_proc* leader;

  if (m == NULL && p->session != t->root.pid) return false;
  leader = sbx_procs_find(procs, p->session);
  if (leader == NULL) return true;
  return m != NULL && leader->start == m->start;
}

/* Whether `p` comes from this launcher. Without a pid namespace /proc shows the
 * whole host, and the host itself holds the other ends of the pipes. */
static bool sbx__is_below(const struct sbx_procs* procs,
                          const struct sbx_proc* p) {
  pid_t self = getpid();
  size_t depth;

  for (depth = 0; p != NULL && depth <= procs->len; depth++) {
    if (p->parent == self) return true;
    p = sbx_procs_find(procs, p->parent);
  }
  return false;
}

static bool sbx__belongs(const struct sbx_tree* t,
                         const struct sbx_procs* procs, int dir,
                         const struct sbx_proc* p) {
  const struct sbx_proc* parent = sbx_procs_find(procs, p->parent);

  if (parent != NULL && parent->member) return true;
  if (!sbx__is_below(procs, p)) return false;
  if (sbx__in_session(t, procs, p)) return true;
  return dir >= 0 && sbx_proc_holds(dir, p->pid, t->root.streams, 2);
}

static void sbx__mark_known(struct sbx_tree* t, struct sbx_procs* procs) {
  size_t i;

  if (!t->rooted && t->root.alive) {
    struct sbx_proc* p = sbx_procs_find(procs, t->root.pid);
    if (p != NULL) sbx__join(t, p);
  }
  t->rooted = true;
  for (i = 0; i < procs->len; i++) {
    struct sbx_proc* p = &procs->list[i];
    struct sbx__member* m = sbx__find(t, p->pid);
    p->member = m != NULL && m->start == p->start;
  }
}

/* Marks every member in the scan, stops the new ones with `signo` (0: none)
 * and returns how many those were. */
static size_t sbx__mark(struct sbx_tree* t, struct sbx_procs* procs, int dir,
                        int signo) {
  size_t found = t->len, before, i;

  sbx__mark_known(t, procs);
  found = t->len - found;
  if (found > 0 && signo != 0) kill(t->root.pid, signo);
  do {
    before = found;
    for (i = 0; i < procs->len; i++) {
      struct sbx_proc* p = &procs->list[i];
      if (p->member || !sbx__belongs(t, procs, dir, p)) continue;
      if (!sbx__join(t, p)) continue;
      p->member = true;
      found++;
      if (signo != 0) kill(p->pid, signo);
    }
    dir = -1; /* open files do not change by what was just found */
  } while (found != before);
  return found;
}

static void sbx__signal(const struct sbx_procs* procs, int signo) {
  size_t i;

  for (i = 0; i < procs->len; i++)
    if (procs->list[i].member) kill(procs->list[i].pid, signo);
}

/* Dead ones count as still, and so does one that sleeps in the kernel: a
 * parent in vfork cannot be stopped until its child has gone on. */
static bool sbx__is_still(const struct sbx_procs* procs) {
  size_t i;

  for (i = 0; i < procs->len; i++)
    if (procs->list[i].member && strchr("TtZXxD", procs->list[i].state) == NULL)
      return false;
  return true;
}

static bool sbx__freeze(struct sbx_tree* t, struct sbx_procs* procs, int dir,
                        uint64_t now) {
  size_t found = sbx__mark(t, procs, dir, SIGSTOP);

  if (t->freezes++ < SBX__FREEZES_MAX &&
      (found > 0 || !sbx__is_still(procs))) {
    t->due = now + (t->freezes > 2);
    return false;
  }
  t->freezes = 0;
  if (t->grace == 0) {
    sbx__signal(procs, SIGKILL);
    t->phase = SBX__KILLED;
    t->due = now;
    return false;
  }
  sbx__signal(procs, SIGTERM);
  sbx__signal(procs, SIGCONT);
  t->phase = SBX__GRACE;
  t->due = now + t->grace;
  t->grace = 0;
  return false;
}

bool sbx_tree_step(struct sbx_tree* t, struct sbx_procs* procs, int dir,
                   uint64_t now) {
  size_t i;

  for (i = 0; i < procs->len; i++) procs->list[i].member = false;
  if (t->phase == SBX__GRACE) t->phase = SBX__FREEZE;
  if (t->phase == SBX__FREEZE) return sbx__freeze(t, procs, dir, now);
  /* A fork that was under way when its parent was stopped shows up now. */
  return sbx__mark(t, procs, dir, SIGKILL) == 0;
}

void sbx_tree_signal(const struct sbx_tree_root* root, struct sbx_procs* procs,
                     int dir, int signo) {
  struct sbx_tree* t = sbx_tree_new(root, 0);

  if (t == NULL) return;
  sbx__mark(t, procs, dir, signo);
  sbx_tree_free(t);
}

/* ---- without a pid namespace ---- */

/* How many live: the dead are left to whoever tells their exits. */
static size_t sbx__mark_below(struct sbx_procs* procs, int signo) {
  size_t found = 0, live = 0, before, i;
  pid_t self = getpid();

  do {
    before = found;
    for (i = 0; i < procs->len; i++) {
      struct sbx_proc* p = &procs->list[i];
      const struct sbx_proc* parent = sbx_procs_find(procs, p->parent);
      if (p->member || p->pid <= 1) continue;
      if (p->parent != self && (parent == NULL || !parent->member)) continue;
      p->member = true;
      found++;
      if (p->state == 'Z') continue;
      live++;
      kill(p->pid, signo);
    }
  } while (found != before);
  return live;
}

void sbx_tree_signal_below(int dir, int signo) {
  struct sbx_procs procs = {0};

  if (sbx_procs_scan(&procs, dir) == 0) sbx__mark_below(&procs, signo);
  sbx_procs_free(&procs);
}

/* Everything is stopped first, so that the walk ends; what a killed parent
 * leaves behind comes to us, a subreaper, and is found by the next scan. */
void sbx_tree_kill_below(int dir) {
  struct timespec pause = {0, 1000000};
  struct sbx_procs procs = {0};
  int tries;

  for (tries = 0; tries < SBX__BELOW_MAX; tries++) {
    if (sbx_procs_scan(&procs, dir) != 0) break;
    if (sbx__mark_below(&procs, SIGSTOP) == 0) break;
    if (sbx__is_still(&procs) || tries % 16 == 15) sbx__signal(&procs, SIGKILL);
    if (tries > 2) nanosleep(&pause, NULL);
  }
  sbx_procs_free(&procs);
}

void sbx_tree_end_below(int dir) {
  sbx_tree_kill_below(dir);
  while (waitpid(-1, NULL, WNOHANG) > 0) {
  }
}
