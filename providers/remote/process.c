/* Commands of a cloud sandbox: a stream of the service, read through the kit's
 * wrapper, which outlives every broken connection: the command is attached to
 * again, or followed in what the wrapper left, and never run a second time.
 */
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../native/session/process_internal.h"
#include "internal.h"

enum {
  PIECE = 32 * 1024,    /* of input, one request of the service */
  PIECES_ON_WAY = 8,    /* not yet told as written */
  TRIES = 8,            /* to get a broken stream back, without news between */
  SLACK = 1024 * 1024,  /* what comes after a pause: the end may be behind it */
  KILL_TRIES = 3,
  KILL_WAIT_MS = 3000,  /* for the end of what was killed to be told */
  KNOWN_MS = 1000,      /* for the end of a terminal that cannot be joined */
  UNBORN_MS = 500,      /* for the pid of what is to be killed */
  LATE_MS = 3000,       /* what the time limit inside may be late */
  SERVICE_LATE_MS = 15000
};

struct pending_write {
  struct pending_write* next;
  sbx_write_cb cb;
  void* arg;
  size_t sent, len;
  size_t on_way; /* pieces */
  int status;    /* of those that are over */
  char bytes[];
};

struct remote_process {
  struct sbx_process base; /* first */
  struct sbx__remote_work work;
  struct sbx_remote* remote; /* NULL once it has settled */
  struct sbx_kit_run* run;
  struct sbx_drive* drive;
  struct sbx_drive* input; /* where that only follows the command */
  uint32_t pid; /* 0: not told yet */
  uint64_t timeout_ms;
  char* cwd;
  char* cwd_else; /* or NULL */
  bool spooled;
  bool attached; /* another host started it */
  bool follows;  /* the drive is a command that tells what was kept */
  bool stdin_open;
  bool eof_wanted, eof_sent;
  bool eof_denied; /* for good, as the error that comes next says */
  bool lossy;   /* output may be missing */
  bool gone;    /* the service does not know the process any more */
  bool ending;  /* an end was asked for */
  bool killing; /* the kit is at it */
  uint64_t end_grace;
  unsigned kill_tries;
  unsigned tries, input_tries;
  int input_over; /* why stdin is not open, or 0 */
  size_t slack; /* left, while paused */
  bool ended;    /* the kit told the end */
  struct sbx_kit_run_exit exit;
  bool failed; /* there is no end to tell but this */
  struct sbx_error error;
  struct pending_write* first;
  struct pending_write** last;
  size_t on_way;
  uv_timer_t limit; /* time limit, then the wait for a killed one's end */
  bool limited;
  uint64_t limit_left; /* while the sandbox is paused */
  uv_timer_t retry;
  bool retrying; /* the handle is open */
  uv_timer_t input_retry;
  bool input_retrying; /* likewise */
  unsigned holds; /* handles, jobs and callbacks that need the memory */
};

static struct remote_process* of_work(struct sbx__remote_work* w) {
  return (struct remote_process*) ((char*) w -
                                   offsetof(struct remote_process, work));
}

/* ---- memory ---- */

static void release(struct remote_process* p) {
  if (--p->holds > 0 || !p->base.closed) return;
  sbx_kit_run_free(p->run);
  free(p->cwd);
  free(p->cwd_else);
  sbx__process_free(&p->base);
}

static void on_timer_closed(uv_handle_t* handle) {
  release(handle->data);
}

static void timer_close(uv_timer_t* timer, bool* open) {
  if (*open) uv_close((uv_handle_t*) timer, on_timer_closed);
  *open = false;
}

static void timer_start(struct remote_process* p, uv_timer_t* timer,
                        bool* open, uv_timer_cb cb, uint64_t ms) {
  if (!*open) {
    uv_timer_init(p->remote->base.loop, timer);
    timer->data = p;
    p->holds++;
    *open = true;
  }
  uv_timer_start(timer, cb, ms, 0);
}

/* Before the next try, in ms. */
static uint64_t wait_of(unsigned tries) {
  return 100u << (tries < 5 ? tries : 5);
}

static void drop_drive(struct remote_process* p) {
  if (p->drive != NULL) sbx_drive_close(p->drive);
  p->drive = NULL;
}

/* ---- input ---- */

static void write_done(struct pending_write* w, int status) {
  if (w->cb != NULL) w->cb(w->arg, w->status != 0 ? w->status : status);
  free(w);
}

static struct pending_write* write_take(struct remote_process* p) {
  struct pending_write* w = p->first;

  p->first = w->next;
  if (p->first == NULL) p->last = &p->first;
  return w;
}

static void input_end(struct remote_process* p, int status) {
  p->stdin_open = false;
  while (p->first != NULL) {
    struct pending_write* w = write_take(p);

    /* The last words of a command that ends on them did leave. */
    write_done(w, w->sent == w->len ? 0 : status);
  }
}

static bool is_sent(const struct pending_write* w) {
  return w->sent == w->len && w->len > 0;
}

static void on_input_emit(void* data, int64_t what, const char* bytes,
                          size_t len);
static void on_input_done(void* data, const struct sbx_error* error);

/* Whoever ends the wait pumps. */
static bool input_waits(const struct remote_process* p) {
  return p->remote->paused ||
         (p->input_retrying && uv_is_active((uv_handle_t*) &p->input_retry));
}

