/* The loop of PID 1: one thread, never blocked by the host, by a command or by
 * the ending of a tree.
 */
#include "sys.h" /* first: feature macros */

#include "zygote.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "dial.h"
#include "outbox.h"
#include "pause.h"
#include "spawn.h"
#include "terminal.h"
#include "tree.h"

enum {
  SBX__MEMFD_MAX = 64 << 20,
  SBX__EVENTS = 64,
  SBX__DRAIN_TURN = 1 << 20, /* bytes dropped from one pipe before the next */
  /* How long an END may still come for a command that exited: the host sends
   * it before it reads the exit. */
  SBX__LINGER_MS = 2000,
  SBX__LINGER_MAX = 64
};

struct sbx__command {
  uint32_t id;
  pid_t pid;
  uint64_t exited; /* 0: it runs */
  bool full;       /* no more processes could be started while it ran */
  char streams[2][SBX_STREAM_NAME];
};

/* Ending everything. */
struct sbx__end_all {
  bool active;
  uint64_t kill_at;
};

struct sbx_zygote {
  struct sbx_zygote_spec spec;
  struct sbx_spawner spawner;
  int epoll;
  int signals;
  int proc;
  int null;
  struct sbx__command* commands;
  size_t commands_len;
  size_t commands_size;
  struct sbx_tree** trees;
  size_t trees_len;
  size_t trees_size;
  struct sbx_procs procs;
  struct sbx_outbox out;
  struct sbx__end_all end_all;
  struct sbx_dialer dialer;
  struct sbx_watch* watch;
  struct sbx_pause* pause;
  uint64_t memory_kills; /* by the kernel, as far as they were told */
  _Alignas(8) char in[sizeof(struct sbx_msg) + SBX_MSG_INLINE_MAX];
};

/* One message of the host with its descriptors; those still here when the
 * handler is done are closed. */
struct sbx__request {
  struct sbx_msg msg;
  char* payload;
  size_t len;
  int fds[SBX_MSG_FDS_MAX];
  size_t fds_len;
};

static uint64_t sbx__now(void) {
  struct timespec t;

  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t) t.tv_sec * 1000 + (uint64_t) t.tv_nsec / 1000000;
}

__attribute__((noreturn)) static void sbx__exit(struct sbx_zygote* z) {
  /* In a pid namespace the kernel kills the rest. */
  if (!z->spec.alone) sbx_tree_end_below(z->proc);
  _exit(0);
}

static bool sbx__grow(void** list, size_t* size, size_t len, size_t item) {
  size_t next = *size == 0 ? 16 : *size * 2;
  void* more;

  if (len < *size) return true;
  more = realloc(*list, next * item);
  if (more == NULL) return false;
  *list = more;
  *size = next;
  return true;
}

static int sbx__watch(struct sbx_zygote* z, int fd, uint32_t events, int op) {
  struct epoll_event e = {.events = events, .data.fd = fd};
  return epoll_ctl(z->epoll, op, fd, &e);
}

/* ---- answers ---- */

static bool sbx__try_send(struct sbx_zygote* z, const void* bytes, size_t len) {
  ssize_t n = send(z->spec.control, bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL);

  if (n >= 0) return true;
  if (errno == EAGAIN || errno == ENOBUFS || errno == EINTR) return false;
  sbx__exit(z);
}

static void sbx__flush(struct sbx_zygote* z) {
  while (z->out.first != NULL) {
    if (!sbx__try_send(z, z->out.first->bytes, z->out.first->len)) return;
    sbx_outbox_drop(&z->out);
  }
  sbx__watch(z, z->spec.control, EPOLLIN, EPOLL_CTL_MOD);
}

