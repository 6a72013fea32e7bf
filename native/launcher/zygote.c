/* The loop of PID 1: one thread, never blocked by the host, by a command or by
 * the ending of a tree.
 */
#include "sys.h" /* first: feature macros */

#include "zygote_internal.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <time.h>

enum {
  SBX__EVENTS = 64,
  SBX__DRAIN_TURN = 1 << 20 /* bytes dropped from one pipe before the next */
};

uint64_t sbx__zygote_now(void) {
  struct timespec t;

  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t) t.tv_sec * 1000 + (uint64_t) t.tv_nsec / 1000000;
}

__attribute__((noreturn)) void sbx__zygote_exit(struct sbx_zygote* z) {
  /* In a pid namespace the kernel kills the rest. */
  if (!z->spec.alone) sbx_tree_end_below(z->proc);
  _exit(0);
}

bool sbx__zygote_grow(void** list, size_t* size, size_t len, size_t item) {
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
  sbx__zygote_exit(z);
}

static void sbx__flush(struct sbx_zygote* z) {
  while (z->out.first != NULL) {
    if (!sbx__try_send(z, z->out.first->bytes, z->out.first->len)) return;
    sbx_outbox_drop(&z->out);
  }
  sbx__watch(z, z->spec.control, EPOLLIN, EPOLL_CTL_MOD);
}

void sbx__zygote_answer(struct sbx_zygote* z, const struct sbx_msg* msg,
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
  if (sbx_outbox_put(&z->out, &packet) != 0) sbx__zygote_exit(z);
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
  if (sendmsg(z->spec.control, &h, MSG_NOSIGNAL) < 0) sbx__zygote_exit(z);
  close(fds[0]);
  close(fds[1]);
}

/* ---- pausing ---- */

static void sbx__tell_paused(struct sbx_zygote* z, uint32_t type) {
  struct sbx_msg msg = {.type = type, .a = sbx_pause_is_frozen(z->pause)};
  sbx__zygote_answer(z, &msg, NULL);
}

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
  int wait = sbx__zygote_work_ends(z);
  uint64_t now = sbx__zygote_now();

  if (sbx_pause_due(z->pause) <= now &&
      sbx_pause_step(z->pause, &z->procs, now))
    sbx__tell_paused(z, SBX_MSG_PAUSED);
  if (sbx_watch_due(z->watch) <= now) {
    sbx__zygote_look(z, now);
    wait = sbx__sooner(wait, sbx__zygote_work_ends(z));
  }
  wait = sbx__sooner(wait, sbx__until(sbx_pause_due(z->pause), now));
  return sbx__sooner(wait, sbx__until(sbx_watch_due(z->watch), now));
}

/* ---- draining ---- */

static void sbx__on_drain(struct sbx_zygote* z, struct sbx__zygote_request* r) {
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
  ssize_t n =
      splice(fd, NULL, z->null, NULL, SBX__DRAIN_TURN, SPLICE_F_NONBLOCK);

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

static void sbx__close_fds(struct sbx__zygote_request* r) {
  size_t i;

  for (i = 0; i < r->fds_len; i++)
    if (r->fds[i] >= 0) close(r->fds[i]);
}

static void sbx__dispatch(struct sbx_zygote* z, struct sbx__zygote_request* r) {
  switch (r->msg.type) {
    case SBX_MSG_SPAWN: sbx__zygote_on_spawn(z, r); break;
    case SBX_MSG_SIGNAL: sbx__zygote_on_signal(z, r); break;
    case SBX_MSG_END: sbx__zygote_on_end(z, r); break;
    case SBX_MSG_DRAIN: sbx__on_drain(z, r); break;
    case SBX_MSG_CONNECT:
      sbx_dialer_connect(&z->dialer, r->msg.id, r->msg.a);
      break;
    case SBX_MSG_LISTEN:
      sbx_dialer_listen(&z->dialer, r->msg.id, r->msg.a);
      break;
    case SBX_MSG_PAUSE: sbx_pause_begin(z->pause, &z->procs); break;
    case SBX_MSG_UNPAUSE: sbx__on_unpause(z); break;
    default: break;
  }
}

static void sbx__take_fds(struct msghdr* h, struct sbx__zygote_request* r) {
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
  struct sbx__zygote_request r = {.fds_len = 0};
  ssize_t n = recvmsg(z->spec.control, &h, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n <= 0) sbx__zygote_exit(z);
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
    sbx__zygote_refuse(z, r.msg.id, SBX_STAGE_REQUEST, EMSGSIZE);
  sbx__close_fds(&r);
}

/* ---- the loop ---- */

/* End of file: the monitor died. */
static void sbx__on_lifeline(struct sbx_zygote* z) {
  char word;

  if (read(z->spec.lifeline, &word, 1) != 1) sbx__zygote_exit(z);
  if (word == SBX_WORD_FULL) sbx__zygote_on_full_workspace(z);
}

static void sbx__on_event(struct sbx_zygote* z, const struct epoll_event* e) {
  struct signalfd_siginfo info;
  int fd = e->data.fd;

  if (fd == z->spec.control) {
    if (e->events & EPOLLOUT) sbx__flush(z);
    if (e->events & (EPOLLIN | EPOLLHUP | EPOLLERR)) sbx__on_control(z);
  } else if (fd == z->signals) {
    if (read(z->signals, &info, sizeof(info)) > 0) sbx__zygote_reap(z);
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
  struct sbx_pause_spec spec = {
      .alone = z->spec.alone, .proc = z->proc, .freezer = z->spec.freezer};

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