/* Where input goes now, or NULL. */
static struct sbx_drive* input_of(struct remote_process* p) {
  struct sbx_drive_events events = {p, on_input_emit, on_input_done};
  struct sbx_attach_spec spec = {.pid = p->pid, .terminal = p->base.terminal,
                                 .input_only = true};
  struct sbx_remote* r = p->remote;
  struct sbx_error error;

  if (!p->follows) return p->drive;
  if (p->input == NULL && !input_waits(p))
    sbx__remote_drive(r, r->service->attach(r->account, &spec), 0, &events,
                      &p->input, &error);
  return p->input;
}

static void send_pieces(struct remote_process* p, struct sbx_drive* drive,
                        struct pending_write* w) {
  while (w->sent < w->len && p->on_way < PIECES_ON_WAY) {
    size_t len = w->len - w->sent < PIECE ? w->len - w->sent : PIECE;

    w->on_way++;
    p->on_way++;
    w->sent += len;
    sbx_drive_input(drive, SBX_INPUT_BYTES, w->bytes + w->sent - len, len);
  }
}

/* Whoever is told that something was written may close the process. */
static void input_pump_held(struct remote_process* p) {
  struct pending_write* w = p->first;
  bool idle = w == NULL && (!p->eof_wanted || p->eof_sent);
  struct sbx_drive* drive;

  if (p->pid == 0 || !p->stdin_open || idle) return;
  drive = input_of(p);
  if (drive == NULL) {
    /* Otherwise it comes back; this is for want of memory. */
    if (p->follows && !input_waits(p)) input_end(p, UV_ECONNRESET);
    return;
  }
  while (w != NULL && p->on_way < PIECES_ON_WAY) {
    if (!is_sent(w)) send_pieces(p, drive, w);
    if (w->sent < w->len) return;
    w = w->next;
  }
  while (p->first != NULL && p->first->sent == p->first->len &&
         p->first->on_way == 0)
    write_done(write_take(p), 0);
  if (w != NULL || !p->eof_wanted || p->eof_sent || p->base.settled ||
      p->base.closed)
    return;
  drive = input_of(p); /* who was told may have let it go */
  if (drive == NULL) return;
  p->eof_sent = true;
  sbx_drive_input(drive, SBX_INPUT_EOF, NULL, 0);
}

static void input_pump(struct remote_process* p) {
  p->holds++;
  input_pump_held(p);
  release(p);
}

/* So many pieces are over. What follows one that did not get in would be read
 * in its place. */
static void pieces_over(struct remote_process* p, uint32_t count, int status) {
  p->input_tries = 0;
  p->holds++;
  while (count > 0 && p->first != NULL && p->first->on_way > 0) {
    struct pending_write* w = p->first;

    count--;
    w->on_way--;
    p->on_way--;
    if (status != 0) {
      w->status = status;
      w->len = w->sent;
    }
    if (w->sent == w->len && w->on_way == 0) write_done(write_take(p), 0);
  }
  input_pump_held(p);
  release(p);
}

static void on_written(struct remote_process* p, const char* bytes,
                       size_t len) {
  uint32_t count = 0;

  if (len >= sizeof(count)) memcpy(&count, bytes, sizeof(count));
  pieces_over(p, count, 0);
}

static void on_denied(struct remote_process* p, const char* bytes,
                      size_t len) {
  struct sbx_emit_denied denied = {0};

  if (len >= sizeof(denied)) memcpy(&denied, bytes, sizeof(denied));
  if (denied.count == 0) {
    p->eof_denied = true;
    return;
  }
  pieces_over(p, denied.count, denied.code);
}

/* As behind a pipe whose other end is closed. */
static void on_refused(struct remote_process* p) {
  p->on_way = 0;
  p->stdin_open = false;
  p->holds++;
  while (p->first != NULL) write_done(write_take(p), UV_EPIPE);
  release(p);
}

/* What was on its way will not be told as written; the end may be told twice.
 * Whoever is told may write again, which is not on its way any more. */
static void input_fail(struct remote_process* p, int status) {
  struct pending_write* list = NULL;
  struct pending_write** last = &list;

  p->on_way = 0;
  p->eof_sent = false;
  while (p->first != NULL && p->first->on_way > 0) {
    *last = write_take(p);
    last = &(*last)->next;
  }
  *last = NULL;
  while (list != NULL) {
    struct pending_write* w = list;

    list = w->next;
    write_done(w, status);
  }
}

/* The stream broke: nobody knows whether it has arrived. */
static void input_cut(struct remote_process* p) {
  input_fail(p, UV_ECONNRESET);
}

static void on_input_emit(void* data, int64_t what, const char* bytes,
                          size_t len) {
  if (what == SBX_EMIT_WRITTEN) on_written(data, bytes, len);
  if (what == SBX_EMIT_DENIED) on_denied(data, bytes, len);
}

static void on_input_retry(uv_timer_t* timer) {
  input_pump(timer->data);
}

static bool is_denial(const struct sbx_error* error) {
  return error->code == SBX_E_AUTHENTICATION ||
         error->code == SBX_E_PERMISSION;
}

/* For those whose input it was. */
static int write_status(const struct sbx_error* error) {
  if (error == NULL || error->code == SBX_E_CONFLICT) return UV_EPIPE;
  return is_denial(error) || error->code == SBX_E_NOT_FOUND ? error->code
                                                            : UV_ECONNRESET;
}

static void settle_endless(struct remote_process* p,
                           const struct sbx_error* error);

