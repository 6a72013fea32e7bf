/* Requests: from the loop to a pool thread and back, and what an errno means
 * to the caller of a verb. */
#include "internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct verb {
  const char* operation;
  int (*run)(struct sbx__job* job);
};

static const struct verb verbs[] = {
    [SBX_FILE_READ] = {"files.read", sbx__file_read},
    [SBX_FILE_WRITE] = {"files.write", sbx__file_write},
    [SBX_FILE_APPEND] = {"files.append", sbx__file_append},
    [SBX_FILE_DELETE] = {"files.delete", sbx__file_delete},
    [SBX_FILE_COPY] = {"files.copy", sbx__file_copy},
    [SBX_FILE_MOVE] = {"files.move", sbx__file_move},
    [SBX_FILE_MKDIR] = {"files.mkdir", sbx__file_mkdir},
    [SBX_FILE_RMDIR] = {"files.rmdir", sbx__file_rmdir},
    [SBX_FILE_READDIR] = {"files.readdir", sbx__file_list},
    [SBX_FILE_EXISTS] = {"files.exists", sbx__file_exists},
    [SBX_FILE_STAT] = {"files.stat", sbx__file_stat},
    [SBX_FILE_REALPATH] = {"files.realpath", sbx__file_realpath},
    [SBX_FILE_WALK] = {"files.walk", sbx__file_list},
    [SBX_FILE_GATHER] = {"files.gather", sbx__file_gather},
};

const char* sbx__operation(enum sbx_file_verb verb) {
  return verbs[verb].operation;
}

/* --- one request in flight ------------------------------------------------ */

/* Small looks wait for each other: one hop serves several of them. A hop's
 * head carries it. */
enum { HOPS_MAX = 4, LOOKS_PER_HOP = 16 };

struct queued {
  uv_work_t work;
  struct queued* next;
  uv_loop_t* loop;
  struct sbx_root* root;
  struct sbx_file_request request;
  struct sbx_file_result result;
  struct sbx_error error;
  int code;
  sbx_file_cb cb;
  void* arg;
};

static int run(struct queued* q, int identity, struct sbx__parent* parent) {
  struct sbx__job job = {q->root, &q->request, &q->result, &q->error, parent};
  const struct verb* verb = &verbs[q->request.verb];
  if (identity < 0)
    return sbx_error_set(&q->error, SBX_E_INTERNAL, -identity, verb->operation,
                         "Cannot take the workspace owner's user id %lld; "
                         "run as root or as that user.",
                         (long long)q->root->fsuid);
  if (__atomic_load_n(&q->root->abandoned, __ATOMIC_RELAXED))
    return sbx_error_set(&q->error, SBX_E_ABORTED, 0, verb->operation,
                         "The sandbox was closed before the call started.");
  return verb->run(&job);
}

static void on_work(uv_work_t* work) {
  struct queued* head = work->data;
  struct sbx__identity old;
  struct sbx__parent parent;
  int rc = sbx__identity_take(head->root, &old);
  parent.fd = -1;
  for (struct queued* q = head; q; q = q->next) q->code = run(q, rc, &parent);
  sbx__parent_close(&parent);
  if (rc == 0) sbx__identity_restore(&old);
}

static void finish(struct queued* q, int status) {
  const char* operation = sbx__operation(q->request.verb);
  if (status < 0)
    q->code = sbx_error_set(&q->error, SBX_E_ABORTED, 0, operation,
                            "The call was cancelled before it started.");
  if (q->code < 0) {
    free(q->result.data);
    memset(&q->result, 0, sizeof(q->result));
  }
  q->cb(q->arg, q->code < 0 ? &q->error : NULL, &q->result);
  sbx_root_unref(q->root);
  free(q);
}

static void finish_all(struct queued* head, int status) {
  while (head) {
    struct queued* q = head;
    head = q->next;
    finish(q, status);
  }
}

static void on_worked(uv_work_t* work, int status) {
  finish_all(work->data, status);
}

/* --- looks ---------------------------------------------------------------- */

static void on_looked(uv_work_t* work, int status);

/* An equal share of what waits, so that slow ones do not queue up behind each
 * other while threads are free. */