static void sbx__answer(struct sbx_zygote* z, const struct sbx_msg* msg,
                        const struct sbx_usage* usage) {
  struct sbx_packet packet = {.len = sizeof(*msg)};

  memcpy(packet.bytes, msg, sizeof(*msg));
  if (usage != NULL) {
    memcpy(packet.bytes + sizeof(*msg), usage, sizeof(*usage));
    packet.len += sizeof(*usage);
  }
  if (z->out.first == NULL) {
    if (sbx__try_send(z, packet.bytes, packet.len)) return;
    sbx__watch(z, z->spec.control, EPOLLIN | EPOLLOUT, EPOLL_CTL_MOD);
  }
  /* An exit that nobody hears of is worse than the end. */
  if (sbx_outbox_put(&z->out, &packet) != 0) sbx__exit(z);
}

static void sbx__send_ready(struct sbx_zygote* z) {
  struct sbx_msg msg = {.type = SBX_MSG_READY,
                        .a = z->spec.landlock_abi,
                        .b = z->spec.ready_flags};
  int fds[2] = {z->spec.workspace, z->spec.root};
  union {
    struct cmsghdr head;
    char bytes[CMSG_SPACE(sizeof(fds))];
  } control;
  struct iovec io = {&msg, sizeof(msg)};
  struct msghdr h = {.msg_iov = &io,
                     .msg_iovlen = 1,
                     .msg_control = control.bytes,
                     .msg_controllen = sizeof(control.bytes)};

  memset(&control, 0, sizeof(control));
  control.head.cmsg_level = SOL_SOCKET;
  control.head.cmsg_type = SCM_RIGHTS;
  control.head.cmsg_len = CMSG_LEN(sizeof(fds));
  memcpy(CMSG_DATA(&control.head), fds, sizeof(fds));
  if (sendmsg(z->spec.control, &h, MSG_NOSIGNAL) < 0) sbx__exit(z);
  close(fds[0]);
  close(fds[1]);
}

/* ---- commands ---- */

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

static struct sbx__command* sbx__find(struct sbx_zygote* z, uint32_t id) {
  size_t i;

  for (i = 0; i < z->commands_len; i++)
    if (z->commands[i].id == id) return &z->commands[i];
  return NULL;
}

static void sbx__refuse(struct sbx_zygote* z, uint32_t id, uint32_t stage,
                        int error) {
  struct sbx_msg msg = {
      .type = SBX_MSG_REFUSED, .id = id, .a = stage, .b = (uint32_t) error};
  sbx__answer(z, &msg, NULL);
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
                              struct sbx__request* r, int fds[3], int* memfd) {
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
                           struct sbx__request* r, int fds[3], int* memfd) {
  size_t want = 2, at = 0;

  *memfd = -1;
  errno = EINVAL;
  if (r->msg.a & ~(uint32_t) (SBX_SPAWN_STDIN_FD | SBX_SPAWN_MEMFD |
                              SBX_SPAWN_TERMINAL))
    return false;
  if (r->msg.a & SBX_SPAWN_TERMINAL)
    return sbx__terminal_fds(z, r, fds, memfd);
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
  struct sbx_msg msg = {
      .type = SBX_MSG_SPAWNED, .id = id, .a = (uint32_t) pid};
  struct sbx__command* c = &z->commands[z->commands_len++];

  sbx__answer(z, &msg, NULL);
  c->id = id;
  c->pid = pid;
  c->exited = 0;
  c->full = false;
  sbx_watch_started(z->watch, sbx__now());
  sbx_stream_name(fds[1], c->streams[0]);
  sbx_stream_name(fds[2], c->streams[1]);
}

static void sbx__on_spawn(struct sbx_zygote* z, struct sbx__request* r) {
  char* payload = r->payload;
  size_t len = r->len;
  uint32_t stage;
  int fds[3], memfd;
  pid_t pid;

  if (!sbx__spawn_fds(z, r, fds, &memfd)) {
    sbx__refuse(z, r->msg.id, SBX_STAGE_REQUEST, errno);
    return;
  }
  if (!sbx__grow((void**) &z->commands, &z->commands_size, z->commands_len,
                 sizeof(*z->commands))) {
    sbx__refuse(z, r->msg.id, SBX_STAGE_REQUEST, ENOMEM);
    return;
  }
  if (memfd >= 0) payload = sbx__read_memfd(memfd, &len);
  if (payload == NULL) {
    sbx__refuse(z, r->msg.id, SBX_STAGE_REQUEST, errno);
    return;
  }
  z->spawner.terminal = (r->msg.a & SBX_SPAWN_TERMINAL) != 0;
  pid = sbx_spawn(&z->spawner, payload, len, fds, &stage);
  if (pid > 0)
    sbx__started(z, r->msg.id, pid, fds);
  else
    sbx__refuse(z, r->msg.id, stage, errno);
  if (memfd >= 0) free(payload);
}

