/* Reads the engine's configuration records and checks every field. */
#include "sys.h" /* first: feature macros */

#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

enum {
  SBX__CONFIG_MAX = 16 << 20,
  SBX__PLACES_MAX = 4096,
  SBX__ID_RANGE = 65536
};

static int sbx__invalid(void) {
  errno = EINVAL;
  return -1;
}

static int sbx__read_all(int fd, unsigned char** out, size_t* len) {
  struct stat st;
  unsigned char* bytes;
  size_t at = 0;

  if (fstat(fd, &st) != 0) return -1;
  if (st.st_size <= 0 || st.st_size > SBX__CONFIG_MAX) return sbx__invalid();
  bytes = malloc((size_t) st.st_size);
  if (bytes == NULL) return -1;
  while (at < (size_t) st.st_size) {
    ssize_t n = pread(fd, bytes + at, (size_t) st.st_size - at, (off_t) at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      free(bytes);
      return n < 0 ? -1 : sbx__invalid();
    }
    at += (size_t) n;
  }
  *out = bytes;
  *len = at;
  return 0;
}

/* The string at the front of the value, or NULL. */
static const char* sbx__string(const char* value, size_t len) {
  return len > 0 && memchr(value, '\0', len) != NULL ? value : NULL;
}

static const char* sbx__path(const char* value, size_t len) {
  const char* s = sbx__string(value, len);
  return s != NULL && s[0] == '/' ? s : NULL;
}

static int sbx__number(const char* value, size_t len, uint64_t max,
                       uint64_t* out) {
  if (len != sizeof(*out)) return sbx__invalid();
  memcpy(out, value, sizeof(*out));
  return *out <= max ? 0 : sbx__invalid();
}

static int sbx__id(const char* value, size_t len, uint32_t* out) {
  uint64_t n;

  if (sbx__number(value, len, UINT32_MAX - 1, &n) != 0) return -1;
  *out = (uint32_t) n;
  return 0;
}

static int sbx__port(const char* value, size_t len, struct sbx_ports* ports) {
  uint64_t n;

  if (sbx__number(value, len, 65535, &n) != 0) return -1;
  if (n == 0 || ports->len == SBX_PORTS_MAX) return sbx__invalid();
  ports->list[ports->len++] = (uint16_t) n;
  return 0;
}

static int sbx__place(struct sbx_config* c, uint32_t tag, const char* value,
                      size_t len) {
  struct sbx_place* p;
  const char* first = sbx__string(value, len);
  size_t used;

  if (first == NULL) return sbx__invalid();
  used = strlen(first) + 1;
  if (c->places_len == SBX__PLACES_MAX) return sbx__invalid();
  p = &c->places[c->places_len];
  memset(p, 0, sizeof(*p));
  p->tag = tag;
  p->fd = -1;

  switch (tag) {
    case SBX_CONFIG_BIND_RO:
    case SBX_CONFIG_BIND_RW:
      p->from = sbx__path(value, len);
      p->path = sbx__path(value + used, len - used);
      if (p->from == NULL) return sbx__invalid();
      break;
    case SBX_CONFIG_SYMLINK:
      p->from = first;
      p->path = sbx__path(value + used, len - used);
      break;
    case SBX_CONFIG_FILE:
      p->path = sbx__path(value, len);
      p->from = value + used;
      p->len = len - used;
      break;
    default:
      p->path = sbx__path(value, len);
      break;
  }
  if (p->path == NULL) return sbx__invalid();
  c->places_len++;
  return 0;
}

