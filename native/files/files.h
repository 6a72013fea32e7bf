/* File operations below one directory descriptor.
 *
 * Every path is a relative byte string (no leading slash, no "..", already
 * normalised by sbx_path_*; "" is the root) and is resolved in the kernel with
 * openat2, so no link and no race leads outside. One request is at
 * most one thread-pool hop; small reads and stats that the page cache can answer
 * are done at once by sbx_files_try.
 */
#ifndef SBX_FILES_H
#define SBX_FILES_H

#include <uv.h>

#include "../error.h"

/* A pinned folder. Reference-counted: requests in flight keep it open. */
struct sbx_root;

struct sbx_root_spec {
  int fd;             /* O_PATH or O_DIRECTORY descriptor, taken over */
  const char* inside; /* where commands see it, "/workspace": absolute links
                         below it are followed there. "/" for a whole root. */
  int64_t fsuid;      /* id the pool thread takes for the call, -1: its own */
  int64_t fsgid;
};

int sbx_root_new(const struct sbx_root_spec* spec, struct sbx_root** out);
void sbx_root_ref(struct sbx_root* root);
void sbx_root_unref(struct sbx_root* root);

/* On the loop's thread: what waits for a thread, now or later, is answered with
 * SBX_E_ABORTED instead of done; what has begun ends as it does. */
void sbx_root_abandon(struct sbx_root* root);

enum sbx_file_verb {
  SBX_FILE_READ = 1, /* -> data */
  SBX_FILE_WRITE,    /* data; PARENTS, EXCLUSIVE, expected_mtime, mode */
  SBX_FILE_APPEND,   /* data; makes file and parents */
  SBX_FILE_DELETE,   /* FORCE */
  SBX_FILE_COPY,     /* to; EXCLUSIVE, RECURSIVE */
  SBX_FILE_MOVE,     /* to; EXCLUSIVE */
  SBX_FILE_MKDIR,    /* PARENTS, mode */
  SBX_FILE_RMDIR,    /* RECURSIVE, FORCE */
  SBX_FILE_READDIR,  /* RECURSIVE, max_depth, extensions -> entries */
  SBX_FILE_EXISTS,   /* -> exists; never an error but for SBX_E_ABORTED */
  SBX_FILE_STAT,     /* -> stat */
  SBX_FILE_REALPATH, /* -> data: the relative path without links */
  SBX_FILE_WALK,     /* max_depth (root entries are 1), HIDDEN -> entries */
  SBX_FILE_GATHER,   /* contents for a search: plain files below path (or path
                        itself) in walk order, those after `to` only, HIDDEN,
                        extensions; files without the bytes `data` are left
                        out. Stops after max_bytes -> packed as entries with
                        the content (size bytes) behind the name. */
  SBX_FILE_CHANGES = 40 /* of a session on a template -> data, as changes.h has
                           it; answered by the provider */
};

enum sbx_file_flag {
  SBX_FILE_PARENTS = 1,
  SBX_FILE_EXCLUSIVE = 2, /* overwrite: false, decided in the kernel */
  SBX_FILE_FORCE = 4,
  SBX_FILE_RECURSIVE = 8,
  SBX_FILE_HIDDEN = 16,  /* walk: names that start with a dot, too */
  SBX_FILE_TEXT = 32,    /* write: data was text; refused if it holds U+FFFD
                            and the file there now is not UTF-8 */
  SBX_FILE_NOFOLLOW = 64, /* stat: of the link itself */
  SBX_FILE_FOLD = 128,    /* gather: `data` in any ASCII case */
  SBX_FILE_BARE = 256,    /* read, write: the result's stat is not wanted and
                             may be left empty, which can be cheaper */
  SBX_FILE_LINES = 512    /* gather: of the lines without `data` only their end
                             is wanted, of those behind the last one nothing;
                             a provider may leave them all in */
};

enum sbx_file_type { SBX_TYPE_FILE = 1, SBX_TYPE_DIRECTORY, SBX_TYPE_LINK, SBX_TYPE_OTHER };

struct sbx_file_stat {
  uint8_t type;        /* enum sbx_file_type */
  uint32_t mode;       /* permission bits */
  uint64_t size;
  int64_t modified_ms; /* floor of the kernel's nanoseconds */
  int64_t created_ms;  /* birth time, else the oldest of the others */
};

/* Entries are packed one after another, without padding, little endian:
 *   u8 type (of the target for a link, FILE if dangling), u8 is_link,
 *   u8 has_size, u8 0, u32 name_len, u32 target_len, u64 size,
 *   name bytes (relative to the listed folder, "a/b"), link target bytes
 * Sorted by name bytes within a folder, folders depth first. */
enum { SBX_ENTRY_HEADER = 20 };

struct sbx_file_request {
  enum sbx_file_verb verb;
  unsigned flags;
  const char* path; /* paths and data are copied or referenced until on_done */
  const char* to;
  const void* data; /* referenced until on_done */
  size_t data_len;
  int64_t expected_mtime_ms; /* INT64_MIN: none */
  uint32_t mode;             /* 0: 0666 or the old file's, less the umask 022 */
  uint32_t max_depth;
  uint64_t max_bytes; /* GATHER: about where to stop; READ: refuse above, 0: no
                         limit */
  const char* const* extensions; /* ".ts"; plain files only are filtered */
  size_t extensions_len;
  const char* const* prune; /* GATHER: folders of these names are left out */
  size_t prune_len;
};

struct sbx_file_result {
  void* data; /* malloc'ed; the receiver frees it (or adopts it as a Buffer) */
  size_t len;
  uint32_t count; /* entries in data */
  bool exists;
  bool more; /* GATHER: stopped early, go on after the last name */
  struct sbx_file_stat stat; /* STAT; also after READ and WRITE: the state that
                                the call left or saw */
};

/* `error` is NULL on success. Called on the loop, once. The result's `data`
 * belongs to the callee. */
typedef void (*sbx_file_cb)(void* arg, const struct sbx_error* error,
                            struct sbx_file_result* result);

/* Queues one request. Returns 0, or a negative code and calls nothing. */
int sbx_files_request(uv_loop_t* loop, struct sbx_root* root,
                      const struct sbx_file_request* request, sbx_file_cb cb,
                      void* arg);

/* Answers READ, STAT and EXISTS without blocking if the caches allow it, and if
 * the loop did not spend its turn on such answers already. 1: done, `result` filled. 0: use sbx_files_request. Negative: done, failed,
 * `error` filled. */
int sbx_files_try(uv_loop_t* loop, struct sbx_root* root,
                  const struct sbx_file_request* request,
                  struct sbx_file_result* result, struct sbx_error* error);

#endif
