/* Answers to chmod calls that carry set-id bits. */
#ifndef SBX_LAUNCHER_NOTIFIER_H
#define SBX_LAUNCHER_NOTIFIER_H

#include <stdbool.h>

/* Whether the kernel has what this takes. */
bool sbx_notifier_can_run(void);

/* Answers one call that waits at the filter's listener. Only for a thread
 * without the filter: one that sets S_ISGID with it would wait for itself. */
void sbx_notifier_answer(int listener);

#endif
