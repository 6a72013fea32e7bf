/* Lists (readdir, walk) and the contents for a search: what find is asked, and
 * how its answers become entries. */
#include "list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  BATCH = 8 << 20,
  /* A larger file is not searched; nobody wants to wait for it. */
  FILE_MAX = 64 << 20,
  ENTRIES_MAX = 8 << 20
};

struct item {
  struct sbx__entry entry;
  bool folder_link; /* a link to a folder, which may lie outside */
};

struct items {
  struct item* list;
  size_t count;
  size_t size;
};

/* --- find's arguments ----------------------------------------------------- */

/* As a pattern that means only itself. */
static void add_pattern(struct sbx__command* c, const char* before,
                        const char* name) {
  char text[2 * NAME_MAX + 16];
  size_t at = strlen(before);
  if (strlen(name) > NAME_MAX) name = "/"; /* which no name is */
  memcpy(text, before, at);
  for (; *name; name++) {
    if (strchr("*?[]\\", *name)) text[at++] = '\\';
    text[at++] = *name;
  }
  sbx__command_bytes(c, text, at);
}

static void add_depth(struct sbx__command* c, uint64_t depth) {
  sbx__command_add(c, "-mindepth");
  sbx__command_add(c, "1");
  if (depth == 0) return;
  sbx__command_add(c, "-maxdepth");
  sbx__command_number(c, depth);
}

static void add_hidden(struct sbx__command* c, bool hidden) {
  if (hidden) return;
  sbx__command_add(c, "-name");
  sbx__command_add(c, ".*");
  sbx__command_add(c, "-prune");
  sbx__command_add(c, "-o");
}

/* readdir counts the levels below the first, walk counts all. 0: all. */
static uint64_t depth_of(const struct sbx_file_request* r) {
  if (r->verb == SBX_FILE_WALK) return r->max_depth;
  return r->flags & SBX_FILE_RECURSIVE ? (uint64_t)r->max_depth + 1 : 1;
}

void sbx__list_command(struct sbx__command* c,
                       const struct sbx_kit_place* place, const char* nonce,
                       const struct sbx_file_request* r) {
  static const enum sbx__script scripts[] = {SBX__SH_BASE, SBX__SH_LOCK,
                                             SBX__SH_LIST, SBX__SH_END};
  bool walk = r->verb == SBX_FILE_WALK;
  sbx__command_shell(c, place, nonce, scripts);
  sbx__command_arg(c, r->path, strlen(r->path));
  add_depth(c, depth_of(r));
  add_hidden(c, !walk || r->flags & SBX_FILE_HIDDEN);
}

/* --- order ---------------------------------------------------------------- */

/* A folder's content right behind its name. */
static int walk_order(const char* a, size_t a_len, const char* b,
                      size_t b_len) {
  size_t i = 0;
  while (i < a_len && i < b_len && a[i] == b[i]) i++;
  if (i == a_len || i == b_len) return (i < a_len) - (i < b_len);
  int x = a[i] == '/' ? -1 : (unsigned char)a[i];
  int y = b[i] == '/' ? -1 : (unsigned char)b[i];
  return x - y;
}

static int by_walk(const void* a, const void* b) {
  const struct sbx__entry* x = &((const struct item*)a)->entry;
  const struct sbx__entry* y = &((const struct item*)b)->entry;
  return walk_order(x->name, x->name_len, y->name, y->name_len);
}

static struct item* items_find(struct items* items, const char* name,
                               size_t len) {
  struct item key = {.entry = {.name = name, .name_len = len}};
  if (items->count == 0) return NULL;
  return bsearch(&key, items->list, items->count, sizeof(key), by_walk);
}

static void items_sort(struct items* items) {
  if (items->count > 1)
    qsort(items->list, items->count, sizeof(*items->list), by_walk);
}

static struct item* items_add(struct items* items) {
  if (items->count == items->size) {
    size_t size = items->size * 2 + 64;
    if (size > ENTRIES_MAX) return NULL;
    struct item* list = realloc(items->list, size * sizeof(*list));
    if (!list) return NULL;
    items->list = list;
    items->size = size;
  }
  struct item* item = &items->list[items->count++];
  memset(item, 0, sizeof(*item));
  return item;
}

/* --- names ---------------------------------------------------------------- */

