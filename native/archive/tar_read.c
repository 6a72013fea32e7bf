/* The parser of the tar format: one header, its pax records, the map of a
 * sparse file, its data; each byte once. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tar_internal.h"

enum {
  PAX_MAX = 64 * 1024,
  NUMBER_MAX = 20 /* digits of a number in a sparse map */
};

/* The largest file: offsets stay below what the kernel takes. */
#define FILE_MAX INT64_MAX

enum state { HEADER, PAX, MAP, DATA, ENDED };

/* What pax records said about the entry to come. */
struct extra {
  bool has_path;
  bool has_link;
  bool has_size;
  bool has_time;
  bool sparse;
  bool has_real;
  char path[SBX_TAR_PATH_MAX];
  char link[SBX_TAR_PATH_MAX];
  uint64_t size;
  uint64_t real;
  int64_t mtime;
  uint32_t mtime_ns;
};

struct sbx_tar {
  struct sbx_tar_sink sink;
  enum state state;
  bool zeros; /* one block of zeros was seen */
  char block[BLOCK];
  size_t block_len;
  char pax[PAX_MAX];
  size_t pax_len;
  struct extra extra;
  char path[SBX_TAR_PATH_MAX];
  char link[SBX_TAR_PATH_MAX];
  uint64_t left;    /* of the entry's stored bytes */
  uint64_t padding; /* behind them */
  uint64_t size;    /* of the file, holes included */

  struct sbx_tar_extent* extents;
  size_t extents_len;
  size_t numbers; /* read of the map, the count included */
  uint64_t number;
  unsigned digits;
  uint64_t map_read;
  size_t extent; /* that the next byte belongs to */
  uint64_t extent_at;
};

static bool is_zero(const char* block) {
  for (size_t i = 0; i < BLOCK; i++)
    if (block[i] != 0) return false;
  return true;
}

static int read_octal(const char* field, size_t size, uint64_t* out) {
  uint64_t n = 0;
  size_t i = 0;

  while (i < size && field[i] == ' ') i++;
  for (; i < size && field[i] != '\0' && field[i] != ' '; i++) {
    if (field[i] < '0' || field[i] > '7' || n >> 60 != 0) return -EPROTO;
    n = n << 3 | (uint64_t) (field[i] - '0');
  }
  *out = n;
  return 0;
}

static int check_sum(const char* block) {
  char copy[BLOCK];
  uint64_t want;
  unsigned sum = 0;

  if (read_octal(block + SUM_AT, 8, &want) != 0) return -EPROTO;
  memcpy(copy, block, BLOCK);
  memset(copy + SUM_AT, ' ', 8);
  for (size_t i = 0; i < BLOCK; i++) sum += (unsigned char) copy[i];
  return sum == want ? 0 : -EPROTO;
}

/* Leaves "a/b" of "./a/b/"; 0, or -EPROTO for one that leads elsewhere. */
static int clean_path(char* path) {
  char* to = path;
  const char* from = path;

  if (*from == '/') return -EPROTO;
  while (*from != '\0') {
    size_t len = strcspn(from, "/");

    if (len == 2 && memcmp(from, "..", 2) == 0) return -EPROTO;
    if (len > NAME_MAX) return -EPROTO;
    if (len > 0 && !(len == 1 && *from == '.')) {
      if (to > path) *to++ = '/';
      memmove(to, from, len);
      to += len;
    }
    from += len;
    while (*from == '/') from++;
  }
  *to = '\0';
  return 0;
}

static int keep(char* out, const char* value, size_t len) {
  if (len >= SBX_TAR_PATH_MAX || memchr(value, '\0', len) != NULL)
    return -EPROTO;
  memcpy(out, value, len);
  out[len] = '\0';
  return 0;
}

static int read_decimal(const char* s, size_t len, uint64_t* out) {
  uint64_t n = 0;

  if (len == 0 || len > NUMBER_MAX - 1) return -EPROTO;
  for (size_t i = 0; i < len; i++) {
    if (s[i] < '0' || s[i] > '9') return -EPROTO;
    n = n * 10 + (uint64_t) (s[i] - '0');
  }
  *out = n;
  return n <= FILE_MAX ? 0 : -EPROTO;
}

