/* Starts PID 1, kills it when the host is gone, removes the session folder.
 *
 * Two pipes carry the news of a death, since the kernel closes them however a
 * process ends: the host holds one end of `life`, the monitor one end of the
 * lifeline that PID 1 polls.
 */
#include "sys.h" /* first: feature macros */

#include "monitor.h"

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "../remove.h"
#include "cgroup.h"
#include "config.h"
#include "ids.h"
#include "quota.h"
#include "report.h"
#include "scratch.h"
#include "setup.h"
#include "tree.h"
#include "view.h"

struct sbx__monitor {
  struct sbx_config config;
  struct sbx_report report;
  int tree;        /* id-mapped workspace or -1 */
  int lower;       /* id-mapped template or -1 */
  int lifeline[2]; /* write end ours, read end PID 1's */
  int signals;
  int proc;
  pid_t child;     /* 0: reaped or never there */
  int parent;      /* folder that holds the session folder, or -1 */
  const char* name;
  struct sbx_scratch scratch;
  bool keep;       /* the host said that the session folder stays */
  struct sbx_cgroup cgroup;
  struct sbx_quota* quota; /* NULL: the workspace has no limit */
};

static int sbx__step(struct sbx__monitor* m, uint32_t step, const char* what) {
  return sbx_report_step(&m->report, &m->config, step, what);
}

/* The parent is pinned now: later its path may mean something else. */
static int sbx__pin_folder(struct sbx__monitor* m) {
  char* path = m->config.remove != NULL ? strdup(m->config.remove) : NULL;
  char* slash;

  if (m->config.remove == NULL) return 0;
  if (path == NULL) return -1;
  m->report.what = m->config.remove;
  slash = strrchr(path, '/');
  m->name = m->config.remove + (slash - path) + 1;
  slash[slash == path] = '\0';
  m->parent = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
  free(path);
  return m->parent < 0 ? -1 : 0;
}

static int sbx__make_layers(const struct sbx_config* c, uid_t id) {
  static const char* const names[] = {"upper", "work"};
  int dir = open(c->workspace, O_PATH | O_DIRECTORY | O_CLOEXEC);
  size_t i;

  if (dir < 0) return -1;
  for (i = 0; i < 2; i++)
    if (mkdirat(dir, names[i], 0755) != 0 ||
        (c->has_base && fchownat(dir, names[i], id, id, 0) != 0))
      return sbx_close_keep(dir);
  close(dir);
  return 0;
}

/* What was there before is not ours to remove. */
static int sbx__make_folders(struct sbx__monitor* m) {
  const struct sbx_config* c = &m->config;
  uid_t id = c->uid_base + c->inner_id;

  if (!c->make) return 0;
  m->report.step = SBX_SETUP_WORKSPACE;
  if (mkdirat(m->parent, m->name, 0700) != 0) {
    m->keep = true;
    return -1;
  }
  if (mkdir(c->workspace, 0755) != 0) return -1;
  if (c->has_base && lchown(c->workspace, id, id) != 0) return -1;
  return c->lower != NULL ? sbx__make_layers(c, id) : 0;
}

static int sbx__configure(struct sbx__monitor* m) {
  int rc;

  m->report.step = SBX_SETUP_CONFIG;
  m->report.what = "configuration";
  rc = sbx_config_read(&m->config, SBX_FD_CONFIG);
  close(SBX_FD_CONFIG);
  if (rc == 0) rc = sbx__pin_folder(m);
  if (rc == 0) rc = sbx__make_folders(m);
  return rc == 0 ? sbx__step(m, SBX_SETUP_CONFIG, "configuration") : -1;
}

static int sbx__enter_workspace(struct sbx__monitor* m) {
  if (sbx__step(m, SBX_SETUP_WORKSPACE, m->config.workspace)) return -1;
  return chdir(m->config.workspace);
}

static int sbx__scratch(struct sbx__monitor* m) {
  if (m->config.scratch == NULL) return 0;
  if (sbx__step(m, SBX_SETUP_FILES, m->config.scratch)) return -1;
  return sbx_scratch_make(&m->scratch, &m->config);
}

