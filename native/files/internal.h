/* What the file verbs share: one request as they see it, the only ways to
 * reach a name below the root, and the answers they build.
 *
 * Functions here that return int give 0 (or a descriptor) or -errno unless
 * they take a job; those fill the job's error and return its code.
 */
#ifndef SBX_FILES_INTERNAL_H
#define SBX_FILES_INTERNAL_H

/* Included first everywhere, for the Linux calls behind it. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>

#include "files.h"

struct sbx_root {
  int fd;
  int refs;       /* changed on the loop's thread only */
  int64_t fsuid;
  int64_t fsgid;
  bool identity_known; /* the ids were taken once; any thread */
  bool no_openat2; /* kernel before 5.6 or a filter without it */
  bool abandoned;  /* set once; any thread */
  bool quick;      /* opening a cached file here asks nobody else */
  size_t parts;    /* components of `inside`, 0 for "/" */
  char* inside;    /* its components, each ended by NUL, one after another */
  struct queued* looks; /* that wait for a thread; the loop's thread only */
  struct queued* last_look;
  unsigned waiting;
  unsigned hops;    /* under way with looks */
  struct sbx__near* near; /* cached.c's */
  uint64_t turn_ms; /* of the loop, and what was answered at once in it */
  unsigned at_once;
};

struct sbx__job {
  struct sbx_root* root;
  const struct sbx_file_request* request;
  struct sbx_file_result* result;
  struct sbx_error* error;
  struct sbx__parent* parent; /* parent.c's, or NULL */
};

/* Whether a request's numbers and pointers can be meant. */
bool sbx__is_sound(const struct sbx_file_request* request);

/* --- root.c: the folder and whose rights a call has ---------------------- */

struct sbx__identity {
  int64_t uid; /* to restore, -1: nothing was changed */
  int64_t gid;
};

int sbx__identity_take(struct sbx_root* root, struct sbx__identity* old);
void sbx__identity_restore(const struct sbx__identity* old);

/* The i-th component of the path that commands see the root at. */
const char* sbx__root_inside(const struct sbx_root* root, size_t i);

/* cached.c */
void sbx__near_free(struct sbx_root* root);
uint64_t sbx__hash(const char* name);

/* --- resolve.c: from a path to a descriptor, never leaving the root ------- */

/* A name in an opened folder: what every change works on. `name` is "" when
 * the path means the folder `dir` itself. */
struct sbx__spot {
  int dir;
  bool owned;     /* dir is closed by sbx__spot_close */
  bool present;   /* st is filled */
  bool linked;    /* the path's last component was a link that was followed */
  struct statx st;
  char name[NAME_MAX + 1];
};

enum {
  SBX__FOLLOW = 1, /* go through a link that the last component is */
  SBX__MAKE = 2    /* make missing folders on the way */
};

/* -EXDEV: it leaves the root. -ENOENT: a folder on the way is missing; a
 * missing last component is no error. With FOLLOW the spot is no link. */
int sbx__resolve(struct sbx_root* root, const char* path, unsigned flags,
                 struct sbx__spot* spot);
void sbx__spot_close(struct sbx__spot* spot);

/* Looks at the spot again. */
int sbx__spot_look(struct sbx__spot* spot);

/* Opens what is there, through links. Not for O_CREAT. */
int sbx__open(struct sbx_root* root, const char* path, int flags);

/* The same without any link on the way and for paths of any length. */
int sbx__open_real(const struct sbx_root* root, int base, const char* path,
                   int flags);

/* openat2 with the resolve flags given; -EAGAIN only with RESOLVE_CACHED. */
int sbx__openat2(int dir, const char* path, int flags, uint64_t resolve);

/* The relative path without links, PATH_MAX bytes. -ENOENT if nothing is
 * there unless `may_miss`, which is about the last component. */
int sbx__real_path(struct sbx_root* root, const char* path, bool may_miss,
                   char* out);

/* mkdirat that gets its mode whatever the process's umask is. */
int sbx__mkdir_at(int dir, const char* name, uint32_t mode);

/* --- parent.c: several looks into one folder ------------------------------ */

struct sbx__parent {
  int fd; /* -1: none */
  size_t len;
  char path[PATH_MAX];
};

void sbx__parent_close(struct sbx__parent* parent);

/* 0 or a descriptor; -EAGAIN: the job's path has to be looked at by other
 * means, which tell what is wrong, or that it is a link. */