/* Whether the input's end will not come, and nobody else was told why. */
static bool is_endless(const struct remote_process* p, int status,
                       bool denied) {
  if (!p->eof_wanted || p->ending || p->base.settled || p->base.closed)
    return false;
  return denied || (status != UV_EPIPE && status != SBX_E_NOT_FOUND);
}

static void input_stop(struct remote_process* p, int status, bool denied,
                       const struct sbx_error* error) {
  p->stdin_open = false;
  p->input_over = status;
  input_fail(p, status);
  input_end(p, status);
  if (is_endless(p, status, denied)) settle_endless(p, error);
}

/* What comes next is tried anew, unless the command reads no more. */
static void on_input_done(void* data, const struct sbx_error* error) {
  struct remote_process* p = data;
  struct sbx_error told = {0};
  int status = write_status(error);
  bool denied = p->eof_denied;
  bool over = denied || status == UV_EPIPE || status == SBX_E_NOT_FOUND ||
              ++p->input_tries > TRIES;

  if (error != NULL) told = *error;
  p->eof_denied = false;
  sbx_drive_close(p->input);
  p->input = NULL;
  p->holds++;
  if (over) {
    input_stop(p, status, denied, &told);
    release(p);
    return;
  }
  input_fail(p, status);
  if (p->input_tries > 1 && p->stdin_open)
    timer_start(p, &p->input_retry, &p->input_retrying, on_input_retry,
                wait_of(p->input_tries));
  else
    input_pump_held(p);
  release(p);
}

static int remote_write(struct sbx_process* base, const void* bytes,
                        size_t len, sbx_write_cb cb, void* arg) {
  struct remote_process* p = (struct remote_process*) base;
  struct pending_write* w;

  if (!p->stdin_open || p->eof_wanted)
    return p->input_over != 0 ? p->input_over : UV_EPIPE;
  w = malloc(sizeof(*w) + len);
  if (w == NULL) return UV_ENOMEM;
  *w = (struct pending_write){.cb = cb, .arg = arg, .len = len};
  if (len > 0) memcpy(w->bytes, bytes, len);
  *p->last = w;
  p->last = &w->next;
  sbx__remote_use(p->remote);
  input_pump(p);
  return 0;
}

/* A terminal has one line to both sides: its end is a character. */
static int remote_close_stdin(struct sbx_process* base) {
  struct remote_process* p = (struct remote_process*) base;

  if (!p->stdin_open || p->eof_wanted) return 0;
  if (base->terminal) {
    remote_write(base, "\4", 1, NULL, NULL);
    return 0;
  }
  p->eof_wanted = true;
  input_pump(p);
  return 0;
}

/* ---- the end ---- */

static void let_go(struct remote_process* p) {
  struct sbx_remote* r = p->remote;

  if (r == NULL) return;
  p->remote = NULL;
  sbx__remote_forget_probe(r, p);
  if (p->ended && p->drive != NULL) {
    sbx__remote_linger(r, p->drive);
    p->drive = NULL;
  }
  drop_drive(p);
  if (p->input != NULL) sbx_drive_close(p->input);
  p->input = NULL;
  timer_close(&p->limit, &p->limited);
  timer_close(&p->retry, &p->retrying);
  timer_close(&p->input_retry, &p->input_retrying);
  sbx__remote_unlink(&p->work);
  if (--r->processes == 0 && r->on_quiet != NULL) {
    void (*on_quiet)(struct sbx_remote*) = r->on_quiet;

    on_quiet(r);
  }
}

static void settle(struct remote_process* p,
                   struct sbx_process_result* result) {
  static const char lossy[] =
      "The connection to the sandbox broke while the command ran; some of its "
      "output may be missing.";

  if (p->base.settled) return;
  p->base.settled = true; /* nothing that is told below comes back here */
  p->holds++;
  let_go(p);
  input_end(p, UV_EPIPE);
  if (p->lossy && result->reason == NULL) result->reason = lossy;
  sbx__process_settle(&p->base, result);
  release(p);
}

static void settle_killed(struct remote_process* p) {
  struct sbx_process_result result = {.exit_code = 128 + SIGKILL,
                                      .signal = SIGKILL};

  p->base.killed = true;
  settle(p, &result);
}

/* Attached to by a pid that neither the service nor the kit has confirmed: it
 * may have ended just now, or never been. */
static bool is_unknown(const struct remote_process* p) {
  return p->attached && !p->base.spawned;
}

static void settle_failed(struct remote_process* p,
                          const struct sbx_error* error, bool ran) {
  struct sbx_process_result result = {.exit_code = -1,
                                      .ran = ran && !is_unknown(p)};
  struct sbx_error copy = *error;

  result.error = &copy;
  settle(p, &result);
}

/* A command waits for the end of its input, which it cannot be given. Nobody has
 * a handle of one in the foreground. */
static void settle_endless(struct remote_process* p,
                           const struct sbx_error* error) {
  if (!p->spooled) sbx__remote_kill_leftover(p->remote, p->pid);
  settle_failed(p, error, true);
}

static void cwd_error(struct remote_process* p, struct sbx_error* error) {
  const char* what = "does not exist in the sandbox";
  int code = SBX_E_NOT_FOUND;
  int sys = ENOENT;

  if (p->exit.end == SBX_KIT_CWD_NOT_FOLDER) {
    what = "is not a directory";
    sys = ENOTDIR;
  } else if (p->exit.end == SBX_KIT_CWD_DENIED) {
    what = "cannot be entered";
    code = SBX_E_PERMISSION;
    sys = EACCES;
  }
  sbx_error_set(error, code, sys, "processes.start",
                "The working directory \"%.400s\" %s.",
                p->cwd_else != NULL ? p->cwd_else : p->cwd, what);
}

