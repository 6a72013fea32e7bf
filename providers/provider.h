/* What the binding sees of a provider: one table, and one sandbox object.
 *
 * Checked on paper against the services: each verb is one request or one
 * command of the remote kit on E2B (envd Connect streams), Daytona (toolbox
 * REST and log sockets), Vercel (NDJSON), Upstash (SSE) and Mastra platform
 * (lease and WebSocket); Local answers with descriptors. What a service lacks
 * it answers with SBX_E_UNSUPPORTED and says so in its capabilities. Verbs may
 * be NULL only where the capability is "unsupported".
 */
#ifndef SBX_PROVIDER_H
#define SBX_PROVIDER_H

#include <uv.h>

#include "../native/error.h"
#include "../native/files/files.h"
#include "../native/network/proxy.h"
#include "../native/options.h"
#include "../native/path.h"
#include "../native/session/process.h"

struct sbx_sandbox;

enum sbx_outcome { SBX_CREATED = 1, SBX_CONNECTED };

/* `error` NULL on success. Exactly once, on the loop. */
typedef void (*sbx_done_cb)(void* arg, const struct sbx_error* error);
typedef void (*sbx_found_cb)(void* arg, const struct sbx_error* error,
                             bool found);

/* Where clients on this machine reach an exposed port; valid during the call. */
struct sbx_exposed {
  const char* host; /* with port, where url is NULL: "127.0.0.1" */
  unsigned port;
  const char* url;    /* "https://3000-id.e2b.app", without a slash at the end */
  const char* header; /* "Name: value" that requests there need, or NULL */
};
typedef void (*sbx_exposed_cb)(void* arg, const struct sbx_error* error,
                               const struct sbx_exposed* exposed);

/* A command that goes on, or ended lately. */
struct sbx_listed {
  uint32_t pid;
  const char* command;
  int64_t started_ms;
  bool running;
  bool terminal;
  bool stdin_pipe; /* attach can write */
  int exit_code; /* not running; -1: unknown */
};
typedef void (*sbx_listed_cb)(void* arg, const struct sbx_error* error,
                              const struct sbx_listed* list, size_t count);

/* What happened to something in a folder that is watched. */
enum sbx_change {
  SBX_CHANGE_CREATE = 1,
  SBX_CHANGE_WRITE,
  SBX_CHANGE_REMOVE,
  SBX_CHANGE_RENAME, /* of the old name; the new one is created */
  SBX_CHANGE_CHMOD
};

struct sbx_watch;

/* `name` is relative to the folder and stays in it; valid during the call. */
struct sbx_watch_events {
  void* data;
  void (*on_ready)(void* data); /* what happens from now on is told */
  void (*on_change)(void* data, enum sbx_change change, const char* name,
                    size_t len);
  /* Once, the last, never before `watch` has returned; the watch is gone. */
  void (*on_end)(void* data, const struct sbx_error* error);
};

/* A host that the network policy refused; valid during the call. */
typedef void (*sbx_denied_cb)(void* arg, const struct sbx_denial* denial);

/* One line of the capability map. Static text. */
struct sbx_capability {
  const char* name;   /* "files", "processes", "stdin", ... */
  const char* mode;   /* "native", "emulated" or "unsupported" */
  const char* reason; /* why not native, or NULL */
};

/* A key and a value for getInfo().metadata; valid until the next call. */
typedef void (*sbx_fact_cb)(void* arg, const char* key, const char* value);

/* What is done with a snapshot, which is named by an id: 1 to 240 characters of
 * A-Z a-z 0-9 _ - %, so that it can be a file's name as it is. */
enum sbx_snapshot_verb {
  SBX_SNAPSHOT_CREATE = 40, /* of the workspace; replaces one of that id */
  SBX_SNAPSHOT_RESTORE,     /* ends every process and puts it in the place of
                               the workspace's content; on failure that stays */
  SBX_SNAPSHOT_DELETE,
  SBX_SNAPSHOT_LIST,
  SBX_SNAPSHOT_SEED, /* into a workspace that was just created and is empty */
  SBX_SNAPSHOT_LAYER /* makes of it what use_layer takes */
};

/* For errors: "snapshots.create"; "template" for SEED and LAYER. */
const char* sbx_snapshot_operation(enum sbx_snapshot_verb verb);

struct sbx_snapshot {
  char id[248];
  uint64_t bytes;
  int64_t created_ms;
};

/* CREATE answers with one, LIST with all, the others with none; valid during
 * the call. */
typedef void (*sbx_snapshot_cb)(void* arg, const struct sbx_error* error,
                                const struct sbx_snapshot* list, size_t count);

struct sbx_provider {
  const char* name;

  /* Checks the options and allocates; starts nothing and does no I/O beyond
   * looking at given paths. SBX_E_INVALID_INPUT names option and remedy. */
  int (*open)(uv_loop_t* loop, const struct sbx_options* options,
              struct sbx_sandbox** out, struct sbx_error* error);