int sbx__parent_look(const struct sbx__job* job, struct statx* st);
int sbx__parent_open(const struct sbx__job* job, int flags);

/* --- stat.c -------------------------------------------------------------- */

int sbx__statx(int dir, const char* name, struct statx* st);
int sbx__statx_fd(int fd, struct statx* st);
int64_t sbx__mtime_ms(const struct statx* st);
bool sbx__same_file(const struct statx* a, const struct statx* b);
void sbx__stat_fill(const struct statx* st, struct sbx_file_stat* out);
const char* sbx__kind(unsigned mode); /* "a FIFO", for messages */

/* --- files.c: errors ----------------------------------------------------- */

enum sbx__role {
  SBX__SOURCE, /* must be there: a missing one is FILE_NOT_FOUND */
  SBX__TARGET, /* is made or changed: a file on the way is NOT_DIRECTORY */
  SBX__FOLDER  /* a missing one is DIRECTORY_NOT_FOUND */
};

const char* sbx__operation(enum sbx_file_verb verb);

/* -errno (or errno) of a call on `path` as an error of the job. */
int sbx__fail(struct sbx__job* job, int sys, const char* path,
              enum sbx__role role);
int sbx__fail_special(struct sbx__job* job, const char* path, unsigned mode);
int sbx__fail_is_directory(struct sbx__job* job, const char* path);
int sbx__fail_exists(struct sbx__job* job, const char* path);
int sbx__fail_not_directory(struct sbx__job* job, const char* path);
/* A folder on the way to `path` is missing. */
int sbx__fail_parent(struct sbx__job* job, const char* path);

/* --- literal.c ----------------------------------------------------------- */

struct sbx__literal {
  const char* data;
  size_t len; /* 0: found everywhere */
  bool fold;  /* in any ASCII case */
};

/* Equal in any ASCII case. strncasecmp follows the locale, which any addon of
 * the process may have set. */
bool sbx__same_folded(const char* a, const char* b, size_t len);

/* The first place, or NULL. */
const char* sbx__literal_find(const struct sbx__literal* want,
                              const char* data, size_t len);

/* Empties the lines that do not hold it, in place, and drops those behind the
 * last one that does: every line left keeps its number. The new length. The
 * literal is not empty and holds no "\n". */
size_t sbx__literal_lines(const struct sbx__literal* want, char* data,
                          size_t len);

/* --- listing.c: one folder, and packed answers --------------------------- */

struct sbx__name {
  const char* text;
  uint32_t len;
  uint8_t type; /* DT_*, never DT_UNKNOWN */
};

struct sbx__names {
  struct sbx__name* list;
  size_t count;
  char* arena;
};

/* Reads a whole folder, sorted by bytes; without "." and "..". Hidden names
 * are left out unless `hidden`. */
int sbx__names_read(int fd, bool hidden, struct sbx__names* names);
void sbx__names_free(struct sbx__names* names);

struct sbx__pack {
  char* data;
  size_t len;
  size_t size;
  uint32_t count;
};

struct sbx__entry {
  uint8_t type; /* enum sbx_file_type */
  bool is_link;
  bool has_size;
  uint64_t size;
  const char* name;
  size_t name_len;
  const char* target;
  size_t target_len;
};

int sbx__pack_reserve(struct sbx__pack* pack, size_t more);
int sbx__pack_entry(struct sbx__pack* pack, const struct sbx__entry* entry);
/* Corrects the size of an entry that was packed at `packed`. */
void sbx__packed_set_size(char* packed, uint64_t size);
/* What pack_entry has packed; names point into it. */
struct sbx__entry sbx__packed_entry(const char* packed);
void sbx__pack_take(struct sbx__pack* pack, struct sbx_file_result* result);

bool sbx__extension_fits(const struct sbx_file_request* request,
                         const char* name, size_t len, bool fold);

/* --- tree.c: everything below a folder, without recursion ----------------- */

struct sbx__level;

struct sbx__tree {
  const struct sbx_root* root;
  int top; /* borrowed */
  int fd;  /* of the folder that is being gone through, or -1 */
  bool hidden;
  char* path; /* of the current node, relative to top */
  size_t path_size;
  struct sbx__level* levels;
  size_t depth; /* levels in use; of the current node: 1 for what is in top */
  size_t levels_size;
};

