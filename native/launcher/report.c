/* Names the set-up step at hand, so that a failure is one clear message. */
#include "sys.h" /* first: feature macros */

#include "report.h"

#include <string.h>
#include <sys/socket.h>

int sbx_report_step(struct sbx_report* r, const struct sbx_config* config,
                    uint32_t step, const char* what) {
  r->step = step;
  r->what = what;
  return sbx_config_fails(config, step) ? -1 : 0;
}

void sbx_report_fail(const struct sbx_report* r, int control) {
  char packet[sizeof(struct sbx_msg) + 512];
  struct sbx_msg msg = {
      .type = SBX_MSG_FAIL, .a = r->step, .b = (uint32_t) errno};
  size_t len = strnlen(r->what, 511);

  memcpy(packet, &msg, sizeof(msg));
  memcpy(packet + sizeof(msg), r->what, len);
  packet[sizeof(msg) + len] = '\0';
  send(control, packet, sizeof(msg) + len + 1, MSG_NOSIGNAL);
}
