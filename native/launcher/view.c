/* Builds the read-only view: a small tmpfs as the root, parts of the host bound
 * into it, a fresh /proc, a minimal /dev and the workspace.
 *
 * Sources are opened before the root changes and bound through their magic
 * links in the host's /proc, destinations are resolved in the new root. So no
 * link on either side can lead a mount astray.
 */
#include "sys.h" /* first: feature macros */

#include "view.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "layers.h"
#include "ids.h"
#include "mount.h"

#define SBX__ROOT_BYTES ((uint64_t) 64 << 20)
#define SBX__EMPTY "/.sbx-empty"

static const char* const sbx__devices[SBX_DEVICES] = {
    "/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom",
    "/dev/tty"};

static bool sbx__is_bind(const struct sbx_place* p) {
  return p->tag == SBX_CONFIG_BIND_RO || p->tag == SBX_CONFIG_BIND_RW;
}

void sbx_view_clone(struct sbx_config* config, bool range) {
  unsigned flags = SBX_OPEN_TREE_CLONE | SBX_AT_RECURSIVE | O_CLOEXEC;
  size_t i;

  for (i = 0; i < config->places_len; i++) {
    struct sbx_place* p = &config->places[i];
    if (!sbx__is_bind(p)) continue;
    p->fd = range && p->tag == SBX_CONFIG_BIND_RW
                ? sbx_ids_bind(config, p->from)
                : sbx_open_tree(AT_FDCWD, p->from, flags);
    p->detached = p->fd >= 0;
  }
}

void sbx_view_close(struct sbx_config* config) {
  size_t i;

  for (i = 0; i < config->places_len; i++)
    if (config->places[i].fd >= 0) close(config->places[i].fd);
}

static int sbx__open_place(struct sbx_view* v, struct sbx_place* p) {
  if (!sbx__is_bind(p) || p->detached) return 0;
  p->fd = open(p->from, O_PATH | O_CLOEXEC);
  if (p->fd >= 0 || p->tag == SBX_CONFIG_BIND_RO) return 0;
  v->report->what = p->from;
  return -1;
}

static int sbx__open_proc(struct sbx_view* v) {
  v->report->what = "/proc/self";
  v->proc_self = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (v->proc_self < 0) return -1;
  v->proc_fds = openat(v->proc_self, "fd", O_PATH | O_DIRECTORY | O_CLOEXEC);
  return v->proc_fds < 0 ? -1 : 0;
}

