/* The workspace over a template, and read-only parts of a workspace. */
#include "sys.h" /* first: feature macros */

#include "layers.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "mount.h"

#define SBX__LOWER "/.sbx-lower"
#define SBX__LAYERS "/.sbx-layers"

enum { SBX__PATH = O_PATH | O_CLOEXEC };

/* ---- the overlay ---- */

static int sbx__mount_lower(struct sbx_view* v) {
  char name[16];
  uint64_t flags = SBX_MOUNT_ATTR_RDONLY | SBX_MOUNT_ATTR_NOSUID |
                   SBX_MOUNT_ATTR_NODEV;

  if (v->lower_detached) {
    if (sbx_mount_attach(v->lower, SBX__LOWER) != 0) return -1;
  } else {
    snprintf(name, sizeof(name), "%d", v->lower);
    if (fchdir(v->proc_fds) != 0) return -1;
    if (sbx_mount_bind(name, SBX__LOWER) != 0) return -1;
  }
  return sbx_mount_restrict(v->proc_self, SBX__LOWER, flags);
}

static int sbx__mount_layers(struct sbx_view* v) {
  char name[16];

  snprintf(name, sizeof(name), "%d", v->workspace);
  if (fchdir(v->proc_fds) != 0) return -1;
  return sbx_mount_bind(name, SBX__LAYERS);
}

static int sbx__mount_merged(struct sbx_view* v) {
  static const char data[] = "lowerdir=" SBX__LOWER ",upperdir=" SBX__LAYERS
                             "/upper,workdir=" SBX__LAYERS "/work,userxattr";

  if (sbx__mount_lower(v) != 0 || sbx__mount_layers(v) != 0) return -1;
  return mount("overlay", v->config->mountpoint, "overlay",
               MS_NOSUID | MS_NODEV, data);
}

/* The overlay holds clones of its layers: nobody needs to see these. */
static int sbx__hide(const char* path) {
  if (umount2(path, MNT_DETACH) != 0 && errno != EINVAL) return -1;
  return rmdir(path);
}

static int sbx__upper_alone(struct sbx_view* v) {
  int fd = openat(v->workspace, "upper",
                  SBX__PATH | O_DIRECTORY | O_NOFOLLOW);

  if (fd < 0) return -1;
  close(v->workspace);
  v->workspace = fd;
  return 0;
}

int sbx_layers_overlay(struct sbx_view* v) {
  v->report->what = "overlay";
  if (sbx_mount_folder(v->config->mountpoint) != 0) return -1;
  if (sbx_mount_folder(SBX__LOWER) != 0) return -1;
  if (sbx_mount_folder(SBX__LAYERS) != 0) return -1;
  v->overlaid = v->lower >= 0 && sbx__mount_merged(v) == 0;
  if (sbx__hide(SBX__LOWER) != 0 || sbx__hide(SBX__LAYERS) != 0) return -1;
  if (v->lower >= 0) close(v->lower);
  return v->overlaid ? 0 : sbx__upper_alone(v);
}

/* ---- protected parts ---- */

/* The same name again shows the mount that now lies on it. */
static int sbx__cover(struct sbx_view* v, int dir, const char* name,
                      bool read_only) {
  char number[16];
  int fd = openat(dir, name, SBX__PATH | O_NOFOLLOW);

  if (fd < 0) return -1;
  snprintf(number, sizeof(number), "%d", fd);
  if (fchdir(v->proc_fds) != 0 ||
      mount(number, number, NULL, MS_BIND | MS_REC, NULL) != 0)
    return sbx_close_keep(fd);
  close(fd);
  if (!read_only) return 0;
  fd = openat(dir, name, SBX__PATH | O_NOFOLLOW);
  if (fd < 0) return -1;
  snprintf(number, sizeof(number), "%d", fd);
  if (fchdir(v->proc_fds) != 0 ||
      mount(NULL, number, NULL,
            MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV, NULL))
    return sbx_close_keep(fd);
  close(fd);
  return 0;
}

/* Whether an earlier part lies below the same folder, so that it is covered. */
static bool sbx__is_covered(const struct sbx_view* v, size_t before,
                            const char* path, size_t len) {
  size_t i;

  for (i = 0; i < before; i++) {
    const struct sbx_place* p = &v->config->places[i];
    if (p->tag == SBX_CONFIG_PROTECT && strncmp(p->path, path, len) == 0 &&
        p->path[len] == '/')
      return true;
  }
  return false;
}

static bool sbx__is_link(int dir, const char* name) {
  struct stat st;

  return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0 ||
         S_ISLNK(st.st_mode);
}

/* 1: go on with the folder now in *dir. 0: there is nothing to protect. */
static int sbx__descend(struct sbx_view* v, size_t index, const char* path,
                        size_t len, int* dir) {
  char name[NAME_MAX + 1];
  const char* start = path + len;
  int fd;

  while (start > path && start[-1] != '/') start--;
  if ((size_t) (path + len - start) >= sizeof(name)) return 0;
  memcpy(name, start, (size_t) (path + len - start));
  name[path + len - start] = '\0';
  if (sbx__is_link(*dir, name)) return 0;
  if (path[len] == '\0')
    return sbx__cover(v, *dir, name, true) == 0 ? 0 : -1;
  if (!sbx__is_covered(v, index, path, len) &&
      sbx__cover(v, *dir, name, false) != 0)
    return -1;
  fd = openat(*dir, name, SBX__PATH | O_DIRECTORY | O_NOFOLLOW);
  if (fd < 0) return errno == ENOTDIR ? 0 : -1;
  close(*dir);
  *dir = fd;
  return 1;
}

static int sbx__protect(struct sbx_view* v, size_t index) {
  const char* path = v->config->places[index].path;
  int dir = open(v->config->mountpoint, SBX__PATH | O_DIRECTORY);
  size_t at = 0;
  int rc = 1;

  v->report->what = path;
  if (dir < 0) return -1;
  while (rc == 1) {
    at += strcspn(path + at, "/");
    rc = sbx__descend(v, index, path, at, &dir);
    if (path[at] != '\0') at++;
  }
  sbx_close_keep(dir);
  return rc;
}

int sbx_layers_protect(struct sbx_view* v) {
  size_t i;

  for (i = 0; i < v->config->places_len; i++)
    if (v->config->places[i].tag == SBX_CONFIG_PROTECT &&
        sbx__protect(v, i) != 0)
      return -1;
  return 0;
}
