/* A second wall behind the read-only mounts, should one of them leak. */
#include "sys.h" /* first: feature macros */

#include "landlock.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "path.h"

enum {
  SBX__LL_EXECUTE = 1 << 0,
  SBX__LL_WRITE_FILE = 1 << 1,
  SBX__LL_READ_FILE = 1 << 2,
  SBX__LL_READ_DIR = 1 << 3,
  SBX__LL_ABI_1 = (1 << 13) - 1, /* ... and removing and making of all kinds */
  SBX__LL_REFER = 1 << 13,       /* ABI 2: links and renames across folders */
  SBX__LL_TRUNCATE = 1 << 14,    /* ABI 3 */
  SBX__LL_IOCTL_DEV = 1 << 15,   /* ABI 5 */
  SBX__LL_OF_FILES = SBX__LL_EXECUTE | SBX__LL_WRITE_FILE | SBX__LL_READ_FILE |
                     SBX__LL_TRUNCATE | SBX__LL_IOCTL_DEV,
  /* Programs talk to terminals and to /proc/self through these. */
  SBX__LL_READ = SBX__LL_EXECUTE | SBX__LL_READ_FILE | SBX__LL_READ_DIR |
                 SBX__LL_IOCTL_DEV,

  SBX__LL_SCOPE_ABSTRACT_UNIX = 1 << 0, /* ABI 6 */
  SBX__LL_SCOPE_SIGNAL = 1 << 1,

  SBX__LL_BIND_TCP = 1 << 0, /* ABI 4 */
  SBX__LL_CONNECT_TCP = 1 << 1,

  SBX__LL_VERSION = 1 << 0,
  SBX__LL_RULE_PATH_BENEATH = 1,
  SBX__LL_RULE_NET_PORT = 2
};

struct sbx__ruleset {
  uint64_t fs;
  uint64_t net;
  uint64_t scoped;
};

struct sbx__beneath {
  uint64_t allowed;
  int32_t parent;
} __attribute__((packed));

struct sbx__port {
  uint64_t allowed;
  uint64_t port;
};

struct sbx__domain {
  int fd;
  uint64_t handled;
  const char** what;
};

static int sbx__allow(struct sbx__domain* d, const char* path,
                      uint64_t rights) {
  struct sbx__beneath rule = {.allowed = rights & d->handled};
  struct stat st;
  int rc;

  *d->what = path;
  rule.parent = open(path, O_PATH | O_CLOEXEC);
  if (rule.parent < 0) return -1;
  if (fstat(rule.parent, &st) != 0) return sbx_close_keep(rule.parent);
  if (!S_ISDIR(st.st_mode)) rule.allowed &= SBX__LL_OF_FILES;
  rc = (int) syscall(SBX_SYS_LANDLOCK_ADD_RULE, d->fd,
                     SBX__LL_RULE_PATH_BENEATH, &rule, 0);
  if (rc != 0) return sbx_close_keep(rule.parent);
  close(rule.parent);
  return 0;
}

static int sbx__allow_all(struct sbx__domain* d, const struct sbx_config* c) {
  static const char* const written[] = {"/tmp", "/var/tmp", "/dev"};
  size_t i;

  if (sbx__allow(d, "/", SBX__LL_READ) != 0) return -1;
  if (sbx__allow(d, "/proc",
                 SBX__LL_READ | SBX__LL_WRITE_FILE | SBX__LL_TRUNCATE) != 0)
    return -1;
  for (i = 0; i < sizeof(written) / sizeof(written[0]); i++)
    if (sbx__allow(d, written[i], d->handled) != 0) return -1;
  if (sbx__allow(d, "/dev/mqueue", d->handled) != 0 && errno != ENOENT)
    return -1;
  if (sbx__allow(d, c->mountpoint, d->handled) != 0) return -1;
  for (i = 0; i < c->places_len; i++) {
    const struct sbx_place* p = &c->places[i];
    if (p->tag != SBX_CONFIG_TMPFS && p->tag != SBX_CONFIG_BIND_RW) continue;
    if (sbx__allow(d, p->path, d->handled) != 0) return -1;
  }
  return 0;
}

static void sbx__handled(int abi, struct sbx__ruleset* r) {
  r->fs = SBX__LL_ABI_1;
  if (abi >= 2) r->fs |= SBX__LL_REFER;
  if (abi >= 3) r->fs |= SBX__LL_TRUNCATE;
  if (abi >= 5) r->fs |= SBX__LL_IOCTL_DEV;
  if (abi >= 6) r->scoped = SBX__LL_SCOPE_ABSTRACT_UNIX | SBX__LL_SCOPE_SIGNAL;
}

