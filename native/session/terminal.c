/* What a terminal can be told through its master. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "terminal.h"

#include <errno.h>
#include <signal.h>
#include <sys/ioctl.h>

#ifndef TIOCSIG
#define TIOCSIG _IOW('T', 0x36, int)
#endif

int sbx_terminal_resize(int master, uint32_t columns, uint32_t rows) {
  struct winsize size = {.ws_col = (unsigned short) columns,
                         .ws_row = (unsigned short) rows};

  if (columns - 1 > 65534 || rows - 1 > 65534) return -EINVAL;
  return ioctl(master, TIOCSWINSZ, &size) == 0 ? 0 : -errno;
}

int sbx_terminal_signal(int master, int signo) {
  if (signo != SIGINT && signo != SIGQUIT && signo != SIGTSTP) return -EINVAL;
  return ioctl(master, TIOCSIG, (long) signo) == 0 ? 0 : -errno;
}