static void settle_lost(struct remote_process* p) {
  struct sbx_error error;
  bool broke = p->error.code != 0;

  sbx_error_set(&error, p->base.spawned ? SBX_E_PROVIDER : SBX_E_NOT_FOUND, 0,
                "processes.attach",
                "The sandbox has no command with pid %u, and nothing that "
                "says how it ended.%s%.400s",
                p->pid, broke ? " First its stream broke: " : "",
                broke ? p->error.message : "");
  settle_failed(p, &error, p->base.spawned);
}

/* Shells tell a signal as 128 + n. */
static int signal_of(int exit_code) {
  return exit_code > 128 && exit_code < 128 + 32 ? exit_code - 128 : 0;
}

static void settle_ended(struct remote_process* p) {
  const struct sbx_kit_run_exit* e = &p->exit;
  struct sbx_process_result result = {.exit_code = e->exit_code};
  struct sbx_error error;

  switch (e->end) {
    case SBX_KIT_NO_CWD:
    case SBX_KIT_CWD_NOT_FOLDER:
    case SBX_KIT_CWD_DENIED:
      cwd_error(p, &error);
      settle_failed(p, &error, false);
      return;
    case SBX_KIT_LOST: settle_lost(p); return;
    case SBX_KIT_TIMED_OUT: p->base.timed_out = p->base.killed = true; break;
    case SBX_KIT_UNTOLD:
      if (p->base.killed) {
        result.exit_code = 128 + SIGKILL;
      } else if (e->signal != 0) {
        result.exit_code = 128 + e->signal;
      } else if (e->exit_code < 0) {
        result.exit_code = 128 + SIGKILL;
      }
      break;
    default: break;
  }
  result.signal = signal_of(result.exit_code);
  p->holds++;
  if (is_unknown(p)) sbx__process_spawned(&p->base, p->pid);
  if (!p->base.closed) settle(p, &result);
  release(p);
}

/* ---- what the kit tells ---- */

static void on_output(void* data, int stream, const char* bytes, size_t len) {
  struct remote_process* p = data;

  p->tries = 0;
  if (is_unknown(p)) sbx__process_spawned(&p->base, p->pid);
  if (!p->base.settled) sbx__process_put(&p->base, stream, bytes, len);
}

static void on_dropped(void* data, int stream, uint64_t count) {
  struct remote_process* p = data;

  sbx_ring_drop(&p->base.streams[stream].ring, count);
}

static void on_kit_exit(void* data, const struct sbx_kit_run_exit* exit) {
  struct remote_process* p = data;

  p->ended = true;
  p->exit = *exit;
}

static void on_not_joined(uv_timer_t* timer) {
  struct remote_process* p = timer->data;

  if (is_unknown(p)) settle_lost(p);
}

/* A pid is told when the command is certain to run, or to have run. Of a
 * terminal that the service has not nothing is kept but its end. */
static void on_began(void* data) {
  struct remote_process* p = data;

  if (p->base.settled) return;
  if (is_unknown(p) && !p->spooled)
    timer_start(p, &p->retry, &p->retrying, on_not_joined, KNOWN_MS);
  else
    sbx__process_spawned(&p->base, p->pid);
}

static struct sbx_kit_run_events kit_events(struct remote_process* p) {
  struct sbx_kit_run_events events = {.data = p,
                                      .on_began = on_began,
                                      .on_output = on_output,
                                      .on_dropped = on_dropped,
                                      .on_exit = on_kit_exit};

  return events;
}

/* After a call of the kit: its news of the end. */
static void look(struct remote_process* p) {
  if (p->base.settled || p->base.closed) return;
  if (p->ended)
    settle_ended(p);
  else if (p->failed)
    settle_failed(p, &p->error, true);
}

static bool is_paused(const struct remote_process* p) {
  return (p->base.streams[0].paused || p->base.streams[1].paused) &&
         !p->ending && p->pid != 0;
}

/* A pipe would still take some; without that a command that has ended meanwhile
 * would seem to run. */
static void use_slack(struct remote_process* p, size_t len) {
  if (!is_paused(p) || p->drive == NULL) return;
  p->slack = p->slack > len ? p->slack - len : 0;
  if (p->slack == 0) sbx_drive_pause(p->drive, true);
}

static void feed(struct remote_process* p, int stream, const char* bytes,
                 size_t len) {
  p->holds++;
  if (p->remote != NULL) sbx__remote_use(p->remote);
  if (sbx_kit_run_feed(p->run, stream, bytes, len) < 0 && !p->failed) {
    p->failed = true;
    sbx_error_set(&p->error, SBX_E_PROVIDER, 0, "processes.attach",
                  "What the sandbox tells of the command is no answer.");
  }
  use_slack(p, len);
  look(p);
  release(p);
}

/* ---- what the service tells ---- */

static void kill_now(struct remote_process* p);

static void on_pid(struct remote_process* p, const char* bytes, size_t len) {
  uint32_t pid = 0;

  if (p->pid == 0) {
    if (len >= sizeof(pid)) memcpy(&pid, bytes, sizeof(pid));
    p->pid = pid;
  }
  p->holds++;
  if (!p->spooled && !p->follows) sbx__process_spawned(&p->base, p->pid);
  if (!p->base.closed && !p->base.settled) {
    if (p->ending)
      kill_now(p);
    else
      input_pump(p);
  }
  release(p);
}

