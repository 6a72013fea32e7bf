/* What the parts of remote.c know of each other; nothing public. */
#ifndef SBX_REMOTE_INTERNAL_H
#define SBX_REMOTE_INTERNAL_H

#include "../../native/drive.h"
#include "../kit/run.h"
#include "remote.h"

enum {
  SBX__REMOTE_CALL_MS = 300000, /* one file call, however large */
  SBX__REMOTE_JOB_MS = 60000,   /* a short job of the kit */
  SBX__REMOTE_LIFE_MS = 60000,  /* a verb of its life */
  SBX__REMOTE_STDERR = 4096     /* kept of a kit command, for messages */
};

enum sbx__remote_state {
  SBX__REMOTE_IDLE,
  SBX__REMOTE_STARTING,
  SBX__REMOTE_RUNNING,
  SBX__REMOTE_ENDING,
  SBX__REMOTE_LOST /* it ended by itself; `error` says how */
};

/* Something under way, which the end of the sandbox ends, too. */
struct sbx__remote_work {
  struct sbx__remote_work* next;
  struct sbx__remote_work** previous; /* NULL: not linked */
  uint64_t age; /* of the sandbox when it was linked */
  uint64_t round; /* the last walk over the works that saw it */
  /* Gives it up and tells its owner `error`, or nobody where that is NULL. */
  void (*stop)(struct sbx__remote_work* w, const struct sbx_error* error);
};

struct sbx__remote_waiter;

struct sbx_remote {
  struct sbx_sandbox base;
  const struct sbx_service* service;
  struct sbx_service_state* account; /* and record of the machine */
  struct sbx_http* http;             /* from the first request on */
  struct sbx_http_settings settings;
  char* ca_file;
  char* id;      /* the user's, or NULL */
  char* session; /* the same, or our own */
  char* cwd;     /* as it was asked for */
  char* root;    /* the workspace as it became */
  char* home;
  char* shell;
  enum sbx__remote_state state;
  bool closing;
  bool paused; /* streams are cut, and come back with unpause */
  bool stale;  /* its time could not be extended for want of a new secret */
  struct sbx_error error; /* LOST */
  uint64_t touched;       /* uv_now of the last extension of its time */
  struct sbx_drive* touching;
  struct sbx_drive* probing;
  bool probe_found;
  uint64_t probes; /* begun so far */
  struct sbx__remote_waiter* probe_waiters;
  struct sbx__remote_work* works;
  uint64_t age; /* raised when all works are stopped */
  uint64_t round; /* raised by each walk over them */
  size_t processes; /* that have not settled */
  size_t pools;     /* requests of ours that the thread pool has */
  void (*on_quiet)(struct sbx_remote* r); /* when there are none any more */
  sbx_done_cb on_closed;
  void* closed_arg;
  bool http_closed;
  uv_timer_t last; /* only its closing: the end of a sandbox without a client */
};

/* ---- remote.c ---- */

void sbx__remote_link(struct sbx_remote* r, struct sbx__remote_work* w);
void sbx__remote_unlink(struct sbx__remote_work* w);
/* Ends all there are now, and tells their owners `error`. */
void sbx__remote_stop_works(struct sbx_remote* r,
                            const struct sbx_error* error);
/* A request of the thread pool begins or ends; the sandbox is closed only when
 * none is left. The end may be the last touch of `r`. */
void sbx__remote_pool(struct sbx_remote* r, bool begins);

/* Runs a machine (NULL: there was no memory). 0, or a negative code with
 * `error`. */
int sbx__remote_drive(struct sbx_remote* r, struct sbx_machine* machine,
                      uint64_t deadline_ms,
                      const struct sbx_drive_events* events,
                      struct sbx_drive** out, struct sbx_error* error);

/* 0 where it runs; else `error` says why not. */
int sbx__remote_check(const struct sbx_remote* r, const char* operation,
                      struct sbx_error* error);

/* The sandbox is used: its time may have to be extended. */
void sbx__remote_use(struct sbx_remote* r);

