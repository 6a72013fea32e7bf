/* The steps of a set-up in their order. Each can only succeed or end the
 * launcher: nothing runs with less than was asked for.
 */
#include "sys.h" /* first: feature macros */

#include "setup.h"

#include <net/if.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "caps.h"
#include "ids.h"
#include "landlock.h"
#include "notifier.h"
#include "report.h"
#include "seccomp.h"
#include "supervisor.h"
#include "view.h"
#include "zygote.h"

struct sbx__setup {
  const struct sbx_setup_input* in;
  struct sbx_report report;
  struct sbx_view view;
  struct sbx_zygote_spec spec;
  struct sbx_zygote* zygote;
};

static int sbx__step(struct sbx__setup* s, uint32_t step, const char* what) {
  return sbx_report_step(&s->report, s->in->config, step, what);
}

/* The monitor writes the id maps first. If it dies, its end of the pipe closes
 * and so does this launcher; a parent-death signal alone could come too early
 * to be heard. */
char sbx_setup_wait(int lifeline) {
  char byte;
  ssize_t n;

  do {
    n = read(lifeline, &byte, 1);
  } while (n < 0 && errno == EINTR);
  if (n != 1) _exit(1);
  return byte;
}

/* What watches over the limits: the control group where the monitor could put
 * us into one, else this process. */
void sbx_setup_watch(const struct sbx_setup_input* in,
                     struct sbx_zygote_spec* spec, char word) {
  const struct sbx_config* c = in->config;
  const struct sbx_cgroup* g = in->cgroup;
  bool grouped = word == SBX_WORD_GROUP;

  spec->freezer = (struct sbx_freezer){-1, -1, -1, -1};
  spec->memory_events = -1;
  if (grouped) {
    spec->ready_flags |= g->flags;
    spec->memory_events = g->memory_events;
    if (g->flags & SBX_READY_FREEZER) spec->freezer = g->freezer;
  }
  spec->memory = c->memory;
  spec->file_size = c->file_size;
  spec->workspace_size = c->workspace_size;
  spec->watch.memory =
      spec->ready_flags & SBX_READY_CGROUP_MEMORY ? 0 : c->memory;
  /* Where the kernel counts those of this session, and no others. */
  spec->watch.processes =
      spec->alone || (c->level == SBX_LEVEL_LANDLOCK && c->has_base) ? c->nproc
                                                                     : 0;
  spec->watch.alone = spec->alone;
  spec->watch.workspace = c->workspace_size > 0;
}

static int sbx__become(struct sbx__setup* s) {
  if (sbx_view_open(&s->view) != 0) return -1;
  if (sbx__step(s, SBX_SETUP_SETID, "setresuid")) return -1;
  if (sbx_ids_become(s->in->config) != 0) return -1;
  prctl(PR_SET_PDEATHSIG, SIGKILL); /* a change of ids clears it */
  return 0;
}

static int sbx__loopback(struct sbx__setup* s) {
  struct ifreq request;
  int fd;

  if (sbx__step(s, SBX_SETUP_LOOPBACK, "lo")) return -1;
  if (s->in->config->network) return 0;
  fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  memset(&request, 0, sizeof(request));
  strcpy(request.ifr_name, "lo");
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  if (ioctl(fd, SIOCSIFFLAGS, &request) != 0) return sbx_close_keep(fd);
  close(fd);
  return 0;
}

/* All that is reached in here is the loopback, where nothing is congested, and
 * BBR, the default of many machines, starts a timer for each segment. Without
 * `network` the namespace is our own, and /proc/sys/net is that of who opens it.
 * Before the view is built, whose /proc/sys is read-only. Where it cannot be
 * written all is as safe, only slower: not a step that may fail. */
static void sbx__uncongest(const struct sbx_config* c) {
  if (c->network) return;
  sbx_write_file("/proc/sys/net/ipv4/tcp_congestion_control", "reno");
}

static int sbx__hostname(struct sbx__setup* s) {
  const char* name = s->in->config->hostname;

  if (sbx__step(s, SBX_SETUP_HOSTNAME, "sethostname")) return -1;
  if (name == NULL) return 0;
  return sethostname(name, strlen(name));
}

/* 0, 1 and 2 of the host are not for anybody in here. */
static int sbx__stdio(void) {
  int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
  int i;

  if (fd < 0) return -1;
  for (i = 0; i < 3; i++)
    if (dup2(fd, i) < 0) return -1;
  close(fd);
  return 0;
}

static int sbx__open_folder(const char* path) {
  int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

  if (fd < 0 && errno == EACCES)
    fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
  return fd;
}

