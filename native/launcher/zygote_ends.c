/* How PID 1 signals and ends commands with their trees, or everything. */
#include "sys.h" /* first: feature macros */

#include "zygote_internal.h"

#include <signal.h>
#include <string.h>

static void sbx__signal_all(struct sbx_zygote* z, int signo) {
  /* -1 means all processes of the host where we are not PID 1 of our own. */
  if (z->spec.alone && getpid() == 1)
    kill(-1, signo);
  else
    sbx_tree_signal_below(z->proc, signo);
}

static void sbx__root_of(const struct sbx__zygote_command* c,
                         struct sbx_tree_root* root) {
  root->id = c->id;
  root->pid = c->pid;
  root->alive = c->exited == 0;
  memcpy(root->streams, c->streams, sizeof(root->streams));
}

void sbx__zygote_on_signal(struct sbx_zygote* z,
                           const struct sbx__zygote_request* r) {
  struct sbx__zygote_command* c = sbx__zygote_find(z, r->msg.id);
  int signo = (int) r->msg.a;
  struct sbx_tree_root root;

  if (signo < 1 || signo > 64) return;
  if (r->msg.b == SBX_SCOPE_ALL) {
    sbx__signal_all(z, signo);
  } else if (c == NULL) {
    return;
  } else if (r->msg.b == SBX_SCOPE_PROCESS && c->exited == 0) {
    kill(c->pid, signo);
  } else if (r->msg.b == SBX_SCOPE_TREE) {
    sbx__root_of(c, &root);
    if (sbx_procs_scan(&z->procs, z->proc) == 0)
      sbx_tree_signal(&root, &z->procs, z->proc, signo);
  }
}

static void sbx__kill_all(struct sbx_zygote* z) {
  if (z->spec.alone)
    sbx__signal_all(z, SIGKILL);
  else
    sbx_tree_kill_below(z->proc);
}

static void sbx__on_end_all(struct sbx_zygote* z, uint64_t grace) {
  uint64_t at = sbx__zygote_now() + grace;

  if (!z->end_all.active || at < z->end_all.kill_at) z->end_all.kill_at = at;
  z->end_all.active = true;
  sbx_pause_end(z->pause, &z->procs);
  if (grace > 0) {
    sbx__signal_all(z, SIGTERM);
    sbx__signal_all(z, SIGCONT);
  } else {
    sbx__kill_all(z);
  }
  sbx__zygote_reap(z); /* there may be nothing to end */
}

void sbx__zygote_on_end(struct sbx_zygote* z,
                        const struct sbx__zygote_request* r) {
  struct sbx__zygote_command* c = sbx__zygote_find(z, r->msg.id);
  struct sbx_tree_root root;
  struct sbx_tree* t = NULL;
  size_t i;

  if (r->msg.b == SBX_SCOPE_ALL) {
    sbx__on_end_all(z, r->msg.a);
    return;
  }
  for (i = 0; i < z->trees_len; i++) {
    if (sbx_tree_id(z->trees[i]) != r->msg.id) continue;
    sbx_tree_hurry(z->trees[i], sbx__zygote_now(), r->msg.a);
    return;
  }
  if (c == NULL || r->msg.b != SBX_SCOPE_TREE) return;
  sbx__root_of(c, &root);
  if (sbx__zygote_grow((void**) &z->trees, &z->trees_size, z->trees_len,
                       sizeof(*z->trees)))
    t = sbx_tree_new(&root, r->msg.a);
  if (t != NULL)
    z->trees[z->trees_len++] = t;
  else if (sbx_procs_scan(&z->procs, z->proc) == 0) /* at once, and only once */
    sbx_tree_signal(&root, &z->procs, z->proc, SIGKILL);
}

/* One scan serves every tree that is due. */
static void sbx__step_trees(struct sbx_zygote* z, uint64_t now) {
  bool scanned = false;
  size_t i = 0;

  while (i < z->trees_len) {
    struct sbx_tree* t = z->trees[i];

    if (sbx_tree_due(t) > now) {
      i++;
      continue;
    }
    if (!scanned && sbx_procs_scan(&z->procs, z->proc) != 0) return;
    scanned = true;
    if (!sbx_tree_step(t, &z->procs, z->proc, now)) {
      i++;
      continue;
    }
    sbx_tree_free(t);
    z->trees_len--;
    memmove(&z->trees[i], &z->trees[i + 1],
            (z->trees_len - i) * sizeof(*z->trees));
  }
}

int sbx__zygote_work_ends(struct sbx_zygote* z) {
  uint64_t now, next = UINT64_MAX;
  size_t i;

  if (z->trees_len == 0 && !z->end_all.active) return -1;
  now = sbx__zygote_now();
  sbx__step_trees(z, now);
  if (z->end_all.active && z->end_all.kill_at <= now) {
    /* Once more until nothing is left: one fork may have slipped through. */
    sbx__kill_all(z);
    z->end_all.kill_at = now + 20;
    sbx__zygote_reap(z);
  }
  if (z->end_all.active) next = z->end_all.kill_at;
  for (i = 0; i < z->trees_len; i++)
    if (sbx_tree_due(z->trees[i]) < next) next = sbx_tree_due(z->trees[i]);
  if (next == UINT64_MAX) return -1;
  if (next <= now) return 0;
  return next - now < 60000 ? (int) (next - now) : 60000;
}