static int sbx__watch_workspace(struct sbx__monitor* m) {
  int fd;

  if (m->config.workspace_size == 0) return 0;
  fd = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return -1;
  m->quota = sbx_quota_new(fd, m->config.workspace_size);
  return m->quota == NULL ? -1 : 0;
}

static int sbx__idmap(struct sbx__monitor* m) {
  if (m->config.level == SBX_LEVEL_LANDLOCK) return 0;
  if (sbx__step(m, SBX_SETUP_IDMAP, m->config.workspace)) return -1;
  /* Without it the sandbox does without an overlay, not without isolation. */
  if (m->config.lower != NULL && m->config.has_base &&
      m->config.has_lower_base)
    m->lower = sbx_ids_lower(&m->config);
  if (!m->config.idmap || !m->config.has_base) return 0;
  m->tree = sbx_ids_idmap(&m->config);
  return m->tree >= 0 || sbx_ids_refused(errno) ? 0 : -1;
}

static unsigned long sbx__namespaces(const struct sbx_config* c) {
  unsigned long flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID |
                        CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP;

  if (c->level != SBX_LEVEL_FULL) return 0;
  return c->network ? flags : flags | CLONE_NEWNET;
}

static pid_t sbx__clone(unsigned long flags) {
  return (pid_t) syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0);
}

__attribute__((noreturn)) static void sbx__inside(struct sbx__monitor* m) {
  struct sbx_setup_input in = {.config = &m->config,
                               .control = SBX_FD_CONTROL,
                               .lifeline = m->lifeline[0],
                               .tree = m->tree,
                               .lower = m->lower,
                               .cgroup = &m->cgroup};

  close(m->lifeline[1]);
  close(SBX_FD_LIFE);
  close(m->signals);
  close(m->proc);
  if (m->parent >= 0) close(m->parent);
  sbx_scratch_close(&m->scratch);
  if (m->quota != NULL) sbx_quota_free(m->quota);
  sbx_cgroup_close(&m->cgroup);
  if (m->config.level == SBX_LEVEL_NONE) sbx_setup_outside(&in);
  if (m->config.level == SBX_LEVEL_LANDLOCK) sbx_setup_confined(&in);
  sbx_setup_inside(&in);
}

/* Commands get ids of the session's own. */
static bool sbx__has_range(const struct sbx__monitor* m) {
  return m->config.has_base && (!m->config.idmap || m->tree >= 0);
}

static int sbx__start_child(struct sbx__monitor* m) {
  unsigned long flags = sbx__namespaces(&m->config);
  pid_t pid;

  if (flags != 0 && geteuid() == 0)
    sbx_view_clone(&m->config, sbx__has_range(m));
  if (sbx__step(m, SBX_SETUP_LIFELINE, "pipe")) return -1;
  if (pipe2(m->lifeline, O_CLOEXEC) != 0) return -1;
  if (m->config.level != SBX_LEVEL_LANDLOCK &&
      sbx__step(m, SBX_SETUP_NAMESPACES, "clone"))
    return -1;
  pid = sbx__clone(flags);
  if (pid < 0 && errno == EINVAL) /* a kernel without control groups */
    pid = sbx__clone(flags & ~(unsigned long) CLONE_NEWCGROUP);
  if (pid < 0) return -1;
  if (pid == 0) sbx__inside(m);
  m->child = pid;
  close(m->lifeline[0]);
  m->lifeline[0] = -1;
  return 0;
}

static int sbx__map(struct sbx__monitor* m) {
  bool range = sbx__has_range(m);

  if (m->config.level == SBX_LEVEL_LANDLOCK) return 0;
  if (sbx__step(m, SBX_SETUP_UID_MAP, "uid_map")) return -1;
  if (m->config.level != SBX_LEVEL_FULL) return 0;
  return sbx_ids_map(&m->config, m->child, range, &m->report.what);
}

