/* What the parts of the Local provider know of each other; nothing public. */
#ifndef SBX_LOCAL_INTERNAL_H
#define SBX_LOCAL_INTERNAL_H

#include "../../native/session/config.h"
#include "../provider.h"
#include "folder.h"
#include "network.h"
#include "options.h"
#include "view.h"

enum sbx__local_state {
  SBX__LOCAL_IDLE,
  SBX__LOCAL_PREPARING,
  SBX__LOCAL_STARTING,
  SBX__LOCAL_RUNNING,
  SBX__LOCAL_ENDING,
  SBX__LOCAL_CLEANING
};

/* The removal of what a session left on disk: on the thread pool. */
struct sbx__local_cleaning {
  uv_work_t work;
  struct sbx_local_folder folder; /* taken over */
  bool destroying;
  int err;
  struct sbx_error error;
};

struct sbx__local_waiter;

struct sbx__local {
  struct sbx_sandbox base;
  struct sbx_local_options options; /* never change: workers may read them */
  char* root_workspace;             /* ROOT: its host path */
  char* snapshots;                  /* ROOT: the folder that holds them */
  char* layer;                      /* template of the next start, or NULL */
  char* protected;                  /* paths that are read-only inside, or NULL */
  char* existing; /* those of the list that were there at the first start */
  bool repository; /* there was a .git at this start */
  enum sbx__local_state state;
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
  struct sbx__local_waiter* ending; /* destroy and close calls */
  struct sbx__local_cleaning cleaning;
  bool destroying;       /* the folder below `root` goes, too */
  bool closing;          /* the struct goes, too */
  bool late_failed;      /* what to tell them once the network is gone */
  struct sbx_error late;
  bool over;             /* closed; waits for `finding` only */
  unsigned finding;
};

/* ---- local.c ---- */

/* Sets the names of the workspace, which depend on the level and the folder. */
void sbx__local_place(struct sbx__local* l);

int sbx__local_not_started(const struct sbx__local* l, const char* operation,
                           struct sbx_error* error);

/* Once nothing is under way but a look for its folder. */
void sbx__local_free(struct sbx__local* l);

/* ---- answer.c ---- */

/* Calls back in the next turn of the loop; without memory at once. */
void sbx__local_answer(struct sbx__local* l, sbx_done_cb cb, void* arg,
                       const struct sbx_error* error);
void sbx__local_answer_found(struct sbx__local* l, sbx_found_cb cb, void* arg,
                             bool yes);

/* ---- prepare.c: what the thread pool makes of the options ---- */

/* The results are the loop's to take over. */
struct sbx__local_preparing {
  uv_work_t work; /* its data is this struct */
  struct sbx__local* local;
  struct sbx_local_options own; /* borrows all that it points to */
  const struct sbx_local_options* options; /* the same */
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

void sbx__local_prepare(uv_work_t* work);

/* ---- life.c ---- */

void sbx__local_start(struct sbx_sandbox* s, sbx_done_cb cb, void* arg);
void sbx__local_stop(struct sbx_sandbox* s, sbx_done_cb cb, void* arg);
void sbx__local_pause(struct sbx_sandbox* s, sbx_done_cb cb, void* arg);
void sbx__local_unpause(struct sbx_sandbox* s, sbx_done_cb cb, void* arg);
void sbx__local_destroy(struct sbx_sandbox* s, sbx_done_cb cb, void* arg);
void sbx__local_close(struct sbx_sandbox* s, sbx_done_cb cb, void* arg);

/* ---- files.c ---- */

/* Takes over the descriptors of `ready`. Negative: one of them is missing. */
int sbx__local_open_roots(struct sbx__local* l);
void sbx__local_drop_roots(struct sbx__local* l);
int sbx__local_file_try(struct sbx_sandbox* s, int scope,
                        const struct sbx_file_request* request,
                        struct sbx_file_result* result,
                        struct sbx_error* error);
int sbx__local_file(struct sbx_sandbox* s, int scope,
                    const struct sbx_file_request* request, sbx_file_cb cb,
                    void* arg);

/* ---- ports.c ---- */

int sbx__local_open_network(struct sbx__local* l, struct sbx_error* error);
void sbx__local_expose(struct sbx_sandbox* s, unsigned port,
                       sbx_exposed_cb cb, void* arg);
void sbx__local_unexpose(struct sbx_sandbox* s, unsigned port);
int sbx__local_set_network(struct sbx_sandbox* s, const char* const* hosts,
                           size_t count, struct sbx_error* error);
void sbx__local_watch_network(struct sbx_sandbox* s, sbx_denied_cb cb,
                              void* arg);

/* ---- restore.c ---- */

int sbx__local_snapshot(struct sbx_sandbox* s, enum sbx_snapshot_verb verb,
                        const char* store, const char* id, sbx_snapshot_cb cb,
                        void* arg, struct sbx_error* error);

/* ---- facts.c ---- */

void sbx__local_facts(struct sbx_sandbox* s, sbx_fact_cb cb, void* arg);
const struct sbx_capability* sbx__local_capabilities(struct sbx_sandbox* s,
                                                     size_t* count);

#endif
