/* The pinned folder below which everything happens, and the file-system ids
 * that a thread takes for one call on it. */
#include "internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

/* "/a//b/" -> "a\0b\0", 2. */
static size_t split_inside(const char* text, char* out) {
  size_t parts = 0;
  while (*text) {
    while (*text == '/') text++;
    if (!*text) break;
    while (*text && *text != '/') *out++ = *text++;
    *out++ = 0;
    parts++;
  }
  return parts;
}

static bool lacks_openat2(int fd) {
  int probe = sbx__openat2(fd, ".", O_PATH, 0);
  if (probe >= 0) close(probe);
  /* Old container filters answer EPERM for calls they do not know. */
  return probe == -ENOSYS || probe == -EPERM;
}

/* File systems of this machine alone. The others may ask a server or a process
 * at every open, and that must not happen on the loop's thread. */
static bool is_local(int fd) {
  static const unsigned long local[] = {
      0xef53,     /* ext2, 3, 4 */
      0x58465342, /* xfs */
      0x9123683e, /* btrfs */
      0xf2f52010, /* f2fs */
      0xca451a4e, /* bcachefs */
      0x2fc12fc1, /* zfs */
      0x01021994, /* tmpfs */
      0x794c7630  /* overlayfs */
  };
  struct statfs fs;
  if (fstatfs(fd, &fs) != 0) return false;
  for (size_t i = 0; i < sizeof(local) / sizeof(local[0]); i++)
    if ((unsigned long)fs.f_type == local[i]) return true;
  return false;
}

int sbx_root_new(const struct sbx_root_spec* spec, struct sbx_root** out) {
  struct sbx_root* root = calloc(1, sizeof(*root));
  const char* inside = spec->inside ? spec->inside : "/";
  if (!root) return SBX_E_INTERNAL;
  root->inside = calloc(1, strlen(inside) + 2);
  if (!root->inside) {
    free(root);
    return SBX_E_INTERNAL;
  }
  root->parts = split_inside(inside, root->inside);
  root->fd = spec->fd;
  root->refs = 1;
  root->fsuid = spec->fsuid;
  root->fsgid = spec->fsgid;
  root->no_openat2 = lacks_openat2(root->fd);
  root->quick = !root->no_openat2 && is_local(root->fd);
  *out = root;
  return 0;
}

void sbx_root_ref(struct sbx_root* root) {
  root->refs++;
}

/* Relaxed: nothing else is told by it, and who misses it only does the work. */
void sbx_root_abandon(struct sbx_root* root) {
  __atomic_store_n(&root->abandoned, true, __ATOMIC_RELAXED);
}

void sbx_root_unref(struct sbx_root* root) {
  if (!root || --root->refs > 0) return;
  sbx__near_free(root);
  close(root->fd);
  free(root->inside);
  free(root);
}

const char* sbx__root_inside(const struct sbx_root* root, size_t i) {
  const char* part = root->inside;
  while (i-- > 0) part += strlen(part) + 1;
  return part;
}

/* The calls report failure only by the id that a second call returns. Who may
 * take an id once may take it again, so one look is enough for a root. */
static int set_fsid(long call, int64_t id, bool known, int64_t* old) {
  *old = syscall(call, (unsigned)id);
  if (known) return 0;
  return (unsigned)syscall(call, -1) == (unsigned)id ? 0 : -EPERM;
}

/* Raw calls, for glibc's wrappers are per thread already but old ones warn.
 * Leaving uid 0 drops the capabilities that override permissions, and coming
 * back restores them: group first here, user first there. */
int sbx__identity_take(struct sbx_root* root, struct sbx__identity* old) {
  bool known = __atomic_load_n(&root->identity_known, __ATOMIC_RELAXED);
  int64_t previous = -1;
  old->uid = old->gid = -1;
  if (root->fsuid < 0) return 0;
  if (root->fsgid >= 0) {
    int rc = set_fsid(SYS_setfsgid, root->fsgid, known, &previous);
    old->gid = previous;
    if (rc < 0) return rc;
  }
  int rc = set_fsid(SYS_setfsuid, root->fsuid, known, &previous);
  old->uid = previous;
  if (rc < 0) sbx__identity_restore(old);
  if (rc == 0) __atomic_store_n(&root->identity_known, true, __ATOMIC_RELAXED);
  return rc;
}

void sbx__identity_restore(const struct sbx__identity* old) {
  if (old->uid >= 0) syscall(SYS_setfsuid, (unsigned)old->uid);
  if (old->gid >= 0) syscall(SYS_setfsgid, (unsigned)old->gid);
}