static int read_time(struct extra* x, const char* s, size_t len) {
  bool negative = len > 0 && s[0] == '-';
  const char* dot = memchr(s, '.', len);
  size_t whole = dot != NULL ? (size_t) (dot - s) : len;
  uint64_t seconds, ns = 0, scale = 100000000;

  if (read_decimal(s + negative, whole - negative, &seconds) != 0)
    return -EPROTO;
  for (size_t i = whole + 1; i < len; i++, scale /= 10) {
    if (s[i] < '0' || s[i] > '9') return -EPROTO;
    ns += (uint64_t) (s[i] - '0') * scale;
  }
  x->mtime = negative ? -(int64_t) seconds : (int64_t) seconds;
  if (negative && ns > 0) {
    x->mtime--;
    ns = 1000000000 - ns;
  }
  x->mtime_ns = (uint32_t) ns;
  x->has_time = true;
  return 0;
}

static bool is_key(const char* key, size_t len, const char* name) {
  return strlen(name) == len && memcmp(key, name, len) == 0;
}

static int pax_record(struct extra* x, const char* key, size_t key_len,
                      const char* value, size_t len) {
  if (is_key(key, key_len, "path") || is_key(key, key_len, "GNU.sparse.name")) {
    x->has_path = true;
    return keep(x->path, value, len);
  }
  if (is_key(key, key_len, "linkpath")) {
    x->has_link = true;
    return keep(x->link, value, len);
  }
  if (is_key(key, key_len, "size")) {
    x->has_size = true;
    return read_decimal(value, len, &x->size);
  }
  if (is_key(key, key_len, "mtime")) return read_time(x, value, len);
  if (is_key(key, key_len, "GNU.sparse.major")) {
    x->sparse = true;
    return len == 1 && value[0] == '1' ? 0 : -EPROTO;
  }
  if (is_key(key, key_len, "GNU.sparse.realsize")) {
    x->has_real = true;
    return read_decimal(value, len, &x->real);
  }
  return 0;
}

static int read_pax(struct sbx_tar* t) {
  const char* at = t->pax;
  const char* end = t->pax + t->pax_len;

  while (at < end) {
    const char* blank = memchr(at, ' ', (size_t) (end - at));
    const char* equal;
    uint64_t len;

    if (blank == NULL || read_decimal(at, (size_t) (blank - at), &len) != 0)
      return -EPROTO;
    if (len > (uint64_t) (end - at) || at + len <= blank + 1 ||
        at[len - 1] != '\n')
      return -EPROTO;
    equal = memchr(blank + 1, '=', (size_t) (at + len - 1 - (blank + 1)));
    if (equal == NULL) return -EPROTO;
    if (pax_record(&t->extra, blank + 1, (size_t) (equal - blank - 1),
                   equal + 1, (size_t) (at + len - 1 - (equal + 1))) != 0)
      return -EPROTO;
    at += len;
  }
  return 0;
}

static int settle_names(struct sbx_tar* t) {
  const char* prefix = t->block + 345;
  size_t prefix_len = strnlen(prefix, 155);

  if (t->extra.has_path)
    strcpy(t->path, t->extra.path);
  else
    snprintf(t->path, sizeof(t->path), "%.*s%s%.*s", (int) prefix_len, prefix,
             prefix_len > 0 ? "/" : "", NAME_SIZE, t->block + NAME_AT);
  if (t->extra.has_link)
    strcpy(t->link, t->extra.link);
  else
    snprintf(t->link, sizeof(t->link), "%.*s", LINK_SIZE, t->block + LINK_AT);
  return clean_path(t->path);
}

/* Of the entry's data. */
static int finish_entry(struct sbx_tar* t, bool file) {
  memset(&t->extra, 0, offsetof(struct extra, path));
  t->extra.size = t->extra.real = 0;
  t->state = HEADER;
  return file ? t->sink.on_end(t->sink.arg) : 0;
}

static int begin_data(struct sbx_tar* t, const struct sbx_tar_entry* e) {
  int rc = t->sink.on_entry(t->sink.arg, e);

  t->extent = 0;
  t->extent_at = 0;
  t->map_read = t->numbers = t->number = t->digits = 0;
  t->extents_len = 0;
  if (rc != 0) return rc;
  if (e->type != SBX_TAR_FILE) {
    if (t->left != 0) return -EPROTO;
    return finish_entry(t, false);
  }
  if (t->extra.sparse) {
    t->state = MAP;
    return 0;
  }
  t->state = DATA;
  return t->left + t->padding == 0 ? finish_entry(t, true) : 0;
}