/* A relative path that stays where it is. */
static bool is_name(const char* name, size_t len) {
  const char* end = name + len;
  if (memchr(name, 0, len)) return false;
  while (name < end) {
    const char* slash = memchr(name, '/', (size_t)(end - name));
    size_t part = (size_t)((slash ? slash : end) - name);
    if (part == 0 || part > NAME_MAX) return false;
    if (name[0] == '.' && (part == 1 || (part == 2 && name[1] == '.')))
      return false;
    if (!slash) return true;
    name = slash + 1;
  }
  return false;
}

static const char* last_part(const char* name, size_t len, size_t* part_len) {
  const char* slash = memrchr(name, '/', len);
  const char* part = slash ? slash + 1 : name;
  *part_len = (size_t)(name + len - part);
  return part;
}

static bool fits_extension(const struct sbx_file_request* r, const char* name,
                           size_t len, bool fold) {
  size_t part_len;
  const char* part = last_part(name, len, &part_len);
  return sbx__extension_fits(r, part, part_len, fold);
}

/* The string up to its NUL; moves behind it. */
static bool take_string(const char** at, const char* end, const char** text,
                        size_t* len) {
  const char* nul = memchr(*at, 0, (size_t)(end - *at));
  if (!nul) return false;
  *text = *at;
  *len = (size_t)(nul - *at);
  *at = nul + 1;
  return true;
}

/* --- find's own records --------------------------------------------------- */

static uint8_t type_of_letter(char letter) {
  if (letter == 'd') return SBX_TYPE_DIRECTORY;
  return letter == 'f' ? SBX_TYPE_FILE : SBX_TYPE_OTHER;
}

/* "fN12/a/b" and the link's text. */
static int record_take(struct items* items, const char* text, size_t len,
                       const char* target, size_t target_len) {
  const char* slash = memchr(text, '/', len);
  uint64_t size;
  if (!slash || slash - text < 3 ||
      sbx__number_parse(text + 2, (size_t)(slash - text - 2), &size) < 0)
    return SBX_E_PROVIDER;
  const char* name = slash + 1;
  size_t name_len = (size_t)(text + len - name);
  if (!is_name(name, name_len)) return SBX_E_PROVIDER;
  struct item* item = items_add(items);
  if (!item) return SBX_E_INTERNAL;
  struct sbx__entry* e = &item->entry;
  e->name = name;
  e->name_len = name_len;
  e->is_link = text[0] == 'l';
  e->type = e->is_link ? SBX_TYPE_FILE : type_of_letter(text[0]);
  item->folder_link = e->is_link && text[1] == 'd';
  if (e->is_link) {
    e->target = target;
    e->target_len = target_len;
  } else if (e->type == SBX_TYPE_FILE) {
    e->has_size = true;
    e->size = size;
  }
  return 0;
}

/* The links that were found to stay inside come between and behind. */
static int records_links(struct items* items, const char* at,
                         const char* end) {
  const char *text, *other;
  size_t len, other_len;
  while (at < end) {
    if (!take_string(&at, end, &text, &len) ||
        !take_string(&at, end, &other, &other_len))
      return SBX_E_PROVIDER;
    if (len == 0 || text[0] != '+') continue;
    struct item* item = items_find(items, text + 1, len - 1);
    if (item && item->folder_link) item->entry.type = SBX_TYPE_DIRECTORY;
  }
  return 0;
}

static int records_parse(struct items* items, const char* at,
                         const char* end) {
  const char* start = at;
  const char *text, *target;
  size_t len, target_len;
  while (at < end) {
    if (!take_string(&at, end, &text, &len) ||
        !take_string(&at, end, &target, &target_len))
      return SBX_E_PROVIDER;
    if (len > 0 && text[0] == '+') continue;
    int rc = record_take(items, text, len, target, target_len);
    if (rc < 0) return rc;
  }
  items_sort(items);
  return records_links(items, start, end);
}

/* --- names, links, facts -------------------------------------------------- */

static const char* without_dot(const char* name, size_t* len) {
  if (*len > 2 && name[0] == '.' && name[1] == '/') {
    *len -= 2;
    return name + 2;
  }
  return name;
}

static int plain_names(struct items* items, const char** at,
                       const char* end) {
  const char* name;
  size_t len;
  for (;;) {
    if (!take_string(at, end, &name, &len)) return SBX_E_PROVIDER;
    if (len == 0) return 0;
    name = without_dot(name, &len);
    if (!is_name(name, len)) return SBX_E_PROVIDER;
    struct item* item = items_add(items);
    if (!item) return SBX_E_INTERNAL;
    item->entry.name = name;
    item->entry.name_len = len;
  }
}

