/* What a failed set-up step is called and what helps, in this place. */
#ifndef SBX_SETUP_H
#define SBX_SETUP_H

#include <stdbool.h>

#include "../error.h"

/* Where we run, as far as it decides the remedy. */
struct sbx_setup_place {
  bool container;           /* Docker, Podman, Kubernetes */
  bool function;            /* AWS Lambda, Vercel functions */
  bool apparmor_restricts;  /* kernel.apparmor_restrict_unprivileged_userns */
  bool userns_disabled;     /* user.max_user_namespaces = 0, or Debian's
                               kernel.unprivileged_userns_clone = 0 */
  bool root;
};

/* Reads /proc and the environment; fast, no disk. */
void sbx_setup_look(struct sbx_setup_place* place);

/* "namespaces"; NULL for a number that is no step. */
const char* sbx_setup_name(int step);

/* One sentence. */
const char* sbx_setup_remedy(const struct sbx_setup_place* place, int step,
                             int sys);

/* The whole error, SBX_E_UNAVAILABLE. `detail` is the path or call at fault or
 * NULL. Returns the code. */
int sbx_setup_error(struct sbx_error* error,
                    const struct sbx_setup_place* place, int step, int sys,
                    const char* detail);

#endif
