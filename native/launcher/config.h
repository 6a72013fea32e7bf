/* The configuration of one session, as read from the engine's records. */
#ifndef SBX_LAUNCHER_CONFIG_H
#define SBX_LAUNCHER_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol.h"

/* What is put into the view, in the order of the records. */
struct sbx_place {
  uint32_t tag;  /* SBX_CONFIG_BIND_RO, BIND_RW, SYMLINK, FILE, MASK, TMPFS */
  const char* path; /* inside */
  const char* from; /* source of a bind, target of a link, bytes of a file */
  size_t len;    /* of a file's bytes */
  int fd;        /* source of a bind once it is opened, else -1 */
  bool detached; /* fd is a mount of its own, cloned by the monitor */
};

enum { SBX_PORTS_MAX = 256 };

struct sbx_ports {
  uint16_t list[SBX_PORTS_MAX];
  size_t len;
};

struct sbx_config {
  unsigned char* bytes; /* every string points in here */
  const char* workspace;
  const char* mountpoint;
  const char* hostname;
  const char* remove;
  uint32_t level;
  bool has_base;
  uint32_t uid_base;
  uint32_t inner_id;
  bool has_owner;
  uint32_t owner_uid;
  uint32_t owner_gid;
  bool idmap;
  bool make; /* the folders `remove` and `workspace` */
  bool network; /* the host's */
  uint64_t nproc;
  uint64_t nofile;
  uint64_t tmp_bytes;
  uint64_t memory; /* 0: no limit, as with the next three */
  uint64_t cpu;    /* thousandths of a core */
  uint64_t file_size;
  uint64_t workspace_size;
  const char* cgroup; /* tests only */
  uint32_t fail_step;
  int fail_errno;
  struct sbx_place* places;
  size_t places_len;

  /* SBX_LEVEL_LANDLOCK */
  bool has_run;
  uint32_t run_uid;
  uint32_t run_gid;
  const char* scratch;
  struct sbx_ports tcp_ports;
  struct sbx_ports tcp_connect;
};

/* Reads and checks every record of `fd`. Returns 0, or -1 with errno. The
 * bytes are never freed: they live as long as the launcher. */
int sbx_config_read(struct sbx_config* config, int fd);

/* Whether the tests want `step` to fail; then errno is set. First thing of
 * every step. */
bool sbx_config_fails(const struct sbx_config* config, uint32_t step);

#endif