static void on_service_exit(struct remote_process* p, const char* bytes,
                            size_t len) {
  struct sbx_emit_exit exit = {0};

  if (len >= sizeof(exit)) memcpy(&exit, bytes, sizeof(exit));
  p->holds++;
  sbx_kit_run_ended(p->run, exit.exit_code, exit.signal);
  look(p);
  release(p);
}

static void on_emit(void* data, int64_t what, const char* bytes, size_t len) {
  struct remote_process* p = data;

  switch (what) {
    case SBX_EMIT_PID: on_pid(p, bytes, len); break;
    case SBX_EMIT_STDOUT: feed(p, SBX_STDOUT, bytes, len); break;
    case SBX_EMIT_STDERR: feed(p, SBX_STDERR, bytes, len); break;
    case SBX_EMIT_EXIT: on_service_exit(p, bytes, len); break;
    case SBX_EMIT_WRITTEN: on_written(p, bytes, len); break;
    case SBX_EMIT_REFUSED: on_refused(p); break;
    case SBX_EMIT_DENIED: on_denied(p, bytes, len); break;
    default: break;
  }
}

/* ---- broken streams ---- */

static void come_back(struct remote_process* p);

static void on_retry(uv_timer_t* timer) {
  struct remote_process* p = timer->data;

  come_back(p);
}

static void on_probed(void* arg, enum sbx__remote_life life) {
  struct remote_process* p = arg;

  if (p->base.settled) return;
  if (life == SBX__REMOTE_DEAD)
    settle_failed(p, &p->remote->error, true);
  else if (p->tries > TRIES)
    settle_failed(p, &p->error, true);
  else
    timer_start(p, &p->retry, &p->retrying, on_retry, wait_of(p->tries));
}

static void on_broken(struct remote_process* p,
                      const struct sbx_error* error) {
  bool denied = p->eof_denied;

  p->eof_denied = false;
  if (denied && !p->ending) {
    settle_endless(p, error);
    return;
  }
  if (error->code == SBX_E_NOT_FOUND && !p->gone) {
    p->gone = true;
    come_back(p);
    return;
  }
  if (p->remote->paused) return; /* hold_all goes on with it */
  p->error = *error;
  if (is_denial(error) && !p->base.spawned) { /* to attach */
    settle_failed(p, error, false);
    return;
  }
  if (p->ending && !p->killing && p->kill_tries == 0) {
    settle_killed(p);
    return;
  }
  p->tries++;
  if (p->tries == 1)
    come_back(p);
  else
    sbx__remote_probe(p->remote, on_probed, p);
}

/* Said before anything was run: there is no such machine. */
static bool is_absence(const struct sbx_error* error) {
  return error->code == SBX_E_UNAVAILABLE && error->sys == 0;
}

/* Nothing was ever told: was it started? Where the sandbox is gone, on_stop
 * comes instead. */
static void on_start_probed(void* arg, enum sbx__remote_life life) {
  struct remote_process* p = arg;

  (void) life;
  settle_failed(p, &p->error, !is_absence(&p->error));
}

static void on_not_started(struct remote_process* p,
                           const struct sbx_error* error) {
  bool answered = error->sys == 0 && error->code != SBX_E_TIMEOUT;

  p->error = *error;
  if (error->code == SBX_E_UNAVAILABLE || !answered)
    sbx__remote_probe(p->remote, on_start_probed, p);
  else
    settle_failed(p, error, false);
}

static void on_done(void* data, const struct sbx_error* error) {
  struct remote_process* p = data;
  struct sbx_error cut;

  if (error == NULL) {
    sbx_error_set(&cut, SBX_E_PROVIDER, 0, "processes.start",
                  "%s told no end of the command.",
                  p->remote->service->title);
    error = &cut;
  } else {
    cut = *error;
    error = &cut;
  }
  drop_drive(p);
  if (p->base.settled || p->base.closed) return;
  p->holds++;
  if (p->pid == 0)
    on_not_started(p, error);
  else
    on_broken(p, error);
  release(p);
}

static void apply_pause(struct remote_process* p) {
  if (p->drive != NULL && !is_paused(p)) sbx_drive_pause(p->drive, false);
}

static int run_machine(struct remote_process* p, struct sbx_machine* machine,
                       struct sbx_error* error) {
  struct sbx_drive_events events = {p, on_emit, on_done};
  int rc = sbx__remote_drive(p->remote, machine, 0, &events, &p->drive, error);

  if (rc == 0) apply_pause(p);
  return rc;
}

/* A command of its own, which tells what the wrapper keeps. */
static int follow(struct remote_process* p, struct sbx_error* error) {
  const struct sbx_service* service = p->remote->service;
  struct sbx_kit_run_events events = kit_events(p);
  struct sbx_start_spec start = {0};
  struct sbx_kit_place place;
  struct sbx_kit_run* run;
  uint64_t offsets[2] = {0, 0};
  int rc;

  if (p->run != NULL)
    for (int i = 0; i < 2; i++) offsets[i] = sbx_kit_run_offset(p->run, i);
  sbx__remote_place(p->remote, 0, &place);
  rc = sbx_kit_run_follow(&place, p->pid, 0, offsets, &events, &run, error);
  if (rc != 0) return rc;
  sbx_kit_run_free(p->run);
  p->run = run;
  p->follows = true;
  if (service->attach == NULL) input_end(p, UV_EPIPE); /* no way in */
  start.argv = sbx_kit_run_argv(run, &start.argc);
  return run_machine(p, service->start(p->remote->account, &start), error);
}

