/* Answers to chmod calls that carry set-id bits. */
#ifndef SBX_LAUNCHER_NOTIFIER_H
#define SBX_LAUNCHER_NOTIFIER_H

#include <stdbool.h>
#include <stdint.h>

/* Whether the kernel has what this takes. */
bool sbx_notifier_can_run(void);

/* Answers one call that waits at the filter's listener. Only for a thread
 * without the filter: one that sets S_ISGID with it would wait for itself. */
struct sbx_guard;
void sbx_notifier_answer(int listener, const struct sbx_guard* guard);

/* For the guard, which also works without openat2. A descriptor with O_PATH of
 * what the caller names, or a negative errno. */
struct seccomp_notif;
bool sbx_notifier_can_guard(void);
int sbx_notifier_open_path(const struct seccomp_notif* call, int dir,
                           uint64_t address, bool follow, bool empty);
int sbx_notifier_open_descriptor(const struct seccomp_notif* call, int fd);

/* Whether the caller still waits, so that its id was its own until now. */
bool sbx_notifier_is_valid(int listener, const struct seccomp_notif* call);

#endif
