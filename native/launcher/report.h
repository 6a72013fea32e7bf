/* The one message with which a failed set-up ends. */
#ifndef SBX_LAUNCHER_REPORT_H
#define SBX_LAUNCHER_REPORT_H

#include <stdint.h>

#include "config.h"

/* What a set-up step was doing: the path or call at fault. */
struct sbx_report {
  uint32_t step;
  const char* what;
};

/* Enters a step. Returns -1 when the tests want it to fail. */
int sbx_report_step(struct sbx_report* report, const struct sbx_config* config,
                    uint32_t step, const char* what);

/* Sends SBX_MSG_FAIL with errno. */
void sbx_report_fail(const struct sbx_report* report, int control);

#endif
