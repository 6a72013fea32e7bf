/* Snapshots of a cloud sandbox's workspace: one archive, packed and unpacked by
 * the sandbox's own tar, moved by the service's transfer, and kept in a folder
 * of this machine, where it costs nothing and nobody else holds it.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "../../native/parse/base64.h"
#include "../../native/memfd.h"
#include "../local/snapshot.h"
#include "internal.h"

enum {
  ARCHIVE_MAX = 1 << 30, /* it is held in memory while it moves */
  INLINE_MAX = 64 * 1024,
  PACK_MS = 600000,
  QUIET_MS = 6000
};

/* $1: the file to make, $2: the workspace. What changes meanwhile is no
 * failure. */
static const char pack_script[] =
    "umask 077; cd \"$2\" || exit 3; tar -czf \"$1\" .; r=$?; "
    "[ $r -le 1 ] && exit 0; rm -f \"$1\"; exit $r";

/* $1: the archive (file, or text in base64 where $3 is set), $2: the workspace,
 * $4: set for a restore, which puts it in the place of all that is there. */
static const char unpack_script[] =
    "cd \"$2\" || exit 3\n"
    "d=.\n"
    "s=.sandbox-sdk-restore.$$\n"
    "if [ \"$4\" ]; then mkdir \"$s\" \"$s/new\" \"$s/old\" || exit 4; "
    "d=$s/new; fi\n"
    "if [ \"$3\" ]; then printf %s \"$1\" | base64 -d | tar -xzf - -C \"$d\"\n"
    "else tar -xzf \"$1\" -C \"$d\"; fi\n"
    "r=$?\n"
    "[ \"$3\" ] || rm -f \"$1\"\n"
    "[ \"$4\" ] || exit $r\n"
    "if [ $r != 0 ]; then rm -rf \"$s\"; exit $r; fi\n"
    "find . -mindepth 1 -maxdepth 1 ! -name \"$s\" "
    "-exec mv {} \"$s/old/\" \\;\n"
    "find \"$s/new\" -mindepth 1 -maxdepth 1 -exec mv {} . \\;\n"
    "rm -rf \"$s\"\n";

struct snap {
  struct sbx__remote_work work; /* first */
  struct sbx_remote* remote;
  enum sbx_snapshot_verb verb;
  const char* operation;
  char* store;
  char id[248];
  char inside[64]; /* the archive in the sandbox */
  char* data;
  size_t len, size;
  char* text; /* in base64 */
  struct sbx__command* command;
  struct sbx_drive* drive;
  uv_work_t pool;
  bool pooled;  /* the thread pool has it */
  bool stopped; /* meanwhile */
  uv_timer_t timer;
  bool timed;
  bool over;
  int code;
  struct sbx_error error;
  sbx_snapshot_cb cb;
  void* arg;
};

/* ---- the end ---- */

static void snap_free(struct snap* s) {
  free(s->store);
  free(s->data);
  free(s->text);
  free(s);
}

static void on_timer_closed(uv_handle_t* handle) {
  struct snap* s = handle->data;

  s->timed = false;
  if (s->over && !s->pooled) snap_free(s);
}

/* The last touch. */
static void finish(struct snap* s, const struct sbx_error* error,
                   const struct sbx_snapshot* list, size_t count) {
  sbx_snapshot_cb cb = s->cb;
  void* arg = s->arg;
  struct sbx_error copy;

  error = sbx_error_keep(&copy, error);
  sbx__remote_unlink(&s->work);
  if (s->command != NULL) sbx__command_close(s->command);
  if (s->drive != NULL) sbx_drive_close(s->drive);
  if (s->timed) uv_close((uv_handle_t*) &s->timer, on_timer_closed);
  s->over = true;
  if (!s->timed && !s->pooled) snap_free(s);
  cb(arg, error, list, count);
}

static void on_stop(struct sbx__remote_work* w,
                    const struct sbx_error* error) {
  finish((struct snap*) w, error, NULL, 0);
}

static void fail_memory(struct snap* s) {
  struct sbx_error error;

  sbx__remote_no_memory(&error, s->operation);
  finish(s, &error, NULL, 0);
}

/* ---- commands and transfers ---- */

static int on_no_bytes(void* data, const char* bytes, size_t len) {
  (void) data;
  (void) bytes;
  (void) len;
  return 0;
}

