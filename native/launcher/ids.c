/* Id maps of the sandbox's user namespace, and the id-mapped workspace. */
#include "sys.h" /* first: feature macros */

#include "ids.h"

#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum { SBX__RANGE = 65536 };

static int sbx__write_file(pid_t pid, const char* name, const char* text) {
  char path[64];

  snprintf(path, sizeof(path), "/proc/%d/%s", (int) pid, name);
  return sbx_write_file(path, text);
}

struct sbx__lines {
  char text[512];
  size_t len;
};

static void sbx__line(struct sbx__lines* l, uint32_t from, uint32_t to,
                      uint32_t count) {
  if (count == 0) return;
  l->len += (size_t) snprintf(l->text + l->len, sizeof(l->text) - l->len,
                              "%u %u %u\n", from, to, count);
}

/* On-disk ids -> ids of the range at `base`: `owner` and `inner` change places,
 * all others keep theirs. An owner above the range has no place to give, so
 * that `inner` takes the last one. */
static void sbx__swap_lines(struct sbx__lines* l, uint32_t base,
                            uint32_t owner, uint32_t inner) {
  uint32_t low = owner < inner ? owner : inner;
  uint32_t high = owner < inner ? inner : owner;

  l->len = 0;
  if (owner == inner) {
    sbx__line(l, 0, base, SBX__RANGE);
  } else if (owner < SBX__RANGE) {
    sbx__line(l, 0, base, low);
    sbx__line(l, low, base + high, 1);
    sbx__line(l, low + 1, base + low + 1, high - low - 1);
    sbx__line(l, high, base + low, 1);
    sbx__line(l, high + 1, base + high + 1, SBX__RANGE - high - 1);
  } else {
    sbx__line(l, 0, base, inner);
    sbx__line(l, inner, base + SBX__RANGE - 1, 1);
    sbx__line(l, inner + 1, base + inner + 1, SBX__RANGE - inner - 2);
    sbx__line(l, owner, base + inner, 1);
  }
}

/* A child that does nothing but hold a user namespace until `gate` closes. It
 * keeps no other descriptor: a copy of the control socket here would hide its
 * end of file. */
static pid_t sbx__holder(int gate[2]) {
  pid_t pid = (pid_t) syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);
  char byte;

  if (pid != 0) return pid;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (dup2(gate[0], 0) != 0) _exit(1);
  sbx_close_from(1);
  while (read(0, &byte, 1) < 0 && errno == EINTR) {
  }
  _exit(0);
}

static int sbx__holder_namespace(pid_t pid, const char* uids,
                                 const char* gids) {
  char path[64];

  if (sbx__write_file(pid, "uid_map", uids) != 0) return -1;
  if (sbx__write_file(pid, "gid_map", gids) != 0) return -1;
  snprintf(path, sizeof(path), "/proc/%d/ns/user", (int) pid);
  return open(path, O_RDONLY | O_CLOEXEC);
}

static int sbx__user_namespace(const char* uids, const char* gids) {
  int gate[2], fd, saved;
  pid_t pid;

  if (pipe2(gate, O_CLOEXEC) != 0) return -1;
  pid = sbx__holder(gate);
  fd = pid > 0 ? sbx__holder_namespace(pid, uids, gids) : -1;
  saved = errno;
  close(gate[0]);
  close(gate[1]);
  if (pid > 0) {
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
  }
  errno = saved;
  return fd;
}

static int sbx__mapped_clone(const char* path, const char* uids,
                             const char* gids) {
  struct sbx_mount_attr attr = {.attr_set = SBX_MOUNT_ATTR_IDMAP};
  int tree, ns;

  tree = sbx_open_tree(AT_FDCWD, path,
                       SBX_OPEN_TREE_CLONE | SBX_AT_RECURSIVE | O_CLOEXEC);
  if (tree < 0) return -1;
  ns = sbx__user_namespace(uids, gids);
  if (ns < 0) return sbx_close_keep(tree);
  attr.userns_fd = (uint64_t) ns;
  if (sbx_mount_setattr(tree, "", AT_EMPTY_PATH | SBX_AT_RECURSIVE, &attr)) {
    sbx_close_keep(ns);
    return sbx_close_keep(tree);
  }
  close(ns);
  return tree;
}

int sbx_ids_idmap(const struct sbx_config* c) {
  struct sbx__lines uids, gids;

  sbx__swap_lines(&uids, c->uid_base, c->owner_uid, c->inner_id);
  sbx__swap_lines(&gids, c->uid_base, c->owner_gid, c->inner_id);
  return sbx__mapped_clone(".", uids.text, gids.text);
}

int sbx_ids_bind(const struct sbx_config* c, const char* path) {
  unsigned flags = SBX_OPEN_TREE_CLONE | SBX_AT_RECURSIVE | O_CLOEXEC;
  struct sbx__lines uids, gids;
  struct stat st;
  int tree;

  if (stat(path, &st) != 0) return -1;
  sbx__swap_lines(&uids, c->uid_base, st.st_uid, c->inner_id);
  sbx__swap_lines(&gids, c->uid_base, st.st_gid, c->inner_id);
  tree = sbx__mapped_clone(path, uids.text, gids.text);
  return tree >= 0 ? tree : sbx_open_tree(AT_FDCWD, path, flags);
}

int sbx_ids_lower(const struct sbx_config* c) {
  struct sbx__lines lines = {.len = 0};

  sbx__line(&lines, c->lower_base, c->uid_base, SBX__RANGE);
  return sbx__mapped_clone(c->lower, lines.text, lines.text);
}

bool sbx_ids_refused(int error) {
  return error == EINVAL || error == EOPNOTSUPP || error == ENOSYS;
}

/* The kernel lets an unprivileged writer map its gid only once setgroups is
 * off in the namespace. */
static int sbx__map_gid(pid_t pid, const char* line, bool deny,
                        const char** what) {
  *what = "setgroups";
  if (deny && sbx__write_file(pid, "setgroups", "deny") != 0 &&
      errno != ENOENT)
    return -1;
  *what = "gid_map";
  return sbx__write_file(pid, "gid_map", line);
}

int sbx_ids_map(const struct sbx_config* c, pid_t pid, bool range,
                const char** what) {
  bool root = geteuid() == 0;
  uint32_t uid = geteuid(), gid = getegid();
  char uids[64], gids[64];

  if (root && c->has_owner) {
    uid = c->owner_uid;
    gid = c->owner_gid;
  }
  if (range) {
    snprintf(uids, sizeof(uids), "0 %u %u\n", c->uid_base, SBX__RANGE);
    memcpy(gids, uids, sizeof(gids));
  } else {
    snprintf(uids, sizeof(uids), "%u %u 1\n", c->inner_id, uid);
    snprintf(gids, sizeof(gids), "%u %u 1\n", c->inner_id, gid);
  }
  *what = "uid_map";
  if (sbx__write_file(pid, "uid_map", uids) != 0) return -1;
  if (sbx__map_gid(pid, gids, !root, what) == 0) return 0;
  /* A root without CAP_SETGID, as in some containers. */
  if (!root || errno != EPERM) return -1;
  return sbx__map_gid(pid, gids, true, what);
}

int sbx_ids_become(const struct sbx_config* c) {
  if (setgroups(0, NULL) != 0 && errno != EPERM) return -1;
  if (setresgid(c->inner_id, c->inner_id, c->inner_id) != 0) return -1;
  return setresuid(c->inner_id, c->inner_id, c->inner_id);
}
