/* What the Local provider was asked for, checked and copied. */
#ifndef SBX_LOCAL_OPTIONS_H
#define SBX_LOCAL_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../../native/error.h"
#include "../../native/launcher/protocol.h"
#include "../../native/options.h"
#include "limits.h"

/* Where the workspace lies. */
enum sbx_local_kind {
  SBX_LOCAL_TEMPORARY = 1, /* a folder of this session, removed with it */
  SBX_LOCAL_ROOT,          /* a folder below `root`, kept until destroy */
  SBX_LOCAL_DIRECTORY      /* the user's own folder */
};

enum { SBX_LOCAL_PORTS_MAX = 256 };

struct sbx_local_list {
  char** items;
  size_t len;
};

struct sbx_local_options {
  enum sbx_local_kind kind;
  enum sbx_level level;
  bool may_fall;  /* "auto": to level landlock where namespaces are refused */
  bool own_ids;   /* level landlock, found out at the start: commands can have
                     ids of their own */
  uint16_t ports[SBX_LOCAL_PORTS_MAX];
  size_t ports_len;
  bool network; /* the host's */
  struct sbx_local_list allow; /* hosts; empty: deny, unless `network` */
  struct sbx_local_limits limits;
  char* id;
  char* directory;
  char* root;
  char* folder; /* ROOT: "<root>/<readable prefix of id>-<hash>" */
  char* cwd;
  char* shell; /* NULL: the view's */
  char* host_path;
  char* host_home;
  char* exec_path;
  char* tmpdir;
  struct sbx_local_list host_env; /* "NAME=value" */
  struct sbx_local_list read_only;
  struct sbx_local_list read_write;
  struct sbx_local_list protect; /* paths below `directory` */
  bool protects; /* ... asked for by name */
  char* cgroup;       /* tests: where the control group is made, or NULL */
  uint64_t fail_step; /* tests */
  uint64_t fail_errno;
};

/* Looks at given paths, changes nothing. The error names option, value and
 * remedy. On failure `out` is empty again. */
int sbx_local_options_read(const struct sbx_options* o,
                           struct sbx_local_options* out,
                           struct sbx_error* error);
void sbx_local_options_clear(struct sbx_local_options* options);

#endif