static int sbx__start(struct sbx__monitor* m) {
  char word = SBX_WORD_GO;

  if (sbx__configure(m) != 0 || sbx__enter_workspace(m) != 0) return -1;
  if (sbx__scratch(m) != 0) return -1;
  if (sbx__watch_workspace(m) != 0) return -1;
  sbx_cgroup_make(&m->cgroup, &m->config);
  if (sbx__idmap(m) != 0 || sbx__start_child(m) != 0) return -1;
  if (sbx__map(m) != 0) return -1;
  /* From now on the child tells about failures. */
  if (sbx_cgroup_enter(&m->cgroup, m->child)) word = SBX_WORD_GROUP;
  if (write(m->lifeline[1], &word, 1) != 1) return -1;
  fcntl(m->lifeline[1], F_SETFL, O_WRONLY | O_NONBLOCK);
  return 0;
}

static void sbx__end_child(struct sbx__monitor* m) {
  if (m->child > 0) {
    kill(m->child, SIGKILL);
    while (waitpid(m->child, NULL, 0) < 0 && errno == EINTR) {
    }
    m->child = 0;
  }
  /* Without a pid namespace its orphans have come to us. */
  if (m->config.level != SBX_LEVEL_FULL) sbx_tree_end_below(m->proc);
}

static void sbx__on_signal(struct sbx__monitor* m) {
  struct signalfd_siginfo info;
  int status;
  pid_t pid;

  while (read(m->signals, &info, sizeof(info)) > 0) {
  }
  while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
    if (pid != m->child) continue;
    m->child = 0;
    sbx__end_child(m);
  }
}

/* True: the host is gone, or has closed the session. */
static bool sbx__on_life(struct sbx__monitor* m) {
  char bytes[64];
  ssize_t n = read(SBX_FD_LIFE, bytes, sizeof(bytes));

  if (n > 0 && memchr(bytes, SBX_LIFE_KEEP, (size_t) n) != NULL)
    m->keep = true;
  if (n > 0 && memchr(bytes, SBX_LIFE_REMOVE, (size_t) n) != NULL)
    m->keep = false;
  return n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN);
}

static int sbx__wait(const struct sbx__monitor* m) {
  return m->quota == NULL || m->child == 0 ? -1 : sbx_quota_wait(m->quota);
}

static void sbx__check_workspace(struct sbx__monitor* m) {
  char word = SBX_WORD_FULL;
  ssize_t n;

  if (m->quota == NULL || m->child == 0 || !sbx_quota_step(m->quota)) return;
  n = write(m->lifeline[1], &word, 1);
  (void) n; /* a full pipe holds this word many times */
}

/* Also after PID 1 has gone: the files belong to the host until it closes. */
static void sbx__watch(struct sbx__monitor* m) {
  struct pollfd polled[2] = {{SBX_FD_LIFE, POLLIN, 0},
                             {m->signals, POLLIN, 0}};

  for (;;) {
    if (poll(polled, 2, sbx__wait(m)) < 0) continue;
    if (sbx__wait(m) == 0) sbx__check_workspace(m);
    if (polled[1].revents != 0) sbx__on_signal(m);
    if (polled[0].revents != 0 && sbx__on_life(m)) return;
  }
}

static int sbx__prepare(struct sbx__monitor* m) {
  sigset_t set;

  memset(m, 0, sizeof(*m));
  m->tree = m->lower = m->parent = m->scratch.parent = -1;
  m->lifeline[0] = m->lifeline[1] = -1;
  m->report.what = "";
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  m->signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
  m->proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  return m->signals < 0 || m->proc < 0 ? -1 : 0;
}

int sbx_monitor_run(void) {
  struct sbx__monitor m;

  if (sbx__prepare(&m) != 0 || sbx__start(&m) != 0) {
    int error = errno;
    sbx__end_child(&m); /* first, so that this is the only message */
    errno = error;
    sbx_report_fail(&m.report, SBX_FD_CONTROL);
  }
  close(SBX_FD_CONTROL);
  if (m.tree >= 0) close(m.tree);
  if (m.lower >= 0) close(m.lower);
  sbx_view_close(&m.config);
  if (chdir("/") != 0) return 1;
  sbx__watch(&m);
  sbx__end_child(&m);
  sbx_scratch_remove(&m.scratch);
  sbx_cgroup_end(&m.cgroup);
  sbx_cgroup_close(&m.cgroup);
  if (m.quota != NULL) sbx_quota_free(m.quota);
  if (m.parent >= 0 && !m.keep) sbx_remove_tree(m.parent, m.name);
  return 0;
}
