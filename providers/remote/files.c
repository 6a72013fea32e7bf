/* File calls of a cloud sandbox: what the remote kit asks for, done with the
 * service's machines.
 */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* A longer answer is taken apart on the thread pool: a listing of 200,000 names
 * takes some hundred milliseconds. */
enum { POOL_MIN = 256 * 1024 };

struct parse;

struct call {
  struct sbx__remote_work work; /* first */
  struct sbx_remote* remote;
  int scope;
  struct sbx_file_request request; /* points to the caller's */
  char* root; /* the sandbox's own may change with its next start */
  struct sbx_kit_call* kit;
  struct sbx__command* command;
  struct sbx_drive* drive; /* of an upload or download */
  bool began;  /* something of it may have been done */
  bool probing;
  bool again;  /* it was begun anew */
  struct parse* parse; /* of the answer, on the pool */
  bool over; /* ended meanwhile, by `error` */
  struct sbx_error error; /* while it is probed */
  sbx_file_cb cb;
  void* arg;
};

static bool is_read(const struct call* c) {
  switch (c->request.verb) {
    case SBX_FILE_READ:
    case SBX_FILE_READDIR:
    case SBX_FILE_EXISTS:
    case SBX_FILE_STAT:
    case SBX_FILE_REALPATH:
    case SBX_FILE_WALK:
    case SBX_FILE_GATHER: return true;
    default: return false;
  }
}

static void let_go(struct call* c) {
  if (c->probing) sbx__remote_forget_probe(c->remote, c);
  c->probing = false;
  if (c->command != NULL) sbx__command_close(c->command);
  if (c->drive != NULL) sbx_drive_close(c->drive);
  if (c->kit != NULL) sbx_kit_call_free(c->kit);
  free(c->root);
  c->command = NULL;
  c->drive = NULL;
  c->kit = NULL;
  c->root = NULL;
}

/* The last touch. */
static void finish(struct call* c, const struct sbx_error* error,
                   struct sbx_file_result* result) {
  sbx_file_cb cb = c->cb;
  void* arg = c->arg;
  struct sbx_error copy;

  error = sbx_error_keep(&copy, error); /* it may be the call's own */
  sbx__remote_unlink(&c->work);
  let_go(c);
  free(c);
  cb(arg, error, result);
}

/* "unavailable" would say that nothing was done. */
static void fail(struct call* c, const struct sbx_error* error) {
  struct sbx_error told = *error;

  if (told.code == SBX_E_UNAVAILABLE && c->began && !is_read(c)) {
    sbx_error_set(&told, SBX_E_PROVIDER, error->sys, "files",
                  "%.800s Whether the file was changed is not known.",
                  error->message);
    told.retryable = false;
  }
  finish(c, &told, NULL);
}

static void on_stop(struct sbx__remote_work* w,
                    const struct sbx_error* error) {
  struct call* c = (struct call*) w;

  if (c->parse != NULL) {
    sbx__remote_unlink(w);
    c->over = true;
    c->error = *error;
    return;
  }
  if (c->command != NULL) c->began = true;
  fail(c, error);
}

static void advance(struct call* c);

static int begin(struct call* c, struct sbx_error* error) {
  struct sbx_kit_place place;

  sbx__remote_place(c->remote, c->scope, &place);
  c->root = strdup(place.root);
  if (c->root == NULL) return sbx__remote_no_memory(error, "files");
  place.root = place.inside = c->root;
  return sbx_kit_call_new(&place, &c->request, &c->kit, error);
}

/* ---- what broke ---- */

static void on_probed(void* arg, enum sbx__remote_life life) {
  struct call* c = arg;
  struct sbx_error error = c->error;

  c->probing = false;
  if (life == SBX__REMOTE_DEAD && c->remote->state == SBX__REMOTE_LOST)
    error = c->remote->error;
  if (life != SBX__REMOTE_ALIVE || c->again || !is_read(c)) {
    fail(c, &error);
    return;
  }
  let_go(c);
  c->again = true;
  if (begin(c, &error) != 0)
    finish(c, &error, NULL);
  else
    advance(c);
}

/* Said before anything was run: there is no such machine. */
static bool is_absence(const struct sbx_error* error) {
  return error->code == SBX_E_UNAVAILABLE && error->sys == 0;
}

static void on_broken(struct call* c, const struct sbx_error* error,
                      bool began) {
  struct sbx_remote* r = c->remote;

  if (began) c->began = true;
  if (error->code == SBX_E_ABORTED || error->code == SBX_E_AUTHENTICATION ||
      error->code == SBX_E_RATE_LIMITED) {
    fail(c, error);
    return;
  }
  c->error = *error;
  if (!c->began && is_absence(error)) c->error.retryable = true;
  c->probing = true;
  sbx__remote_probe(r, on_probed, c);
}

/* ---- the kit's steps ---- */

static int on_bytes(void* data, const char* bytes, size_t len) {
  return sbx_kit_call_feed(((struct call*) data)->kit, bytes, len);
}

struct parse {
  uv_work_t work; /* first */
  struct call* call;
  int exit_code;
  size_t stderr_len;
  char stderr_text[];
};

static void on_parse(uv_work_t* work) {
  struct parse* p = (struct parse*) work;

  sbx_kit_call_ran(p->call->kit, p->exit_code, p->stderr_text, p->stderr_len);
}

static void after_parse(uv_work_t* work, int status) {
  struct parse* p = (struct parse*) work;
  struct call* c = p->call;
  struct sbx_remote* r = c->remote;

  (void) status;
  free(p);
  c->parse = NULL;
  if (c->over)
    fail(c, &c->error);
  else
    advance(c);
  sbx__remote_pool(r, false);
}