int sbx_landlock_restrict(const struct sbx_config* c, uint32_t* abi,
                          const char** what) {
  struct sbx__ruleset rules = {0};
  struct sbx__domain d = {.what = what};
  long version;
  size_t size;

  *abi = 0;
  version = syscall(SBX_SYS_LANDLOCK_CREATE_RULESET, NULL, 0, SBX__LL_VERSION);
  if (version < 0)
    return errno == ENOSYS || errno == EOPNOTSUPP ? 0 : -1;
  /* Without REFER, ABI 1 forbids every rename and link between two folders,
   * which git and npm live by. */
  if (version < 2) return 0;
  sbx__handled((int) version, &rules);
  size = version >= 6 ? sizeof(rules) : sizeof(rules.fs);
  *what = "landlock_create_ruleset";
  d.handled = rules.fs;
  d.fd = (int) syscall(SBX_SYS_LANDLOCK_CREATE_RULESET, &rules, size, 0);
  if (d.fd < 0) return -1;
  if (sbx__allow_all(&d, c) != 0) return sbx_close_keep(d.fd);
  *what = "landlock_restrict_self";
  if (syscall(SBX_SYS_LANDLOCK_RESTRICT_SELF, d.fd, 0) != 0)
    return sbx_close_keep(d.fd);
  close(d.fd);
  *abi = (uint32_t) version;
  return 0;
}

/* ---- level landlock: the only wall, so everything is named ---- */

enum {
  SBX__LL_SEE = SBX__LL_EXECUTE | SBX__LL_READ_FILE | SBX__LL_READ_DIR,
  SBX__LL_DEVICE = SBX__LL_READ_FILE | SBX__LL_WRITE_FILE |
                   SBX__LL_TRUNCATE | SBX__LL_IOCTL_DEV,
  SBX__DEPTH_MAX = 16 /* of folders with masked files in them */
};

/* What this machine lacks, or these ids cannot reach, needs no rule. */
static int sbx__allow_some(struct sbx__domain* d, const char* path,
                           uint64_t rights) {
  if (sbx__allow(d, path, rights) == 0) return 0;
  return errno == ENOENT || errno == ENOTDIR || errno == EACCES ||
                 errno == ELOOP
             ? 0
             : -1;
}

enum sbx__masked { SBX__CLEAR, SBX__COVERED, SBX__HOLDS };

/* A mask that covers nothing on this machine does not count. */
static enum sbx__masked sbx__masked(const struct sbx_config* c,
                                    const char* path) {
  enum sbx__masked found = SBX__CLEAR;
  struct stat st;
  size_t i;

  for (i = 0; i < c->places_len; i++) {
    const struct sbx_place* p = &c->places[i];
    if (p->tag != SBX_CONFIG_MASK) continue;
    if (sbx_path_below(path, p->path)) return SBX__COVERED;
    if (sbx_path_below(p->path, path) && lstat(p->path, &st) == 0)
      found = SBX__HOLDS;
  }
  return found;
}

static int sbx__allow_seen(struct sbx__domain* d, const struct sbx_config* c,
                           const char* path, int depth);

/* Rules cannot take away: all but the covered one is allowed by name. */
static int sbx__allow_children(struct sbx__domain* d,
                               const struct sbx_config* c, const char* path,
                               int depth) {
  DIR* dir = opendir(path);
  struct dirent* e;
  char child[PATH_MAX];
  int rc = 0;

  if (dir == NULL) return 0;
  while (rc == 0 && (e = readdir(dir)) != NULL) {
    if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
    if (snprintf(child, sizeof(child), "%s/%s", path, e->d_name) >=
        (int) sizeof(child))
      continue;
    rc = sbx__allow_seen(d, c, child, depth + 1);
  }
  closedir(dir);
  return rc != 0 ? rc : sbx__allow_some(d, path, SBX__LL_READ_DIR);
}

static int sbx__allow_seen(struct sbx__domain* d, const struct sbx_config* c,
                           const char* path, int depth) {
  switch (depth < SBX__DEPTH_MAX ? sbx__masked(c, path) : SBX__COVERED) {
    case SBX__CLEAR:
      return sbx__allow_some(d, path, SBX__LL_SEE);
    case SBX__HOLDS:
      return sbx__allow_children(d, c, path, depth);
    default:
      return 0;
  }
}

static int sbx__allow_place(struct sbx__domain* d, const struct sbx_config* c,
                            const struct sbx_place* p) {
  switch (p->tag) {
    case SBX_CONFIG_BIND_RO:
      return sbx__allow_seen(d, c, p->from, 0);
    case SBX_CONFIG_BIND_RW:
      return sbx__allow(d, p->from, d->handled);
    case SBX_CONFIG_FILE: /* the machine's own stands for a synthetic one */
      return sbx__allow_seen(d, c, p->path, 0);
    default:
      return 0;
  }
}