static int read_numbers(struct sbx_tar* t, struct sbx_tar_entry* e) {
  uint64_t mode, mtime;

  if (read_octal(t->block + MODE_AT, 8, &mode) != 0 ||
      read_octal(t->block + SIZE_AT, SIZE_SIZE, &t->left) != 0 ||
      read_octal(t->block + MTIME_AT, 12, &mtime) != 0)
    return -EPROTO;
  e->mode = (uint32_t) (mode & 01777);
  e->mtime = (int64_t) mtime;
  return t->left <= FILE_MAX ? 0 : -EPROTO;
}

static int entry(struct sbx_tar* t, struct sbx_tar_entry* e) {
  const struct extra* x = &t->extra;

  if (settle_names(t) != 0) return -EPROTO;
  e->path = t->path;
  e->link = t->link;
  if (x->has_size) t->left = x->size;
  if (x->has_time) {
    e->mtime = x->mtime;
    e->mtime_ns = x->mtime_ns;
  }
  if (x->sparse && (!x->has_real || e->type != SBX_TAR_FILE)) return -EPROTO;
  t->padding = (BLOCK - t->left % BLOCK) % BLOCK;
  t->size = x->sparse ? x->real : t->left;
  e->size = e->type == SBX_TAR_FILE ? t->size : 0;
  if (e->type == SBX_TAR_HARD_LINK && clean_path(t->link) != 0) return -EPROTO;
  return begin_data(t, e);
}

static int header(struct sbx_tar* t) {
  struct sbx_tar_entry e = {0};
  char type = t->block[TYPE_AT];

  t->block_len = 0;
  if (is_zero(t->block)) {
    if (t->zeros) t->state = ENDED;
    t->zeros = true;
    return 0;
  }
  if (t->zeros || check_sum(t->block) != 0) return -EPROTO;
  if (memcmp(t->block + MAGIC_AT, "ustar", 5) != 0) return -EPROTO;
  if (read_numbers(t, &e) != 0) return -EPROTO;
  t->padding = (BLOCK - t->left % BLOCK) % BLOCK;
  switch (type) {
    case 'x':
      if (t->left > PAX_MAX) return -EPROTO;
      t->pax_len = 0;
      t->state = PAX;
      return t->left == 0 ? -EPROTO : 0;
    case SBX_TAR_FILE:
    case SBX_TAR_HARD_LINK:
    case SBX_TAR_LINK:
    case SBX_TAR_FOLDER:
    case SBX_TAR_FIFO: e.type = (enum sbx_tar_type) type; return entry(t, &e);
    default: return -EPROTO;
  }
}

static size_t smaller(uint64_t a, size_t b) {
  return a < b ? (size_t) a : b;
}

/* Each takes what it needs of the bytes and returns how much, or an error. */

static ssize_t take_header(struct sbx_tar* t, const char* bytes, size_t len) {
  size_t n = smaller(BLOCK - t->block_len, len);
  int rc;

  memcpy(t->block + t->block_len, bytes, n);
  t->block_len += n;
  rc = t->block_len == BLOCK ? header(t) : 0;
  return rc != 0 ? rc : (ssize_t) n;
}

static ssize_t skip_padding(struct sbx_tar* t, size_t len) {
  size_t n = smaller(t->padding, len);

  t->padding -= n;
  return (ssize_t) n;
}

static ssize_t take_pax(struct sbx_tar* t, const char* bytes, size_t len) {
  size_t n = smaller(t->left, len);
  int rc = 0;

  if (t->left == 0) {
    n = (size_t) skip_padding(t, len);
  } else {
    memcpy(t->pax + t->pax_len, bytes, n);
    t->pax_len += n;
    t->left -= n;
    if (t->left == 0) rc = read_pax(t);
  }
  if (t->left + t->padding == 0) t->state = HEADER;
  return rc != 0 ? rc : (ssize_t) n;
}

/* A piece of data begins no earlier than the one before it ends. */
static int check_extents(const struct sbx_tar* t) {
  uint64_t end = 0, sum = 0;

  for (size_t i = 0; i < t->extents_len; i++) {
    const struct sbx_tar_extent* x = &t->extents[i];

    if (x->offset < end || x->len > t->size || x->offset > t->size - x->len)
      return -EPROTO;
    end = x->offset + x->len;
    sum += x->len;
  }
  return sum == t->left ? 0 : -EPROTO;
}

