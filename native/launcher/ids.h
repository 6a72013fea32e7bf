/* Which host ids stand behind the ids inside. */
#ifndef SBX_LAUNCHER_IDS_H
#define SBX_LAUNCHER_IDS_H

#include <stdbool.h>
#include <sys/types.h>

#include "config.h"

/* Clones the workspace (the working directory) as a detached mount in which
 * the on-disk owner is the session's own id. Host root only. Returns the
 * mount's descriptor, -1 with errno; sbx_ids_refused says whether the file
 * system or the kernel just cannot do it. */
int sbx_ids_idmap(const struct sbx_config* config);

/* A detached clone of the template with the owners of LOWER_BASE's range mapped
 * into the session's. */
int sbx_ids_lower(const struct sbx_config* config);

/* The same for a folder or file that commands may write to, by its own owner.
 * Where that is refused, a plain clone. */
int sbx_ids_bind(const struct sbx_config* config, const char* path);

bool sbx_ids_refused(int error);

/* Writes the id maps of `pid`, which sits in a new user namespace. `range`
 * maps the session's whole range, else one id. Returns 0, or -1 with errno and
 * the file at fault in `what`. */
int sbx_ids_map(const struct sbx_config* config, pid_t pid, bool range,
                const char** what);

/* Becomes the inner id, inside. */
int sbx_ids_become(const struct sbx_config* config);

#endif