/* Through the service's own stream, from now on. */
static int join(struct remote_process* p, struct sbx_error* error) {
  struct sbx_attach_spec spec = {.pid = p->pid, .terminal = p->base.terminal};
  struct sbx_remote* r = p->remote;

  return run_machine(p, r->service->attach(r->account, &spec), error);
}

static void come_back(struct remote_process* p) {
  const struct sbx_service* service = p->remote->service;
  bool follows = p->spooled || p->gone || service->attach == NULL;
  struct sbx_error error;
  int rc;

  p->holds++;
  if (is_unknown(p) && p->gone)
    input_fail(p, SBX_E_NOT_FOUND);
  else if (!is_unknown(p))
    sbx__process_spawned(&p->base, p->pid); /* for all that is known */
  if (!p->follows) input_cut(p);
  if (p->base.closed || p->base.settled) {
    release(p);
    return;
  }
  release(p);
  if (follows) {
    rc = follow(p, &error);
    if (p->gone && !p->spooled) p->lossy = true;
  } else {
    p->lossy = true;
    rc = join(p, &error);
  }
  if (rc != 0) settle_failed(p, &error, true);
}

/* ---- ending it ---- */

/* Without a pid there was nothing to kill so far. */
static void on_kill_wait(uv_timer_t* timer) {
  struct remote_process* p = timer->data;

  if (p->pid == 0 && p->drive != NULL) {
    sbx__remote_orphan(p->remote, p->drive);
    p->drive = NULL;
  }
  settle_killed(p);
}

static void on_killed(void* arg, const struct sbx_error* error,
                      const struct sbx_kit_job_result* result) {
  struct remote_process* p = arg;

  (void) result;
  p->killing = false;
  if (!p->base.settled && !p->base.closed) {
    if (error == NULL || error->code == SBX_E_NOT_FOUND)
      timer_start(p, &p->limit, &p->limited, on_kill_wait, KILL_WAIT_MS);
    else if (++p->kill_tries < KILL_TRIES)
      kill_now(p);
    else
      settle_failed(p, error, true);
  }
  release(p);
}

static void kill_now(struct remote_process* p) {
  struct sbx_kit_place place;
  struct sbx_kit_job* job = NULL;

  p->killing = true;
  p->holds++;
  if (p->limited) uv_timer_stop(&p->limit);
  apply_pause(p);
  sbx__remote_place(p->remote, 0, &place);
  if (sbx_kit_job_kill(&place, p->pid, 0, p->end_grace, &job) != 0) job = NULL;
  sbx__job_run(p->remote, job, "processes.kill", on_killed, p);
}

static int remote_end(struct sbx_process* base, uint64_t grace_ms) {
  struct remote_process* p = (struct remote_process*) base;

  base->killed = true;
  if (p->ending && grace_ms >= p->end_grace) return 0;
  p->ending = true;
  p->end_grace = grace_ms;
  if (p->pid != 0)
    kill_now(p);
  else
    timer_start(p, &p->limit, &p->limited, on_kill_wait,
                grace_ms == 0 ? 0 : UNBORN_MS);
  return 0;
}

/* The limit inside comes first; this is for where it cannot. */
static void on_timeout(uv_timer_t* timer) {
  struct remote_process* p = timer->data;

  p->base.timed_out = true;
  remote_end(&p->base, p->base.terminal ? p->base.grace_ms : 0);
}

static void on_signalled(void* arg, const struct sbx_error* error,
                         const struct sbx_kit_job_result* result) {
  (void) error; /* it has ended meanwhile */
  (void) result;
  release(arg);
}

/* What the terminal makes of a key reaches what is in the foreground. */
static const char* key_of(int signo) {
  switch (signo) {
    case SIGINT: return "\3";
    case SIGQUIT: return "\34";
    case SIGTSTP: return "\32";
    default: return NULL;
  }
}

static int remote_signal(struct sbx_process* base, int signo) {
  struct remote_process* p = (struct remote_process*) base;
  const char* key = base->terminal ? key_of(signo) : NULL;
  struct sbx_kit_place place;
  struct sbx_kit_job* job = NULL;

  if (p->pid == 0) return SBX_E_NOT_FOUND;
  if (key != NULL && p->stdin_open) {
    remote_write(base, key, 1, NULL, NULL);
    return 0;
  }
  sbx__remote_place(p->remote, 0, &place);
  if (sbx_kit_job_signal(&place, p->pid, 0, signo, &job) != 0) job = NULL;
  p->holds++;
  sbx__job_run(p->remote, job, "processes.signal", on_signalled, p);
  return 0;
}

static int remote_resize(struct sbx_process* base, uint32_t columns,
                         uint32_t rows) {
  struct remote_process* p = (struct remote_process*) base;
  uint32_t size[2] = {columns, rows};

  if (p->drive == NULL || p->pid == 0 || p->follows) return SBX_E_NOT_FOUND;
  sbx_drive_input(p->drive, SBX_INPUT_RESIZE, size, sizeof(size));
  return 0;
}