/* False where it has to be done here. */
static bool parse_elsewhere(struct call* c,
                            const struct sbx__command_end* end) {
  struct parse* p;

  if (sbx_kit_call_size(c->kit) < POOL_MIN) return false;
  p = malloc(sizeof(*p) + end->stderr_len);
  if (p == NULL) return false;
  *p = (struct parse){.call = c, .exit_code = end->exit_code,
                      .stderr_len = end->stderr_len};
  memcpy(p->stderr_text, end->stderr_text, end->stderr_len);
  c->parse = p;
  sbx__remote_pool(c->remote, true);
  /* Fails only without a function to run. */
  uv_queue_work(c->remote->base.loop, &p->work, on_parse, after_parse);
  return true;
}

static void on_command_end(void* data, const struct sbx__command_end* end) {
  struct call* c = data;

  c->command = NULL;
  if (end->error != NULL) {
    on_broken(c, end->error, end->began);
    return;
  }
  c->began = true;
  if (parse_elsewhere(c, end)) return;
  sbx_kit_call_ran(c->kit, end->exit_code, end->stderr_text, end->stderr_len);
  advance(c);
}

static int run(struct call* c, const struct sbx_kit_next* next,
               struct sbx_error* error) {
  struct sbx__command_spec spec = {.argv = next->argv,
                                   .argc = next->argc,
                                   .stdin_bytes = next->stdin_bytes,
                                   .stdin_len = next->stdin_len,
                                   .timeout_ms = SBX__REMOTE_CALL_MS,
                                   .operation = "files"};
  struct sbx__command_events events = {c, on_bytes, on_command_end};

  return sbx__command_start(c->remote, &spec, &events, &c->command, error);
}

static void on_moved(void* data, const struct sbx_error* error) {
  struct call* c = data;
  struct sbx_error copy;

  error = sbx_error_keep(&copy, error);
  sbx_drive_close(c->drive);
  c->drive = NULL;
  /* Both are private files of the kit, or are read: nothing was done yet. */
  if (error != NULL && (is_absence(error) || error->sys != 0 ||
                        error->code == SBX_E_TIMEOUT)) {
    on_broken(c, error, false);
    return;
  }
  sbx_kit_call_moved(c->kit, error);
  advance(c);
}

static void on_data(void* data, int64_t what, const char* bytes, size_t len) {
  struct call* c = data;
  struct sbx_error error;

  if (what != SBX_EMIT_DATA) return;
  if (sbx_kit_call_feed(c->kit, bytes, len) >= 0) return;
  sbx_error_set(&error, SBX_E_PROVIDER, 0, "files",
                "%s sent more than the file has.", c->remote->service->title);
  finish(c, &error, NULL);
}

static int move(struct call* c, const struct sbx_kit_next* next,
                struct sbx_error* error) {
  struct sbx_remote* r = c->remote;
  struct sbx_drive_events events = {c, on_data, on_moved};
  struct sbx_machine* machine =
      next->step == SBX_KIT_UPLOAD
          ? r->service->upload(r->account, next->path, next->data,
                               next->data_len)
          : r->service->download(r->account, next->path);

  return sbx__remote_drive(r, machine, SBX__REMOTE_CALL_MS, &events, &c->drive,
                           error);
}

static void done(struct call* c) {
  struct sbx_file_result result = {0};
  struct sbx_error error = {0};

  if (sbx_kit_call_result(c->kit, &result, &error) != 0)
    finish(c, &error, NULL);
  else
    finish(c, NULL, &result);
}

static void advance(struct call* c) {
  struct sbx_kit_next next = {0};
  struct sbx_error error = {0};
  int rc;

  sbx_kit_call_next(c->kit, &next);
  if (next.step == SBX_KIT_DONE) {
    done(c);
    return;
  }
  rc = next.step == SBX_KIT_RUN ? run(c, &next, &error)
                                : move(c, &next, &error);
  if (rc != 0) finish(c, &error, NULL);
}

/* Answers that need no request; the sandbox may be gone by then. */
static void on_soon(void* arg) {
  struct call* c = arg;

  if (c->error.code != 0)
    finish(c, &c->error, NULL);
  else
    done(c);
}

/* Without I/O: whether the call can be made at all. */
int sbx_remote_file_try(struct sbx_sandbox* s, int scope,
                        const struct sbx_file_request* request,
                        struct sbx_file_result* result,
                        struct sbx_error* error) {
  struct sbx_remote* r = (struct sbx_remote*) s;

  (void) result;
  if (scope < 0 || scope > 1 || request->verb == SBX_FILE_CHANGES)
    return sbx_error_set(error, SBX_E_UNSUPPORTED, 0, "files",
                         "A sandbox at %s lies on no template whose changes "
                         "could be told.",
                         r->service->title);
  return sbx__remote_check(r, "files", error);
}

int sbx_remote_file(struct sbx_sandbox* s, int scope,
                    const struct sbx_file_request* request, sbx_file_cb cb,
                    void* arg) {
  struct sbx_remote* r = (struct sbx_remote*) s;
  struct call* c = calloc(1, sizeof(*c));
  struct sbx_kit_next next = {0};

  if (c == NULL) return SBX_E_INTERNAL;
  *c = (struct call){.work = {.stop = on_stop}, .remote = r, .scope = scope,
                     .request = *request, .cb = cb, .arg = arg};
  if (begin(c, &c->error) == 0) sbx_kit_call_next(c->kit, &next);
  if (c->kit == NULL || next.step == SBX_KIT_DONE) {
    sbx__remote_soon(r->base.loop, on_soon, c);
    return 0;
  }
  sbx__remote_use(r);
  sbx__remote_link(r, &c->work);
  advance(c);
  return 0;
}