static struct queued* take_share(struct sbx_root* root) {
  unsigned hops = HOPS_MAX - root->hops;
  unsigned share = (root->waiting + hops - 1) / hops;
  struct queued* head = root->looks;
  struct queued* last = head;
  if (share > LOOKS_PER_HOP) share = LOOKS_PER_HOP;
  root->waiting -= share;
  while (--share > 0) last = last->next;
  root->looks = last->next;
  last->next = NULL;
  return head;
}

static void start_hops(struct sbx_root* root) {
  while (root->waiting > 0 && root->hops < HOPS_MAX) {
    struct queued* head = take_share(root);
    root->hops++;
    uv_queue_work(head->loop, &head->work, on_work, on_looked);
  }
}

/* The hop counts until all are answered: what the answers ask for then goes
 * together. */
static void on_looked(uv_work_t* work, int status) {
  struct queued* head = work->data;
  struct sbx_root* root = head->root;
  sbx_root_ref(root);
  finish_all(head, status);
  root->hops--;
  start_hops(root);
  sbx_root_unref(root);
}

static void add_look(struct queued* q) {
  struct sbx_root* root = q->root;
  if (root->waiting++ == 0)
    root->looks = q;
  else
    root->last_look->next = q;
  root->last_look = q;
  start_hops(root);
}

static bool is_look(const struct sbx_file_request* request) {
  return request->verb == SBX_FILE_READ || request->verb == SBX_FILE_STAT ||
         request->verb == SBX_FILE_EXISTS;
}

/* --- queueing ------------------------------------------------------------- */

static size_t text_size(const char* text) {
  return text ? strlen(text) + 1 : 0;
}

static size_t list_size(const char* const* list, size_t len) {
  size_t size = 0;
  for (size_t i = 0; i < len; i++) size += text_size(list[i]);
  return size;
}

static const char* text_keep(char** at, const char* text) {
  if (!text) return NULL;
  char* copy = *at;
  size_t size = strlen(text) + 1;
  memcpy(copy, text, size);
  *at += size;
  return copy;
}

static const char* const* list_keep(const char*** pointers, char** at,
                                    const char* const* list, size_t len) {
  const char** copy = *pointers;
  for (size_t i = 0; i < len; i++) copy[i] = text_keep(at, list[i]);
  *pointers += len;
  return copy;
}

/* The request with its own paths and lists, in one block: pointers, texts. */
static struct queued* queued_new(const struct sbx_file_request* r) {
  size_t pointers = (r->extensions_len + r->prune_len) * sizeof(char*);
  size_t size = text_size(r->path) + text_size(r->to) +
                list_size(r->extensions, r->extensions_len) +
                list_size(r->prune, r->prune_len);
  struct queued* q = calloc(1, sizeof(*q) + pointers + size);
  if (!q) return NULL;
  const char** list = (const char**)(q + 1);
  char* at = (char*)(q + 1) + pointers;
  q->request = *r;
  q->request.path = text_keep(&at, r->path);
  q->request.to = text_keep(&at, r->to);
  q->request.extensions =
      list_keep(&list, &at, r->extensions, r->extensions_len);
  q->request.prune = list_keep(&list, &at, r->prune, r->prune_len);
  return q;
}

bool sbx__is_sound(const struct sbx_file_request* request) {
  bool two = request->verb == SBX_FILE_COPY || request->verb == SBX_FILE_MOVE;
  return request->verb >= SBX_FILE_READ && request->verb <= SBX_FILE_GATHER &&
         request->path && (!two || request->to);
}

int sbx_files_request(uv_loop_t* loop, struct sbx_root* root,
                      const struct sbx_file_request* request, sbx_file_cb cb,
                      void* arg) {
  if (!sbx__is_sound(request)) return SBX_E_INTERNAL;
  struct queued* q = queued_new(request);
  if (!q) return SBX_E_INTERNAL;
  q->work.data = q;
  q->loop = loop;
  q->root = root;
  q->cb = cb;
  q->arg = arg;
  sbx_root_ref(root);
  /* Fails only without a function to run. */
  if (is_look(request))
    add_look(q);
  else
    uv_queue_work(loop, &q->work, on_work, on_worked);
  return 0;
}

/* --- errors --------------------------------------------------------------- */

static int fail(struct sbx__job* job, int code, int sys, const char* path,
                const char* text) {
  return sbx_error_set(job->error, code, sys,
                       sbx__operation(job->request->verb), "/%s %s", path,
                       text);
}

