/* One folder's names, and the packed form in which lists are answered. */
#include "internal.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
  DENTS_SIZE = 32 << 10,
  PACK_START = 4 << 10,
  /* Deep trees of long names grow with the square of the depth. */
  PACK_MAX = 1 << 30
};

struct dirent_raw {
  uint64_t ino;
  int64_t off;
  unsigned short reclen;
  unsigned char type;
  char name[];
};

struct reader {
  struct sbx__names names;
  bool hidden;
  size_t list_size;
  size_t arena_len;
  size_t arena_size;
};

static int list_reserve(struct reader* r) {
  if (r->names.count < r->list_size) return 0;
  size_t size = r->list_size * 2 + 32;
  struct sbx__name* list = realloc(r->names.list, size * sizeof(*list));
  if (!list) return -ENOMEM;
  r->names.list = list;
  r->list_size = size;
  return 0;
}

static int arena_reserve(struct reader* r, size_t more) {
  bool fits = r->arena_len + more <= r->arena_size;
  if (r->names.arena && fits) return 0;
  size_t size = r->arena_size * 2 + more + 512;
  char* arena = realloc(r->names.arena, size);
  if (!arena) return -ENOMEM;
  r->names.arena = arena;
  r->arena_size = size;
  return 0;
}

/* The text is an offset until the arena has stopped moving. */
static int reader_add(struct reader* r, const struct dirent_raw* raw) {
  struct sbx__names* names = &r->names;
  size_t len = strlen(raw->name);
  bool dots = raw->name[0] == '.' &&
              (len == 1 || (len == 2 && raw->name[1] == '.'));
  if (dots || (raw->name[0] == '.' && !r->hidden)) return 0;
  if (list_reserve(r) < 0 || arena_reserve(r, len + 1) < 0) return -ENOMEM;
  memcpy(names->arena + r->arena_len, raw->name, len + 1);
  names->list[names->count++] = (struct sbx__name){
      .text = (const char*)r->arena_len, .len = (uint32_t)len,
      .type = raw->type};
  r->arena_len += len + 1;
  return 0;
}

static int reader_run(struct reader* r, int fd) {
  _Alignas(8) char buffer[DENTS_SIZE];
  for (;;) {
    long n = syscall(SYS_getdents64, fd, buffer, sizeof(buffer));
    if (n < 0 && errno == ENOENT) return 0; /* removed while open */
    if (n < 0) return -errno;
    if (n == 0) return 0;
    for (long at = 0; at < n;) {
      const struct dirent_raw* raw = (const void*)(buffer + at);
      int rc = reader_add(r, raw);
      if (rc < 0) return rc;
      at += raw->reclen;
    }
  }
}

static uint8_t type_from_mode(unsigned mode) {
  return (uint8_t)((mode & S_IFMT) >> 12);
}

/* Some file systems do not tell types with names. A name that has vanished
 * meanwhile counts as a file. */
static void names_finish(struct sbx__names* names, int fd) {
  struct statx st;
  for (size_t i = 0; i < names->count; i++) {
    struct sbx__name* name = &names->list[i];
    name->text = names->arena + (size_t)name->text;
    if (name->type != DT_UNKNOWN) continue;
    bool seen = sbx__statx(fd, name->text, &st) == 0;
    name->type = seen ? type_from_mode(st.stx_mode) : DT_REG;
  }
}

static int by_bytes(const void* a, const void* b) {
  const struct sbx__name* x = a;
  const struct sbx__name* y = b;
  int order = memcmp(x->text, y->text, x->len < y->len ? x->len : y->len);
  if (order != 0) return order;
  return x->len < y->len ? -1 : x->len > y->len;
}

int sbx__names_read(int fd, bool hidden, struct sbx__names* names) {
  struct reader r = {.hidden = hidden};
  int rc = reader_run(&r, fd);
  if (rc < 0) {
    sbx__names_free(&r.names);
    return rc;
  }
  *names = r.names;
  names_finish(names, fd);
  if (names->count > 1)
    qsort(names->list, names->count, sizeof(*names->list), by_bytes);
  return 0;
}