/* The blank behind a number of at most `most` digits. */
static const char* number_end(const char* at, const char* end, size_t most) {
  size_t len = (size_t)(end - at);
  return memchr(at, ' ', len < most + 1 ? len : most + 1);
}

/* Facts come in the order of the names, without those that have vanished. */
static void plain_facts(struct items* items, const char* at,
                        const char* end) {
  for (size_t i = 0; i < items->count && at < end; i++) {
    struct sbx__entry* e = &items->list[i].entry;
    const char* space = number_end(at, end, 8);
    const char* second = space ? number_end(space + 1, end, 19) : NULL;
    if (!second || (size_t)(end - second) < e->name_len + 4) return;
    const char* name = second + 1;
    if (memcmp(name, "./", 2) != 0 ||
        memcmp(name + 2, e->name, e->name_len) != 0 ||
        name[2 + e->name_len] != '\n')
      continue;
    unsigned mode = (unsigned)strtoul(at, NULL, 16);
    uint64_t size = 0;
    if (sbx__number_parse(space + 1, (size_t)(second - space - 1), &size) < 0)
      return;
    e->type = S_ISREG(mode)   ? SBX_TYPE_FILE
              : S_ISDIR(mode) ? SBX_TYPE_DIRECTORY
              : S_ISLNK(mode) ? SBX_TYPE_LINK
                              : SBX_TYPE_OTHER;
    e->has_size = S_ISREG(mode);
    e->size = e->has_size ? size : 0;
    at = name + 2 + e->name_len + 1;
  }
}

static int plain_links(struct items* items, const char* at, const char* end) {
  const char *name, *target, *kind;
  size_t len, target_len, kind_len;
  for (;;) {
    if (!take_string(&at, end, &name, &len)) return SBX_E_PROVIDER;
    if (len == 0) return 0;
    if (!take_string(&at, end, &target, &target_len) ||
        !take_string(&at, end, &kind, &kind_len))
      return SBX_E_PROVIDER;
    name = without_dot(name, &len);
    struct item* item = items_find(items, name, len);
    if (!item) return SBX_E_PROVIDER;
    if (target_len == 0 || target[target_len - 1] != '\n')
      continue; /* vanished meanwhile */
    target_len--;
    item->entry.is_link = true;
    item->entry.has_size = false;
    item->entry.size = 0;
    item->entry.type = kind[0] == 'd' ? SBX_TYPE_DIRECTORY : SBX_TYPE_FILE;
    item->entry.target = target;
    item->entry.target_len = target_len;
  }
}

static void plain_drop(struct items* items) {
  size_t kept = 0;
  for (size_t i = 0; i < items->count; i++) {
    uint8_t type = items->list[i].entry.type;
    if (type == 0 || type == SBX_TYPE_LINK) continue; /* vanished meanwhile */
    items->list[kept++] = items->list[i];
  }
  items->count = kept;
}

/* Behind the links' empty string. */
static const char* plain_skip_links(const char* at, const char* end) {
  const char* text;
  size_t len;
  int field = 0;
  while (take_string(&at, end, &text, &len)) {
    if (field == 0 && len == 0) return at;
    field = (field + 1) % 3;
  }
  return NULL;
}

static int plain_parse(struct items* items, const char* at, const char* end) {
  items->count = 0;
  int rc = plain_names(items, &at, end);
  if (rc < 0) return rc;
  const char* facts = plain_skip_links(at, end);
  if (!facts) return SBX_E_PROVIDER;
  plain_facts(items, facts, end);
  items_sort(items);
  rc = plain_links(items, at, end);
  plain_drop(items);
  return rc;
}

/* --- packing -------------------------------------------------------------- */

static int pack_items(const struct sbx_file_request* r, struct items* items,
                      struct sbx_file_result* result) {
  struct sbx__pack pack = {0};
  bool walk = r->verb == SBX_FILE_WALK;
  for (size_t i = 0; i < items->count; i++) {
    struct sbx__entry e = items->list[i].entry;
    bool file = e.type == SBX_TYPE_FILE && !e.is_link;
    if (file && !fits_extension(r, e.name, e.name_len, false)) continue;
    if (walk) {
      e.has_size = false;
      e.size = 0;
    }
    if (sbx__pack_entry(&pack, &e) < 0) {
      free(pack.data);
      return SBX_E_INTERNAL;
    }
  }
  sbx__pack_take(&pack, result);
  return 0;
}