static int sbx__allow_devices(struct sbx__domain* d) {
  static const char* const devices[] = {"/dev/null",   "/dev/zero",
                                        "/dev/full",   "/dev/random",
                                        "/dev/urandom", "/dev/tty",
                                        "/dev/ptmx"};
  size_t i;

  for (i = 0; i < sizeof(devices) / sizeof(devices[0]); i++)
    if (sbx__allow_some(d, devices[i], SBX__LL_DEVICE) != 0) return -1;
  return 0;
}

static int sbx__allow_own(struct sbx__domain* d, const struct sbx_config* c) {
  static const char* const names[] = {"home", "tmp", "shm", "lib"};
  char path[PATH_MAX];
  size_t i;

  /* The working folder: the path may have come to mean another one. */
  if (sbx__allow(d, ".", d->handled) != 0) return -1;
  for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
    snprintf(path, sizeof(path), "%s/%s", c->scratch, names[i]);
    if (sbx__allow(d, path, i < 3 ? d->handled : SBX__LL_SEE) != 0) return -1;
  }
  return 0;
}

static int sbx__allow_port(struct sbx__domain* d, uint16_t port,
                           uint64_t rights) {
  struct sbx__port rule = {.allowed = rights, .port = port};

  *d->what = "landlock_add_rule (port)";
  return (int) syscall(SBX_SYS_LANDLOCK_ADD_RULE, d->fd, SBX__LL_RULE_NET_PORT,
                       &rule, 0);
}

static int sbx__allow_ports(struct sbx__domain* d,
                            const struct sbx_config* c) {
  size_t i;

  for (i = 0; i < c->tcp_ports.len; i++)
    if (sbx__allow_port(d, c->tcp_ports.list[i],
                        SBX__LL_BIND_TCP | SBX__LL_CONNECT_TCP) != 0)
      return -1;
  for (i = 0; i < c->tcp_connect.len; i++)
    if (sbx__allow_port(d, c->tcp_connect.list[i], SBX__LL_CONNECT_TCP) != 0)
      return -1;
  return 0;
}

static int sbx__allow_named(struct sbx__domain* d, const struct sbx_config* c,
                            const struct sbx__ruleset* rules, bool terminals) {
  size_t i;

  if (sbx__allow_own(d, c) != 0 || sbx__allow_devices(d) != 0) return -1;
  if (sbx__allow(d, "/proc", SBX__LL_READ_FILE | SBX__LL_READ_DIR) != 0)
    return -1;
  if (terminals &&
      sbx__allow_some(d, "/dev/pts", SBX__LL_DEVICE | SBX__LL_READ_DIR) != 0)
    return -1;
  for (i = 0; i < c->places_len; i++)
    if (sbx__allow_place(d, c, &c->places[i]) != 0) return -1;
  return rules->net == 0 ? 0 : sbx__allow_ports(d, c);
}

static int sbx__ruleset(const struct sbx_config* c, int abi, bool scoped,
                        bool terminals, const char** what) {
  struct sbx__ruleset rules = {0};
  struct sbx__domain d = {.what = what};
  size_t size = sizeof(rules.fs);

  sbx__handled(abi, &rules);
  if (!scoped) rules.scoped = 0;
  if (abi >= 4 && !c->network)
    rules.net = SBX__LL_BIND_TCP | SBX__LL_CONNECT_TCP;
  if (abi >= 4) size += sizeof(rules.net);
  if (abi >= 6) size = sizeof(rules);
  *what = "landlock_create_ruleset";
  d.handled = rules.fs;
  d.fd = (int) syscall(SBX_SYS_LANDLOCK_CREATE_RULESET, &rules, size, 0);
  if (d.fd < 0) return -1;
  if (sbx__allow_named(&d, c, &rules, terminals) != 0)
    return sbx_close_keep(d.fd);
  return d.fd;
}

int sbx_landlock_confine(const struct sbx_config* c, bool own_ids,
                         struct sbx_confinement* out, const char** what) {
  long version =
      syscall(SBX_SYS_LANDLOCK_CREATE_RULESET, NULL, 0, SBX__LL_VERSION);

  *what = "landlock_create_ruleset";
  out->loop = out->commands = -1;
  if (version < 0) return -1;
  out->abi = (uint32_t) version;
  out->commands = sbx__ruleset(c, (int) version, true, own_ids, what);
  if (out->commands < 0) return -1;
  out->loop = sbx__ruleset(c, (int) version, false, true, what);
  return out->loop < 0 ? -1 : 0;
}

int sbx_landlock_enter(int ruleset) {
  int rc = (int) syscall(SBX_SYS_LANDLOCK_RESTRICT_SELF, ruleset, 0);

  return rc == 0 ? close(ruleset) : sbx_close_keep(ruleset);
}