int sbx_view_open(struct sbx_view* v) {
  size_t i;

  v->report->step = SBX_SETUP_BINDS;
  if (sbx__open_proc(v) != 0) return -1;
  for (i = 0; i < v->config->places_len; i++)
    if (sbx__open_place(v, &v->config->places[i]) != 0) return -1;
  for (i = 0; i < SBX_DEVICES; i++)
    v->devices[i] = open(sbx__devices[i], O_PATH | O_CLOEXEC);

  /* The working directory moved into this mount namespace with us, while the
   * path to it may be closed to everybody but the host's root. */
  v->report->step = SBX_SETUP_WORKSPACE;
  v->report->what = v->config->workspace;
  v->workspace = openat(v->proc_self, "cwd", O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (v->config->lower != NULL && !v->config->has_lower_base)
    v->lower = open(v->config->lower, O_PATH | O_DIRECTORY | O_CLOEXEC);
  return v->workspace < 0 ? -1 : 0;
}

/* An empty file or folder, as the source wants it, to mount on. */
static int sbx__target(const char* path, int source) {
  struct stat st;
  int fd;

  if (fstat(source, &st) != 0) return -1;
  if (S_ISDIR(st.st_mode)) return sbx_mount_folder(path);
  if (sbx_mount_parents(path) != 0) return -1;
  if (access(path, F_OK) == 0) return 0;
  fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
  if (fd < 0) return -1;
  close(fd);
  return 0;
}

static int sbx__bind(struct sbx_view* v, int source, const char* path,
                     uint64_t flags) {
  char name[16];

  v->report->what = path;
  if (sbx__target(path, source) != 0) return -1;
  if (fchdir(v->proc_fds) != 0) return -1;
  snprintf(name, sizeof(name), "%d", source);
  if (sbx_mount_bind(name, path) != 0) return -1;
  return flags != 0 ? sbx_mount_restrict(v->proc_self, path, flags) : 0;
}

static int sbx__attach(struct sbx_view* v, int tree, const char* path,
                       uint64_t flags) {
  v->report->what = path;
  if (sbx__target(path, tree) != 0) return -1;
  if (sbx_mount_attach(tree, path) != 0) return -1;
  return sbx_mount_restrict(v->proc_self, path, flags);
}

static int sbx__bind_place(struct sbx_view* v, struct sbx_place* p) {
  uint64_t flags = SBX_MOUNT_ATTR_NOSUID | SBX_MOUNT_ATTR_NODEV;
  int rc;

  if (p->fd < 0) return 0;
  if (p->tag == SBX_CONFIG_BIND_RO) flags |= SBX_MOUNT_ATTR_RDONLY;
  rc = p->detached ? sbx__attach(v, p->fd, p->path, flags)
                   : sbx__bind(v, p->fd, p->path, flags);
  if (rc != 0) return -1;
  close(p->fd);
  return 0;
}

/* A directory of the host is only needed to stand on while the roots change
 * places; nothing that lies below it is looked up after that. */
static int sbx__mount_root(void) {
  static const char* const spots[] = {"/tmp", "/usr", "/dev", "/mnt", "/etc"};
  size_t i;

  for (i = 0; i < sizeof(spots) / sizeof(spots[0]); i++)
    if (sbx_mount_tmpfs(spots[i], 0755, SBX__ROOT_BYTES) == 0)
      return chdir(spots[i]);
  return -1;
}

static int sbx__root(struct sbx_view* v) {
  if (sbx_report_step(v->report, v->config, SBX_SETUP_ROOT, "mount private /"))
    return -1;
  if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) return -1;
  v->report->what = "mount tmpfs";
  if (sbx__mount_root() != 0) return -1;
  /* The old root lies on top of the new one until it is detached. */
  v->report->what = "pivot_root";
  if (syscall(SYS_pivot_root, ".", ".") != 0) return -1;
  v->report->what = SBX__EMPTY;
  v->empty = open(SBX__EMPTY, O_RDONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
  return v->empty < 0 ? -1 : 0;
}

static int sbx__scratch(struct sbx_view* v, const char* path, unsigned mode) {
  v->report->what = path;
  if (sbx_mount_folder(path) != 0) return -1;
  return sbx_mount_tmpfs(path, mode, v->config->tmp_bytes);
}

static bool sbx__is_inside(const char* path, const char* top) {
  size_t len = strlen(top);
  return strncmp(path, top, len) == 0 && path[len] == '/';
}

static bool sbx__in_a_bind(const struct sbx_view* v, const char* path) {
  size_t i;

  for (i = 0; i < v->config->places_len; i++) {
    const struct sbx_place* p = &v->config->places[i];
    if (p->fd >= 0 && sbx__is_inside(path, p->path)) return true;
  }
  return false;
}

/* Folders of our own come before the binds that may lie in them, unless they
 * lie in a bind themselves. `late` tells which ones are meant. */
static int sbx__tmpfs_places(struct sbx_view* v, bool late) {
  size_t i;

  for (i = 0; i < v->config->places_len; i++) {
    struct sbx_place* p = &v->config->places[i];
    if (p->tag != SBX_CONFIG_TMPFS || sbx__in_a_bind(v, p->path) != late)
      continue;
    if (sbx__scratch(v, p->path, 0755) != 0) return -1;
  }
  return 0;
}

static int sbx__early_scratch(struct sbx_view* v) {
  v->report->step = SBX_SETUP_FILES;
  if (sbx__scratch(v, "/tmp", 01777) != 0) return -1;
  if (sbx__scratch(v, "/var/tmp", 01777) != 0) return -1;
  return sbx__tmpfs_places(v, false);
}

static int sbx__binds(struct sbx_view* v) {
  size_t i;

  if (sbx_report_step(v->report, v->config, SBX_SETUP_BINDS, "")) return -1;
  for (i = 0; i < v->config->places_len; i++)
    if (sbx__bind_place(v, &v->config->places[i]) != 0) return -1;
  return 0;
}

static int sbx__file(const struct sbx_place* p) {
  size_t at = 0;
  int fd;

  if (sbx_mount_parents(p->path) != 0) return -1;
  fd = open(p->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
  if (fd < 0) return -1;
  while (at < p->len) {
    ssize_t n = write(fd, p->from + at, p->len - at);
    if (n < 0) return sbx_close_keep(fd);
    at += (size_t) n;
  }
  close(fd);
  return 0;
}

static int sbx__link(const struct sbx_place* p) {
  struct stat st;

  if (sbx_mount_parents(p->path) != 0) return -1;
  if (symlink(p->from, p->path) == 0) return 0;
  return lstat(p->path, &st) == 0 ? 0 : -1; /* a bind brought it */
}

static int sbx__mask(struct sbx_view* v, const char* path) {
  struct stat st;

  if (stat(path, &st) != 0) return 0;
  if (!S_ISDIR(st.st_mode))
    return sbx__bind(v, v->empty, path, SBX_MOUNT_ATTR_RDONLY);
  v->report->what = path;
  return mount("tmpfs", path, "tmpfs",
               MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC,
               "size=4k,mode=0555");
}

static int sbx__files(struct sbx_view* v) {
  size_t i;

  if (sbx_report_step(v->report, v->config, SBX_SETUP_FILES, "")) return -1;
  if (sbx__tmpfs_places(v, true) != 0) return -1;
  for (i = 0; i < v->config->places_len; i++) {
    struct sbx_place* p = &v->config->places[i];
    int rc = 0;

    v->report->what = p->path;
    if (p->tag == SBX_CONFIG_SYMLINK) rc = sbx__link(p);
    if (p->tag == SBX_CONFIG_FILE) rc = sbx__file(p);
    if (p->tag == SBX_CONFIG_MASK) rc = sbx__mask(v, p->path);
    if (rc != 0) return -1;
  }
  return 0;
}

/* One of proc's own folders or files made read-only where it is. */
static int sbx__freeze(struct sbx_view* v, const char* path) {
  v->report->what = path;
  if (sbx_mount_bind(path, path) != 0)
    return errno == ENOENT ? 0 : -1;
  return sbx_mount_restrict(v->proc_self, path,
                            SBX_MOUNT_ATTR_RDONLY | SBX_MOUNT_ATTR_NOSUID |
                                SBX_MOUNT_ATTR_NODEV | SBX_MOUNT_ATTR_NOEXEC);
}

static int sbx__proc(struct sbx_view* v) {
  static const char* const frozen[] = {"/proc/sys", "/proc/irq", "/proc/bus",
                                       "/proc/fs", "/proc/sysrq-trigger"};
  static const char* const masked[] = {
      "/proc/kcore",      "/proc/keys",       "/proc/key-users",
      "/proc/kallsyms",   "/proc/timer_list", "/proc/timer_stats",
      "/proc/latency_stats", "/proc/sched_debug", "/proc/kmsg",
      "/proc/acpi",       "/proc/scsi"};
  size_t i;

  if (sbx_report_step(v->report, v->config, SBX_SETUP_PROC, "/proc")) return -1;
  if (sbx_mount_folder("/proc") != 0) return -1;
  /* The kernel grants a fresh proc only while one that hides nothing is in
   * this mount namespace, hence before the old root goes. */
  if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL))
    return -1;
  for (i = 0; i < sizeof(frozen) / sizeof(frozen[0]); i++)
    if (sbx__freeze(v, frozen[i]) != 0) return -1;
  for (i = 0; i < sizeof(masked) / sizeof(masked[0]); i++)
    if (sbx__mask(v, masked[i]) != 0) return -1;
  return 0;
}