int sbx__list_answer(const struct sbx_file_request* request, const char* text,
                     size_t len, struct sbx_file_result* result) {
  static const char restart[] = "R\0";
  struct items items = {0};
  if (len == 0 || text[0] != 'L') return SBX_E_PROVIDER;
  const char* at = text + 1;
  const char* end = text + len;
  const char* plain = memmem(at, (size_t)(end - at), restart, sizeof(restart));
  bool is_plain = plain == at || (plain && plain[-1] == 0);
  int rc = is_plain ? plain_parse(&items, plain + sizeof(restart), end)
                    : records_parse(&items, at, end);
  if (rc == 0) rc = pack_items(request, &items, result);
  free(items.list);
  return rc;
}

/* --- contents for a search ------------------------------------------------ */

static uint64_t batch_of(const struct sbx_file_request* r) {
  uint64_t batch = r->max_bytes ? r->max_bytes : BATCH;
  return batch < FILE_MAX ? batch : FILE_MAX;
}

size_t sbx__gather_limit(const struct sbx_file_request* request) {
  /* A file may go over the batch if it is the first; and names. */
  return (size_t)batch_of(request) + FILE_MAX + (64 << 20);
}

static bool can_grep(const struct sbx_file_request* r) {
  return r->data_len > 0 && r->data_len < 4096 &&
         !memchr(r->data, '\n', r->data_len) &&
         !memchr(r->data, 0, r->data_len);
}

static bool is_simple(const char* extension) {
  if (*extension == '.') extension++;
  size_t len = strlen(extension);
  return len > 0 && len < 64 && !strpbrk(extension, "./*?[]\\");
}

/* As far as find can tell; the answer is looked at again. */
static void add_extensions(struct sbx__command* c,
                           const struct sbx_file_request* r) {
  /* Each takes three of the arguments that there may be. */
  if (r->extensions_len == 0 || r->extensions_len > 8) return;
  for (size_t i = 0; i < r->extensions_len; i++)
    if (!is_simple(r->extensions[i])) return;
  sbx__command_add(c, "(");
  sbx__command_add(c, "-type");
  sbx__command_add(c, "d");
  for (size_t i = 0; i < r->extensions_len; i++) {
    const char* extension = r->extensions[i];
    sbx__command_add(c, "-o");
    sbx__command_add(c, "-iname");
    add_pattern(c, "*.", extension + (*extension == '.'));
  }
  sbx__command_add(c, ")");
}

static void add_prune(struct sbx__command* c,
                      const struct sbx_file_request* r) {
  if (r->prune_len == 0 || r->prune_len > 6) return;
  sbx__command_add(c, "-type");
  sbx__command_add(c, "d");
  sbx__command_add(c, "(");
  for (size_t i = 0; i < r->prune_len; i++) {
    if (i > 0) sbx__command_add(c, "-o");
    sbx__command_add(c, "-name");
    add_pattern(c, "", r->prune[i]);
  }
  sbx__command_add(c, ")");
  sbx__command_add(c, "-prune");
  sbx__command_add(c, "-o");
}

void sbx__gather_command(struct sbx__command* c,
                         const struct sbx_kit_place* place, const char* nonce,
                         const struct sbx_file_request* r) {
  static const enum sbx__script scripts[] = {SBX__SH_BASE, SBX__SH_GATHER,
                                             SBX__SH_END};
  const char* after = r->to ? r->to : "";
  bool grep = can_grep(r);
  sbx__command_shell(c, place, nonce, scripts);
  sbx__command_arg(c, r->path, strlen(r->path));
  sbx__command_arg(c, after, strlen(after));
  sbx__command_number(c, batch_of(r));
  sbx__command_number(c, FILE_MAX);
  sbx__command_arg(c, grep ? r->data : "", grep ? r->data_len : 0);
  sbx__command_add(c, r->flags & SBX_FILE_FOLD ? "i" : "");
  add_depth(c, 0);
  add_hidden(c, r->flags & SBX_FILE_HIDDEN);
  add_prune(c, r);
  add_extensions(c, r);
}

static bool holds(const struct sbx_file_request* r, const char* data,
                  size_t len) {
  struct sbx__literal want = {r->data, r->data_len,
                              (r->flags & SBX_FILE_FOLD) != 0};
  return want.len == 0 || sbx__literal_find(&want, data, len) != NULL;
}