static int sbx__item(struct sbx_config* c, uint32_t tag, const char* value,
                     size_t len) {
  uint64_t n = 0;
  int rc = 0;

  switch (tag) {
    case SBX_CONFIG_WORKSPACE:
      return (c->workspace = sbx__path(value, len)) ? 0 : sbx__invalid();
    case SBX_CONFIG_MOUNTPOINT:
      return (c->mountpoint = sbx__path(value, len)) ? 0 : sbx__invalid();
    case SBX_CONFIG_HOSTNAME:
      return (c->hostname = sbx__string(value, len)) ? 0 : sbx__invalid();
    case SBX_CONFIG_REMOVE:
      return (c->remove = sbx__path(value, len)) ? 0 : sbx__invalid();
    case SBX_CONFIG_LEVEL:
      rc = sbx__number(value, len, SBX_LEVEL_FULL, &n);
      c->level = (uint32_t) n;
      return rc;
    case SBX_CONFIG_UID_BASE:
      c->has_base = true;
      return sbx__id(value, len, &c->uid_base);
    case SBX_CONFIG_INNER_ID:
      return sbx__id(value, len, &c->inner_id);
    case SBX_CONFIG_OWNER_UID:
      c->has_owner = true;
      return sbx__id(value, len, &c->owner_uid);
    case SBX_CONFIG_OWNER_GID:
      return sbx__id(value, len, &c->owner_gid);
    case SBX_CONFIG_IDMAP:
      rc = sbx__number(value, len, 1, &n);
      c->idmap = n == 1;
      return rc;
    case SBX_CONFIG_MAKE:
      rc = sbx__number(value, len, 1, &n);
      c->make = n == 1;
      return rc;
    case SBX_CONFIG_NETWORK:
      rc = sbx__number(value, len, 1, &n);
      c->network = n == 1;
      return rc;
    case SBX_CONFIG_NPROC:
      return sbx__number(value, len, UINT64_MAX, &c->nproc);
    case SBX_CONFIG_NOFILE:
      return sbx__number(value, len, UINT64_MAX, &c->nofile);
    case SBX_CONFIG_TMP_BYTES:
      return sbx__number(value, len, UINT64_MAX, &c->tmp_bytes);
    case SBX_CONFIG_MEMORY:
      return sbx__number(value, len, INT64_MAX, &c->memory);
    case SBX_CONFIG_CPU:
      return sbx__number(value, len, UINT32_MAX, &c->cpu);
    case SBX_CONFIG_FILE_SIZE:
      return sbx__number(value, len, INT64_MAX, &c->file_size);
    case SBX_CONFIG_WORKSPACE_SIZE:
      return sbx__number(value, len, INT64_MAX, &c->workspace_size);
    case SBX_CONFIG_CGROUP:
      return (c->cgroup = sbx__path(value, len)) ? 0 : sbx__invalid();
    case SBX_CONFIG_FAIL_STEP:
      rc = sbx__number(value, len, SBX_SETUP_COUNT, &n);
      c->fail_step = (uint32_t) n;
      return rc;
    case SBX_CONFIG_FAIL_ERRNO:
      rc = sbx__number(value, len, 4095, &n);
      c->fail_errno = (int) n;
      return rc;
    case SBX_CONFIG_BIND_RO:
    case SBX_CONFIG_BIND_RW:
    case SBX_CONFIG_SYMLINK:
    case SBX_CONFIG_FILE:
    case SBX_CONFIG_MASK:
    case SBX_CONFIG_TMPFS:
      return sbx__place(c, tag, value, len);
    case SBX_CONFIG_RUN_UID:
      c->has_run = true;
      return sbx__id(value, len, &c->run_uid);
    case SBX_CONFIG_RUN_GID:
      return sbx__id(value, len, &c->run_gid);
    case SBX_CONFIG_SCRATCH:
      return (c->scratch = sbx__path(value, len)) ? 0 : sbx__invalid();
    case SBX_CONFIG_TCP_PORT:
      return sbx__port(value, len, &c->tcp_ports);
    case SBX_CONFIG_TCP_CONNECT:
      return sbx__port(value, len, &c->tcp_connect);
    default:
      return sbx__invalid();
  }
}

static bool sbx__is_inside(const char* path, const char* folder) {
  size_t len = strlen(folder);

  return strncmp(path, folder, len) == 0 && path[len] == '/' &&
         path[len + 1] != '\0';
}

static int sbx__check(const struct sbx_config* c) {
  if (c->workspace == NULL || c->mountpoint == NULL) return sbx__invalid();
  if (c->level > SBX_LEVEL_FULL) return sbx__invalid();
  if ((c->level == SBX_LEVEL_LANDLOCK) != (c->scratch != NULL))
    return sbx__invalid();
  if (c->inner_id >= SBX__ID_RANGE - 1) return sbx__invalid();
  if (c->has_base && c->uid_base > UINT32_MAX - SBX__ID_RANGE)
    return sbx__invalid();
  if (c->idmap && c->has_base && !c->has_owner) return sbx__invalid();
  /* What is removed whole is a session folder, and nothing above one. */
  if (c->remove != NULL && !sbx__is_inside(c->workspace, c->remove))
    return sbx__invalid();
  if (c->make && c->remove == NULL) return sbx__invalid();
  return 0;
}

int sbx_config_read(struct sbx_config* c, int fd) {
  size_t len = 0, at = 0;

  memset(c, 0, sizeof(*c));
  c->level = UINT32_MAX;
  c->inner_id = 1000;
  c->nproc = 4096;
  c->nofile = UINT64_MAX;
  c->tmp_bytes = 512u << 20;
  c->fail_errno = EPERM;
  c->places = calloc(SBX__PLACES_MAX, sizeof(*c->places));
  if (c->places == NULL || sbx__read_all(fd, &c->bytes, &len) != 0) return -1;

  while (at < len) {
    struct sbx_config_item item;

    if (len - at < sizeof(item)) return sbx__invalid();
    memcpy(&item, c->bytes + at, sizeof(item));
    at += sizeof(item);
    if (item.len > len - at) return sbx__invalid();
    if (sbx__item(c, item.tag, (const char*) c->bytes + at, item.len) != 0)
      return -1;
    at += ((size_t) item.len + 7) & ~(size_t) 7;
  }
  return sbx__check(c);
}

bool sbx_config_fails(const struct sbx_config* c, uint32_t step) {
  if (c->fail_step != step) return false;
  errno = c->fail_errno;
  return true;
}