static int sbx__dev_links(void) {
  static const char* const links[][2] = {{"pts/ptmx", "/dev/ptmx"},
                                         {"/proc/self/fd", "/dev/fd"},
                                         {"/proc/self/fd/0", "/dev/stdin"},
                                         {"/proc/self/fd/1", "/dev/stdout"},
                                         {"/proc/self/fd/2", "/dev/stderr"}};
  size_t i;

  for (i = 0; i < sizeof(links) / sizeof(links[0]); i++)
    if (symlink(links[i][0], links[i][1]) != 0) return -1;
  return 0;
}

/* Message queues of POSIX, where the kernel has them. Landlock lets them be
 * made only below a path that it knows. */
static int sbx__message_queues(struct sbx_view* v) {
  v->report->what = "/dev/mqueue";
  if (sbx_mount_folder("/dev/mqueue") != 0) return -1;
  if (mount("mqueue", "/dev/mqueue", "mqueue",
            MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) == 0)
    return 0;
  return rmdir("/dev/mqueue");
}

static int sbx__dev(struct sbx_view* v) {
  size_t i;

  if (sbx_report_step(v->report, v->config, SBX_SETUP_DEV, "/dev")) return -1;
  if (sbx_mount_folder("/dev") != 0) return -1;
  for (i = 0; i < SBX_DEVICES; i++) {
    if (v->devices[i] < 0) continue;
    if (sbx__bind(v, v->devices[i], sbx__devices[i], 0) != 0) return -1;
    close(v->devices[i]);
  }
  v->report->what = "/dev/pts";
  if (sbx_mount_folder("/dev/pts") != 0) return -1;
  if (mount("devpts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC,
            "newinstance,ptmxmode=0666,mode=620") != 0)
    return -1;
  if (sbx__scratch(v, "/dev/shm", 01777) != 0) return -1;
  if (sbx__message_queues(v) != 0) return -1;
  v->report->what = "links in /dev";
  return sbx__dev_links();
}