static void command(struct snap* s, const char* const* argv, size_t argc,
                    void (*on_end)(void*, const struct sbx__command_end*)) {
  struct sbx__command_spec spec = {.argv = argv, .argc = argc,
                                   .timeout_ms = PACK_MS,
                                   .operation = s->operation};
  struct sbx__command_events events = {s, on_no_bytes, on_end};
  struct sbx_error error;

  if (sbx__command_start(s->remote, &spec, &events, &s->command, &error) != 0)
    finish(s, &error, NULL, 0);
}

/* Whether it went well; else it has been told. */
static bool ended_well(struct snap* s, const struct sbx__command_end* end,
                       const char* what) {
  char text[400];
  struct sbx_error error;
  size_t len = end->stderr_len < sizeof(text) - 1 ? end->stderr_len
                                                  : sizeof(text) - 1;

  s->command = NULL;
  if (end->error != NULL) {
    finish(s, end->error, NULL, 0);
    return false;
  }
  if (end->exit_code == 0) return true;
  memcpy(text, end->stderr_text, len);
  text[len] = '\0';
  sbx_error_set(&error, SBX_E_PROVIDER, 0, s->operation,
                "The sandbox could not %s the workspace (exit code %d): %s",
                what, end->exit_code, text);
  finish(s, &error, NULL, 0);
  return false;
}

static void transfer(struct snap* s, struct sbx_machine* machine,
                     void (*on_emit)(void*, int64_t, const char*, size_t),
                     void (*on_done)(void*, const struct sbx_error*)) {
  struct sbx_drive_events events = {s, on_emit, on_done};
  struct sbx_error error;

  if (sbx__remote_drive(s->remote, machine, PACK_MS, &events, &s->drive,
                        &error) != 0)
    finish(s, &error, NULL, 0);
}

static bool moved_well(struct snap* s, const struct sbx_error* error) {
  if (error != NULL) {
    finish(s, error, NULL, 0);
    return false;
  }
  sbx_drive_close(s->drive);
  s->drive = NULL;
  return true;
}

static void pool(struct snap* s, uv_work_cb work, uv_after_work_cb after) {
  s->pool.data = s;
  s->pooled = true;
  sbx__remote_pool(s->remote, true);
  /* Fails only without a function to run. */
  uv_queue_work(s->remote->base.loop, &s->pool, work, after);
}

/* False where it was ended meanwhile, or failed, which has been told. */
static bool pooled_well(struct snap* s) {
  struct sbx_remote* r = s->remote;

  s->pooled = false;
  sbx__remote_pool(r, false);
  if (s->over) {
    if (!s->timed) snap_free(s);
    return false;
  }
  if (s->code == 0) return true;
  finish(s, &s->error, NULL, 0);
  return false;
}

static int disk_error(struct snap* s, const char* doing, int sys) {
  char words[SBX_SYS_TEXT_MAX];

  return sbx_error_set(&s->error,
                       sys == ENOENT ? SBX_E_NOT_FOUND : SBX_E_PROVIDER, sys,
                       s->operation, "%s \"%.240s\" in \"%.300s\" failed: %s.",
                       doing, s->id, s->store, sbx_sys_text(sys, words));
}

