/* The start of the launcher: the descriptors of both sides and the program. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "start.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "launcher.h"
#include "packet.h"

/* The numbers that the child's descriptors get are all below 16, so a source
 * above cannot be overwritten by an earlier dup2. */
static int up(int fd) {
  int high;

  if (fd < 0) return -errno;
  high = fcntl(fd, F_DUPFD_CLOEXEC, 16);
  if (high < 0) high = -errno;
  close(fd);
  return high;
}

void sbx__start_clear(struct sbx__start* st) {
  sbx__close_fd(&st->null_fd);
  sbx__close_fd(&st->control[0]);
  sbx__close_fd(&st->control[1]);
  sbx__close_fd(&st->life[0]);
  sbx__close_fd(&st->life[1]);
  sbx__close_fd(&st->config);
}

int sbx__start_open(struct sbx__start* st, const struct sbx_config* config) {
  int pair[2];

  *st = (struct sbx__start){-1, {-1, -1}, {-1, -1}, -1};
  st->config = sbx_config_open(config);
  if (st->config < 0) return st->config;
  st->config = up(st->config);
  st->null_fd = up(open("/dev/null", O_RDWR | O_CLOEXEC));
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
    return -errno;
  st->control[0] = pair[0];
  st->control[1] = up(pair[1]);
  if (pipe2(pair, O_CLOEXEC) < 0) return -errno;
  st->life[0] = up(pair[0]);
  st->life[1] = pair[1];
  if (st->config < 0) return st->config;
  if (st->null_fd < 0) return st->null_fd;
  if (st->control[1] < 0) return st->control[1];
  return st->life[0] < 0 ? st->life[0] : 0;
}

static int add_dups(posix_spawn_file_actions_t* actions,
                    const struct sbx__start* st) {
  const int from[] = {st->null_fd,    st->null_fd, st->null_fd,
                      st->control[1], st->life[0], st->config};
  int err = 0;

  for (int to = 0; to < 6 && err == 0; to++)
    err = posix_spawn_file_actions_adddup2(actions, from[to], to);
  return err;
}

int sbx__start_program(const struct sbx__start* st, pid_t* pid) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attr;
  char path[32];
  char* argv[] = {(char*) (uintptr_t) "sandbox", NULL};
  char* env[] = {NULL};
  sigset_t set;
  int program = sbx_launcher_fd();
  int err;

  if (program < 0) return program;
  snprintf(path, sizeof(path), "/proc/self/fd/%d", program);
  if (posix_spawn_file_actions_init(&actions) != 0) return -ENOMEM;
  if (posix_spawnattr_init(&attr) != 0) {
    posix_spawn_file_actions_destroy(&actions);
    return -ENOMEM;
  }
  sigemptyset(&set);
  posix_spawnattr_setsigmask(&attr, &set);
  /* Not sigfillset: it leaves out glibc's own signals, and posix_spawn then
   * hands those down ignored. */
  memset(&set, 0xff, sizeof(set));
  posix_spawnattr_setsigdefault(&attr, &set);
  posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK |
                                      POSIX_SPAWN_SETSIGDEF |
                                      POSIX_SPAWN_SETSID);
  err = add_dups(&actions, st);
  if (err == 0) err = posix_spawn(pid, path, &actions, &attr, argv, env);
  posix_spawnattr_destroy(&attr);
  posix_spawn_file_actions_destroy(&actions);
  return -err;
}