/* Where the kit works: scope 0 the workspace, 1 the whole file system. */
void sbx__remote_place(const struct sbx_remote* r, int scope,
                       struct sbx_kit_place* place);

/* Calls back in the next turn of the loop; without memory at once. */
void sbx__remote_soon(uv_loop_t* loop, void (*cb)(void* arg), void* arg);

int sbx__remote_no_memory(struct sbx_error* error, const char* operation);

/* ---- probe.c ---- */

/* Whether the machine is still there, after something broke. Where it is not,
 * the sandbox is LOST when `cb` runs, which may be at once. */
enum sbx__remote_life {
  SBX__REMOTE_ALIVE,
  SBX__REMOTE_DEAD,
  SBX__REMOTE_UNKNOWN
};
typedef void (*sbx__probe_cb)(void* arg, enum sbx__remote_life life);
void sbx__remote_probe(struct sbx_remote* r, sbx__probe_cb cb, void* arg);
void sbx__remote_forget_probe(struct sbx_remote* r, void* arg);

/* ---- leftover.c ---- */

/* Takes over a drive whose owner knows all it wants: it is closed when its
 * stream has ended, so that the connection can be used again, or after a
 * second. */
void sbx__remote_linger(struct sbx_remote* r, struct sbx_drive* drive);

/* Takes over the drive of a command that was given up before it had a
 * pid, and ends the command if it comes to one. */
void sbx__remote_orphan(struct sbx_remote* r, struct sbx_drive* drive);

/* Ends a command that nobody waits for any more. */
void sbx__remote_kill_leftover(struct sbx_remote* r, uint32_t pid);

/* ---- command.c: a command of the kit, run to its end ---- */

struct sbx__command;

struct sbx__command_spec {
  const char* const* argv;
  size_t argc;
  const void* stdin_bytes; /* valid until the end; NULL: none */
  size_t stdin_len;
  uint64_t timeout_ms;
  const char* operation; /* static, for messages */
};

struct sbx__command_end {
  const struct sbx_error* error; /* no end was told */
  bool began; /* with `error`: it runs, or may have run */
  int exit_code;
  const char* stderr_text;
  size_t stderr_len;
};

/* Both are given `data`. on_bytes: stdout; negative: give up. on_end: once, the
 * last, and never before start has returned; the command is gone then. */
struct sbx__command_events {
  void* data;
  int (*on_bytes)(void* data, const char* bytes, size_t len);
  void (*on_end)(void* data, const struct sbx__command_end* end);
};

int sbx__command_start(struct sbx_remote* r,
                       const struct sbx__command_spec* spec,
                       const struct sbx__command_events* events,
                       struct sbx__command** out, struct sbx_error* error);
/* Gives it up without events. */
void sbx__command_close(struct sbx__command* c);

/* A short job of the kit (NULL: there was no memory); it is taken over. `cb`
 * once; within the call where it fails at once. */
typedef void (*sbx__job_cb)(void* arg, const struct sbx_error* error,
                            const struct sbx_kit_job_result* result);
void sbx__job_run(struct sbx_remote* r, struct sbx_kit_job* job,
                  const char* operation, sbx__job_cb cb, void* arg);

/* ---- kept.c: CREATE, DELETE and LIST by the service itself ---- */

int sbx__remote_kept(struct sbx_remote* r, enum sbx_snapshot_verb verb,
                     const char* operation, const char* id, sbx_snapshot_cb cb,
                     void* arg, struct sbx_error* error);

/* ---- watch.c ---- */

/* Ends every watch with `error`. */
void sbx__remote_end_watches(struct sbx_remote* r,
                             const struct sbx_error* error);
/* The machine stands still; a service may keep the streams open. */
void sbx__remote_pause_watches(struct sbx_remote* r);

/* ---- process.c ---- */

/* Time limits stand still; afterwards they go on, and every process whose
 * stream was cut meanwhile is attached to again. */
void sbx__remote_hold_all(struct sbx_remote* r, bool held);

/* Ends every process of this object: TERM, `grace_ms`, KILL. */
void sbx__remote_end_all(struct sbx_remote* r, uint64_t grace_ms);

#endif
