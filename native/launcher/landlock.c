/* A second wall behind the read-only mounts, should one of them leak. */
#include "sys.h" /* first: feature macros */

#include "landlock.h"

#include <sys/stat.h>

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

  SBX__LL_VERSION = 1 << 0,
  SBX__LL_RULE_PATH_BENEATH = 1
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
