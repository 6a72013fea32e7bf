/* The launcher: one static program that becomes the monitor of a session; its
 * child becomes PID 1 inside. Started by the engine with the descriptors that
 * protocol.h names and an empty environment.
 */
#include "sys.h" /* first: feature macros */

#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "monitor.h"
#include "protocol.h"

/* Whatever the starter ignored or blocked would otherwise be handed down to
 * every command. Raw calls, since glibc keeps its hands on signals 32 and 33. */
static void sbx__reset_signals(void) {
  struct {
    void* handler; /* NULL is SIG_DFL */
    unsigned long flags;
    void* restorer;
    unsigned long mask;
  } action = {0};
  sigset_t all;
  int i;

  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, NULL);
  for (i = 1; i <= 64; i++)
    syscall(SYS_rt_sigaction, i, &action, NULL, sizeof(action.mask));
}

int main(void) {
  int fd;

  sbx__reset_signals();
  setsid();
  umask(022);
  prctl(PR_SET_NAME, "sbx-launcher");
  sbx_close_from(SBX_FD_CONFIG + 1);
  for (fd = SBX_FD_CONTROL; fd <= SBX_FD_CONFIG; fd++)
    if (fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) return 1;
  return sbx_monitor_run();
}
