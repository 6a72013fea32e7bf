/* What a start does on the thread pool: the folder, the view of the machine and
 * the configuration of the launcher. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../native/archive/archive.h"
#include "../../native/session/launcher.h"
#include "confined.h"
#include "internal.h"
#include "protect.h"

enum { TMP_BYTES = 512 << 20 };

static enum sbx_host_kind host_kind(void* arg, const char* path) {
  struct statx st;

  (void) arg;
  if (statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, STATX_TYPE, &st) != 0)
    return SBX_HOST_MISSING;
  if (S_ISREG(st.stx_mode)) return SBX_HOST_FILE;
  if (S_ISDIR(st.stx_mode)) return SBX_HOST_DIRECTORY;
  return S_ISLNK(st.stx_mode) ? SBX_HOST_LINK : SBX_HOST_OTHER;
}

static bool host_link(void* arg, const char* path, char* out, size_t size) {
  ssize_t n = readlink(path, out, size);

  (void) arg;
  if (n <= 0 || (size_t) n >= size) return false;
  out[n] = '\0';
  return true;
}

static bool host_real(void* arg, const char* path, char* out, size_t size) {
  char* real = realpath(path, NULL);
  bool fits = real != NULL && strlen(real) < size;

  (void) arg;
  if (fits) memcpy(out, real, strlen(real) + 1);
  free(real);
  return fits;
}

static void free_names(char** names, size_t len) {
  for (size_t i = 0; i < len; i++) free(names[i]);
  free(names);
}

static size_t list_etc(char*** out) {
  DIR* dir = opendir("/etc");
  char** names = NULL;
  size_t len = 0;
  struct dirent* entry;

  *out = NULL;
  if (dir == NULL) return 0;
  while ((entry = readdir(dir)) != NULL) {
    char** list = realloc(names, (len + 1) * sizeof(*list));

    if (list == NULL) break;
    names = list;
    names[len] = strdup(entry->d_name);
    if (names[len] == NULL) break;
    len++;
  }
  closedir(dir);
  *out = names;
  return len;
}

static int build_view(struct sbx__local_preparing* p) {
  const struct sbx_local_options* o = p->options;
  char** etc;
  size_t etc_len = list_etc(&etc);
  struct sbx_view_host host = {
      .path = o->host_path,
      .home = o->host_home,
      .exec_path = o->exec_path,
      .env = (const char* const*) o->host_env.items,
      .env_len = o->host_env.len,
      .etc = (const char* const*) etc,
      .etc_len = etc_len,
      .kind = host_kind,
      .link = host_link,
      .real = host_real,
  };
  struct sbx_view_spec spec = {
      .mountpoint = o->cwd,
      .network = o->network,
      .read_only = (const char* const*) o->read_only.items,
      .read_only_len = o->read_only.len,
      .read_write = (const char* const*) o->read_write.items,
      .read_write_len = o->read_write.len,
  };
  int err = sbx_view_build(&host, &spec, p->config, &p->view, &p->error);

  free_names(etc, etc_len);
  return err;
}

static void add_owner(struct sbx__local_preparing* p) {
  const struct sbx_local_folder* f = &p->folder;

  sbx_config_add_number(p->config, SBX_CONFIG_OWNER_UID, f->owner_uid);
  sbx_config_add_number(p->config, SBX_CONFIG_OWNER_GID, f->owner_gid);
  if (f->base >= 0)
    sbx_config_add_number(p->config, SBX_CONFIG_UID_BASE, (uint64_t) f->base);
  if (f->idmap) sbx_config_add_number(p->config, SBX_CONFIG_IDMAP, 1);
}

/* Without ids of its own a root's session would see foreign owners in it. */
static void add_layer(struct sbx__local_preparing* p) {
  const struct sbx_local_options* o = p->options;

  if (p->layer == NULL || o->kind != SBX_LOCAL_TEMPORARY ||
      o->level != SBX_LEVEL_FULL || (p->folder.base < 0 && geteuid() == 0))
    return;
  sbx_config_add_text(p->config, SBX_CONFIG_LOWER, p->layer);
  if (p->folder.base >= 0)
    sbx_config_add_number(p->config, SBX_CONFIG_LOWER_BASE,
                          SBX_LOCAL_BASE_TEMPLATE);
}

