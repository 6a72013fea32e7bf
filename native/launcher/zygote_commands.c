/* The commands of PID 1: how one starts, what is known of it, and what is told
 * of its exit. */
#include "sys.h" /* first: feature macros */

#include "zygote_internal.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "terminal.h"

enum {
  SBX__MEMFD_MAX = 64 << 20,
  /* How long an END may still come for a command that exited: the host sends
   * it before it reads the exit. */
  SBX__LINGER_MS = 2000,
  SBX__LINGER_MAX = 64
};

static void sbx__forget(struct sbx_zygote* z, size_t i) {
  memmove(&z->commands[i], &z->commands[i + 1],
          (z->commands_len - i - 1) * sizeof(*z->commands));
  z->commands_len--;
}

static void sbx__forget_old(struct sbx_zygote* z, uint64_t now) {
  size_t exited = 0, i;

  for (i = z->commands_len; i-- > 0;) {
    uint64_t at = z->commands[i].exited;
    if (at == 0) continue;
    if (now - at > SBX__LINGER_MS || ++exited > SBX__LINGER_MAX)
      sbx__forget(z, i);
  }
}

struct sbx__zygote_command* sbx__zygote_find(struct sbx_zygote* z,
                                             uint32_t id) {
  size_t i;

  for (i = 0; i < z->commands_len; i++)
    if (z->commands[i].id == id) return &z->commands[i];
  return NULL;
}

void sbx__zygote_refuse(struct sbx_zygote* z, uint32_t id, uint32_t stage,
                        int error) {
  struct sbx_msg msg = {
      .type = SBX_MSG_REFUSED, .id = id, .a = stage, .b = (uint32_t) error};
  sbx__zygote_answer(z, &msg, NULL);
}

/* Reads a payload that was too large for a packet. */
static char* sbx__read_memfd(int fd, size_t* len) {
  struct stat st;
  char* bytes;
  size_t at = 0;

  errno = EINVAL;
  if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) return NULL;
  if (st.st_size <= 0 || st.st_size > SBX__MEMFD_MAX) return NULL;
  *len = (size_t) st.st_size;
  bytes = malloc(*len);
  if (bytes == NULL) return NULL;
  while (at < *len) {
    ssize_t n = pread(fd, bytes + at, *len - at, (off_t) at);
    if (n <= 0) {
      free(bytes);
      errno = EINVAL;
      return NULL;
    }
    at += (size_t) n;
  }
  return bytes;
}

/* One end for all three; the other goes to the host before the command can
 * write. A host that has no room for it now may ask again. */
static bool sbx__terminal_fds(const struct sbx_zygote* z,
                              struct sbx__zygote_request* r, int fds[3],
                              int* memfd) {
  bool large = (r->msg.a & SBX_SPAWN_MEMFD) != 0;
  int master, slave;

  errno = EINVAL;
  if (r->fds_len != (large ? 1 : 0)) return false;
  if (r->msg.a & SBX_SPAWN_STDIN_FD) return false;
  master = sbx_terminal_open(r->msg.b, &slave);
  if (master < 0) return false;
  *memfd = large ? r->fds[0] : -1;
  fds[0] = fds[1] = fds[2] = r->fds[r->fds_len++] = slave;
  return sbx_terminal_send(z->spec.control, r->msg.id, master) == 0;
}

/* Sorts the descriptors of a SPAWN: stdin if any, stdout, stderr, payload. */
static bool sbx__spawn_fds(const struct sbx_zygote* z,
                           struct sbx__zygote_request* r, int fds[3],
                           int* memfd) {
  size_t want = 2, at = 0;

  *memfd = -1;
  errno = EINVAL;
  if (r->msg.a &
      ~(uint32_t) (SBX_SPAWN_STDIN_FD | SBX_SPAWN_MEMFD | SBX_SPAWN_TERMINAL))
    return false;
  if (r->msg.a & SBX_SPAWN_TERMINAL) return sbx__terminal_fds(z, r, fds, memfd);
  if (r->msg.a & SBX_SPAWN_STDIN_FD) want++;
  if (r->msg.a & SBX_SPAWN_MEMFD) want++;
  if (r->fds_len != want) return false;
  fds[0] = r->msg.a & SBX_SPAWN_STDIN_FD ? r->fds[at++] : z->null;
  fds[1] = r->fds[at++];
  fds[2] = r->fds[at++];
  if (r->msg.a & SBX_SPAWN_MEMFD) *memfd = r->fds[at];
  return true;
}