static int map_number(struct sbx_tar* t) {
  size_t i = t->numbers++;

  if (i == 0) {
    if (t->number > SBX_TAR_EXTENTS_MAX) return -EPROTO;
    free(t->extents);
    t->extents_len = (size_t) t->number;
    t->extents = calloc(t->extents_len + 1, sizeof(*t->extents));
    return t->extents == NULL ? -ENOMEM : 0;
  }
  if (i % 2 == 1)
    t->extents[(i - 1) / 2].offset = t->number;
  else
    t->extents[(i - 1) / 2].len = t->number;
  return 0;
}

static bool map_complete(const struct sbx_tar* t) {
  return t->numbers > 0 && t->numbers == 1 + 2 * t->extents_len;
}

static int map_byte(struct sbx_tar* t, char c) {
  int rc;

  if (map_complete(t)) return 0; /* padding of the map */
  if (c == '\n') {
    if (t->digits == 0) return -EPROTO;
    rc = map_number(t);
    t->number = t->digits = 0;
    return rc;
  }
  if (c < '0' || c > '9' || ++t->digits >= NUMBER_MAX) return -EPROTO;
  t->number = t->number * 10 + (uint64_t) (c - '0');
  return t->number <= FILE_MAX ? 0 : -EPROTO;
}

static int end_map(struct sbx_tar* t) {
  if (check_extents(t) != 0) return -EPROTO;
  t->state = DATA;
  return t->left + t->padding == 0 ? finish_entry(t, true) : 0;
}

static ssize_t take_map(struct sbx_tar* t, const char* bytes, size_t len) {
  size_t n = smaller(t->left, len);

  if (n == 0) return -EPROTO; /* the data ends within the map */
  for (size_t i = 0; i < n; i++) {
    int rc = map_byte(t, bytes[i]);

    t->left--;
    t->map_read++;
    if (rc != 0) return rc;
    if (map_complete(t) && t->map_read % BLOCK == 0) {
      rc = end_map(t);
      return rc != 0 ? rc : (ssize_t) (i + 1);
    }
  }
  return (ssize_t) n;
}

static ssize_t take_data(struct sbx_tar* t, const char* bytes, size_t len) {
  const struct sbx_tar_extent whole = {0, t->size};
  const struct sbx_tar_extent* x = &whole;
  size_t n = smaller(t->left, len);
  int rc = 0;

  if (t->left == 0) {
    n = (size_t) skip_padding(t, len);
  } else {
    if (t->extra.sparse) {
      while (t->extents[t->extent].len == t->extent_at) {
        t->extent++;
        t->extent_at = 0;
      }
      x = &t->extents[t->extent];
    }
    n = smaller(x->len - t->extent_at, n);
    rc = t->sink.on_data(t->sink.arg, x->offset + t->extent_at, bytes, n);
    t->extent_at += n;
    t->left -= n;
  }
  if (rc == 0 && t->left + t->padding == 0) rc = finish_entry(t, true);
  return rc != 0 ? rc : (ssize_t) n;
}

static ssize_t take(struct sbx_tar* t, const char* bytes, size_t len) {
  switch (t->state) {
    case HEADER: return take_header(t, bytes, len);
    case PAX: return take_pax(t, bytes, len);
    case MAP: return take_map(t, bytes, len);
    case DATA: return take_data(t, bytes, len);
    case ENDED: break;
  }
  return (ssize_t) len; /* programs pad archives to larger units */
}

int sbx_tar_feed(struct sbx_tar* t, const char* bytes, size_t len) {
  while (len > 0) {
    ssize_t n = take(t, bytes, len);

    if (n < 0) return (int) n;
    bytes += n;
    len -= (size_t) n;
  }
  return 0;
}

bool sbx_tar_ended(const struct sbx_tar* t) {
  return t->state == ENDED;
}

int sbx_tar_new(const struct sbx_tar_sink* sink, struct sbx_tar** out) {
  *out = calloc(1, sizeof(**out));
  if (*out == NULL) return -ENOMEM;
  (*out)->sink = *sink;
  return 0;
}

void sbx_tar_free(struct sbx_tar* t) {
  if (t == NULL) return;
  free(t->extents);
  free(t);
}
