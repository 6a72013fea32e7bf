/* The remote kit's other half: commands that behave alike on every service.
 *
 * A wrapper (POSIX sh) runs the user's argv as a session of its own, tells in
 * marks on both streams how it ended, and leaves a record in a private folder
 * inside, so that a later host finds, follows, signals and kills it by the pid
 * that the service reported. Pure, as kit.h: it makes an argv and takes the
 * bytes that came back. What comes back is a claim of the sandbox; it is
 * bounded and checked.
 */
#ifndef SBX_KIT_RUN_H
#define SBX_KIT_RUN_H

#include "kit.h"

/* --- one command ---------------------------------------------------------- */

struct sbx_kit_run_spec {
  const char* const* argv; /* exact; argv[0] is looked up in the PATH there */
  size_t argc;
  const char* cwd; /* absolute, inside; NULL: where the service starts it */
  const char* cwd_else; /* instead, if cwd is no folder; or NULL */
  /* Added to what the service gives ("NAME=value"), where the service cannot
   * do that itself; NULL and 0 else. Then names to take away. */
  const char* const* env;
  size_t envc;
  const char* const* unset;
  size_t unset_len;
  bool terminal; /* the service gives it a terminal: no marks, the end is the
                    service's; neither spool nor timeout */
  bool stdin_pipe; /* for the record: whoever attaches may write */
  bool spool;    /* keep the output inside, so that follow gives it again: the
                    newest 12 to 16 MiB a stream. Costs about 8 processes.
                    Without it follow gives the end only. */
  uint64_t timeout_ms; /* ended inside as well: TERM to the tree, KILL after
                          grace_ms; 0: none */
  uint64_t grace_ms;
};

enum sbx_kit_run_end {
  SBX_KIT_EXITED = 1, /* exit_code is the command's: 0-255, 128+n by a signal */
  SBX_KIT_NO_CWD,     /* "The working directory \"x\" does not exist" */
  SBX_KIT_CWD_NOT_FOLDER,
  SBX_KIT_CWD_DENIED,
  SBX_KIT_NOT_FOUND,      /* exit_code 127; Local's words came as stderr */
  SBX_KIT_NOT_EXECUTABLE, /* exit_code 126; likewise */
  SBX_KIT_TIMED_OUT,      /* by timeout_ms; exit_code 124 */
  SBX_KIT_UNTOLD, /* no mark: killed, or the stream broke; exit_code is what the
                     service said */
  SBX_KIT_LOST    /* follow: there is no such command (any more) */
};

struct sbx_kit_run_exit {
  enum sbx_kit_run_end end;
  int exit_code;
  int signal; /* only for UNTOLD, as the service said it */
};

/* Called from feed and ended only. `bytes` are valid during the call. */
struct sbx_kit_run_events {
  void* data;
  /* SPOOL: where it starts was entered, its record is there, the command is
   * next. Follow: there is such a command. May be NULL. */
  void (*on_began)(void* data);
  /* stream: 0 stdout, 1 stderr. */
  void (*on_output)(void* data, int stream, const char* bytes, size_t len);
  /* Bytes that the spool no longer has, where they are missing. May be NULL. */
  void (*on_dropped)(void* data, int stream, uint64_t count);
  /* Once, the last; the run may be freed in it, though not in the others. The
   * owner may give the exchange up then: background children live on. */
  void (*on_exit)(void* data, const struct sbx_kit_run_exit* exit);
};

struct sbx_kit_run;

/* Copies the spec. Errors: SBX_E_INVALID_INPUT (an argument above 128 KiB, a
 * name that is none), SBX_E_INTERNAL. */
int sbx_kit_run_new(const struct sbx_kit_place* place,
                    const struct sbx_kit_run_spec* spec,
                    const struct sbx_kit_run_events* events,
                    struct sbx_kit_run** out, struct sbx_error* error);

/* Goes on with a command that this or another host started: what its spool
 * has from these offsets on, then live output, then its end. `pid` as the
 * service reported it; `start` as in the list, 0: whatever has the pid. The
 * argv is a new command of its own; feed and ended as above. */