static uint64_t sbx__us(const struct timeval* t) {
  return (uint64_t) t->tv_sec * 1000000 + (uint64_t) t->tv_usec;
}

static void sbx__tell_limit(struct sbx_zygote* z, uint32_t id, uint32_t limit,
                            uint64_t value) {
  struct sbx_msg msg = {.type = SBX_MSG_LIMIT, .id = id, .a = limit};
  struct sbx_usage payload = {.user_us = value}; /* its first eight bytes */

  sbx__answer(z, &msg, &payload);
}

static int sbx__scan(struct sbx_zygote* z) {
  if (sbx_procs_scan(&z->procs, z->proc) != 0) return -1;
  if (!z->spec.alone) sbx_watch_keep_below(&z->procs);
  return 0;
}

/* The kernel says that it ran out of processes to the program alone. */
static bool sbx__was_full(struct sbx_zygote* z, const struct sbx__command* c) {
  if (c->full) return true;
  if (z->spec.watch.processes == 0) return false;
  return sbx__scan(z) == 0 && sbx_watch_is_full(z->watch, &z->procs);
}

/* What of the limits may be behind a bad end. */
static void sbx__explain(struct sbx_zygote* z, const struct sbx__command* c,
                         int status) {
  const struct sbx_zygote_spec* s = &z->spec;
  int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status)
                                 : WEXITSTATUS(status);
  uint64_t kills;

  if (code == 0) return;
  kills = sbx_cgroup_kills(s->memory_events);
  if (kills > z->memory_kills) {
    z->memory_kills = kills;
    sbx__tell_limit(z, c->id, SBX_LIMIT_MEMORY, s->memory);
  } else if (code == 128 + SIGXFSZ && s->limits.file_size > 0) {
    bool own = s->limits.file_size == s->file_size;
    sbx__tell_limit(z, c->id, own ? SBX_LIMIT_FILE_SIZE : SBX_LIMIT_WORKSPACE,
                    s->limits.file_size);
  } else if (sbx__was_full(z, c)) {
    sbx__tell_limit(z, c->id, SBX_LIMIT_PROCESSES, s->watch.processes);
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
    struct sbx__command* c = &z->commands[i];
    if (c->pid != pid || c->exited != 0) continue;
    msg.id = c->id;
    c->exited = sbx__now();
    sbx__explain(z, c, status);
    sbx__answer(z, &msg, &usage);
    sbx__forget_old(z, c->exited);
    return;
  }
}

/* One signal stands for any number of dead children, ours and orphans. Every
 * process here descends from this one, so no child means no process. */
static void sbx__reap(struct sbx_zygote* z) {
  struct sbx_msg empty = {.type = SBX_MSG_EMPTY};
  struct rusage usage;
  int status;
  pid_t pid;

  while ((pid = wait4(-1, &status, WNOHANG, &usage)) > 0)
    sbx__exited(z, pid, status, &usage);
  if (pid == 0 || errno != ECHILD || !z->end_all.active) return;
  z->end_all.active = false;
  sbx__answer(z, &empty, NULL);
}

/* ---- signals and ends ---- */

static void sbx__signal_all(struct sbx_zygote* z, int signo) {
  /* -1 means all processes of the host where we are not PID 1 of our own. */
  if (z->spec.alone && getpid() == 1)
    kill(-1, signo);
  else
    sbx_tree_signal_below(z->proc, signo);
}

