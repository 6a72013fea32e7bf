/* Two threads for one gather: what a search waits for is the kernel, which
 * opens files on two processors at a time. Both walk the whole tree, which is the
 * smaller part, and each opens the files that a hash of their paths gives it: so
 * they agree on every file, also in a tree that changes meanwhile. Each finds in
 * the order of the walk; the answer is the two merged.
 */
#include "gather.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A thread costs about as much as so many files. */
enum { ALONE = 128 };

struct sbx__both {
  uv_thread_t thread;
  int top;     /* the folder, of the other's own */
  int rc;      /* the other's */
  char* after; /* the last file of the one who was alone */
  _Atomic(char*) stops[2]; /* where each was full */
  struct sbx__gather other;
};

int sbx__walk_order(const char* a, size_t a_len, const char* b,
                    size_t b_len) {
  size_t len = a_len < b_len ? a_len : b_len, at = 0;
  while (at < len && a[at] == b[at]) at++;
  if (at == a_len || at == b_len) return (a_len > b_len) - (a_len < b_len);
  int x = a[at] == '/' ? 0 : (unsigned char)a[at];
  int y = b[at] == '/' ? 0 : (unsigned char)b[at];
  return x - y;
}

/* --- beginning ------------------------------------------------------------- */

static void both_free(struct sbx__both* both) {
  if (both->top >= 0) close(both->top);
  free(both->after);
  for (int i = 0; i < 2; i++) free(atomic_load(&both->stops[i]));
  sbx__gather_close(&both->other);
  free(both);
}

static void run_other(void* arg) {
  struct sbx__both* both = arg;
  struct sbx__identity old;
  int rc = sbx__identity_take(both->other.job->root, &old);
  both->rc = rc < 0 ? rc : sbx__gather_walk(&both->other, both->top);
  if (rc == 0) sbx__identity_restore(&old);
}

/* The folder once more, for two may not share a place in its listing. */
static int open_again(int top) {
  return openat(top, ".", O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC);
}

static bool both_begin(struct sbx__gather* g, struct sbx__both* both,
                       const char* after) {
  both->top = open_again(g->tree.top);
  both->after = strdup(after);
  if (both->top < 0 || !both->after) return false;
  if (sbx__gather_open(&both->other, g->job, both->after) < 0) return false;
  both->other.half = 1;
  both->other.both = both;
  return uv_thread_create(&both->thread, run_other, both) == 0;
}

/* Where that fails the one who was alone goes on so. */
static void begin(struct sbx__gather* g, const char* after) {
  struct sbx__both* both = calloc(1, sizeof(*both));
  if (!both) return;
  if (both_begin(g, both, after))
    g->both = both;
  else
    both_free(both);
}

static unsigned half_of(const struct sbx__node* node) {
  uint64_t hash = sbx__hash(node->path);
  return (hash ^ hash >> 16) & 1;
}

bool sbx__gather_is_mine(struct sbx__gather* g, const struct sbx__node* node) {
  if (g->both) return half_of(node) == g->half;
  if (g->lines && ++g->files == ALONE) begin(g, node->path);
  return true;
}

/* --- ending ---------------------------------------------------------------- */

/* Whether that half was full before it came to the path. */
static bool stopped_before(const struct sbx__both* both, unsigned half,
                           const char* path, size_t len) {
  const char* stop = atomic_load(&both->stops[half]);
  return stop && sbx__walk_order(path, len, stop, strlen(stop)) >= 0;
}

bool sbx__gather_is_over(const struct sbx__gather* g,
                         const struct sbx__node* node) {
  return g->both &&
         stopped_before(g->both, !g->half, node->path, node->path_len);
}

int sbx__gather_stop(struct sbx__gather* g, const struct sbx__node* node) {
  g->more = true;
  if (!g->both) return 1;
  char* stop = strdup(node->path);
  if (!stop) return -ENOMEM;
  atomic_store(&g->both->stops[g->half], stop);
  return 1;
}

/* --- merging --------------------------------------------------------------- */

struct cursor {
  const char* at;
  const char* end;
};

static size_t packed_len(const struct sbx__entry* entry) {
  return SBX_ENTRY_HEADER + entry->name_len + entry->target_len + entry->size;
}

/* The one whose entry comes next, or NULL. */
static struct cursor* first_of(struct cursor* a, struct cursor* b) {
  if (a->at == a->end) return b->at == b->end ? NULL : b;
  if (b->at == b->end) return a;
  struct sbx__entry ours = sbx__packed_entry(a->at);
  struct sbx__entry theirs = sbx__packed_entry(b->at);
  int order = sbx__walk_order(ours.name, ours.name_len, theirs.name,
                              theirs.name_len);
  return order < 0 ? a : b;
}

static bool is_behind(const struct sbx__both* both,
                      const struct sbx__entry* entry) {
  return stopped_before(both, 0, entry->name, entry->name_len) ||
         stopped_before(both, 1, entry->name, entry->name_len);
}

static int merge(struct sbx__gather* g, struct sbx__pack* merged) {
  struct sbx__both* both = g->both;
  struct cursor a = {g->pack.data, g->pack.data + g->pack.len};
  struct cursor b = {both->other.pack.data,
                     both->other.pack.data + both->other.pack.len};
  struct cursor* c;
  int rc = sbx__pack_reserve(merged, g->pack.len + both->other.pack.len);
  if (both->other.more) g->more = true;
  while (rc == 0 && (c = first_of(&a, &b))) {
    struct sbx__entry entry = sbx__packed_entry(c->at);
    size_t size = packed_len(&entry);
    if (is_behind(both, &entry)) break;
    if (merged->len > 0 && merged->len + size > g->limit) {
      g->more = true;
      break;
    }
    memcpy(merged->data + merged->len, c->at, size);
    merged->len += size;
    merged->count++;
    c->at += size;
  }
  return rc;
}

int sbx__gather_join(struct sbx__gather* g, int rc) {
  struct sbx__both* both = g->both;
  struct sbx__pack merged = {0};
  if (!both) return rc;
  /* Nobody wants more of what an error ended. */
  if (rc < 0) atomic_store(&both->stops[g->half], strdup(""));
  uv_thread_join(&both->thread);
  if (rc == 0) rc = both->rc;
  if (rc == 0) rc = merge(g, &merged);
  free(g->pack.data);
  g->pack = merged;
  g->both = NULL;
  both_free(both);
  return rc;
}