int sbx__fail_special(struct sbx__job* job, const char* path, unsigned mode) {
  return sbx_error_set(job->error, SBX_E_SPECIAL_FILE, 0,
                       sbx__operation(job->request->verb),
                       "/%s is %s, not a regular file; use it from a command.",
                       path, sbx__kind(mode));
}

int sbx__fail_is_directory(struct sbx__job* job, const char* path) {
  return fail(job, SBX_E_IS_DIRECTORY, EISDIR, path,
              "is a folder; name a file, or use the call for folders.");
}

int sbx__fail_exists(struct sbx__job* job, const char* path) {
  return fail(job, SBX_E_FILE_EXISTS, EEXIST, path,
              "exists already; choose another name or allow overwriting.");
}

int sbx__fail_not_directory(struct sbx__job* job, const char* path) {
  return fail(job, SBX_E_NOT_DIRECTORY, ENOTDIR, path,
              "is not a folder or lies below a file; name a folder.");
}

int sbx__fail_parent(struct sbx__job* job, const char* path) {
  const char* slash = strrchr(path, '/');
  return sbx_error_set(job->error, SBX_E_DIRECTORY_NOT_FOUND, ENOENT,
                       sbx__operation(job->request->verb),
                       "The folder /%.*s does not exist; make it first.",
                       slash ? (int)(slash - path) : 0, path);
}

static int fail_missing(struct sbx__job* job, const char* path,
                        enum sbx__role role) {
  int code = role == SBX__FOLDER ? SBX_E_DIRECTORY_NOT_FOUND
                                 : SBX_E_FILE_NOT_FOUND;
  return fail(job, code, ENOENT, path,
              "does not exist; list its folder to see what is there.");
}

static int fail_space(struct sbx__job* job, int sys, const char* path) {
  return fail(job, SBX_E_IO, sys, path,
              sys == EDQUOT
                  ? "was not changed: the disk quota is used up; free some."
                  : "was not changed: no space is left; free some.");
}

static int fail_other(struct sbx__job* job, int sys, const char* path) {
  bool retryable = sys == EBUSY || sys == ETXTBSY || sys == EMFILE ||
                   sys == ENFILE || sys == ENOMEM || sys == EAGAIN;
  int code = sbx_error_set(
      job->error, SBX_E_IO, sys, sbx__operation(job->request->verb),
      "/%s: %s (%s); %s.", path, uv_strerror(-sys), uv_err_name(-sys),
      retryable ? "try again" : "check it with a command");
  if (job->error) job->error->retryable = retryable;
  return code;
}

int sbx__fail(struct sbx__job* job, int sys, const char* path,
              enum sbx__role role) {
  if (sys < 0) sys = -sys;
  switch (sys) {
    case ENOENT:
      return fail_missing(job, path, role);
    case ENOTDIR:
      if (role == SBX__SOURCE) return fail_missing(job, path, role);
      return sbx__fail_not_directory(job, path);
    case EISDIR:
      return sbx__fail_is_directory(job, path);
    case EEXIST:
      return sbx__fail_exists(job, path);
    case ENOTEMPTY:
      return fail(job, SBX_E_NOT_EMPTY, sys, path,
                  "is not empty; remove it recursively or empty it first.");
    case EXDEV:
      return fail(job, SBX_E_ACCESS, sys, path,
                  "is or goes through a link that leads out of the workspace; "
                  "remove the link with a command (rm).");
    case EACCES:
    case EPERM:
      return fail(job, SBX_E_ACCESS, sys, path,
                  "is not permitted; check owner and mode with ls -l.");
    case EROFS:
      return fail(job, SBX_E_ACCESS, sys, path,
                  "lies in a read-only place (a file system, or what the protect "
                  "option of local() names); write elsewhere.");
    case ENXIO:
      return sbx__fail_special(job, path, S_IFSOCK);
    case ELOOP:
      return fail(job, SBX_E_IO, sys, path,
                  "is a link that leads back to itself; remove it (rm).");
    case ENAMETOOLONG:
      return fail(job, SBX_E_INVALID_INPUT, sys, path,
                  "is too long (255 bytes a name, 4095 a path); shorten it.");
    case ENOSPC:
    case EDQUOT:
      return fail_space(job, sys, path);
    default:
      return fail_other(job, sys, path);
  }
}