static int sbx__workspace(struct sbx_view* v) {
  const char* path = v->config->mountpoint;
  uint64_t flags = SBX_MOUNT_ATTR_NOSUID | SBX_MOUNT_ATTR_NODEV;

  if (sbx_report_step(v->report, v->config, SBX_SETUP_MOUNT_WORKSPACE, path))
    return -1;
  if (v->config->lower != NULL && sbx_layers_overlay(v) != 0) return -1;
  v->report->what = path;
  if (v->overlaid) return 0;
  if (v->tree < 0) return sbx__bind(v, v->workspace, path, flags);
  return sbx__attach(v, v->tree, path, flags);
}

/* From here on nothing of the host is left but what is bound. */
static int sbx__detach(struct sbx_view* v) {
  if (sbx_report_step(v->report, v->config, SBX_SETUP_PIVOT, SBX__EMPTY))
    return -1;
  if (chdir("/") != 0 || unlink(SBX__EMPTY) != 0) return -1;
  v->report->what = "umount of the old root";
  if (umount2(".", MNT_DETACH) != 0) return -1;
  v->report->what = "read-only root";
  if (mount(NULL, "/", NULL,
            MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV, NULL))
    return -1;
  close(v->empty);
  close(v->workspace);
  close(v->proc_fds);
  close(v->proc_self);
  if (v->tree >= 0) close(v->tree);
  return 0;
}

int sbx_view_build(struct sbx_view* v) {
  if (sbx__root(v) != 0 || sbx__early_scratch(v) != 0) return -1;
  if (sbx__binds(v) != 0 || sbx__files(v) != 0) return -1;
  if (sbx__proc(v) != 0 || sbx__dev(v) != 0) return -1;
  if (sbx__workspace(v) != 0 || sbx_layers_protect(v) != 0) return -1;
  return sbx__detach(v);
}
