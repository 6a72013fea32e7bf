/* What a cloud service is to remote.c: makers of protocol machines.
 *
 * A service keeps its account (key, addresses) and its machine record (the
 * provider's id, tokens, versions) in one `struct sbx_service_state`, which
 * its life machines fill and its other machines read. Machines of one state run
 * on one loop; none outlives it. What a machine emits is listed with its maker.
 * A maker may be NULL where the capability is "unsupported"; it returns NULL
 * without memory.
 */
#ifndef SBX_SERVICE_H
#define SBX_SERVICE_H

#include "../../native/options.h"
#include "../../native/step.h"
#include "../provider.h"

/* First member of every service's own struct. */
struct sbx_service_state {
  char* id;        /* the provider's id of the machine, NULL: none yet */
  const char* user; /* that commands run as, "" if unknown */
  const char* home; /* of that user, "/home/user" */
  uint64_t timeout_ms; /* the machine's time limit; 0: none, or unknown */
  uint64_t request_ms; /* deadline of one life verb; 0: 60 s */
};

enum sbx_emit {
  SBX_EMIT_FOUND = 1, /* find: one machine exists */
  SBX_EMIT_PID,       /* process: bytes: uint32_t; once, first */
  SBX_EMIT_STDOUT,
  SBX_EMIT_STDERR,
  SBX_EMIT_EXIT, /* process: bytes: struct sbx_emit_exit; then DONE */
  SBX_EMIT_WRITTEN, /* process: number of SBX_INPUT_BYTES inputs that left: uint32_t */
  SBX_EMIT_DATA, /* download, snapshot list: bytes */
  SBX_EMIT_TEXT, /* one line for the owner, e.g. a snapshot's id */
  SBX_EMIT_READY, /* watch: it looks */
  SBX_EMIT_CHANGE, /* watch: bytes: one of enum sbx_change, then the name */
  SBX_EMIT_REFUSED, /* process: it takes no more input, nor what waits */
  SBX_EMIT_DENIED /* process: bytes: struct sbx_emit_denied */
};

/* Inputs that the service did not let in: over, as those written are. The end of
 * the input counts none; the error that follows is then its, and no other try
 * would go better. */
struct sbx_emit_denied {
  uint32_t count; /* of SBX_INPUT_BYTES */
  int32_t code;   /* SBX_E_AUTHENTICATION, SBX_E_PERMISSION */
};

struct sbx_emit_exit {
  int exit_code; /* 0-255 */
  int signal;    /* that ended the process, or 0 */
};

/* Inputs of a process machine. */
enum sbx_input {
  SBX_INPUT_BYTES = 1,
  SBX_INPUT_EOF,
  SBX_INPUT_SIGNAL, /* bytes: uint32_t */
  SBX_INPUT_RESIZE  /* bytes: uint32_t columns, rows */
};

struct sbx_start_spec {
  const char* const* argv; /* exact; no shell unless it is in there */
  size_t argc;
  const char* cwd; /* NULL: the service's own */
  const char* const* env; /* added to the service's: "NAME=value" */
  size_t envc;
  bool stdin_pipe;     /* else end-of-file at once */
  uint64_t timeout_ms; /* for the service's side; 0: none */
  uint32_t columns, rows; /* not 0: a terminal */
  bool as_root;
};

struct sbx_attach_spec {
  uint32_t pid;
  bool terminal;
  bool input_only; /* emits WRITTEN, and DENIED of the end; is done when it can
                      write no more: CONFLICT, NOT_FOUND, or not allowed to */
};

struct sbx_service {
  const char* name;  /* "e2b" */
  const char* title; /* "E2B", in messages */

  /* Checks the options and environment; no I/O. Errors name option and remedy. */
  int (*open)(const struct sbx_options* options,
              struct sbx_service_state** out, struct sbx_error* error);
  void (*free)(struct sbx_service_state* s);
  const char* (*proxy)(struct sbx_service_state* s); /* option, NULL: none set */

  /* Life. `id` is the user's, or to create one of our own where the user gave
   * none. find sets state->id to the oldest of that id. create may fail with
   * something made: it is never called again, but find is, once. */
  struct sbx_machine* (*find)(struct sbx_service_state* s, const char* id);
  struct sbx_machine* (*create)(struct sbx_service_state* s, const char* id);
  struct sbx_machine* (*connect)(struct sbx_service_state* s); /* also wakes it */
  struct sbx_machine* (*stop)(struct sbx_service_state* s);    /* keeps files */
  struct sbx_machine* (*destroy)(struct sbx_service_state* s);
  struct sbx_machine* (*touch)(struct sbx_service_state* s); /* extends its time */
  /* Is it still there? After a broken stream. EMIT_FOUND: it runs; success
   * without: it surely does not; else it is not known. */
  struct sbx_machine* (*probe)(struct sbx_service_state* s);

  /* Processes. attach emits what start does, from now on. Of the errors
   * UNAVAILABLE with `sys` 0 means that the service said so before anything was
   * run: the call may be repeated on a new machine. NOT_FOUND of attach: there
   * is no such process (any more). */
  struct sbx_machine* (*start)(struct sbx_service_state* s,
                               const struct sbx_start_spec* spec);
  struct sbx_machine* (*attach)(struct sbx_service_state* s,
                                const struct sbx_attach_spec* spec);

  /* Native transfers, absolute paths, parents are made. `data` stays valid until
   * the machine is freed. download emits DATA. */
  struct sbx_machine* (*upload)(struct sbx_service_state* s, const char* path,
                                const void* data, size_t len);
  struct sbx_machine* (*download)(struct sbx_service_state* s, const char* path);

  /* An absolute path. Emits READY, then CHANGE until it is given up; it is never
   * done without an error. NULL: none. */
  struct sbx_machine* (*watch)(struct sbx_service_state* s, const char* path,
                               bool recursive);

  /* Snapshots by the service; create emits TEXT (its id). NULL: none. */
  struct sbx_machine* (*snapshot_create)(struct sbx_service_state* s,
                                         const char* name);
  struct sbx_machine* (*snapshot_delete)(struct sbx_service_state* s,
                                         const char* id);
  struct sbx_machine* (*snapshot_list)(struct sbx_service_state* s);

  /* The next create starts from this snapshot or template. 0, or a negative code
   * without memory. */
  int (*set_template)(struct sbx_service_state* s, const char* id);
  /* The account's secret from the next request on. Pure. */
  int (*set_secret)(struct sbx_service_state* s, const char* secret,
                    struct sbx_error* error);

  struct sbx_machine* (*set_network)(struct sbx_service_state* s,
                                     const char* const* hosts, size_t count);

  /* Pure: the public URL of a port, and a header that its requests need ("" if
   * none). 0 or a negative code. */
  int (*port_url)(struct sbx_service_state* s, unsigned port, char* url,
                  size_t url_size, char* header, size_t header_size);

  bool binary_output; /* process output arrives byte for byte */
  void (*facts)(struct sbx_service_state* s, sbx_fact_cb cb, void* arg);
  const struct sbx_capability* (*capabilities)(struct sbx_service_state* s,
                                               size_t* count);
};

#endif