static int open_store(struct snap* s) {
  int fd = open(s->store, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

  if (fd < 0) s->code = disk_error(s, "Opening the folder of", errno);
  return fd;
}

/* ---- create: pack, download, keep ---- */

static int keep_in(struct snap* s, int store) {
  char name[272], temporary[32];
  uint64_t n = 0;
  int fd, rc;

  if (uv_random(NULL, NULL, &n, sizeof(n), 0, NULL) != 0) n = uv_hrtime();
  snprintf(temporary, sizeof(temporary), ".new-%016llx",
           (unsigned long long) n);
  snprintf(name, sizeof(name), "%s.tar", s->id);
  fd = openat(store, temporary,
              O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) return -errno;
  rc = sbx_write_all(fd, s->data, s->len);
  close(fd);
  if (rc == 0 && renameat(store, temporary, store, name) != 0) rc = -errno;
  if (rc != 0) unlinkat(store, temporary, 0);
  return rc;
}

static void keep(uv_work_t* work) {
  struct snap* s = work->data;
  int store, rc;

  if (mkdir(s->store, 0700) != 0 && errno != EEXIST) {
    s->code = disk_error(s, "Making the folder of", errno);
    return;
  }
  store = open_store(s);
  if (store < 0) return;
  rc = keep_in(s, store);
  if (rc != 0) s->code = disk_error(s, "Writing", -rc);
  close(store);
}

static void on_kept(uv_work_t* work, int status) {
  struct snap* s = work->data;
  struct sbx_snapshot made = {0};
  struct timespec now;

  (void) status; /* nobody cancels it */
  if (!pooled_well(s)) return;
  clock_gettime(CLOCK_REALTIME, &now);
  snprintf(made.id, sizeof(made.id), "%s", s->id);
  made.bytes = s->len;
  made.created_ms = (int64_t) now.tv_sec * 1000 + now.tv_nsec / 1000000;
  finish(s, NULL, &made, 1);
}

static void on_removed(void* data, const struct sbx__command_end* end) {
  struct snap* s = data;

  (void) end; /* it lies in a folder of the kit, which clears it away */
  s->command = NULL;
  pool(s, keep, on_kept);
}

static void on_downloaded(void* data, const struct sbx_error* error) {
  struct snap* s = data;
  const char* argv[] = {"/bin/rm", "-f", s->inside};

  if (moved_well(s, error)) command(s, argv, 3, on_removed);
}

static void too_large(struct snap* s) {
  struct sbx_error error;

  sbx_error_set(&error, SBX_E_UNSUPPORTED, 0, s->operation,
                "The workspace's archive is larger than 1 GiB: remove what can "
                "be made again, such as node_modules.");
  finish(s, &error, NULL, 0);
}

static void on_data(void* data, int64_t what, const char* bytes, size_t len) {
  struct snap* s = data;

  if (what != SBX_EMIT_DATA) return;
  if (len > ARCHIVE_MAX - s->len) {
    too_large(s);
    return;
  }
  if (s->size - s->len < len) {
    size_t size = (s->len + len) * 2;
    char* grown = realloc(s->data, size);

    if (grown == NULL) {
      fail_memory(s);
      return;
    }
    s->data = grown;
    s->size = size;
  }
  memcpy(s->data + s->len, bytes, len);
  s->len += len;
}

static void on_packed(void* data, const struct sbx__command_end* end) {
  struct snap* s = data;
  struct sbx_remote* r = s->remote;

  if (ended_well(s, end, "pack"))
    transfer(s, r->service->download(r->account, s->inside), on_data,
             on_downloaded);
}

static void create(struct snap* s) {
  const char* argv[] = {"/bin/sh", "-c",      pack_script,
                        "sh",      s->inside, s->remote->root};

  command(s, argv, 6, on_packed);
}

/* ---- seed and restore: read, upload, unpack ---- */

static int read_all(struct snap* s, int fd) {
  struct statx st;
  ssize_t n = 1;

  if (statx(fd, "", AT_EMPTY_PATH, STATX_SIZE, &st) != 0) return -errno;
  if (st.stx_size > ARCHIVE_MAX) return -EFBIG;
  s->data = malloc((size_t) st.stx_size + 1);
  if (s->data == NULL) return -ENOMEM;
  while (n > 0 && s->len < (size_t) st.stx_size) {
    n = read(fd, s->data + s->len, (size_t) st.stx_size - s->len);
    if (n < 0) return -errno;
    s->len += (size_t) n;
  }
  return 0;
}

static void read_archive(uv_work_t* work) {
  struct snap* s = work->data;
  char name[272];
  int store = open_store(s);
  int fd, rc;

  if (store < 0) return;
  snprintf(name, sizeof(name), "%s.tar", s->id);
  fd = openat(store, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  rc = fd < 0 ? -errno : read_all(s, fd);
  if (rc != 0) s->code = disk_error(s, "Reading", -rc);
  if (fd >= 0) close(fd);
  close(store);
}

static void on_unpacked(void* data, const struct sbx__command_end* end) {
  struct snap* s = data;

  if (ended_well(s, end, "unpack an archive into")) finish(s, NULL, NULL, 0);
}

static void unpack(struct snap* s) {
  const char* argv[] = {"/bin/sh",
                        "-c",
                        unpack_script,
                        "sh",
                        s->text != NULL ? s->text : s->inside,
                        s->remote->root,
                        s->text != NULL ? "1" : "",
                        s->verb == SBX_SNAPSHOT_RESTORE ? "1" : ""};

  command(s, argv, 8, on_unpacked);
}

static void on_uploaded(void* data, const struct sbx_error* error) {
  struct snap* s = data;

  if (moved_well(s, error)) unpack(s);
}

static void put_back(struct snap* s) {
  struct sbx_remote* r = s->remote;

  if (s->len > INLINE_MAX) {
    transfer(s, r->service->upload(r->account, s->inside, s->data, s->len),
             NULL, on_uploaded);
    return;
  }
  s->text = malloc(SBX_BASE64_ENCODED(s->len) + 1);
  if (s->text == NULL) {
    fail_memory(s);
    return;
  }
  s->text[sbx_base64_encode(s->data, s->len, 0, s->text)] = '\0';
  unpack(s);
}

static struct snap* waiting_of(struct sbx_remote* r) {
  for (struct sbx__remote_work* w = r->works; w != NULL; w = w->next)
    if (w->stop == on_stop && ((struct snap*) w)->timed)
      return (struct snap*) w;
  return NULL;
}

static void on_quiet(struct sbx_remote* r) {
  struct snap* s = waiting_of(r);

  r->on_quiet = NULL;
  if (s == NULL) return;
  uv_timer_stop(&s->timer);
  put_back(s);
}

static void on_late(uv_timer_t* timer) {
  on_quiet(((struct snap*) timer->data)->remote);
}

/* Every process ends before a restore. */
static void on_read(uv_work_t* work, int status) {
  struct snap* s = work->data;
  struct sbx_remote* r = s->remote;

  (void) status;
  if (!pooled_well(s)) return;
  if (s->verb == SBX_SNAPSHOT_SEED || r->processes == 0) {
    put_back(s);
    return;
  }
  uv_timer_init(r->base.loop, &s->timer);
  s->timer.data = s;
  s->timed = true;
  uv_timer_start(&s->timer, on_late, QUIET_MS, 0);
  r->on_quiet = on_quiet;
  sbx__remote_end_all(r, 0);
}

/* ---- the verb ---- */

static struct snap* snap_new(struct sbx_remote* r, enum sbx_snapshot_verb verb,
                             const char* store, const char* id) {
  struct snap* s = calloc(1, sizeof(*s));
  uint64_t n = 0;

  if (s == NULL) return NULL;
  s->store = strdup(store);
  if (s->store == NULL) {
    free(s);
    return NULL;
  }
  if (uv_random(NULL, NULL, &n, sizeof(n), 0, NULL) != 0) n = uv_hrtime();
  s->work.stop = on_stop;
  s->remote = r;
  s->verb = verb;
  s->operation = sbx_snapshot_operation(verb);
  snprintf(s->id, sizeof(s->id), "%s", id);
  snprintf(s->inside, sizeof(s->inside), "/tmp/.sbx/archive-%016llx",
           (unsigned long long) n);
  return s;
}

int sbx_remote_snapshot(struct sbx_sandbox* sandbox,
                        enum sbx_snapshot_verb verb, const char* store,
                        const char* id, sbx_snapshot_cb cb, void* arg,
                        struct sbx_error* error) {
  struct sbx_remote* r = (struct sbx_remote*) sandbox;
  struct sbx_local_snapshot kept = {
      .verb = verb, .store = store, .id = id, .cb = cb, .arg = arg};
  const char* operation = sbx_snapshot_operation(verb);
  struct snap* s;
  int rc;

  if (store[0] == '\0')
    return sbx__remote_kept(r, verb, operation, id, cb, arg, error);
  if (verb == SBX_SNAPSHOT_LIST || verb == SBX_SNAPSHOT_DELETE)
    return sbx_local_snapshot_request(r->base.loop, &kept, error);
  if (verb == SBX_SNAPSHOT_LAYER || store[0] != '/')
    return sbx_error_set(error, SBX_E_UNSUPPORTED, 0, operation,
                         "A sandbox at %s lies on no layers.",
                         r->service->title);
  rc = sbx__remote_check(r, operation, error);
  if (rc != 0) return rc;
  s = snap_new(r, verb, store, id);
  if (s == NULL) return sbx__remote_no_memory(error, operation);
  s->cb = cb;
  s->arg = arg;
  sbx__remote_use(r);
  sbx__remote_link(r, &s->work);
  if (verb == SBX_SNAPSHOT_CREATE)
    create(s);
  else
    pool(s, read_archive, on_read);
  return 0;
}