static bool is_pruned(const struct sbx_file_request* r, const char* name,
                      size_t len) {
  const char* end = name + len;
  const char* slash;
  while ((slash = memchr(name, '/', (size_t)(end - name)))) {
    size_t part = (size_t)(slash - name);
    for (size_t i = 0; i < r->prune_len; i++)
      if (strlen(r->prune[i]) == part && memcmp(r->prune[i], name, part) == 0)
        return true;
    name = slash + 1;
  }
  return false;
}

/* As the shell program sorts: tr there has changed these bytes. */
static int sorted_as(char c) {
  if (c == '/') return 1;
  if (c == 1) return '/';
  return c == '\n' ? 2 : (unsigned char)c;
}

static bool is_later(const char* name, size_t len, const char* last,
                     size_t last_len) {
  size_t i = 0;
  while (i < len && i < last_len && name[i] == last[i]) i++;
  if (i == len || i == last_len) return len > last_len;
  return sorted_as(name[i]) > sorted_as(last[i]);
}

struct gathered {
  const struct sbx_file_request* request;
  struct sbx__pack pack;
  char mark[SBX__NONCE_SIZE + 8];
  const char* last; /* name, for the order */
  size_t last_len;
};

static int gathered_put(struct gathered* g, const char* name, size_t name_len,
                        const char* data, size_t len) {
  const struct sbx_file_request* r = g->request;
  struct sbx__entry e = {.type = SBX_TYPE_FILE, .has_size = true, .size = len,
                         .name = name, .name_len = name_len};
  if (!fits_extension(r, name, name_len, true) ||
      is_pruned(r, name, name_len) || !holds(r, data, len))
    return 0;
  if (sbx__pack_entry(&g->pack, &e) < 0 ||
      sbx__pack_reserve(&g->pack, len) < 0)
    return SBX_E_INTERNAL;
  memcpy(g->pack.data + g->pack.len, data, len);
  g->pack.len += len;
  return 0;
}

/* "F<length of the name>\n", name, content, mark. */
static int gathered_take(struct gathered* g, const char** at,
                         const char* end) {
  const char* line = memchr(*at, '\n', (size_t)(end - *at));
  uint64_t name_len;
  if (!line || **at != 'F' ||
      sbx__number_parse(*at + 1, (size_t)(line - *at - 1), &name_len) < 0)
    return SBX_E_PROVIDER;
  const char* name = line + 1;
  if (name_len > (size_t)(end - name) || !is_name(name, name_len))
    return SBX_E_PROVIDER;
  /* Else a sandbox could keep a search going for ever. */
  if (g->last && !is_later(name, name_len, g->last, g->last_len))
    return SBX_E_PROVIDER;
  const char* data = name + name_len;
  size_t mark_len = strlen(g->mark);
  const char* stop = memmem(data, (size_t)(end - data), g->mark, mark_len);
  if (!stop) return SBX_E_PROVIDER;
  g->last = name;
  g->last_len = name_len;
  *at = stop + mark_len;
  return gathered_put(g, name, name_len, data, (size_t)(stop - data));
}

int sbx__gather_answer(const struct sbx_file_request* request,
                       const char* nonce, const char* text, size_t len,
                       struct sbx_file_result* result, char** last) {
  struct gathered g = {.request = request, .last = request->to};
  const char* at = text + 1;
  const char* end = text + len;
  int rc = 0;
  if (len == 0 || text[0] != 'G') return SBX_E_PROVIDER;
  if (g.last) g.last_len = strlen(g.last);
  if (g.last_len == 0) g.last = NULL;
  snprintf(g.mark, sizeof(g.mark), "\nSBX%s;", nonce);
  while (rc == 0 && at < end && *at == 'F') rc = gathered_take(&g, &at, end);
  bool more = at < end && *at == 'M';
  if (rc == 0 && at + more != end) rc = SBX_E_PROVIDER;
  if (rc == 0 && more && !g.last) rc = SBX_E_PROVIDER;
  if (rc == 0 && more && g.pack.count == 0) {
    *last = strndup(g.last, g.last_len);
    if (!*last) rc = SBX_E_INTERNAL;
  }
  if (rc < 0) {
    free(g.pack.data);
    return rc;
  }
  sbx__pack_take(&g.pack, result);
  result->more = more;
  return 0;
}