void sbx__names_free(struct sbx__names* names) {
  free(names->list);
  free(names->arena);
  memset(names, 0, sizeof(*names));
}

/* --- packed entries ------------------------------------------------------- */

int sbx__pack_reserve(struct sbx__pack* pack, size_t more) {
  size_t need = pack->len + more;
  if (need <= pack->size) return 0;
  size_t size = pack->size ? pack->size * 2 : PACK_START;
  if (size < need) size = need;
  char* data = realloc(pack->data, size);
  if (!data) return -ENOMEM;
  pack->data = data;
  pack->size = size;
  return 0;
}

static void put_le(char* out, uint64_t value, size_t bytes) {
  for (size_t i = 0; i < bytes; i++) out[i] = (char)(value >> (8 * i));
}

static uint64_t get_le(const char* at, size_t bytes) {
  uint64_t value = 0;
  while (bytes-- > 0) value = value << 8 | (uint8_t)at[bytes];
  return value;
}

void sbx__packed_set_size(char* packed, uint64_t size) {
  put_le(packed + 12, size, 8);
}

struct sbx__entry sbx__packed_entry(const char* packed) {
  struct sbx__entry entry = {.type = (uint8_t)packed[0],
                             .is_link = packed[1],
                             .has_size = packed[2],
                             .name_len = get_le(packed + 4, 4),
                             .target_len = get_le(packed + 8, 4),
                             .size = get_le(packed + 12, 8)};
  entry.name = packed + SBX_ENTRY_HEADER;
  entry.target = entry.name + entry.name_len;
  return entry;
}

int sbx__pack_entry(struct sbx__pack* pack, const struct sbx__entry* entry) {
  size_t size = SBX_ENTRY_HEADER + entry->name_len + entry->target_len;
  if (pack->len + size > PACK_MAX) return -E2BIG;
  int rc = sbx__pack_reserve(pack, size);
  if (rc < 0) return rc;
  char* out = pack->data + pack->len;
  out[0] = (char)entry->type;
  out[1] = entry->is_link;
  out[2] = entry->has_size;
  out[3] = 0;
  put_le(out + 4, entry->name_len, 4);
  put_le(out + 8, entry->target_len, 4);
  put_le(out + 12, entry->size, 8);
  out += SBX_ENTRY_HEADER;
  memcpy(out, entry->name, entry->name_len);
  if (entry->target_len)
    memcpy(out + entry->name_len, entry->target, entry->target_len);
  pack->len += size;
  pack->count++;
  return 0;
}

void sbx__pack_take(struct sbx__pack* pack, struct sbx_file_result* result) {
  void* exact = pack->len ? realloc(pack->data, pack->len) : NULL;
  result->data = exact ? exact : pack->data;
  result->len = pack->len;
  result->count = pack->count;
}

/* --- extensions ----------------------------------------------------------- */

static bool same_bytes(const char* a, const char* b, size_t len, bool fold) {
  return fold ? sbx__same_folded(a, b, len) : memcmp(a, b, len) == 0;
}

/* As Node's path.extname: what follows the last dot, unless that is the first
 * byte. "ts" is taken as ".ts". */
bool sbx__extension_fits(const struct sbx_file_request* request,
                         const char* name, size_t len, bool fold) {
  if (request->extensions_len == 0) return true;
  const char* dot = memrchr(name, '.', len);
  if (!dot || dot == name) dot = name + len;
  size_t ext_len = (size_t)(name + len - dot);
  for (size_t i = 0; i < request->extensions_len; i++) {
    const char* want = request->extensions[i];
    size_t want_len = strlen(want);
    if (want_len == ext_len && same_bytes(dot, want, ext_len, fold))
      return true;
    if (ext_len > 0 && want_len == ext_len - 1 &&
        same_bytes(dot + 1, want, want_len, fold))
      return true;
  }
  return false;
}