static void sbx__root_of(const struct sbx__command* c,
                         struct sbx_tree_root* root) {
  root->id = c->id;
  root->pid = c->pid;
  root->alive = c->exited == 0;
  memcpy(root->streams, c->streams, sizeof(root->streams));
}

static void sbx__on_signal(struct sbx_zygote* z, const struct sbx__request* r) {
  struct sbx__command* c = sbx__find(z, r->msg.id);
  int signo = (int) r->msg.a;
  struct sbx_tree_root root;

  if (signo < 1 || signo > 64) return;
  if (r->msg.b == SBX_SCOPE_ALL) {
    sbx__signal_all(z, signo);
  } else if (c == NULL) {
    return;
  } else if (r->msg.b == SBX_SCOPE_PROCESS && c->exited == 0) {
    kill(c->pid, signo);
  } else if (r->msg.b == SBX_SCOPE_TREE) {
    sbx__root_of(c, &root);
    if (sbx_procs_scan(&z->procs, z->proc) == 0)
      sbx_tree_signal(&root, &z->procs, z->proc, signo);
  }
}

static void sbx__tell_paused(struct sbx_zygote* z, uint32_t type) {
  struct sbx_msg msg = {.type = type, .a = sbx_pause_is_frozen(z->pause)};
  sbx__answer(z, &msg, NULL);
}

static void sbx__kill_all(struct sbx_zygote* z) {
  if (z->spec.alone)
    sbx__signal_all(z, SIGKILL);
  else
    sbx_tree_kill_below(z->proc);
}

static void sbx__on_end_all(struct sbx_zygote* z, uint64_t grace) {
  uint64_t at = sbx__now() + grace;

  if (!z->end_all.active || at < z->end_all.kill_at) z->end_all.kill_at = at;
  z->end_all.active = true;
  sbx_pause_end(z->pause, &z->procs);
  if (grace > 0) {
    sbx__signal_all(z, SIGTERM);
    sbx__signal_all(z, SIGCONT);
  } else {
    sbx__kill_all(z);
  }
  sbx__reap(z); /* there may be nothing to end */
}

static void sbx__on_end(struct sbx_zygote* z, const struct sbx__request* r) {
  struct sbx__command* c = sbx__find(z, r->msg.id);
  struct sbx_tree_root root;
  struct sbx_tree* t;
  size_t i;

  if (r->msg.b == SBX_SCOPE_ALL) {
    sbx__on_end_all(z, r->msg.a);
    return;
  }
  for (i = 0; i < z->trees_len; i++) {
    if (sbx_tree_id(z->trees[i]) != r->msg.id) continue;
    sbx_tree_hurry(z->trees[i], sbx__now(), r->msg.a);
    return;
  }
  if (c == NULL || r->msg.b != SBX_SCOPE_TREE) return;
  if (!sbx__grow((void**) &z->trees, &z->trees_size, z->trees_len,
                 sizeof(*z->trees)))
    return;
  sbx__root_of(c, &root);
  t = sbx_tree_new(&root, r->msg.a);
  if (t != NULL) z->trees[z->trees_len++] = t;
}

/* One scan serves every tree that is due. */
static void sbx__step_trees(struct sbx_zygote* z, uint64_t now) {
  bool scanned = false;
  size_t i = 0;

  while (i < z->trees_len) {
    struct sbx_tree* t = z->trees[i];

    if (sbx_tree_due(t) > now) {
      i++;
      continue;
    }
    if (!scanned && sbx_procs_scan(&z->procs, z->proc) != 0) return;
    scanned = true;
    if (!sbx_tree_step(t, &z->procs, z->proc, now)) {
      i++;
      continue;
    }
    sbx_tree_free(t);
    z->trees_len--;
    memmove(&z->trees[i], &z->trees[i + 1],
            (z->trees_len - i) * sizeof(*z->trees));
  }
}

