/* The Local provider: one launcher session on this machine, with the folder it
 * works in. Blocking file-system work runs on the thread pool.
 *
 *   IDLE -> PREPARING -> STARTING -> RUNNING -> ENDING -> CLEANING -> IDLE
 *
 * ENDING can be entered from every state; whoever asked for the start is then
 * told that it was aborted.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../native/archive/archive.h"
#include "../../native/archive/changes.h"
#include "../../native/session/config.h"
#include "../../native/session/launcher.h"
#include "confined.h"
#include "folder.h"
#include "network.h"
#include "options.h"
#include "protect.h"
#include "snapshot.h"
#include "view.h"
#include "../provider.h"

enum { STOP_GRACE_MS = 2000, TMP_BYTES = 512 << 20 };

enum state { IDLE, PREPARING, STARTING, RUNNING, ENDING, CLEANING };

/* One caller that waits for something to be over. */
struct waiter {
  struct waiter* next;
  sbx_done_cb cb;
  void* arg;
};

struct local {
  struct sbx_sandbox base;
  struct sbx_local_options options; /* never change: workers may read them */
  char* root_workspace;             /* ROOT: its host path */
  char* snapshots;                  /* ROOT: the folder that holds them */
  char* layer;                      /* template of the next start, or NULL */
  char* protected;                  /* paths that are read-only inside, or NULL */
  char* existing; /* those of the list that were there at the first start */
  bool repository; /* there was a .git at this start */
  enum state state;
  enum sbx_level level; /* of the start under way, or of what runs */
  bool falling;         /* to level landlock, once the first try is gone */

  struct sbx_local_folder folder;
  struct sbx_view view;
  struct sbx_session* session;
  struct sbx_session_ready ready;
  struct sbx_root* roots[3]; /* workspace, root, template below */
  struct sbx_local_network network;
  struct sbx_error error; /* of the start under way, then of a lost session */
  bool lost;

  sbx_done_cb start_cb;
  void* start_arg;
  struct waiter* ending; /* destroy and close calls */
  bool destroying;       /* the folder below `root` goes, too */
  bool closing;          /* the struct goes, too */
  bool late_failed;      /* what to tell them once the network is gone */
  struct sbx_error late;
  bool over;             /* closed; waits for `finding` only */
  unsigned finding;
};

/* What the thread pool makes of the options: the loop takes it over. */
struct preparing {
  uv_work_t work;
  struct local* local;
  struct sbx_local_options own; /* borrows all that it points to */
  const struct sbx_local_options* options;
  const char* layer;
  char* protected;
  char* existing;
  bool repository;
  struct sbx_local_folder folder;
  struct sbx_config* config;
  struct sbx_view view;
  int err;
  struct sbx_error error;
};

static void begin_end(struct local* l);

/* The host's name of the workspace is told where it is the user's own, or the
 * only one that commands know. */
static void set_place(struct local* l) {
  l->base.place.inside = l->options.cwd;
  l->base.place.host = l->root_workspace;
  if (l->options.kind == SBX_LOCAL_DIRECTORY)
    l->base.place.host = l->options.directory;
  else if (l->options.level == SBX_LEVEL_NONE && l->folder.workspace != NULL)
    l->base.place.host = l->folder.workspace;
  if (l->level == SBX_LEVEL_LANDLOCK && l->folder.workspace != NULL) {
    l->base.place.inside = l->folder.workspace;
    l->base.place.host = l->options.cwd;
  }
}

/* ---- answers that come at once, but never inside the call ---- */

struct answer {
  uv_timer_t timer;
  sbx_done_cb done;
  sbx_found_cb found;
  bool yes;
  bool failed;
  struct sbx_error error;
  void* arg;
};

static void on_answer_closed(uv_handle_t* handle) {
  free(handle->data);
}

static void on_answer(uv_timer_t* timer) {
  struct answer* a = timer->data;
  const struct sbx_error* error = a->failed ? &a->error : NULL;

  if (a->done != NULL)
    a->done(a->arg, error);
  else
    a->found(a->arg, error, a->yes);
  uv_close((uv_handle_t*) timer, on_answer_closed);
}

/* Without memory the answer comes inside the call after all. */
static void answer(struct local* l, const struct answer* what) {
  struct answer* a = malloc(sizeof(*a));
  struct sbx_error error;

  if (a == NULL) {
    sbx_error_set(&error, SBX_E_INTERNAL, ENOMEM, "local", "Out of memory.");
    if (what->done != NULL)
      what->done(what->arg, &error);
    else
      what->found(what->arg, &error, false);
    return;
  }
  *a = *what;
  uv_timer_init(l->base.loop, &a->timer);
  a->timer.data = a;
  uv_timer_start(&a->timer, on_answer, 0, 0);
}

static void answer_done(struct local* l, sbx_done_cb cb, void* arg,
                        const struct sbx_error* error) {
  struct answer a = {.done = cb, .arg = arg, .failed = error != NULL};

  if (error != NULL) a.error = *error;
  answer(l, &a);
}

/* ---- preparation, on the thread pool ---- */

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