static int sbx__folders(struct sbx__setup* s, const char* workspace) {
  s->report.what = workspace;
  s->spec.workspace = sbx__open_folder(workspace);
  if (s->spec.workspace < 0) return -1;
  s->report.what = "/";
  s->spec.root = sbx__open_folder("/");
  return s->spec.root < 0 ? -1 : 0;
}

static int sbx__privileges(struct sbx__setup* s) {
  if (sbx__step(s, SBX_SETUP_CAPABILITIES, "capset")) return -1;
  if (sbx_caps_drop() != 0) return -1;
  if (sbx__step(s, SBX_SETUP_RLIMITS, "setrlimit")) return -1;
  if (sbx_limits_set(s->in->config, &s->spec.limits) != 0) return -1;
  if (sbx__step(s, SBX_SETUP_NO_NEW_PRIVS, "prctl")) return -1;
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return -1;
  if (sbx__step(s, SBX_SETUP_LANDLOCK, "landlock")) return -1;
  return sbx_landlock_restrict(s->in->config, &s->spec.landlock_abi,
                               &s->report.what);
}

static int sbx__seccomp(struct sbx__setup* s) {
  struct sbx_supervisor* helper;
  int listener = -1;

  if (sbx__step(s, SBX_SETUP_SECCOMP, "supervisor")) return -1;
  helper = sbx_supervisor_start();
  if (helper == NULL) return -1;
  s->report.what = "seccomp";
  if (sbx_notifier_can_run())
    listener = sbx_seccomp_install(helper->tid, true);
  if (listener < 0 && sbx_seccomp_install(helper->tid, false) != 0) return -1;
  if (listener >= 0) s->spec.ready_flags |= SBX_READY_NOTIFIER;
  sbx_supervisor_serve(helper, listener);
  s->spec.supervisor = helper;
  return 0;
}

static int sbx__prepare(struct sbx__setup* s) {
  s->zygote = sbx_zygote_new(&s->spec);
  return s->zygote == NULL ? -1 : 0;
}

static int sbx__inside(struct sbx__setup* s) {
  if (sbx__become(s) != 0) return -1;
  sbx__uncongest(s->in->config);
  if (sbx_view_build(&s->view) != 0) return -1;
  if (sbx__loopback(s) != 0 || sbx__hostname(s) != 0) return -1;
  if (sbx__privileges(s) != 0 || sbx__seccomp(s) != 0) return -1;
  if (s->view.overlaid) s->spec.ready_flags |= SBX_READY_OVERLAY;
  if (sbx__step(s, SBX_SETUP_READY, "/dev/null")) return -1;
  if (sbx__stdio() != 0) return -1;
  if (sbx__folders(s, s->in->config->mountpoint) != 0) return -1;
  s->report.what = "epoll";
  return sbx__prepare(s);
}

static void sbx__init(struct sbx__setup* s, const struct sbx_setup_input* in) {
  memset(s, 0, sizeof(*s));
  s->in = in;
  s->report.what = "";
  s->view.config = in->config;
  s->view.report = &s->report;
  s->view.tree = in->tree;
  s->view.lower = in->lower;
  s->view.lower_detached = in->lower >= 0;
  s->spec.control = in->control;
  s->spec.lifeline = in->lifeline;
  umask(022);
}

void sbx_setup_inside(const struct sbx_setup_input* in) {
  struct sbx__setup s;

  sbx__init(&s, in);
  s.spec.alone = true;
  s.spec.ready_flags = SBX_READY_OWN_PROC;
  if (in->tree >= 0) s.spec.ready_flags |= SBX_READY_IDMAPPED;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  sbx_setup_watch(in, &s.spec, sbx_setup_wait(in->lifeline));
  if (sbx__inside(&s) == 0) sbx_zygote_run(s.zygote);
  sbx_report_fail(&s.report, in->control);
  _exit(1);
}

void sbx_setup_outside(const struct sbx_setup_input* in) {
  struct sbx__setup s;

  sbx__init(&s, in);
  /* No parent-death signal: here the descendants have to be killed first. */
  sbx_setup_watch(in, &s.spec, sbx_setup_wait(in->lifeline));
  sbx_limits_of_none(in->config, &s.spec.limits);
  prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  if (sbx__step(&s, SBX_SETUP_READY, "") == 0 &&
      sbx__folders(&s, in->config->workspace) == 0 && sbx__prepare(&s) == 0)
    sbx_zygote_run(s.zygote);
  sbx_report_fail(&s.report, in->control);
  _exit(1);
}
