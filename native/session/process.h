/* One command: its output rings, input queue, time limit and end.
 *
 * A process is created running and settles once: on_exit is the last call but
 * for the close callback. Everything happens on the loop of the session.
 */
#ifndef SBX_PROCESS_H
#define SBX_PROCESS_H

#include "../error.h"
#include "session.h"

struct sbx_process;

enum { SBX_STDOUT = 0, SBX_STDERR = 1 };

/* What "keep everything" means for one stream. */
#define SBX_RETAIN_MAX ((size_t)256 << 20)

struct sbx_process_spec {
  const char* const* argv;
  size_t argc;
  const char* cwd; /* absolute, inside */
  const char* const* env; /* "NAME=value", the whole environment */
  size_t envc;
  bool stdin_pipe;     /* else the command reads end-of-file at once */
  uint64_t timeout_ms; /* 0: none; counted from the spawn */
  uint64_t grace_ms;   /* TERM to KILL after the timeout */
  size_t retain;       /* newest bytes kept per stream, at most RETAIN_MAX */
  uint64_t output_rate; /* bytes read per second of both streams; 0: all */
  /* Not 0: the command gets a terminal of that size for its three streams, and
   * all output is stdout. stdin_pipe counts for nothing then. */
  uint32_t columns, rows;
  bool background; /* may outlive this host where the provider allows it: its
                      output is kept for who attaches later */
};

struct sbx_process_result {
  int exit_code; /* 0-255; 128+n after signal n; 124 after the timeout; 127 and
                    126 when the program could not be run */
  int signal;    /* that ended it, or 0 */
  bool killed;
  bool timed_out;
  const char* reason; /* one sentence if a limit was reached, else NULL */
  double duration_ms;
  uint64_t user_us, system_us, max_rss_bytes;
  const struct sbx_error* error; /* never started (missing cwd, session gone),
                                    else NULL; exit_code is then -1 */
  bool ran; /* with `error`: it was started, or may have been, so it must not be
               started again; its end is not known */
};

/* All may be NULL. `bytes` are valid during the call. */
struct sbx_process_events {
  void* data;
  void (*on_spawn)(void* data, uint32_t pid);
  /* Raw bytes as read; only while sbx_process_listen is on. */
  void (*on_bytes)(void* data, int stream, const char* bytes, size_t len);
  /* The same stream cut at code-point borders; the rest of a broken sequence
   * comes with the last call before on_exit. */
  void (*on_text)(void* data, int stream, const char* bytes, size_t len);
  /* After every output event. */
  void (*on_exit)(void* data, const struct sbx_process_result* result);
};

enum sbx_listen { SBX_LISTEN_BYTES = 1, SBX_LISTEN_TEXT = 2 };

int sbx_process_spawn(struct sbx_session* session,
                      const struct sbx_process_spec* spec,
                      const struct sbx_process_events* events,
                      struct sbx_process** out, struct sbx_error* error);

/* mask of enum sbx_listen, per stream; takes effect with the next bytes. */
void sbx_process_listen(struct sbx_process* p, int stream, unsigned mask);

/* Stops reading the stream, so that the command blocks when its pipe is full. */
void sbx_process_pause(struct sbx_process* p, int stream, bool paused);

/* Copies and queues. `cb` (may be NULL) once the bytes left for the pipe or
 * cannot; status 0, UV_EPIPE or UV_ECANCELED, at a service also UV_ECONNRESET
 * (whether they arrived is not known), SBX_E_AUTHENTICATION, SBX_E_PERMISSION
 * or SBX_E_NOT_FOUND. Negative: nothing queued. */
typedef void (*sbx_write_cb)(void* arg, int status);
int sbx_process_write(struct sbx_process* p, const void* bytes, size_t len,
                      sbx_write_cb cb, void* arg);

/* End-of-file after what is queued; a second call is harmless. */
int sbx_process_close_stdin(struct sbx_process* p);

/* Ends the whole tree: KILL at once for grace 0, else TERM first. The result
 * says killed. Returns 0, or SBX_E_NOT_FOUND when it has already settled. */
int sbx_process_end(struct sbx_process* p, uint64_t grace_ms);

/* A signal to the command's own process; with a terminal INT, QUIT and TSTP go
 * to what is in its foreground. */
int sbx_process_signal(struct sbx_process* p, int signo);

/* Sets the size of its terminal. SBX_E_INVALID_INPUT: it has none, or the size
 * is not one; SBX_E_NOT_FOUND: it has settled. */
int sbx_process_resize(struct sbx_process* p, uint32_t columns, uint32_t rows);

/* The newest kept bytes in one piece, cut at a code-point border at the front;
 * valid until the next loop turn. */
struct sbx_retained {
  const char* bytes;
  size_t len;
  uint64_t dropped; /* older bytes no longer kept */
};
void sbx_process_retained(struct sbx_process* p, int stream,
                          struct sbx_retained* out);

/* Frees it. Only after on_exit, or it ends the tree first without events. */
void sbx_process_close(struct sbx_process* p);

#endif
