/* Mounts with flags over whole trees, on old kernels too. */
#ifndef SBX_LAUNCHER_MOUNT_H
#define SBX_LAUNCHER_MOUNT_H

#include <stdint.h>

/* Makes the folders above `path`, and `path` itself as a folder. */
int sbx_mount_parents(const char* path);
int sbx_mount_folder(const char* path);

/* A mount that is the copy of one outside would still hear of what is mounted
 * there, and tell it what is mounted here: these two cut that off, and nothing
 * else may bind. `from` is a path, `tree` of open_tree. */
int sbx_mount_bind(const char* from, const char* path);
int sbx_mount_attach(int tree, const char* path);

/* Sets flags (SBX_MOUNT_ATTR_*) on the mount at `path` and all below it.
 * `proc_self` is a descriptor of /proc/self. */
int sbx_mount_restrict(int proc_self, const char* path, uint64_t flags);

/* A fresh tmpfs of at most `bytes`. */
int sbx_mount_tmpfs(const char* path, unsigned mode, uint64_t bytes);

#endif