/* Does what is due and returns how long the loop may sleep. */
static int sbx__work_ends(struct sbx_zygote* z) {
  uint64_t now, next = UINT64_MAX;
  size_t i;

  if (z->trees_len == 0 && !z->end_all.active) return -1;
  now = sbx__now();
  sbx__step_trees(z, now);
  if (z->end_all.active && z->end_all.kill_at <= now) {
    /* Once more until nothing is left: one fork may have slipped through. */
    sbx__kill_all(z);
    z->end_all.kill_at = now + 20;
    sbx__reap(z);
  }
  if (z->end_all.active) next = z->end_all.kill_at;
  for (i = 0; i < z->trees_len; i++)
    if (sbx_tree_due(z->trees[i]) < next) next = sbx_tree_due(z->trees[i]);
  if (next == UINT64_MAX) return -1;
  if (next <= now) return 0;
  return next - now < 60000 ? (int) (next - now) : 60000;
}

/* ---- limits ---- */

/* The pids of the commands that run, or NULL; the caller frees it. */
static pid_t* sbx__running(const struct sbx_zygote* z, size_t* count) {
  pid_t* pids = calloc(z->commands_len + 1, sizeof(*pids));
  size_t i;

  *count = 0;
  for (i = 0; pids != NULL && i < z->commands_len; i++)
    if (z->commands[i].exited == 0) pids[(*count)++] = z->commands[i].pid;
  return pids;
}

static void sbx__on_end(struct sbx_zygote* z, const struct sbx__request* r);

static void sbx__punish(struct sbx_zygote* z, const struct sbx_culprit* who,
                        uint32_t limit, uint64_t value) {
  struct sbx__request end = {
      .msg = {.type = SBX_MSG_END, .a = 0, .b = SBX_SCOPE_TREE}};
  size_t i;

  if (who->command == 0) {
    if (who->session != 0) sbx_watch_kill(&z->procs, who);
    return;
  }
  for (i = 0; i < z->commands_len; i++) {
    struct sbx__command* c = &z->commands[i];
    if (c->pid != who->command || c->exited != 0) continue;
    sbx__tell_limit(z, c->id, limit, value);
    end.msg.id = c->id;
    sbx__on_end(z, &end);
    return;
  }
}

static void sbx__look(struct sbx_zygote* z, uint64_t now) {
  struct sbx_culprit who;
  size_t count, i;
  pid_t* pids = sbx__running(z, &count);

  if (sbx__scan(z) == 0 && pids != NULL) {
    if (z->procs.len == 0) sbx_watch_idle(z->watch);
    if (sbx_watch_is_full(z->watch, &z->procs))
      for (i = 0; i < z->commands_len; i++) z->commands[i].full = true;
    if (z->procs.len > 0 &&
        sbx_watch_memory(z->watch, &z->procs, z->proc, now, pids, count, &who))
      sbx__punish(z, &who, SBX_LIMIT_MEMORY, z->spec.memory);
    sbx_watch_sample(z->watch, &z->procs, z->proc);
  }
  free(pids);
}

static void sbx__on_full_workspace(struct sbx_zygote* z) {
  struct sbx_culprit who;
  size_t count;
  pid_t* pids = sbx__running(z, &count);

  if (pids != NULL && sbx__scan(z) == 0 &&
      sbx_watch_writer(z->watch, &z->procs, z->proc, pids, count, &who))
    sbx__punish(z, &who, SBX_LIMIT_WORKSPACE, z->spec.workspace_size);
  free(pids);
}

/* End of file: the monitor died. */
static void sbx__on_lifeline(struct sbx_zygote* z) {
  char word;

  if (read(z->spec.lifeline, &word, 1) != 1) sbx__exit(z);
  if (word == SBX_WORD_FULL) sbx__on_full_workspace(z);
}

/* ---- pausing ---- */

static void sbx__on_unpause(struct sbx_zygote* z) {
  sbx_pause_end(z->pause, &z->procs);
  sbx__tell_paused(z, SBX_MSG_UNPAUSED);
}

/* ---- what is due ---- */

static int sbx__until(uint64_t due, uint64_t now) {
  if (due == UINT64_MAX) return -1;
  if (due <= now) return 0;
  return due - now < 60000 ? (int) (due - now) : 60000;
}

