/* From a fresh clone to a locked PID 1. */
#ifndef SBX_LAUNCHER_SETUP_H
#define SBX_LAUNCHER_SETUP_H

#include "cgroup.h"
#include "config.h"

/* What the monitor hands to its child. */
struct sbx_setup_input {
  struct sbx_config* config;
  int control;
  int lifeline; /* read end; a byte means go, end of file means give up */
  int tree;     /* id-mapped workspace or -1 */
  const struct sbx_cgroup* cgroup; /* of the session, as far as there is one */
};

struct sbx_zygote_spec;

/* The monitor's word to begin. Exits if it died. */
char sbx_setup_wait(int lifeline);

/* Who holds which limit, as the word says: fills that part of the spec. */
void sbx_setup_watch(const struct sbx_setup_input* input,
                     struct sbx_zygote_spec* spec, char word);

/* Runs in the child: sets everything up and serves, or reports the step that
 * failed and exits. */
__attribute__((noreturn)) void sbx_setup_inside(
    const struct sbx_setup_input* input);

/* The same at SBX_LEVEL_NONE. */
__attribute__((noreturn)) void sbx_setup_outside(
    const struct sbx_setup_input* input);

/* And at SBX_LEVEL_LANDLOCK. */
__attribute__((noreturn)) void sbx_setup_confined(
    const struct sbx_setup_input* input);

#endif