static void sbx__started(struct sbx_zygote* z, uint32_t id, pid_t pid,
                         const int fds[3]) {
  struct sbx_msg msg = {.type = SBX_MSG_SPAWNED, .id = id, .a = (uint32_t) pid};
  struct sbx__zygote_command* c = &z->commands[z->commands_len++];

  sbx__zygote_answer(z, &msg, NULL);
  c->id = id;
  c->pid = pid;
  c->exited = 0;
  c->full = false;
  sbx_watch_started(z->watch, sbx__zygote_now());
  sbx_stream_name(fds[1], c->streams[0]);
  sbx_stream_name(fds[2], c->streams[1]);
}

void sbx__zygote_on_spawn(struct sbx_zygote* z, struct sbx__zygote_request* r) {
  char* payload = r->payload;
  size_t len = r->len;
  uint32_t stage;
  int fds[3], memfd;
  pid_t pid;

  if (!sbx__spawn_fds(z, r, fds, &memfd)) {
    sbx__zygote_refuse(z, r->msg.id, SBX_STAGE_REQUEST, errno);
    return;
  }
  if (!sbx__zygote_grow((void**) &z->commands, &z->commands_size,
                        z->commands_len, sizeof(*z->commands))) {
    sbx__zygote_refuse(z, r->msg.id, SBX_STAGE_REQUEST, ENOMEM);
    return;
  }
  if (memfd >= 0) payload = sbx__read_memfd(memfd, &len);
  if (payload == NULL) {
    sbx__zygote_refuse(z, r->msg.id, SBX_STAGE_REQUEST, errno);
    return;
  }
  z->spawner.terminal = (r->msg.a & SBX_SPAWN_TERMINAL) != 0;
  pid = sbx_spawn(&z->spawner, payload, len, fds, &stage);
  if (pid > 0)
    sbx__started(z, r->msg.id, pid, fds);
  else
    sbx__zygote_refuse(z, r->msg.id, stage, errno);
  if (memfd >= 0) free(payload);
}

static uint64_t sbx__us(const struct timeval* t) {
  return (uint64_t) t->tv_sec * 1000000 + (uint64_t) t->tv_usec;
}

/* The kernel says that it ran out of processes to the program alone. */
static bool sbx__was_full(struct sbx_zygote* z,
                          const struct sbx__zygote_command* c) {
  if (c->full) return true;
  if (z->spec.watch.processes == 0) return false;
  return sbx__zygote_scan(z) == 0 && sbx_watch_is_full(z->watch, &z->procs);
}

/* What of the limits may be behind a bad end. */
static void sbx__explain(struct sbx_zygote* z,
                         const struct sbx__zygote_command* c, int status) {
  const struct sbx_zygote_spec* s = &z->spec;
  int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  uint64_t kills;

  if (code == 0) return;
  kills = sbx_cgroup_kills(s->memory_events);
  if (kills > z->memory_kills) {
    z->memory_kills = kills;
    sbx__zygote_tell_limit(z, c->id, SBX_LIMIT_MEMORY, s->memory);
  } else if (code == 128 + SIGXFSZ && s->limits.file_size > 0) {
    bool own = s->limits.file_size == s->file_size;
    sbx__zygote_tell_limit(z, c->id,
                           own ? SBX_LIMIT_FILE_SIZE : SBX_LIMIT_WORKSPACE,
                           s->limits.file_size);
  } else if (sbx__was_full(z, c)) {
    sbx__zygote_tell_limit(z, c->id, SBX_LIMIT_PROCESSES, s->watch.processes);
  }
}

static void sbx__exited(struct sbx_zygote* z, pid_t pid, int status,
                        const struct rusage* r) {
  struct sbx_usage usage = {.user_us = sbx__us(&r->ru_utime),
                            .system_us = sbx__us(&r->ru_stime),
                            .max_rss_bytes = (uint64_t) r->ru_maxrss * 1024};
  struct sbx_msg msg = {.type = SBX_MSG_EXIT, .a = (uint32_t) status};
  size_t i;

  for (i = 0; i < z->commands_len; i++) {
    struct sbx__zygote_command* c = &z->commands[i];
    if (c->pid != pid || c->exited != 0) continue;
    msg.id = c->id;
    c->exited = sbx__zygote_now();
    sbx__explain(z, c, status);
    sbx__zygote_answer(z, &msg, &usage);
    sbx__forget_old(z, c->exited);
    return;
  }
}

/* One signal stands for any number of dead children, ours and orphans. Every
 * process here descends from this one, so no child means no process. */
void sbx__zygote_reap(struct sbx_zygote* z) {
  struct sbx_msg empty = {.type = SBX_MSG_EMPTY};
  struct rusage usage;
  int status;
  pid_t pid;

  while ((pid = wait4(-1, &status, WNOHANG, &usage)) > 0)
    sbx__exited(z, pid, status, &usage);
  if (pid == 0 || errno != ECHILD || !z->end_all.active) return;
  z->end_all.active = false;
  sbx__zygote_answer(z, &empty, NULL);
}
