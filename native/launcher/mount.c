/* Mounts with flags over whole trees: mount_setattr where the kernel has it,
 * else one remount for each line of mountinfo. */
#include "sys.h" /* first: feature macros */

#include "mount.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "path.h"

enum { SBX__INODES = 262144 };

static int sbx__mkdir(const char* path) {
  struct stat st;

  if (mkdir(path, 0755) == 0) return 0;
  /* Below a read-only mount an existing folder is all that can be had. */
  if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) return 0;
  if (errno == EEXIST) errno = ENOTDIR;
  return -1;
}

int sbx_mount_parents(const char* path) {
  char part[4096];
  size_t len = strlen(path), i;

  if (len >= sizeof(part)) {
    errno = ENAMETOOLONG;
    return -1;
  }
  for (i = 1; i < len; i++) {
    if (path[i] != '/') continue;
    memcpy(part, path, i);
    part[i] = '\0';
    if (sbx__mkdir(part) != 0) return -1;
  }
  return 0;
}

int sbx_mount_folder(const char* path) {
  if (sbx_mount_parents(path) != 0) return -1;
  return sbx__mkdir(path);
}

int sbx_mount_tmpfs(const char* path, unsigned mode, uint64_t bytes) {
  char data[96];

  snprintf(data, sizeof(data), "mode=%o,size=%llu,nr_inodes=%d", mode,
           (unsigned long long) bytes, SBX__INODES);
  return mount("tmpfs", path, "tmpfs", MS_NOSUID | MS_NODEV, data);
}

static int sbx__private(const char* path) {
  return mount(NULL, path, NULL, MS_REC | MS_PRIVATE, NULL);
}

int sbx_mount_bind(const char* from, const char* path) {
  /* Without MS_REC the kernel refuses to uncover what submounts hide. */
  if (mount(from, path, NULL, MS_BIND | MS_REC, NULL) != 0) return -1;
  return sbx__private(path);
}

int sbx_mount_attach(int tree, const char* path) {
  if (sbx_move_mount(tree, path) != 0) return -1;
  return sbx__private(path);
}

static const struct {
  const char* name;
  unsigned long flag;
} sbx__options[] = {
    {"ro", MS_RDONLY},       {"nosuid", MS_NOSUID},
    {"nodev", MS_NODEV},     {"noexec", MS_NOEXEC},
    {"noatime", MS_NOATIME}, {"nodiratime", MS_NODIRATIME},
    {"relatime", MS_RELATIME}};

/* A remount sets all flags, and a user namespace must not clear those that the
 * mount came with. */
static unsigned long sbx__flags_of(char* options) {
  unsigned long flags = 0;
  char* state = NULL;
  char* word;
  size_t i;

  for (word = strtok_r(options, ",", &state); word != NULL;
       word = strtok_r(NULL, ",", &state))
    for (i = 0; i < sizeof(sbx__options) / sizeof(sbx__options[0]); i++)
      if (strcmp(word, sbx__options[i].name) == 0)
        flags |= sbx__options[i].flag;
  return flags;
}

/* mountinfo writes blanks, tabs, newlines and backslashes as \ooo. */
static void sbx__unescape(char* s) {
  char* to = s;

  for (; *s != '\0'; s++) {
    if (s[0] == '\\' && s[1] >= '0' && s[1] <= '3' && s[2] != '\0' &&
        s[3] != '\0') {
      *to++ = (char) ((s[1] - '0') * 64 + (s[2] - '0') * 8 + (s[3] - '0'));
      s += 3;
    } else {
      *to++ = *s;
    }
  }
  *to = '\0';
}

static char* sbx__read_mountinfo(int proc_self) {
  size_t size = 0, len = 0;
  char* text = NULL;
  int fd = openat(proc_self, "mountinfo", O_RDONLY | O_CLOEXEC);

  if (fd < 0) return NULL;
  for (;;) {
    ssize_t n;

    if (size - len < 4096) {
      char* more = realloc(text, size += 65536);
      if (more == NULL) break;
      text = more;
    }
    n = read(fd, text + len, size - len - 1);
    if (n < 0) break;
    len += (size_t) n;
    if (n > 0) continue;
    close(fd);
    text[len] = '\0';
    return text;
  }
  free(text);
  sbx_close_keep(fd);
  return NULL;
}

static int sbx__remount_line(char* line, const char* top,
                             unsigned long flags) {
  char* state = NULL;
  char* word = strtok_r(line, " ", &state);
  char* path = NULL;
  int i;

  /* id parent major:minor root path options ... */
  for (i = 0; i < 4 && word != NULL; i++) word = strtok_r(NULL, " ", &state);
  path = word;
  word = strtok_r(NULL, " ", &state);
  if (path == NULL || word == NULL) return 0;
  sbx__unescape(path);
  if (!sbx_path_below(path, top)) return 0;
  flags |= sbx__flags_of(word);
  return mount(NULL, path, NULL, MS_REMOUNT | MS_BIND | flags, NULL);
}

static int sbx__remount_all(int proc_self, const char* path,
                            unsigned long flags) {
  char* text = sbx__read_mountinfo(proc_self);
  char* state = NULL;
  char* line;
  int rc = 0;

  if (text == NULL) return -1;
  for (line = strtok_r(text, "\n", &state); line != NULL && rc == 0;
       line = strtok_r(NULL, "\n", &state))
    rc = sbx__remount_line(line, path, flags);
  free(text);
  return rc;
}

int sbx_mount_restrict(int proc_self, const char* path, uint64_t flags) {
  struct sbx_mount_attr attr = {.attr_set = flags};
  unsigned long old = 0;

  if (sbx_mount_setattr(AT_FDCWD, path, SBX_AT_RECURSIVE, &attr) == 0)
    return 0;
  if (errno != ENOSYS) return -1;
  if (flags & SBX_MOUNT_ATTR_RDONLY) old |= MS_RDONLY;
  if (flags & SBX_MOUNT_ATTR_NOSUID) old |= MS_NOSUID;
  if (flags & SBX_MOUNT_ATTR_NODEV) old |= MS_NODEV;
  if (flags & SBX_MOUNT_ATTR_NOEXEC) old |= MS_NOEXEC;
  return sbx__remount_all(proc_self, path, old);
}