static void remote_pause(struct sbx_process* base, int stream) {
  struct remote_process* p = (struct remote_process*) base;

  if (base->streams[stream].paused) p->slack = SLACK;
  apply_pause(p);
}

/* The command goes on without us. */
static void remote_close(struct sbx_process* base) {
  struct remote_process* p = (struct remote_process*) base;

  p->holds++;
  let_go(p);
  input_end(p, UV_ECANCELED);
  release(p);
}

/* The sandbox ends, or is let go. */
static void on_stop(struct sbx__remote_work* w,
                    const struct sbx_error* error) {
  struct remote_process* p = of_work(w);

  bool ended = error->code == SBX_E_ABORTED && !p->remote->closing;

  if (ended && p->pid != 0 && !is_unknown(p))
    settle_killed(p);
  else
    settle_failed(p, error, p->pid != 0 || !is_absence(&p->error));
}

static void hold(struct remote_process* p, bool held) {
  if (held && p->limited) {
    p->limit_left = uv_timer_get_due_in(&p->limit);
    uv_timer_stop(&p->limit);
  } else if (!held && p->limited) {
    uv_timer_start(&p->limit, p->ending ? on_kill_wait : on_timeout,
                   p->limit_left, 0);
  }
  if (held || p->pid == 0) return;
  if (p->drive != NULL) {
    input_pump(p); /* its stream was not cut, but input has waited */
    return;
  }
  if (p->retrying && uv_is_active((uv_handle_t*) &p->retry)) return;
  p->tries = 0;
  come_back(p);
}

/* A process that this round has not seen. Each may end as it is told, and its
 * owner may then let go of any other. */
static struct remote_process* next_of(struct sbx_remote* r, uint64_t round) {
  struct sbx__remote_work* w = r->works;

  while (w != NULL && (w->stop != on_stop || w->round >= round)) w = w->next;
  if (w == NULL) return NULL;
  w->round = round;
  return of_work(w);
}

void sbx__remote_hold_all(struct sbx_remote* r, bool held) {
  uint64_t round = ++r->round;
  struct remote_process* p;

  while ((p = next_of(r, round)) != NULL) hold(p, held);
}

void sbx__remote_end_all(struct sbx_remote* r, uint64_t grace_ms) {
  uint64_t round = ++r->round;
  struct remote_process* p;

  while ((p = next_of(r, round)) != NULL) remote_end(&p->base, grace_ms);
}

/* ---- starting ---- */

static const struct sbx__process_ops ops = {
    .write = remote_write,
    .close_stdin = remote_close_stdin,
    .end = remote_end,
    .signal = remote_signal,
    .resize = remote_resize,
    .pause = remote_pause,
    .close = remote_close,
};

static struct remote_process* process_new(
    struct sbx_remote* r, const struct sbx_process_spec* spec,
    const struct sbx_process_events* events) {
  struct remote_process* p = calloc(1, sizeof(*p));

  if (p == NULL) return NULL;
  sbx__process_init(&p->base, &ops, spec, events);
  p->remote = r;
  p->work.stop = on_stop;
  p->last = &p->first;
  p->timeout_ms = spec->timeout_ms;
  p->spooled = spec->background && !p->base.terminal;
  p->stdin_open = spec->stdin_pipe || p->base.terminal;
  sbx__remote_link(r, &p->work);
  r->processes++;
  return p;
}

/* The spec has the whole environment but for what only the service knows: what
 * every spec has and this one has not was taken away. */
static size_t names_to_unset(const struct sbx_process_spec* spec,
                             const char* unset[3]) {
  static const char* const always[] = {"HOME", "LANG", "TMPDIR"};
  size_t count = 0;

  for (size_t i = 0; i < 3; i++) {
    size_t len = strlen(always[i]);
    size_t j = 0;

    while (j < spec->envc && (strncmp(spec->env[j], always[i], len) != 0 ||
                              spec->env[j][len] != '='))
      j++;
    if (j == spec->envc) unset[count++] = always[i];
  }
  return count;
}

static int start(struct remote_process* p,
                 const struct sbx_process_spec* spec,
                 struct sbx_error* error) {
  struct sbx_remote* r = p->remote;
  struct sbx_kit_run_events events = kit_events(p);
  const char* unset[3];
  struct sbx_kit_run_spec run = {.argv = spec->argv,
                                 .argc = spec->argc,
                                 .cwd = p->cwd,
                                 .cwd_else = p->cwd_else,
                                 .terminal = p->base.terminal,
                                 .stdin_pipe = spec->stdin_pipe,
                                 .spool = p->spooled,
                                 .timeout_ms = spec->timeout_ms,
                                 .grace_ms = spec->grace_ms};
  struct sbx_start_spec begin = {.env = spec->env,
                                 .envc = spec->envc,
                                 .stdin_pipe = p->stdin_open,
                                 .columns = spec->columns,
                                 .rows = spec->rows};
  struct sbx_kit_place place;
  int rc;

  if (spec->timeout_ms > 0)
    begin.timeout_ms = spec->timeout_ms + spec->grace_ms + SERVICE_LATE_MS;
  run.unset = unset;
  run.unset_len = names_to_unset(spec, unset);
  sbx__remote_place(r, 0, &place);
  rc = sbx_kit_run_new(&place, &run, &events, &p->run, error);
  if (rc != 0) return rc;
  begin.argv = sbx_kit_run_argv(p->run, &begin.argc);
  return run_machine(p, r->service->start(r->account, &begin), error);
}