static int sbx__sooner(int a, int b) {
  if (a < 0 || b < 0) return a < b ? b : a;
  return a < b ? a : b;
}

static int sbx__work(struct sbx_zygote* z) {
  int wait = sbx__work_ends(z);
  uint64_t now = sbx__now();

  if (sbx_pause_due(z->pause) <= now &&
      sbx_pause_step(z->pause, &z->procs, now))
    sbx__tell_paused(z, SBX_MSG_PAUSED);
  if (sbx_watch_due(z->watch) <= now) {
    sbx__look(z, now);
    wait = sbx__sooner(wait, sbx__work_ends(z));
  }
  wait = sbx__sooner(wait, sbx__until(sbx_pause_due(z->pause), now));
  return sbx__sooner(wait, sbx__until(sbx_watch_due(z->watch), now));
}

/* ---- draining ---- */

static void sbx__on_drain(struct sbx_zygote* z, struct sbx__request* r) {
  size_t i;

  for (i = 0; i < r->fds_len; i++) {
    int flags = fcntl(r->fds[i], F_GETFL);
    if (flags < 0) continue;
    fcntl(r->fds[i], F_SETFL, flags | O_NONBLOCK);
    if (sbx__watch(z, r->fds[i], EPOLLIN, EPOLL_CTL_ADD) == 0) r->fds[i] = -1;
  }
}

static ssize_t sbx__drop(struct sbx_zygote* z, int fd) {
  char bytes[65536];
  ssize_t n = splice(fd, NULL, z->null, NULL, SBX__DRAIN_TURN,
                     SPLICE_F_NONBLOCK);

  if (n >= 0 || errno != EINVAL) return n;
  return read(fd, bytes, sizeof(bytes));
}

static void sbx__drain(struct sbx_zygote* z, int fd) {
  ssize_t n = sbx__drop(z, fd);

  if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR))) return;
  /* The host may still have its copy, which would keep it in the set. */
  epoll_ctl(z->epoll, EPOLL_CTL_DEL, fd, NULL);
  close(fd);
}

/* ---- requests ---- */

static void sbx__close_fds(struct sbx__request* r) {
  size_t i;

  for (i = 0; i < r->fds_len; i++)
    if (r->fds[i] >= 0) close(r->fds[i]);
}

static void sbx__dispatch(struct sbx_zygote* z, struct sbx__request* r) {
  switch (r->msg.type) {
    case SBX_MSG_SPAWN:
      sbx__on_spawn(z, r);
      break;
    case SBX_MSG_SIGNAL:
      sbx__on_signal(z, r);
      break;
    case SBX_MSG_END:
      sbx__on_end(z, r);
      break;
    case SBX_MSG_DRAIN:
      sbx__on_drain(z, r);
      break;
    case SBX_MSG_CONNECT:
      sbx_dialer_connect(&z->dialer, r->msg.id, r->msg.a);
      break;
    case SBX_MSG_LISTEN:
      sbx_dialer_listen(&z->dialer, r->msg.id, r->msg.a);
      break;
    case SBX_MSG_PAUSE:
      sbx_pause_begin(z->pause, &z->procs);
      break;
    case SBX_MSG_UNPAUSE:
      sbx__on_unpause(z);
      break;
    default:
      break;
  }
}

static void sbx__take_fds(struct msghdr* h, struct sbx__request* r) {
  struct cmsghdr* c;

  for (c = CMSG_FIRSTHDR(h); c != NULL; c = CMSG_NXTHDR(h, c)) {
    size_t count;

    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    if (count > SBX_MSG_FDS_MAX - r->fds_len)
      count = SBX_MSG_FDS_MAX - r->fds_len;
    memcpy(r->fds + r->fds_len, CMSG_DATA(c), count * sizeof(int));
    r->fds_len += count;
  }
}