struct sbx__node {
  const char* name;
  const char* path; /* NUL-terminated, relative to the top; valid, as the name,
                       until the next call */
  size_t name_len;
  size_t path_len;
  size_t depth;
  uint8_t type; /* DT_* */
  bool leave;   /* the second visit of a folder that was entered */
};

/* `top` must be open for reading and stay open until close, which is to be
 * called in any case. */
int sbx__tree_open(struct sbx__tree* tree, const struct sbx_root* root,
                   int top, bool hidden);

/* 1 and the next node, 0 at the end. A folder's content follows only if it is
 * entered before the next call. */
int sbx__tree_next(struct sbx__tree* tree, struct sbx__node* node);

/* The folder that holds the node; borrowed until the next call. */
int sbx__tree_dir(struct sbx__tree* tree);

/* Of the folder that next gave. An error leaves it unentered. */
int sbx__tree_enter(struct sbx__tree* tree, const struct sbx__node* node);
void sbx__tree_close(struct sbx__tree* tree);

/* Facts of what the node, a link below the request's path, leads to. `path` gets
 * its own path in the root. -EXDEV: outside. */
int sbx__node_target(const struct sbx__job* job, const struct sbx__node* node,
                     char path[PATH_MAX], struct statx* st);

/* Errors that concern one name (gone, closed, changed) and not the walk. */
bool sbx__tree_skips(int rc);

/* --- content.c: the bytes of a file ---------------------------------------- */

struct sbx__content {
  const void* data;
  size_t len;
  int fd;        /* copy from here instead; -1: data */
  uint64_t size; /* of fd */
};

/* Into an empty file. Returns 0 or -errno. */
int sbx__content_write(int fd, const struct sbx__content* content);

/* Over the bytes of a file of `old_size`. What lies behind the old end goes
 * first: as long as that fails, the old content is whole. */
int sbx__content_write_over(int fd, const struct sbx__content* content,
                            off_t old_size);

/* --- replace.c: new content for a name, in one step ----------------------- */

struct sbx__replace {
  struct sbx__content content;
  uint32_t mode;     /* 0: the old file's, 0644 for a new one; type bits in it
                        are ignored */
  int64_t expected;  /* ms, INT64_MIN: none */
  bool exclusive;
  bool parents;
  bool text;
  const struct statx* times; /* the new file gets them (moves), or NULL */
};

int sbx__replace(struct sbx__job* job, const char* path,
                 const struct sbx__replace* replace);

/* The same for a name in an opened folder; a link there is replaced. */
int sbx__replace_at(struct sbx__job* job, struct sbx__spot* spot,
                    const char* path, const struct sbx__replace* replace);

/* A name for a temporary neighbour, 24 bytes. */
void sbx__temp_name(char* out);

/* renameat2 NOREPLACE, also where the file system lacks it. */
int sbx__rename_new(int from_dir, const char* from, int to_dir,
                    const char* to);

/* Locks the file for the short time between a check and its effect, against
 * other writers of this package. -EAGAIN when it stays locked. */
int sbx__lock(int fd);

/* --- copy.c ----------------------------------------------------------- */

/* Copies what `from` is, whatever that is, to `to`, where nothing is; owner
 * and times go with it. For moves between file systems. */
int sbx__copy_whole(struct sbx__job* job, const struct sbx__spot* from,
                    struct sbx__spot* to, const char* to_path);

/* Fails if `to` lies in the folder that `from` is. */
int sbx__refuse_nesting(struct sbx__job* job, const char* from,
                        const char* to);

/* --- the verbs ------------------------------------------------------------ */

int sbx__file_read(struct sbx__job* job);
int sbx__file_stat(struct sbx__job* job);
int sbx__file_exists(struct sbx__job* job);
int sbx__file_realpath(struct sbx__job* job);
int sbx__file_write(struct sbx__job* job);
int sbx__file_append(struct sbx__job* job);
int sbx__file_delete(struct sbx__job* job);
int sbx__file_copy(struct sbx__job* job);
int sbx__file_move(struct sbx__job* job);
int sbx__file_mkdir(struct sbx__job* job);
int sbx__file_rmdir(struct sbx__job* job);
int sbx__file_list(struct sbx__job* job); /* READDIR and WALK */
int sbx__file_gather(struct sbx__job* job);

/* Reads an open file to its end into malloc'ed memory, or NULL and `rc`. */
void* sbx__read_all(int fd, uint64_t size, uint64_t limit, size_t* len,
                    int* rc);

#endif