static void add_protected(struct sbx__local_preparing* p) {
  p->existing = sbx_local_protect_existing(p->options);
  p->repository = sbx_local_protect_repository(p->options);
  if (p->options->level != SBX_LEVEL_FULL) return;
  sbx_local_protect_add(p->options, p->config);
  p->protected = sbx_local_protect_present(p->options);
}

/* A process that was killed during a restore left both states. */
static int recover(struct sbx__local_preparing* p) {
  char words[SBX_SYS_TEXT_MAX];
  int fd, rc;

  if (p->options->kind == SBX_LOCAL_TEMPORARY) return 0;
  fd = open(p->folder.workspace, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return 0; /* the start itself says why */
  rc = sbx_archive_recover(fd);
  close(fd);
  if (rc == 0) return 0;
  return sbx_error_set(&p->error, SBX_E_UNAVAILABLE, -rc, "start",
                       "An interrupted restore in \"%.300s\" could not be "
                       "finished: %s. Look at \"%s\" there.",
                       p->folder.workspace, sbx_sys_text(-rc, words),
                       SBX_ARCHIVE_STAGE);
}

static void add_session(struct sbx__local_preparing* p) {
  const struct sbx_local_options* o = p->options;
  struct sbx_config* c = p->config;

  sbx_config_add_text(c, SBX_CONFIG_WORKSPACE, p->folder.workspace);
  sbx_config_add_text(c, SBX_CONFIG_MOUNTPOINT, o->cwd);
  sbx_config_add_number(c, SBX_CONFIG_LEVEL, o->level);
  sbx_config_add_number(c, SBX_CONFIG_INNER_ID, SBX_LOCAL_INNER_ID);
  sbx_config_add_number(c, SBX_CONFIG_NETWORK, o->network);
  sbx_config_add_text(c, SBX_CONFIG_HOSTNAME, "sandbox");
  sbx_local_limits_add(&o->limits, TMP_BYTES, c);
  if (o->cgroup != NULL) sbx_config_add_text(c, SBX_CONFIG_CGROUP, o->cgroup);
  if (o->kind == SBX_LOCAL_TEMPORARY) {
    sbx_config_add_text(c, SBX_CONFIG_REMOVE, p->folder.path);
    sbx_config_add_number(c, SBX_CONFIG_MAKE, 1);
  }
  if (o->fail_step != 0) {
    sbx_config_add_number(c, SBX_CONFIG_FAIL_STEP, o->fail_step);
    sbx_config_add_number(c, SBX_CONFIG_FAIL_ERRNO, o->fail_errno);
  }
  add_owner(p);
  add_layer(p);
  add_protected(p);
  if (o->level == SBX_LEVEL_LANDLOCK) sbx_confined_add(o, &p->folder, c);
}

void sbx__local_prepare(uv_work_t* work) {
  struct sbx__local_preparing* p = work->data;

  if (sbx_config_new(&p->config) != 0) {
    p->err = sbx_error_set(&p->error, SBX_E_INTERNAL, ENOMEM, "start",
                           "Out of memory.");
    return;
  }
  p->err = build_view(p);
  if (p->err == 0 && p->options->level == SBX_LEVEL_LANDLOCK)
    p->own.own_ids = sbx_confined_may_own(p->options, p->config);
  if (p->err == 0)
    p->err = sbx_local_folder_make(p->options, &p->folder, &p->error);
  if (p->err == 0) p->err = recover(p);
  if (p->err == 0) add_session(p);
  sbx_launcher_fd(); /* the first one writes the program: not on the loop */
}
