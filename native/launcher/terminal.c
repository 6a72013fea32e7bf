/* Opens terminals and hands their masters out. */
#include "sys.h" /* first: feature macros */

#include "terminal.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <termios.h>

#include "protocol.h"

#ifndef TIOCGPTPEER
#define TIOCGPTPEER _IO('T', 0x41)
#endif

/* By its path only where the kernel cannot open it through the master. */
static int sbx__open_slave(int master) {
  int flags = O_RDWR | O_NOCTTY | O_CLOEXEC;
  int fd = ioctl(master, TIOCGPTPEER, flags);
  unsigned number;
  char path[32];

  if (fd >= 0 || (errno != ENOTTY && errno != EINVAL)) return fd;
  if (ioctl(master, TIOCGPTN, &number) != 0) return -1;
  snprintf(path, sizeof(path), "/dev/pts/%u", number);
  return open(path, flags);
}

static int sbx__prepare(int slave, uint32_t size) {
  struct winsize w = {.ws_col = size & 0xffff, .ws_row = size >> 16};
  struct termios t;

  if (tcgetattr(slave, &t) != 0) return -1;
  t.c_iflag |= IUTF8;
  if (tcsetattr(slave, TCSANOW, &t) != 0) return -1;
  return ioctl(slave, TIOCSWINSZ, &w);
}

int sbx_terminal_open(uint32_t size, int* slave) {
  int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
  int locked = 0;

  *slave = -1;
  if (master < 0) return -1;
  if (ioctl(master, TIOCSPTLCK, &locked) != 0) return sbx_close_keep(master);
  *slave = sbx__open_slave(master);
  if (*slave < 0) return sbx_close_keep(master);
  if (sbx__prepare(*slave, size) == 0) return master;
  sbx_close_keep(*slave);
  *slave = -1;
  return sbx_close_keep(master);
}

int sbx_terminal_send(int control, uint32_t id, int master) {
  struct sbx_msg msg = {.type = SBX_MSG_TERMINAL, .id = id};
  union {
    struct cmsghdr head;
    char bytes[CMSG_SPACE(sizeof(int))];
  } rights;
  struct iovec io = {&msg, sizeof(msg)};
  struct msghdr h = {.msg_iov = &io,
                     .msg_iovlen = 1,
                     .msg_control = rights.bytes,
                     .msg_controllen = sizeof(rights.bytes)};
  ssize_t n;

  memset(&rights, 0, sizeof(rights));
  rights.head.cmsg_level = SOL_SOCKET;
  rights.head.cmsg_type = SCM_RIGHTS;
  rights.head.cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(&rights.head), &master, sizeof(int));
  n = sendmsg(control, &h, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (n < 0) return sbx_close_keep(master);
  close(master);
  return 0;
}

void sbx_terminal_control(void) { ioctl(0, TIOCSCTTY, 0); }
