/* Pausing by the freezer of the control group, which programs cannot notice,
 * else by SIGSTOP to all. What was stopped before the pause stays stopped after
 * it. No step waits.
 */
#include "sys.h" /* first: feature macros */

#include "pause.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "tree.h"

enum {
  SBX__TRIES_MAX = 200, /* a process in the kernel may not stop at all */
  SBX__TRIES_BLIND = 3  /* where the processes are not alone */
};

struct sbx__one {
  pid_t pid;
  uint64_t start;
};

struct sbx_pause {
  struct sbx_pause_spec spec;
  bool stopped; /* or being stopped */
  bool frozen;
  uint64_t due;
  int tries;
  struct sbx__one* before; /* what was stopped before */
  size_t before_len;
};

struct sbx_pause* sbx_pause_new(const struct sbx_pause_spec* spec) {
  struct sbx_pause* p = calloc(1, sizeof(*p));

  if (p == NULL) return NULL;
  p->spec = *spec;
  p->due = UINT64_MAX;
  return p;
}

uint64_t sbx_pause_due(const struct sbx_pause* p) { return p->due; }
bool sbx_pause_is_frozen(const struct sbx_pause* p) { return p->frozen; }

static void sbx__signal(const struct sbx_pause* p, int signo) {
  if (p->spec.alone)
    kill(-1, signo);
  else
    sbx_tree_signal_below(p->spec.proc, signo);
}

static void sbx__note_stopped(struct sbx_pause* p, struct sbx_procs* procs) {
  size_t i;

  free(p->before);
  p->before = NULL;
  p->before_len = 0;
  if (!p->spec.alone || sbx_procs_scan(procs, p->spec.proc) != 0) return;
  for (i = 0; i < procs->len; i++) {
    if (procs->list[i].state != 'T') continue;
    if (p->before == NULL)
      p->before = calloc(procs->len, sizeof(*p->before));
    if (p->before == NULL) return;
    p->before[p->before_len].pid = procs->list[i].pid;
    p->before[p->before_len++].start = procs->list[i].start;
  }
}

void sbx_pause_begin(struct sbx_pause* p, struct sbx_procs* procs) {
  p->due = 0;
  p->tries = 0;
  if (p->stopped) return;
  p->stopped = true;
  p->frozen = sbx_freezer_freeze(&p->spec.freezer) == 0;
  if (p->frozen) return;
  sbx__note_stopped(p, procs);
  sbx__signal(p, SIGSTOP);
}

static bool sbx__is_still(const struct sbx_procs* procs) {
  size_t i;

  for (i = 0; i < procs->len; i++)
    if (strchr("TtZXxD", procs->list[i].state) == NULL) return false;
  return true;
}

static bool sbx__is_done(struct sbx_pause* p, struct sbx_procs* procs) {
  if (p->frozen) return sbx_freezer_is_frozen(&p->spec.freezer);
  if (!p->spec.alone) {
    if (p->tries > 1) sbx__signal(p, SIGSTOP);
    return p->tries >= SBX__TRIES_BLIND;
  }
  if (sbx_procs_scan(procs, p->spec.proc) != 0) return false;
  if (sbx__is_still(procs)) return true;
  sbx__signal(p, SIGSTOP);
  return false;
}

bool sbx_pause_step(struct sbx_pause* p, struct sbx_procs* procs,
                    uint64_t now) {
  p->tries++;
  if (sbx__is_done(p, procs) || p->tries > SBX__TRIES_MAX) {
    p->due = UINT64_MAX;
    return true;
  }
  p->due = now + (p->tries > 2);
  return false;
}

static bool sbx__was_stopped(const struct sbx_pause* p,
                             const struct sbx_proc* proc) {
  size_t i;

  for (i = 0; i < p->before_len; i++)
    if (p->before[i].pid == proc->pid && p->before[i].start == proc->start)
      return true;
  return false;
}

static void sbx__continue(struct sbx_pause* p, struct sbx_procs* procs) {
  size_t i;

  if (p->before_len == 0 || sbx_procs_scan(procs, p->spec.proc) != 0) {
    sbx__signal(p, SIGCONT);
    return;
  }
  for (i = 0; i < procs->len; i++)
    if (!sbx__was_stopped(p, &procs->list[i]))
      kill(procs->list[i].pid, SIGCONT);
}

bool sbx_pause_end(struct sbx_pause* p, struct sbx_procs* procs) {
  if (!p->stopped) return false;
  if (p->frozen)
    sbx_freezer_thaw(&p->spec.freezer);
  else
    sbx__continue(p, procs);
  p->stopped = p->frozen = false;
  p->due = UINT64_MAX;
  return true;
}