int sbx_kit_run_follow(const struct sbx_kit_place* place, uint32_t pid,
                       uint64_t start, const uint64_t offsets[2],
                       const struct sbx_kit_run_events* events,
                       struct sbx_kit_run** out, struct sbx_error* error);

/* Goes on with a terminal through the service's own stream, from now on: what
 * comes is its output. It has no argv. */
int sbx_kit_run_join(const struct sbx_kit_run_events* events,
                     struct sbx_kit_run** out, struct sbx_error* error);

/* For the service's start; valid until free. stdin is the user's command's. */
const char* const* sbx_kit_run_argv(const struct sbx_kit_run* run,
                                    size_t* argc);

/* Output bytes of the service's process, cut anywhere. Nothing is called after
 * on_exit. Negative: follow got an answer that is none (SBX_E_PROVIDER). */
int sbx_kit_run_feed(struct sbx_kit_run* run, int stream, const char* bytes,
                     size_t len);

/* The service says that its process ended. Gives out what was held back and
 * calls on_exit if the marks have not done so. */
void sbx_kit_run_ended(struct sbx_kit_run* run, int exit_code, int signal);

/* Bytes of output given out so far, with what was dropped: where to follow. */
uint64_t sbx_kit_run_offset(const struct sbx_kit_run* run, int stream);

void sbx_kit_run_free(struct sbx_kit_run* run);

/* --- short jobs ----------------------------------------------------------- */

struct sbx_kit_job;

/* Ends the whole tree of the command: descendants by stop-and-rescan and all
 * members of its session. KILL at once for grace_ms 0, else TERM, then KILL to
 * what is left. The wrapper stays and tells the end. SBX_E_NOT_FOUND: it is
 * gone. */
int sbx_kit_job_kill(const struct sbx_kit_place* place, uint32_t pid,
                     uint64_t start, uint64_t grace_ms,
                     struct sbx_kit_job** out);
/* A signal to the command's own process alone (not the wrapper). */
int sbx_kit_job_signal(const struct sbx_kit_place* place, uint32_t pid,
                       uint64_t start, int signo, struct sbx_kit_job** out);
/* Commands that run and those that ended lately. */
int sbx_kit_job_list(const struct sbx_kit_place* place,
                     struct sbx_kit_job** out);
/* Once per session: makes place->root (by sudo where it must) and the private
 * folder. Run as the user that commands run as. */
int sbx_kit_job_prepare(const struct sbx_kit_place* place,
                        struct sbx_kit_job** out);

const char* const* sbx_kit_job_argv(const struct sbx_kit_job* job,
                                    size_t* argc);
/* stdout of it, cut anywhere. Negative: give up. */
int sbx_kit_job_feed(struct sbx_kit_job* job, const char* bytes, size_t len);

struct sbx_kit_process {
  uint32_t pid;   /* as the service reported it */
  uint64_t start; /* kernel's start time in ticks: guards a reused pid */
  int64_t started_ms;
  bool running;
  bool spooled;
  bool terminal;
  bool stdin_pipe;
  int exit_code; /* not running; -1: unknown */
  const char* command; /* argv joined by spaces, at most 4 KiB */
};

struct sbx_kit_job_result {
  size_t count;
  const struct sbx_kit_process* list; /* list; newest last; valid until free */
  bool made;        /* prepare: root is a folder that can be written */
  const char* home; /* prepare: of the user, "" if unknown */
  const char* shell; /* prepare: "/bin/bash" if there is one, else "/bin/sh" */
  uint32_t uid;
};

/* The command ended. 0 and the result, or a negative code with `error`. */
int sbx_kit_job_result(struct sbx_kit_job* job, int exit_code,
                       const char* stderr_text, size_t stderr_len,
                       struct sbx_kit_job_result* result,
                       struct sbx_error* error);
void sbx_kit_job_free(struct sbx_kit_job* job);

#endif