static void sbx__on_control(struct sbx_zygote* z) {
  union {
    struct cmsghdr head;
    char bytes[CMSG_SPACE(sizeof(int) * SBX_MSG_FDS_MAX)];
  } control;
  struct iovec io = {z->in, sizeof(z->in)};
  struct msghdr h = {.msg_iov = &io,
                     .msg_iovlen = 1,
                     .msg_control = control.bytes,
                     .msg_controllen = sizeof(control.bytes)};
  struct sbx__request r = {.fds_len = 0};
  ssize_t n = recvmsg(z->spec.control, &h, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n <= 0) sbx__exit(z);
  sbx__take_fds(&h, &r);
  if ((size_t) n < sizeof(r.msg)) {
    sbx__close_fds(&r);
    return;
  }
  memcpy(&r.msg, z->in, sizeof(r.msg));
  r.payload = z->in + sizeof(r.msg);
  r.len = (size_t) n - sizeof(r.msg);
  if (!(h.msg_flags & (MSG_TRUNC | MSG_CTRUNC)))
    sbx__dispatch(z, &r);
  else if (r.msg.type == SBX_MSG_SPAWN)
    sbx__refuse(z, r.msg.id, SBX_STAGE_REQUEST, EMSGSIZE);
  sbx__close_fds(&r);
}

/* ---- the loop ---- */

static void sbx__on_event(struct sbx_zygote* z, const struct epoll_event* e) {
  struct signalfd_siginfo info;
  int fd = e->data.fd;

  if (fd == z->spec.control) {
    if (e->events & EPOLLOUT) sbx__flush(z);
    if (e->events & (EPOLLIN | EPOLLHUP | EPOLLERR)) sbx__on_control(z);
  } else if (fd == z->signals) {
    if (read(z->signals, &info, sizeof(info)) > 0) sbx__reap(z);
  } else if (fd == z->spec.lifeline) {
    sbx__on_lifeline(z);
  } else if (!sbx_dialer_event(&z->dialer, fd)) {
    sbx__drain(z, fd);
  }
}

static int sbx__open(struct sbx_zygote* z) {
  sigset_t set;

  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  z->signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
  z->epoll = epoll_create1(EPOLL_CLOEXEC);
  z->proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  z->null = open("/dev/null", O_RDWR | O_CLOEXEC);
  z->dialer.epoll = z->epoll;
  z->dialer.control = z->spec.control;
  if (z->signals < 0 || z->epoll < 0 || z->proc < 0 || z->null < 0) return -1;
  if (sbx__watch(z, z->spec.control, EPOLLIN, EPOLL_CTL_ADD) != 0) return -1;
  if (sbx__watch(z, z->signals, EPOLLIN, EPOLL_CTL_ADD) != 0) return -1;
  return sbx__watch(z, z->spec.lifeline, EPOLLIN, EPOLL_CTL_ADD);
}

static int sbx__open_pause(struct sbx_zygote* z) {
  struct sbx_pause_spec spec = {.alone = z->spec.alone,
                                .proc = z->proc,
                                .freezer = z->spec.freezer};

  z->pause = sbx_pause_new(&spec);
  return z->pause == NULL ? -1 : 0;
}

struct sbx_zygote* sbx_zygote_new(const struct sbx_zygote_spec* spec) {
  struct sbx_zygote* z = calloc(1, sizeof(*z));

  if (z == NULL) return NULL;
  z->spec = *spec;
  z->spawner.limits = spec->limits;
  z->spawner.supervisor = spec->supervisor;
  z->spawner.nursery = spec->nursery;
  z->watch = sbx_watch_new(&spec->watch);
  if (sbx__open(z) == 0 && sbx__open_pause(z) == 0 && z->watch != NULL &&
      sbx_spawner_init(&z->spawner) == 0)
    return z;
  free(z);
  return NULL;
}

void sbx_zygote_run(struct sbx_zygote* z) {
  struct epoll_event events[SBX__EVENTS];

  sbx__send_ready(z);
  for (;;) {
    int n = epoll_wait(z->epoll, events, SBX__EVENTS, sbx__work(z));
    int i;

    for (i = 0; i < n; i++) sbx__on_event(z, &events[i]);
  }
}
