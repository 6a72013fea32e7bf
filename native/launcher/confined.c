/* The set-up of level landlock: no namespaces and no mounts. The launcher gives
 * up what it has, then a thread of it gives up more, and commands are born from
 * that thread.
 */
#include "sys.h" /* first: feature macros */

#include <grp.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "caps.h"
#include "guard.h"
#include "landlock.h"
#include "notifier.h"
#include "nursery.h"
#include "report.h"
#include "seccomp.h"
#include "setup.h"
#include "supervisor.h"
#include "zygote.h"

struct sbx__confined {
  const struct sbx_setup_input* in;
  struct sbx_report report;
  struct sbx_zygote_spec spec;
  struct sbx_confinement rules;
  struct sbx_seccomp_outside filter;
  struct sbx_guard guard; /* lives as long as the launcher */
  int listener;
  struct sbx_zygote* zygote;
};

static int sbx__step(struct sbx__confined* s, uint32_t step, const char* what) {
  return sbx_report_step(&s->report, s->in->config, step, what);
}

/* Here the descendants have to be killed by hand, so that no death may come
 * unheard: no parent-death signal. */
static int sbx__become(struct sbx__confined* s) {
  const struct sbx_config* c = s->in->config;

  if (sbx__step(s, SBX_SETUP_SETID, "setresuid")) return -1;
  sbx_caps_bound();
  if (!c->has_run) return 0;
  if (setgroups(0, NULL) != 0) return -1;
  if (setresgid(c->run_gid, c->run_gid, c->run_gid) != 0) return -1;
  return setresuid(c->run_uid, c->run_uid, c->run_uid);
}

static int sbx__privileges(struct sbx__confined* s) {
  if (sbx__step(s, SBX_SETUP_CAPABILITIES, "capset")) return -1;
  if (sbx_caps_clear() != 0) return -1;
  if (sbx__step(s, SBX_SETUP_RLIMITS, "setrlimit")) return -1;
  if (sbx_limits_set(s->in->config, &s->spec.limits) != 0) return -1;
  if (sbx__step(s, SBX_SETUP_NO_NEW_PRIVS, "prctl")) return -1;
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

/* Now with the ids of the commands. */
static int sbx__workspace(struct sbx__confined* s) {
  const struct sbx_config* c = s->in->config;

  if (sbx__step(s, SBX_SETUP_WORKSPACE, c->workspace)) return -1;
  if (chdir(c->workspace) != 0) return -1;
  s->spec.workspace = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (s->spec.workspace < 0 && errno == EACCES)
    s->spec.workspace = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (s->spec.workspace < 0) return -1;
  s->report.what = c->scratch;
  s->spec.root = open(c->scratch, O_PATH | O_DIRECTORY | O_CLOEXEC);
  return s->spec.root < 0 ? -1 : 0;
}

static bool sbx__guard(struct sbx__confined* s) {
  static const char* const names[] = {"home", "tmp", "shm"};
  const struct sbx_config* c = s->in->config;
  char path[PATH_MAX];
  size_t i;

  if (!sbx_guard_add(&s->guard, ".")) return false;
  for (i = 0; i < 3; i++) {
    snprintf(path, sizeof(path), "%s/%s", c->scratch, names[i]);
    if (!sbx_guard_add(&s->guard, path)) return false;
  }
  for (i = 0; i < c->places_len; i++)
    if (c->places[i].tag == SBX_CONFIG_BIND_RW &&
        !sbx_guard_add(&s->guard, c->places[i].from))
      return false;
  return true;
}

static int sbx__landlock(struct sbx__confined* s) {
  bool own = s->in->config->has_base;

  if (sbx__step(s, SBX_SETUP_LANDLOCK, "landlock")) return -1;
  if (sbx_landlock_confine(s->in->config, own, &s->rules, &s->report.what))
    return -1;
  s->report.what = "landlock_restrict_self";
  s->spec.landlock_abi = s->rules.abi;
  return sbx_landlock_enter(s->rules.loop);
}

/* In the thread that commands are born from. */
static int sbx__begin(void* arg) {
  struct sbx__confined* s = arg;
  struct sbx_seccomp_outside* f = &s->filter;

  if (sbx_landlock_enter(s->rules.commands) != 0) return -1;
  f->shielded[2] = (int) syscall(SYS_gettid);
  f->notify = sbx_notifier_can_guard();
  s->listener = f->notify ? sbx_seccomp_install_outside(f) : -1;
  if (s->listener >= 0) return 0;
  f->notify = false;
  return sbx_seccomp_install_outside(f);
}

static void sbx__filter(struct sbx__confined* s, int supervisor) {
  struct sbx_seccomp_outside* f = &s->filter;

  f->shielded[0] = getpid();
  f->shielded[1] = supervisor;
  f->shielded[3] = getppid();
  f->shielded[4] = -getpgrp();
  f->abi = s->rules.abi;
  if (f->abi < 6) f->shielded[5] = -1;
  f->own_ids = s->in->config->has_base;
  f->network = s->in->config->network;
}

static int sbx__seccomp(struct sbx__confined* s) {
  if (sbx__step(s, SBX_SETUP_SECCOMP, "supervisor")) return -1;
  s->spec.supervisor = sbx_supervisor_start();
  if (s->spec.supervisor == NULL) return -1;
  sbx__filter(s, s->spec.supervisor->tid);
  s->report.what = "seccomp";
  s->spec.nursery = sbx_nursery_start(sbx__begin, s);
  if (s->spec.nursery == NULL) return -1;
  if (s->listener >= 0) s->spec.ready_flags |= SBX_READY_NOTIFIER;
  if (!s->filter.own_ids) s->spec.ready_flags |= SBX_READY_SHARED_IDS;
  s->spec.supervisor->guard = &s->guard;
  sbx_supervisor_serve(s->spec.supervisor, s->listener);
  return 0;
}

static int sbx__confine(struct sbx__confined* s) {
  if (sbx__become(s) != 0 || sbx__privileges(s) != 0) return -1;
  if (sbx__workspace(s) != 0) return -1;
  if (!sbx__guard(s)) return -1;
  if (sbx__landlock(s) != 0 || sbx__seccomp(s) != 0) return -1;
  if (sbx__step(s, SBX_SETUP_READY, "epoll")) return -1;
  s->zygote = sbx_zygote_new(&s->spec);
  return s->zygote == NULL ? -1 : 0;
}

void sbx_setup_confined(const struct sbx_setup_input* in) {
  struct sbx__confined s;

  memset(&s, 0, sizeof(s));
  s.in = in;
  s.report.what = "";
  s.listener = -1;
  s.spec.control = in->control;
  s.spec.lifeline = in->lifeline;
  umask(022);
  sbx_setup_watch(in, &s.spec, sbx_setup_wait(in->lifeline));
  prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  if (sbx__confine(&s) == 0) sbx_zygote_run(s.zygote);
  sbx_report_fail(&s.report, in->control);
  _exit(1);
}