  /* Life. find says whether there is something to connect to. All but close
   * may be called again after they failed. */
  void (*find)(struct sbx_sandbox* s, sbx_found_cb cb, void* arg);
  void (*create)(struct sbx_sandbox* s, sbx_done_cb cb, void* arg);
  void (*connect)(struct sbx_sandbox* s, sbx_done_cb cb, void* arg);
  void (*stop)(struct sbx_sandbox* s, sbx_done_cb cb, void* arg);
  void (*resume)(struct sbx_sandbox* s, sbx_done_cb cb, void* arg);
  void (*destroy)(struct sbx_sandbox* s, sbx_done_cb cb, void* arg);
  void (*touch)(struct sbx_sandbox* s); /* use extends the time limit */

  /* May be NULL. Stops every process where it is, and lets them go on (resume
   * above is something else: it starts what was stopped). */
  void (*pause)(struct sbx_sandbox* s, sbx_done_cb cb, void* arg);
  void (*unpause)(struct sbx_sandbox* s, sbx_done_cb cb, void* arg);

  /* Both may be NULL. The secret of the account from the next request on, and
   * whether something that no caller waits for wants a new one. */
  int (*set_secret)(struct sbx_sandbox* s, const char* secret,
                    struct sbx_error* error);
  bool (*is_stale)(struct sbx_sandbox* s);

  /* Frees the object; ends what runs, without keeping the loop busy for it
   * longer than needed. From any state. */
  void (*close)(struct sbx_sandbox* s, sbx_done_cb cb, void* arg);

  /* Files. scope 0: the workspace; 1: the sandbox's own root. Paths as
   * sbx_path_relative makes them. */
  int (*file_try)(struct sbx_sandbox* s, int scope,
                  const struct sbx_file_request* request,
                  struct sbx_file_result* result, struct sbx_error* error);
  int (*file)(struct sbx_sandbox* s, int scope,
              const struct sbx_file_request* request, sbx_file_cb cb,
              void* arg);

  /* Both NULL where the capability is "unsupported". Tells what happens in a
   * folder, `recursive`: and in those below it, until unwatch or on_end. */
  int (*watch)(struct sbx_sandbox* s, int scope, const char* path,
               bool recursive, const struct sbx_watch_events* events,
               struct sbx_watch** out, struct sbx_error* error);
  void (*unwatch)(struct sbx_watch* w); /* no more events */

  /* Commands; the process functions of native/session/process.h work on the
   * result. */
  int (*spawn)(struct sbx_sandbox* s, const struct sbx_process_spec* spec,
               const struct sbx_process_events* events,
               struct sbx_process** out, struct sbx_error* error);

  /* Both NULL where commands do not outlive their host. All commands of the
   * sandbox, also those that another host started; attach goes on with the
   * output of one, from the oldest byte that is kept. Of the spec it reads
   * retain, grace_ms, stdin_pipe (there is one), columns and rows (it is a
   * terminal; its output then begins now). */
  void (*list)(struct sbx_sandbox* s, sbx_listed_cb cb, void* arg);
  int (*attach)(struct sbx_sandbox* s, uint32_t pid,
                const struct sbx_process_spec* spec,
                const struct sbx_process_events* events,
                struct sbx_process** out, struct sbx_error* error);

  /* Snapshots. `store`: where the provider keeps them, if that is a folder of
   * this machine; "": where it knows itself, or its service. Returns 0, or a negative code, `error` filled and calls
   * nothing. */
  int (*snapshot)(struct sbx_sandbox* s, enum sbx_snapshot_verb verb,
                  const char* store, const char* id, sbx_snapshot_cb cb,
                  void* arg, struct sbx_error* error);

  /* May be NULL. The next create starts with this layer's files, if it can (at a
   * service: from the snapshot of that id); the fact "template" then says so. */
  int (*use_layer)(struct sbx_sandbox* s, const char* path);

  /* Ports. Exposing one again gives the same address; all end with stop. */
  void (*expose)(struct sbx_sandbox* s, unsigned port, sbx_exposed_cb cb,
                 void* arg);
  void (*unexpose)(struct sbx_sandbox* s, unsigned port);

  /* Replaces the network policy by a list of hosts, an empty one for "deny", and
   * until the object is closed: at once, or where a service has to be asked. */
  int (*set_network)(struct sbx_sandbox* s, const char* const* hosts,
                     size_t count, struct sbx_error* error);
  void (*request_network)(struct sbx_sandbox* s, const char* const* hosts,
                          size_t count, sbx_done_cb cb, void* arg);
  void (*watch_network)(struct sbx_sandbox* s, sbx_denied_cb cb, void* arg);

  /* Facts of the session, without I/O. */
  void (*facts)(struct sbx_sandbox* s, sbx_fact_cb cb, void* arg);
  const struct sbx_capability* (*capabilities)(struct sbx_sandbox* s,
                                               size_t* count);
};

/* First member of every provider's own struct. */
struct sbx_sandbox {
  const struct sbx_provider* provider;
  uv_loop_t* loop;
  struct sbx_place place; /* owned by the provider; may change with start */
  uint32_t epoch;         /* raised by every create, connect and resume */
  bool abandoned;         /* set before close where nobody hears answers any
                             more: what waits need not be done */
};

/* NULL if there is no provider of that name. */
const struct sbx_provider* sbx_provider_find(const char* name);

extern const struct sbx_provider sbx_provider_local;
extern const struct sbx_provider sbx_provider_local_store;
extern const struct sbx_provider sbx_provider_e2b;

#endif