static int build_view(struct preparing* p) {
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

static void add_owner(struct preparing* p) {
  const struct sbx_local_folder* f = &p->folder;

  sbx_config_add_number(p->config, SBX_CONFIG_OWNER_UID, f->owner_uid);
  sbx_config_add_number(p->config, SBX_CONFIG_OWNER_GID, f->owner_gid);
  if (f->base >= 0)
    sbx_config_add_number(p->config, SBX_CONFIG_UID_BASE, (uint64_t) f->base);
  if (f->idmap) sbx_config_add_number(p->config, SBX_CONFIG_IDMAP, 1);
}

/* Without ids of its own a root's session would see foreign owners in it. */
static void add_layer(struct preparing* p) {
  const struct sbx_local_options* o = p->options;

  if (p->layer == NULL || o->kind != SBX_LOCAL_TEMPORARY ||
      o->level != SBX_LEVEL_FULL || (p->folder.base < 0 && geteuid() == 0))
    return;
  sbx_config_add_text(p->config, SBX_CONFIG_LOWER, p->layer);
  if (p->folder.base >= 0)
    sbx_config_add_number(p->config, SBX_CONFIG_LOWER_BASE,
                          SBX_LOCAL_BASE_TEMPLATE);
}

static void add_protected(struct preparing* p) {
  p->existing = sbx_local_protect_existing(p->options);
  p->repository = sbx_local_protect_repository(p->options);
  if (p->options->level != SBX_LEVEL_FULL) return;
  sbx_local_protect_add(p->options, p->config);
  p->protected = sbx_local_protect_present(p->options);
}

/* A process that was killed during a restore left both states. */
static int recover(struct preparing* p) {
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

static void add_session(struct preparing* p) {
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

static void prepare(uv_work_t* work) {
  struct preparing* p = work->data;

  if (sbx_config_new(&p->config) != 0) {
    p->err = sbx_error_set(&p->error, SBX_E_INTERNAL, ENOMEM, "start",
                           "Out of memory.");
    return;
  }
  p->err = build_view(p);
  if (p->err == 0 && p->own.level == SBX_LEVEL_LANDLOCK)
    p->own.own_ids = sbx_confined_may_own(&p->own, p->config);
  if (p->err == 0)
    p->err = sbx_local_folder_make(p->options, &p->folder, &p->error);
  if (p->err == 0) p->err = recover(p);
  if (p->err == 0) add_session(p);
  sbx_launcher_fd(); /* the first one writes the program: not on the loop */
}

/* ---- the end ---- */

static void drop_roots(struct local* l) {
  for (int i = 0; i < 3; i++) {
    if (l->roots[i] != NULL) sbx_root_unref(l->roots[i]);
    l->roots[i] = NULL;
  }
}

static void local_free(struct local* l) {
  l->over = true;
  if (l->finding > 0) return;
  sbx_local_folder_release(&l->folder);
  sbx_local_network_clear(&l->network);
  sbx_view_free(&l->view);
  sbx_local_options_clear(&l->options);
  free(l->root_workspace);
  free(l->snapshots);
  free(l->layer);
  free(l->protected);
  free(l->existing);
  free(l);
}

static void finish_start(struct local* l, const struct sbx_error* error) {
  sbx_done_cb cb = l->start_cb;

  l->start_cb = NULL;
  if (cb != NULL) cb(l->start_arg, error);
}

static void abort_start(struct local* l) {
  struct sbx_error error;

  if (l->start_cb == NULL) return;
  sbx_error_set(&error, SBX_E_ABORTED, 0, "start",
                "The sandbox was ended while it was being started.");
  finish_start(l, &error);
}

static void on_ended(struct local* l, const struct sbx_error* error);

static void on_network_idle(void* arg) {
  struct local* l = arg;

  l->network.on_idle = NULL;
  /* Else the end that is under way will see that the network is gone. */
  if (l->state == IDLE) on_ended(l, l->late_failed ? &l->late : NULL);
}

/* Nothing of a closed sandbox may be left on the loop. */
static bool wait_for_network(struct local* l, const struct sbx_error* error) {
  if (!l->closing || l->network.pending == 0) return false;
  l->late_failed = error != NULL;
  if (error != NULL) l->late = *error;
  l->network.idle_arg = l;
  l->network.on_idle = on_network_idle;
  l->state = IDLE;
  return true;
}

/* Everything is gone. The struct may go with the last waiter's call. */
static void on_ended(struct local* l, const struct sbx_error* error) {
  struct waiter* list = l->ending;
  bool closing = l->closing;

  if (wait_for_network(l, error)) return;
  l->ending = NULL;
  l->destroying = false;
  l->state = IDLE;
  if (closing) local_free(l);
  while (list != NULL) {
    struct waiter* w = list;

    list = w->next;
    w->cb(w->arg, error);
    free(w);
  }
}

struct cleaning {
  uv_work_t work;
  struct local* local;
  const struct sbx_local_options* options;
  struct sbx_local_folder folder;
  bool destroying;
  int err;
  struct sbx_error error;
};

static void clean(uv_work_t* work) {
  struct cleaning* c = work->data;

  if (c->options->kind == SBX_LOCAL_TEMPORARY || c->destroying)
    c->err = sbx_local_folder_remove(c->options, &c->folder, &c->error);
  sbx_local_folder_sweep(&c->folder);
  sbx_local_folder_release(&c->folder);
}

static void begin_clean(struct local* l);

/* A failed start is told here, when nothing is left of it. */
static void on_cleaned(uv_work_t* work, int status) {
  struct cleaning* c = work->data;
  struct local* l = c->local;
  struct sbx_error error = c->error;
  struct sbx_error why = l->error;
  bool failed = c->err != 0;
  bool again = l->destroying && !c->destroying;

  (void) status;
  free(c);
  if (again) {
    begin_clean(l);
    return;
  }
  l->state = IDLE;
  finish_start(l, &why);
  if (l->state != IDLE) return; /* the caller went on at once */
  if (l->ending != NULL) on_ended(l, failed ? &error : NULL);
}

static void begin_clean(struct local* l) {
  struct cleaning* c = calloc(1, sizeof(*c));

  l->state = CLEANING;
  if (c != NULL) {
    c->local = l;
    c->options = &l->options;
    c->folder = l->folder;
    c->destroying = l->destroying;
    c->work.data = c;
    sbx_local_folder_init(&l->folder);
    set_place(l);
    uv_queue_work(l->base.loop, &c->work, clean, on_cleaned);
    return;
  }
  /* Without memory for a worker, what is on disk stays. */
  sbx_local_folder_release(&l->folder);
  set_place(l);
  abort_start(l);
  on_ended(l, NULL);
}

static void queue_prepare(struct local* l);

/* Nothing is left of the first try but a lock and the user's own folders. */
static void fall(struct local* l) {
  sbx_local_folder_release(&l->folder);
  sbx_view_free(&l->view);
  l->falling = false;
  l->level = SBX_LEVEL_LANDLOCK;
  queue_prepare(l);
}

static void on_session_closed(void* arg) {
  struct local* l = arg;

  if (l->falling && l->ending == NULL)
    fall(l);
  else
    begin_clean(l);
}

static void begin_end(struct local* l) {
  struct sbx_session* session = l->session;

  if (l->state == ENDING || l->state == CLEANING) return;
  /* The worker cannot be stopped: its end goes on from here. */
  if (l->state == PREPARING) return;
  l->state = ENDING;
  sbx_local_network_end(&l->network);
  drop_roots(l);
  l->session = NULL;
  if (session != NULL)
    sbx_session_close(session, on_session_closed, l);
  else
    begin_clean(l);
}

/* ---- the start ---- */

/* The first failure is the one with a remedy; the second is told along. */
static void tell_both(struct local* l, const struct sbx_error* second) {
  char first[sizeof(l->error.message)];

  snprintf(first, sizeof(first), "%s", l->error.message);
  snprintf(l->error.message, sizeof(l->error.message),
           "%.*s Level \"landlock\" does not work here either: %.*s",
           (int) sizeof(first) / 2, first, (int) sizeof(first) / 2 - 64,
           second->message);
}

static void fail_start(struct local* l, const struct sbx_error* error) {
  if (l->level != l->options.level && error != &l->error)
    tell_both(l, error);
  else if (error != &l->error)
    l->error = *error;
  begin_end(l);
}

static bool may_fall(const struct local* l, const struct sbx_error* error) {
  return l->options.may_fall && l->level == SBX_LEVEL_FULL &&
         sbx_confined_refused(error->step, error->sys);
}

static int64_t file_id(const struct local* l, uint32_t owner) {
  const struct sbx_local_folder* f = &l->folder;

  if (l->level == SBX_LEVEL_LANDLOCK)
    return f->run_uid < 0 ? -1 : (int64_t) owner;
  if (f->base < 0) return -1;
  if (!f->idmap || (l->ready.flags & SBX_READY_IDMAPPED) != 0)
    return f->base + SBX_LOCAL_INNER_ID;
  return owner == 0 ? -1 : (int64_t) owner;
}

/* At level landlock the second one is HOME and TMPDIR: "/" is the machine's. */
static const char* second_root(const struct local* l) {
  return l->level == SBX_LEVEL_LANDLOCK ? l->folder.scratch : "/";
}

static int open_root(struct local* l, int scope, int fd, const char* inside) {
  struct sbx_root_spec spec = {
      .fd = fd,
      .inside = inside,
      .fsuid = file_id(l, l->folder.owner_uid),
      .fsgid = file_id(l, l->folder.owner_gid),
  };

  if (fd < 0) return -1;
  if (sbx_root_new(&spec, &l->roots[scope]) == 0) return 0;
  l->roots[scope] = NULL;
  close(fd);
  return -1;
}

/* Without it changes() fails, and nothing else. */
static void open_template(struct local* l) {
  struct sbx_root_spec spec = {.inside = "/", .fsuid = -1, .fsgid = -1};

  if ((l->ready.flags & SBX_READY_OVERLAY) == 0 || l->layer == NULL) return;
  spec.fd = open(l->layer, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (spec.fd < 0 || sbx_root_new(&spec, &l->roots[2]) == 0) return;
  l->roots[2] = NULL;
  close(spec.fd);
}

static int open_roots(struct local* l) {
  int workspace = l->ready.workspace_fd;
  int root = l->ready.root_fd;
  int err;

  l->ready.workspace_fd = l->ready.root_fd = -1;
  open_template(l);
  err = open_root(l, 0, workspace, l->base.place.inside);
  return open_root(l, 1, root, second_root(l)) != 0 ? -1 : err;
}

static void on_ready(void* data, const struct sbx_error* error,
                     const struct sbx_session_ready* ready) {
  struct local* l = data;

  if (error != NULL) {
    bool falls = may_fall(l, error);

    fail_start(l, error);
    l->falling = falls;
    return;
  }
  l->ready = *ready;
  if (open_roots(l) != 0) {
    sbx_error_set(&l->error, SBX_E_INTERNAL, 0, "start",
                  "The sandbox's folders could not be taken over.");
    fail_start(l, &l->error);
    return;
  }
  if (sbx_local_network_start(&l->network, l->session, &l->error) != 0) {
    fail_start(l, &l->error);
    return;
  }
  l->state = RUNNING;
  l->base.epoch++;
  finish_start(l, NULL);
}

static void on_lost(void* data, const struct sbx_error* error) {
  struct local* l = data;

  l->error = *error;
  l->lost = true;
  begin_end(l);
}

/* From here on everything belongs to the sandbox, and its end cleans it up. */
static void take_prepared(struct local* l, struct preparing* p) {
  bool fell = l->level != l->options.level;

  l->folder = p->folder;
  l->view = p->view;
  free(l->protected);
  l->protected = p->protected;
  l->repository = p->repository;
  if (l->existing == NULL) l->existing = p->existing;
  else free(p->existing);
  if (fell && p->err != 0)
    tell_both(l, &p->error);
  else if (!fell)
    l->error = p->error;
  set_place(l);
}

static void on_prepared(uv_work_t* work, int status) {
  struct preparing* p = work->data;
  struct local* l = p->local;
  struct sbx_session_events events = {l, on_ready, on_lost};
  int err = p->err;

  (void) status;
  l->state = STARTING;
  take_prepared(l, p);
  if (l->ending != NULL) {
    abort_start(l);
    begin_end(l);
  } else {
    if (err == 0)
      err = sbx_local_network_prepare(&l->network, l->level, p->config,
                                      &l->error);
    if (err == 0)
      err = sbx_session_start(l->base.loop, p->config, &events, &l->session,
                              &l->error);
    if (err != 0) fail_start(l, &l->error);
  }
  sbx_config_free(p->config);
  free(p);
}

static void queue_prepare(struct local* l) {
  struct preparing* p = calloc(1, sizeof(*p));

  if (p == NULL) {
    l->state = STARTING;
    sbx_error_set(&l->error, SBX_E_INTERNAL, ENOMEM, "start",
                  "Out of memory.");
    begin_end(l);
    return;
  }
  l->state = PREPARING;
  p->local = l;
  p->layer = l->layer;
  p->own = l->options;
  p->own.level = l->level;
  p->options = &p->own;
  p->work.data = p;
  sbx_local_folder_init(&p->folder);
  uv_queue_work(l->base.loop, &p->work, prepare, on_prepared);
}

static void begin_prepare(struct local* l, sbx_done_cb cb, void* arg) {
  sbx_view_free(&l->view);
  l->lost = false;
  l->falling = false;
  l->level = l->options.level;
  l->start_cb = cb;
  l->start_arg = arg;
  queue_prepare(l);
}

static void start(struct local* l, sbx_done_cb cb, void* arg) {
  struct sbx_error error;

  if (l->state == RUNNING) {
    l->base.epoch++;
    answer_done(l, cb, arg, NULL);
    return;
  }
  if (l->state != IDLE) {
    sbx_error_set(&error, SBX_E_CONFLICT, 0, "start",
                  "The sandbox is being started or ended already.");
    answer_done(l, cb, arg, &error);
    return;
  }
  begin_prepare(l, cb, arg);
}

/* ---- the network ---- */

static int open_network(struct local* l, struct sbx_error* error) {
  const struct sbx_local_options* o = &l->options;
  bool proxied = !o->network && o->level != SBX_LEVEL_NONE;

  if (sbx_local_network_init(&l->network, l->base.loop, proxied) != 0)
    return sbx_error_set(error, SBX_E_INTERNAL, 0, "open",
                         "This system gives no random numbers.");
  return sbx_local_network_allow(&l->network,
                                 (const char* const*) o->allow.items,
                                 o->allow.len, error);
}

struct exposing {
  uv_timer_t timer;
  sbx_exposed_cb cb;
  void* arg;
  int err;
  unsigned port;
  struct sbx_error error;
};

static void on_exposed(uv_timer_t* timer) {
  struct exposing* e = timer->data;
  struct sbx_exposed exposed = {.host = "127.0.0.1", .port = e->port};

  e->cb(e->arg, e->err != 0 ? &e->error : NULL, &exposed);
  uv_close((uv_handle_t*) timer, on_answer_closed);
}

static void local_expose(struct sbx_sandbox* s, unsigned port,
                         sbx_exposed_cb cb, void* arg) {
  struct local* l = (struct local*) s;
  struct exposing* e = calloc(1, sizeof(*e));
  struct sbx_error error;

  if (e == NULL) {
    sbx_error_set(&error, SBX_E_INTERNAL, ENOMEM, "ports.expose",
                  "Out of memory.");
    cb(arg, &error, NULL);
    return;
  }
  e->cb = cb;
  e->arg = arg;
  e->err = l->state != RUNNING
               ? sbx_error_set(&e->error, SBX_E_UNAVAILABLE, 0, "ports.expose",
                               "%s", l->lost ? l->error.message
                                             : "The sandbox is not started.")
               : sbx_local_network_expose(&l->network, l->session, port,
                                          &e->port, &e->error);
  uv_timer_init(l->base.loop, &e->timer);
  e->timer.data = e;
  uv_timer_start(&e->timer, on_exposed, 0, 0);
}

static void local_unexpose(struct sbx_sandbox* s, unsigned port) {
  sbx_local_network_unexpose(&((struct local*) s)->network, port);
}

static int local_set_network(struct sbx_sandbox* s, const char* const* hosts,
                             size_t count, struct sbx_error* error) {
  struct local* l = (struct local*) s;

  if (l->options.level == SBX_LEVEL_NONE)
    return sbx_error_set(error, SBX_E_UNSUPPORTED, 0, "network",
                         "At isolation \"none\" there is no network policy: "
                         "every host can be reached.");
  if (!l->network.proxied)
    return sbx_error_set(error, SBX_E_UNSUPPORTED, 0, "network",
                         "This sandbox was made with network: \"allow\", which "
                         "shares the machine's network and cannot be taken "
                         "back: make a new one with \"deny\" or a list.");
  return sbx_local_network_allow(&l->network, hosts, count, error);
}

static void local_watch_network(struct sbx_sandbox* s, sbx_denied_cb cb,
                                void* arg) {
  struct local* l = (struct local*) s;

  l->network.on_denied = cb;
  l->network.denied_arg = arg;
}

/* ---- the table ---- */

static int local_open(uv_loop_t* loop, const struct sbx_options* options,
                      struct sbx_sandbox** out, struct sbx_error* error) {
  struct local* l = calloc(1, sizeof(*l));
  int err;

  *out = NULL;
  if (l == NULL)
    return sbx_error_set(error, SBX_E_INTERNAL, ENOMEM, "open",
                         "Out of memory.");
  err = sbx_local_options_read(options, &l->options, error);
  if (err != 0) {
    free(l);
    return err;
  }
  l->base.provider = &sbx_provider_local;
  l->base.loop = loop;
  l->level = l->options.level;
  l->ready.workspace_fd = l->ready.root_fd = -1;
  sbx_local_folder_init(&l->folder);
  err = open_network(l, error);
  if (err != 0) {
    local_free(l);
    return err;
  }
  if (l->options.kind == SBX_LOCAL_ROOT &&
      (asprintf(&l->root_workspace, "%s/workspace", l->options.folder) < 0 ||
       asprintf(&l->snapshots, "%s/.snapshots", l->options.root) < 0)) {
    l->root_workspace = l->snapshots = NULL;
    local_free(l);
    return sbx_error_set(error, SBX_E_INTERNAL, ENOMEM, "open",
                         "Out of memory.");
  }
  set_place(l);
  *out = &l->base;
  return 0;
}

struct finding {
  uv_work_t work;
  struct local* local;
  sbx_found_cb cb;
  void* arg;
  bool found;
};

static void find(uv_work_t* work) {
  struct finding* f = work->data;

  f->found = sbx_local_folder_exists(&f->local->options);
}

static void on_found(uv_work_t* work, int status) {
  struct finding* f = work->data;
  struct local* l = f->local;

  (void) status;
  l->finding--;
  f->cb(f->arg, NULL, f->found);
  free(f);
  if (l->over && l->finding == 0) local_free(l);
}

static void local_find(struct sbx_sandbox* s, sbx_found_cb cb, void* arg) {
  struct local* l = (struct local*) s;
  struct answer at_once = {.found = cb, .arg = arg,
                           .yes = l->state == RUNNING};
  struct finding* f;

  if (l->state == RUNNING || l->options.kind == SBX_LOCAL_TEMPORARY) {
    answer(l, &at_once);
    return;
  }
  f = calloc(1, sizeof(*f));
  if (f == NULL) {
    answer(l, &at_once);
    return;
  }
  f->local = l;
  f->cb = cb;
  f->arg = arg;
  f->work.data = f;
  l->finding++;
  uv_queue_work(l->base.loop, &f->work, find, on_found);
}

static void local_start(struct sbx_sandbox* s, sbx_done_cb cb, void* arg) {
  start((struct local*) s, cb, arg);
}

static void on_stopped(void* arg) {
  struct waiter* w = arg;

  w->cb(w->arg, NULL);
  free(w);
}

static void local_stop(struct sbx_sandbox* s, sbx_done_cb cb, void* arg) {
  struct local* l = (struct local*) s;
  struct waiter* w = l->state == RUNNING ? malloc(sizeof(*w)) : NULL;

  if (w == NULL) {
    answer_done(l, cb, arg, NULL);
    return;
  }
  *w = (struct waiter){NULL, cb, arg};
  sbx_local_network_unexpose_all(&l->network);
  sbx_session_end_all(l->session, STOP_GRACE_MS, on_stopped, w);
}

static void end(struct local* l, sbx_done_cb cb, void* arg) {
  struct waiter* w = malloc(sizeof(*w));
  struct sbx_error error;

  if (w == NULL) {
    sbx_error_set(&error, SBX_E_INTERNAL, ENOMEM, "destroy", "Out of memory.");
    answer_done(l, cb, arg, &error);
    return;
  }
  *w = (struct waiter){l->ending, cb, arg};
  l->ending = w;
  if (l->state == STARTING) abort_start(l);
  begin_end(l);
}

static void local_destroy(struct sbx_sandbox* s, sbx_done_cb cb, void* arg) {
  struct local* l = (struct local*) s;

  l->destroying = true;
  end(l, cb, arg);
}

static void local_close(struct sbx_sandbox* s, sbx_done_cb cb, void* arg) {
  struct local* l = (struct local*) s;

  l->closing = true;
  end(l, cb, arg);
}

/* The session may have ended meanwhile. */
static void on_paused(void* arg) {
  struct waiter* w = arg;

  w->cb(w->arg, NULL);
  free(w);
}

static int not_started(const struct local* l, const char* operation,
                       struct sbx_error* error);

static void set_paused(struct local* l, bool paused, sbx_done_cb cb,
                       void* arg) {
  struct waiter* w = l->state == RUNNING ? malloc(sizeof(*w)) : NULL;
  struct sbx_error error;

  if (w == NULL) {
    not_started(l, paused ? "pause" : "unpause", &error);
    answer_done(l, cb, arg, &error);
    return;
  }
  *w = (struct waiter){NULL, cb, arg};
  sbx_session_pause(l->session, paused, on_paused, w);
}

static void local_pause(struct sbx_sandbox* s, sbx_done_cb cb, void* arg) {
  set_paused((struct local*) s, true, cb, arg);
}

static void local_unpause(struct sbx_sandbox* s, sbx_done_cb cb, void* arg) {
  set_paused((struct local*) s, false, cb, arg);
}

static void local_touch(struct sbx_sandbox* s) {
  (void) s;
}

static int not_started(const struct local* l, const char* operation,
                       struct sbx_error* error) {
  if (l->lost)
    return sbx_error_set(error, SBX_E_UNAVAILABLE, 0, operation, "%s",
                         l->error.message);
  return sbx_error_set(error, SBX_E_UNAVAILABLE, 0, operation,
                       "The sandbox is not started.");
}

static struct sbx_root* root_of(const struct local* l, int scope) {
  return scope < 0 || scope > 2 ? NULL : l->roots[scope];
}

/* The template is read and nothing else. */
static bool may(int scope, enum sbx_file_verb verb) {
  return scope != 2 || verb == SBX_FILE_READ || verb == SBX_FILE_STAT;
}

static int request_changes(struct local* l, sbx_file_cb cb, void* arg) {
  struct sbx_changes_spec spec;
  char* upper;

  if (l->roots[2] == NULL || l->folder.workspace == NULL ||
      asprintf(&upper, "%s/upper", l->folder.workspace) < 0)
    return SBX_E_UNSUPPORTED;
  spec.base = open(l->layer, O_PATH | O_DIRECTORY | O_CLOEXEC);
  spec.upper = open(upper, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  free(upper);
  if (spec.base >= 0 && spec.upper >= 0)
    return sbx_changes_request(l->base.loop, &spec, cb, arg);
  if (spec.base >= 0) close(spec.base);
  if (spec.upper >= 0) close(spec.upper);
  return SBX_E_UNAVAILABLE;
}

static int no_such_place(struct sbx_error* error) {
  return sbx_error_set(error, SBX_E_ACCESS, 0, "files",
                       "At level \"landlock\" only the workspace, $HOME and "
                       "$TMPDIR can be reached: the rest is this machine's "
                       "own.");
}

/* At level landlock "/" is the machine, which is not the sandbox's. Negative:
 * `error` is set. Else the root's number. */
static int route(const struct local* l, int scope,
                 struct sbx_file_request* request, struct sbx_error* error) {
  const char* rest;
  int to;

  if (scope != 1 || l->level != SBX_LEVEL_LANDLOCK) return scope;
  scope = sbx_confined_route(&l->folder, l->options.cwd, request->path, &rest);
  if (scope < 0) return no_such_place(error);
  request->path = rest;
  if (request->to == NULL || request->verb == SBX_FILE_GATHER) return scope;
  to = sbx_confined_route(&l->folder, l->options.cwd, request->to, &rest);
  if (to != scope) return no_such_place(error);
  request->to = rest;
  return scope;
}

static int local_file_try(struct sbx_sandbox* s, int scope,
                          const struct sbx_file_request* request,
                          struct sbx_file_result* result,
                          struct sbx_error* error) {
  struct local* l = (struct local*) s;
  struct sbx_file_request routed = *request;

  if (root_of(l, scope) == NULL) return not_started(l, "files", error);
  scope = route(l, scope, &routed, error);
  if (scope < 0) return scope;
  if (scope == 0) {
    int rc = sbx_local_protect_check(&l->options, l->repository, &routed,
                                     error);

    if (rc != 0) return rc;
  }
  return sbx_files_try(l->base.loop, root_of(l, scope), &routed, result, error);
}

/* Every request has been through file_try before. */
static int local_file(struct sbx_sandbox* s, int scope,
                      const struct sbx_file_request* request, sbx_file_cb cb,
                      void* arg) {
  struct local* l = (struct local*) s;
  struct sbx_file_request routed = *request;

  if (root_of(l, scope) == NULL) return SBX_E_UNAVAILABLE;
  if (!may(scope, request->verb)) return SBX_E_UNSUPPORTED;
  if (request->verb == SBX_FILE_CHANGES) return request_changes(l, cb, arg);
  scope = route(l, scope, &routed, NULL);
  if (scope < 0) return scope;
  return sbx_files_request(l->base.loop, root_of(l, scope), &routed, cb, arg);
}

/* The same folder under its other name: commands know only one of them. */
static char* map_cwd(const struct local* l, const char* cwd) {
  const char* inside = l->base.place.inside;
  const char* from = l->base.place.host;
  const char* to = inside;
  char* out;

  if (l->options.level == SBX_LEVEL_NONE) {
    from = inside;
    to = l->folder.workspace;
  } else if (from != NULL && sbx_view_below(inside, cwd)) {
    from = NULL;
  }
  if (from == NULL || !sbx_view_below(from, cwd)) return strdup(cwd);
  if (asprintf(&out, "%s%s", to, cwd + strlen(from)) < 0) return NULL;
  return out;
}

static int local_spawn(struct sbx_sandbox* s,
                       const struct sbx_process_spec* spec,
                       const struct sbx_process_events* events,
                       struct sbx_process** out, struct sbx_error* error) {
  struct local* l = (struct local*) s;
  struct sbx_process_spec mapped = *spec;
  char* cwd;
  int err;

  *out = NULL;
  mapped.output_rate = l->options.limits.output_rate;
  if (l->state != RUNNING) return not_started(l, "processes.start", error);
  if (spec->cwd == NULL)
    return sbx_process_spawn(l->session, &mapped, events, out, error);
  cwd = map_cwd(l, spec->cwd);
  if (cwd == NULL)
    return sbx_error_set(error, SBX_E_INTERNAL, ENOMEM, "processes.start",
                         "Out of memory.");
  mapped.cwd = cwd;
  err = sbx_process_spawn(l->session, &mapped, events, out, error);
  free(cwd);
  return err;
}

/* ---- snapshots ---- */

/* A restore waits for the end of every process. */
struct restoring {
  struct local* local;
  struct sbx_local_snapshot spec;
  char* store;
  char* id;
};

static void restoring_free(struct restoring* r) {
  sbx_root_unref(r->spec.root);
  free(r->store);
  free(r->id);
  free(r);
}

static void on_quiet(void* arg) {
  struct restoring* r = arg;
  struct sbx_error error;

  if (sbx_local_snapshot_request(r->local->base.loop, &r->spec, &error) != 0)
    r->spec.cb(r->spec.arg, &error, NULL, 0);
  restoring_free(r);
}

static int restore(struct local* l, const struct sbx_local_snapshot* spec,
                   struct sbx_error* error) {
  struct restoring* r = calloc(1, sizeof(*r));

  if (r != NULL) {
    *r = (struct restoring){.local = l, .spec = *spec,
                            .store = strdup(spec->store),
                            .id = strdup(spec->id)};
    sbx_root_ref(r->spec.root);
    r->spec.store = r->store;
    r->spec.id = r->id;
  }
  if (r == NULL || r->store == NULL || r->id == NULL) {
    if (r != NULL) restoring_free(r);
    return sbx_error_set(error, SBX_E_INTERNAL, ENOMEM, "snapshots.restore",
                         "Out of memory.");
  }
  sbx_session_end_all(l->session, 0, on_quiet, r);
  return 0;
}

/* With protected parts mounted in it, a directory can only be exchanged while
 * no session has it. */
static int open_idle(struct local* l, struct sbx_root** out,
                     struct sbx_error* error) {
  struct sbx_root_spec spec = {.inside = "/", .fsuid = -1, .fsgid = -1};
  struct statx st;

  spec.fd = open(l->options.directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (spec.fd >= 0 && geteuid() == 0 &&
      statx(spec.fd, "", AT_EMPTY_PATH, STATX_UID | STATX_GID, &st) == 0 &&
      st.stx_uid != 0) {
    spec.fsuid = st.stx_uid;
    spec.fsgid = st.stx_gid;
  }
  if (spec.fd >= 0 && sbx_root_new(&spec, out) == 0) return 0;
  if (spec.fd >= 0) close(spec.fd);
  return sbx_error_set(error, SBX_E_UNAVAILABLE, errno, "snapshots.restore",
                       "The directory \"%.300s\" cannot be opened.",
                       l->options.directory);
}

static int local_snapshot(struct sbx_sandbox* s, enum sbx_snapshot_verb verb,
                          const char* store, const char* id,
                          sbx_snapshot_cb cb, void* arg,
                          struct sbx_error* error) {
  struct local* l = (struct local*) s;
  bool idle = verb == SBX_SNAPSHOT_RESTORE && l->state == IDLE &&
              l->options.kind == SBX_LOCAL_DIRECTORY;
  struct sbx_local_snapshot spec = {
      .verb = verb,
      .root = l->roots[0],
      .store = store[0] == '\0' ? l->snapshots : store,
      .id = id,
      .cb = cb,
      .arg = arg};
  int rc;

  if (verb == SBX_SNAPSHOT_RESTORE && l->state == RUNNING && id != NULL)
    return restore(l, &spec, error);
  if (idle && open_idle(l, &spec.root, error) != 0) return error->code;
  rc = sbx_local_snapshot_request(l->base.loop, &spec, error);
  if (idle) sbx_root_unref(spec.root);
  return rc;
}

static int local_use_layer(struct sbx_sandbox* s, const char* path) {
  struct local* l = (struct local*) s;
  char* copy = path == NULL ? NULL : strdup(path);

  if (l->state != IDLE) {
    free(copy);
    return -EBUSY; /* a worker may be reading it */
  }
  free(l->layer);
  l->layer = copy;
  return path != NULL && copy == NULL ? -ENOMEM : 0;
}

/* ---- facts ---- */

static const char* uid_mode(const struct local* l) {
  if (l->options.level == SBX_LEVEL_NONE) return "none";
  if (l->folder.base < 0)
    return l->folder.run_uid < 0 ? "self" : "owner";
  if (!l->folder.idmap) return "range";
  return (l->ready.flags & SBX_READY_IDMAPPED) != 0 ? "idmapped" : "owner";
}

/* The file system takes no id-mapped mount and its owner is root: commands have
 * root's id, without any of its powers but the owner's own. */
static bool runs_as_root(const struct local* l) {
  return strcmp(uid_mode(l), "owner") == 0 && l->folder.owner_uid == 0;
}

/* Only mounts can take parts out of a folder that is to be written. */
static void degraded_protect(const struct local* l, char* out, size_t size) {
  size_t len = strlen(out);

  if (l->options.protect.len == 0) return;
  snprintf(out + len, size - len,
           "%sprotect holds for the file tools only: commands can change those "
           "paths, too",
           len > 0 ? "\n" : "");
}

/* The kernel counts processes by user and user namespace. */
static bool counts_processes(const struct local* l) {
  if (l->level == SBX_LEVEL_LANDLOCK) return sbx_confined_counts(&l->folder);
  return l->level == SBX_LEVEL_FULL;
}

static void degraded(const struct local* l, char* out, size_t size) {
  size_t len = l->state != RUNNING
                   ? 0
                   : sbx_local_limits_degraded(&l->options.limits,
                                               counts_processes(l),
                                               l->ready.flags, out, size);

  out[len] = '\0';
  if (l->options.level == SBX_LEVEL_NONE) {
    snprintf(out + len, size - len,
             "isolation \"none\": commands run as this user, see the whole "
             "machine and its network");
    if (l->options.protects) degraded_protect(l, out, size);
    return;
  }
  if (l->state != RUNNING) return;
  if (l->level == SBX_LEVEL_LANDLOCK) {
    sbx_confined_degraded(&l->options, &l->folder, l->ready.flags,
                          l->ready.landlock_abi, out + len, size - len);
    degraded_protect(l, out, size);
    return;
  }
  snprintf(out + len, size - len, "%s%s%s%s",
           runs_as_root(l)
               ? "the file system of the workspace cannot map owners: commands "
                 "have root's id (no capabilities) and read what only root may "
                 "in the folders they see\n"
               : "",
           l->ready.landlock_abi == 0
               ? "this kernel has no Landlock; the other layers hold\n"
               : "",
           (l->ready.flags & SBX_READY_NOTIFIER) == 0
               ? "chmod with set-id bits is refused instead of supervised\n"
               : "",
           (l->ready.flags & SBX_READY_OWN_PROC) == 0
               ? "/proc is not the sandbox's own\n"
               : "");
  if (out[0] != '\0') out[strlen(out) - 1] = '\0';
}

static void facts_of_host(const struct local* l, sbx_fact_cb cb, void* arg) {
  const struct sbx_local_options* o = &l->options;
  char number[32];
  char text[2048];

  snprintf(number, sizeof(number), "%u", l->ready.landlock_abi);
  cb(arg, "landlockAbi", number);
  sbx_local_limits_tell(&o->limits, counts_processes(l), l->ready.flags, cb,
                        arg);
  sbx_local_network_facts(&l->network, cb, arg);
  cb(arg, "uidMode", uid_mode(l));
  degraded(l, text, sizeof(text));
  if (text[0] != '\0') cb(arg, "degraded", text);
}

static void facts_of_place(const struct local* l, sbx_fact_cb cb, void* arg) {
  bool none = l->options.level == SBX_LEVEL_NONE;
  const char* real = l->folder.workspace;
  char* created;

  cb(arg, "workspaceInside",
     none && real != NULL ? real : l->base.place.inside);
  if (l->level == SBX_LEVEL_LANDLOCK && real != NULL)
    cb(arg, "hostPath", real);
  else if (l->base.place.host != NULL)
    cb(arg, "hostPath", l->base.place.host);
  if (l->folder.path != NULL) cb(arg, "folder", l->folder.path);
  if (l->protected != NULL) cb(arg, "protected", l->protected);
  created = l->existing == NULL
                ? NULL
                : sbx_local_protect_created(&l->options, l->existing);
  if (created != NULL) cb(arg, "protectedCreated", created);
  free(created);
  if (l->state == RUNNING && (l->ready.flags & SBX_READY_OVERLAY) != 0)
    cb(arg, "template", "overlay");
}

static void facts_of_env(const struct local* l, sbx_fact_cb cb, void* arg) {
  const struct sbx_local_options* o = &l->options;
  bool none = o->level == SBX_LEVEL_NONE;
  const char* home = none && o->host_home != NULL ? o->host_home
                                                  : l->view.home;
  const char* path = none && o->host_path != NULL ? o->host_path
                                                  : l->view.path;
  const char* shell = o->shell != NULL ? o->shell : l->view.shell;
  const char* tmp = none ? o->tmpdir : "/tmp";
  struct sbx_confined_env own;

  if (l->level == SBX_LEVEL_LANDLOCK && l->folder.scratch != NULL) {
    sbx_confined_env(&l->folder, &own);
    home = own.home;
    tmp = own.tmp;
    cb(arg, "env.SANDBOX_WORKSPACE", l->folder.workspace);
    cb(arg, "env.SANDBOX_SHM", own.shm);
    cb(arg, "env.LD_PRELOAD", own.library);
  }
  if (home != NULL) cb(arg, "home", home);
  if (shell != NULL) cb(arg, "shell", shell);
  if (path != NULL) cb(arg, "env.PATH", path);
  if (home != NULL) cb(arg, "env.HOME", home);
  if (shell != NULL) cb(arg, "env.SHELL", shell);
  cb(arg, "env.USER", "user");
  cb(arg, "env.LANG", "C.UTF-8");
  cb(arg, "env.TMPDIR", tmp);
  for (size_t i = 0; i < l->view.env_len; i++) {
    char key[64];
    const char* value = strchr(l->view.env[i], '=') + 1;

    snprintf(key, sizeof(key), "env.%.*s",
             (int) (value - 1 - l->view.env[i]), l->view.env[i]);
    cb(arg, key, value);
  }
}

static const char* level_name(const struct local* l) {
  if (l->level == SBX_LEVEL_LANDLOCK) return "landlock";
  return l->level == SBX_LEVEL_NONE ? "none" : "full";
}

static const char* mechanisms(const struct local* l) {
  if (l->level == SBX_LEVEL_NONE) return "";
  if (l->level == SBX_LEVEL_LANDLOCK) return "landlock,seccomp";
  return l->ready.landlock_abi > 0 ? "namespaces,seccomp,landlock"
                                   : "namespaces,seccomp";
}

static void local_facts(struct sbx_sandbox* s, sbx_fact_cb cb, void* arg) {
  const struct local* l = (struct local*) s;

  cb(arg, "level", level_name(l));
  cb(arg, "mechanisms", mechanisms(l));
  facts_of_host(l, cb, arg);
  facts_of_place(l, cb, arg);
  facts_of_env(l, cb, arg);
}

static const struct sbx_capability* local_capabilities(struct sbx_sandbox* s,
                                                       size_t* count) {
  static const struct sbx_capability list[] = {
      {"files", "native", NULL},
      {"commands", "native", NULL},
      {"processes", "native", NULL},
      {"stdin", "native", NULL},
      {"stdinClose", "native", NULL},
      {"streaming", "native", NULL},
      {"cancellation", "native", NULL},
      {"timeout", "native", NULL},
      {"signals", "native", NULL},
      {"ports", "native", NULL},
      {"snapshots", "native", NULL},
      {"pty", "native", NULL},
      {"networkPolicy", "native", NULL},
      {"pause", "native", NULL},
      {"watch", "unsupported",
       "no file call watches; fs.watch of Node does, on a directory of yours"},
      {"computer", "unsupported", "Local has no screen"},
  };

  (void) s;
  *count = sizeof(list) / sizeof(list[0]);
  return list;
}

const struct sbx_provider sbx_provider_local = {
    .name = "local",
    .open = local_open,
    .find = local_find,
    .create = local_start,
    .connect = local_start,
    .stop = local_stop,
    .resume = local_start,
    .destroy = local_destroy,
    .touch = local_touch,
    .pause = local_pause,
    .unpause = local_unpause,
    .close = local_close,
    .file_try = local_file_try,
    .file = local_file,
    .spawn = local_spawn,
    .snapshot = local_snapshot,
    .use_layer = local_use_layer,
    .expose = local_expose,
    .unexpose = local_unexpose,
    .set_network = local_set_network,
    .watch_network = local_watch_network,
    .facts = local_facts,
    .capabilities = local_capabilities,
};
