/* What the parts of the view know of each other; nothing public. */
#ifndef SBX_LOCAL_VIEW_INTERNAL_H
#define SBX_LOCAL_VIEW_INTERNAL_H

#include <limits.h>

#include "view.h"

#define SBX__VIEW_LEN(a) (sizeof(a) / sizeof((a)[0]))

/* PATH of a system. */
#define SBX__VIEW_PATH \
  "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

struct sbx__view_builder {
  const struct sbx_view_host* host;
  const struct sbx_view_spec* spec;
  struct sbx_config* config;
  struct sbx_view* view;
  char** bound; /* what is bound beside the system, for "already there" */
  size_t bound_len;
  bool failed; /* no memory */
};

/* ---- view_path.c ---- */

/* "/a/b/c" and nothing else: no "//", ".", "..", no slash at the end. */
bool sbx__view_is_normal(const char* path);
/* Both of a normal path that is not the root. */
bool sbx__view_parent_of(const char* path, char* out, size_t size);
const char* sbx__view_name_of(const char* path);
bool sbx__view_join(char* out, size_t size, const char* folder,
                    const char* name);
bool sbx__view_below_any(const char* const* list, size_t len,
                         const char* path);
bool sbx__view_is_any(const char* const* list, size_t len, const char* path);

/* ---- view.c ---- */

enum sbx_host_kind sbx__view_kind(const struct sbx__view_builder* b,
                                  const char* path);
/* Part of the system that is visible as a whole. */
bool sbx__view_is_system(const char* path);
bool sbx__view_is_bound(const struct sbx__view_builder* b, const char* path);
/* A home folder, a folder of home folders, or above: never bound. */
bool sbx__view_is_too_wide(const struct sbx__view_builder* b,
                           const char* path);
/* Read-only at the same place, without credentials; unless it is too wide. */
void sbx__view_bind(struct sbx__view_builder* b, const char* path);
/* Whether a list like PATH has the entry. */
bool sbx__view_path_has(const char* list, const char* entry);
void sbx__view_add_path(struct sbx__view_builder* b, const char* entry);
/* Unless it is set. */
void sbx__view_add_env(struct sbx__view_builder* b, const char* name,
                       const char* value);

/* ---- view_node.c ---- */

/* Negative: `error` says why. */
int sbx__view_add_node(struct sbx__view_builder* b, struct sbx_error* error);

/* ---- view_tools.c ---- */

/* Of the host's PATH. */
void sbx__view_add_managers(struct sbx__view_builder* b);
/* Variables of the host that name a visible folder of a tool. */
void sbx__view_add_host_env(struct sbx__view_builder* b);

#endif