/* "/x" is the sandbox's own folder if it has one, else x in the workspace. */
static int copy_cwd(struct remote_process* p, const char* cwd) {
  const char* root = p->remote->root;
  size_t len = strlen(root);

  p->cwd = strdup(cwd);
  if (p->cwd == NULL) return UV_ENOMEM;
  if (strncmp(cwd, root, len) == 0 && (cwd[len] == '/' || cwd[len] == '\0'))
    return 0;
  p->cwd_else = malloc(len + strlen(cwd) + 1);
  if (p->cwd_else == NULL) return UV_ENOMEM;
  sprintf(p->cwd_else, "%s%s", root, cwd);
  return 0;
}

static void start_limit(struct remote_process* p) {
  uint64_t late = p->base.terminal ? 0 : p->base.grace_ms + LATE_MS;

  if (p->timeout_ms > 0)
    timer_start(p, &p->limit, &p->limited, on_timeout, p->timeout_ms + late);
}

int sbx_remote_spawn(struct sbx_sandbox* s, const struct sbx_process_spec* spec,
                     const struct sbx_process_events* events,
                     struct sbx_process** out, struct sbx_error* error) {
  struct sbx_remote* r = (struct sbx_remote*) s;
  struct remote_process* p;
  int rc = sbx__remote_check(r, "processes.start", error);

  *out = NULL;
  if (rc != 0) return rc;
  if (spec->argc == 0 || spec->cwd == NULL)
    return sbx_error_set(error, SBX_E_INVALID_INPUT, 0, "processes.start",
                         "A command needs a program and a directory.");
  p = process_new(r, spec, events);
  if (p == NULL) return sbx__remote_no_memory(error, "processes.start");
  rc = copy_cwd(p, spec->cwd) != 0
           ? sbx__remote_no_memory(error, "processes.start")
           : start(p, spec, error);
  if (rc != 0) {
    sbx_process_close(&p->base);
    return rc;
  }
  start_limit(p);
  sbx__remote_use(r);
  *out = &p->base;
  return 0;
}

/* ---- those of other hosts ---- */

/* What a terminal has shown is not kept. */
static int join_terminal(struct remote_process* p, struct sbx_error* error) {
  struct sbx_kit_run_events events = kit_events(p);
  int rc = sbx_kit_run_join(&events, &p->run, error);

  return rc != 0 ? rc : join(p, error);
}

int sbx_remote_attach(struct sbx_sandbox* s, uint32_t pid,
                      const struct sbx_process_spec* spec,
                      const struct sbx_process_events* events,
                      struct sbx_process** out, struct sbx_error* error) {
  struct sbx_remote* r = (struct sbx_remote*) s;
  struct remote_process* p;
  int rc = sbx__remote_check(r, "processes.attach", error);

  *out = NULL;
  if (rc != 0) return rc;
  p = process_new(r, spec, events);
  if (p == NULL) return sbx__remote_no_memory(error, "processes.attach");
  p->pid = pid;
  p->attached = true;
  p->spooled = !p->base.terminal || r->service->attach == NULL;
  rc = p->spooled ? follow(p, error) : join_terminal(p, error);
  if (rc != 0) {
    sbx_process_close(&p->base);
    return rc;
  }
  *out = &p->base;
  return 0;
}

struct listing {
  sbx_listed_cb cb;
  void* arg;
};

static void tell_list(const struct listing* l,
                      const struct sbx_kit_job_result* result) {
  struct sbx_listed* list = calloc(result->count + 1, sizeof(*list));
  size_t count = 0;
  struct sbx_error error;

  if (list == NULL) {
    sbx__remote_no_memory(&error, "processes.list");
    l->cb(l->arg, &error, NULL, 0);
    return;
  }
  for (size_t i = 0; i < result->count; i++) {
    const struct sbx_kit_process* one = &result->list[i];

    if (!one->spooled && !one->terminal)
      continue; /* in the foreground of another host */
    list[count++] = (struct sbx_listed){.pid = one->pid,
                                  .command = one->command,
                                  .started_ms = one->started_ms,
                                  .running = one->running,
                                  .terminal = one->terminal,
                                  .stdin_pipe =
                                      one->terminal || one->stdin_pipe,
                                  .exit_code = one->exit_code};
  }
  l->cb(l->arg, NULL, list, count);
  free(list);
}

static void on_listed(void* arg, const struct sbx_error* error,
                      const struct sbx_kit_job_result* result) {
  struct listing* l = arg;

  if (error != NULL)
    l->cb(l->arg, error, NULL, 0);
  else
    tell_list(l, result);
  free(l);
}

void sbx_remote_list(struct sbx_sandbox* s, sbx_listed_cb cb, void* arg) {
  struct sbx_remote* r = (struct sbx_remote*) s;
  struct listing* l = malloc(sizeof(*l));
  struct sbx_kit_place place;
  struct sbx_kit_job* job = NULL;
  struct sbx_error error;

  if (l == NULL ||
      sbx__remote_check(r, "processes.list", &error) != 0) {
    if (l == NULL) sbx__remote_no_memory(&error, "processes.list");
    free(l);
    cb(arg, &error, NULL, 0);
    return;
  }
  *l = (struct listing){cb, arg};
  sbx__remote_place(r, 0, &place);
  if (sbx_kit_job_list(&place, &job) != 0) job = NULL;
  sbx__job_run(r, job, "processes.list", on_listed, l);
}
