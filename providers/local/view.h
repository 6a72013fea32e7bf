/* What a command of the Local provider can see of the host: a pure function
 * from facts about the host to records of the launcher's configuration. */
#ifndef SBX_LOCAL_VIEW_H
#define SBX_LOCAL_VIEW_H

#include <stdbool.h>
#include <stddef.h>

#include "../../native/session/config.h"
#include "../../native/error.h"

enum sbx_host_kind {
  SBX_HOST_MISSING = 0,
  SBX_HOST_FILE,
  SBX_HOST_DIRECTORY,
  SBX_HOST_LINK,
  SBX_HOST_OTHER
};

struct sbx_view_host {
  const char* path;      /* PATH of Node, may be NULL */
  const char* home;      /* may be NULL */
  const char* exec_path; /* Node's binary without links, may be NULL */
  const char* const* env; /* "NAME=value": where tools are, if visible inside */
  size_t env_len;
  const char* const* etc; /* names in /etc */
  size_t etc_len;
  void* arg;
  /* Of the thing itself, links are not followed. */
  enum sbx_host_kind (*kind)(void* arg, const char* path);
  /* Text of a link, or the whole path without links; false if it cannot. */
  bool (*link)(void* arg, const char* path, char* out, size_t size);
  bool (*real)(void* arg, const char* path, char* out, size_t size);
};

struct sbx_view_spec {
  const char* mountpoint;
  bool network;
  const char* const* read_only; /* extra host paths, bound at the same place */
  size_t read_only_len;
  const char* const* read_write;
  size_t read_write_len;
};

enum { SBX_VIEW_ENV_MAX = 24 };

/* Everything in it belongs to it; sbx_view_free frees. */
struct sbx_view {
  char* path;        /* PATH inside */
  const char* home;  /* static text */
  const char* shell; /* static text: bash if there is one */
  char* env[SBX_VIEW_ENV_MAX]; /* "NAME=value" that tool managers need */
  size_t env_len;
};

/* Adds the records of the view to `config`. Negative: `error` says why. */
int sbx_view_build(const struct sbx_view_host* host,
                   const struct sbx_view_spec* spec, struct sbx_config* config,
                   struct sbx_view* view, struct sbx_error* error);
void sbx_view_free(struct sbx_view* view);

/* Checks a path that a user wants the workspace or a host path to appear at:
 * absolute, normalised, not the root and not over the system's own folders.
 * `option` names it in the error. */
int sbx_view_check_mountpoint(const char* option, const char* path,
                              struct sbx_error* error);
int sbx_view_check_bind(const char* option, const char* path,
                        const char* mountpoint, struct sbx_error* error);

/* Whether `path` is `folder` or lies below it. */
bool sbx_view_below(const char* folder, const char* path);

#endif
