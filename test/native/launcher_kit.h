/* Speaks the launcher's protocol for tests and benches: starts sessions, runs
 * commands and collects what comes back. Header only, so that each program
 * stays one file.
 */
#ifndef SBX_TEST_LAUNCHER_KIT_H
#define SBX_TEST_LAUNCHER_KIT_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../../native/launcher/protocol.h"

#define KIT __attribute__((unused)) static

enum { KIT_BASE = 0x6f000000, KIT_INNER = 1000, KIT_OUT = 1 << 20 };

struct kit_packet {
  struct kit_packet* next;
  struct sbx_msg msg;
  size_t len;
  char payload[4096];
};

struct kit_session {
  pid_t launcher;
  int control;
  int life;
  char folder[64];    /* session folder, removed by the monitor */
  char workspace[96]; /* on the host */
  uint32_t next_id;
  bool ready;
  struct sbx_msg answer; /* READY or FAIL */
  char what[512];
  int workspace_fd;
  int root_fd;
  struct kit_packet* packets;
};

struct kit_options {
  uint32_t fail_step;
  int fail_errno;
  bool none;       /* SBX_LEVEL_NONE */
  bool network;
  bool no_wait;    /* do not wait for READY */
  bool no_base;    /* root without a range */
  bool make;       /* the monitor makes the folders */
  const char* directory; /* given workspace, id-mapped for root */
  uid_t owner;
  uint64_t nproc;
  uint64_t tmp_bytes;
  const int* missing; /* calls that the kernel shall not know, up to 0; one
                         with a minus is refused if it makes namespaces */
  void (*extra)(void* arg, int config); /* more records */
  void* arg;
};

/* Marks the launchers of one test program; main sets it. */
static pid_t kit_owner;

KIT uint64_t kit_now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t) t.tv_sec * 1000000 + (uint64_t) t.tv_nsec / 1000;
}

KIT void kit_die(const char* what) {
  fprintf(stderr, "kit: %s: %s\n", what, strerror(errno));
  abort();
}

/* ---- configuration ---- */

KIT void kit_item(int fd, uint32_t tag, const void* bytes, size_t len) {
  static const char zeros[8];
  struct sbx_config_item item = {tag, (uint32_t) len};

  if (write(fd, &item, sizeof(item)) != sizeof(item)) kit_die("config");
  if (write(fd, bytes, len) != (ssize_t) len) kit_die("config");
  if (len % 8 != 0 && write(fd, zeros, 8 - len % 8) < 0) kit_die("config");
}

KIT void kit_number(int fd, uint32_t tag, uint64_t n) {
  kit_item(fd, tag, &n, sizeof(n));
}

KIT void kit_string(int fd, uint32_t tag, const char* s) {
  kit_item(fd, tag, s, strlen(s) + 1);
}

KIT void kit_pair(int fd, uint32_t tag, const char* a, const char* b) {
  char bytes[2048];
  size_t len = strlen(a) + 1;

  memcpy(bytes, a, len);
  memcpy(bytes + len, b, strlen(b) + 1);
  kit_item(fd, tag, bytes, len + strlen(b) + 1);
}

KIT void kit_view(int fd) {
  static const char* const links[] = {"bin", "sbin", "lib", "lib32", "lib64",
                                      "libx32"};
  static const char* const binds[] = {
      "/usr", "/opt", "/etc/ssl", "/etc/alternatives", "/etc/ld.so.cache",
      "/etc/localtime", "/no/such/thing"};
  static const char passwd[] =
      "/etc/passwd\0root:x:0:0::/root:/bin/sh\n"
      "user:x:1000:1000::/workspace:/bin/bash\n";
  static const char hosts[] = "/etc/hosts\000127.0.0.1 localhost\n";
  char path[32], target[256];
  size_t i;
  ssize_t n;

  for (i = 0; i < sizeof(binds) / sizeof(*binds); i++)
    kit_pair(fd, SBX_CONFIG_BIND_RO, binds[i], binds[i]);
  for (i = 0; i < sizeof(links) / sizeof(*links); i++) {
    snprintf(path, sizeof(path), "/%s", links[i]);
    n = readlink(path, target, sizeof(target) - 1);
    if (n < 0) {
      kit_pair(fd, SBX_CONFIG_BIND_RO, path, path);
      continue;
    }
    target[n] = '\0';
    kit_pair(fd, SBX_CONFIG_SYMLINK, target, path);
  }
  kit_item(fd, SBX_CONFIG_FILE, passwd, sizeof(passwd) - 1);
  kit_item(fd, SBX_CONFIG_FILE, hosts, sizeof(hosts) - 1);
  kit_string(fd, SBX_CONFIG_TMPFS, "/home/user");
}

KIT int kit_config(struct kit_session* s, const struct kit_options* o) {
  int fd = memfd_create("config", MFD_CLOEXEC);
  bool base = geteuid() == 0 && !o->no_base;

  kit_string(fd, SBX_CONFIG_WORKSPACE, s->workspace);
  kit_string(fd, SBX_CONFIG_MOUNTPOINT, "/workspace");
  kit_number(fd, SBX_CONFIG_LEVEL, o->none ? SBX_LEVEL_NONE : SBX_LEVEL_FULL);
  kit_number(fd, SBX_CONFIG_INNER_ID, KIT_INNER);
  if (base) kit_number(fd, SBX_CONFIG_UID_BASE, KIT_BASE);
  if (o->directory != NULL || geteuid() != 0 || o->no_base) {
    kit_number(fd, SBX_CONFIG_OWNER_UID, o->directory ? o->owner : geteuid());
    kit_number(fd, SBX_CONFIG_OWNER_GID, o->directory ? o->owner : getegid());
  }
  if (o->directory != NULL && base) kit_number(fd, SBX_CONFIG_IDMAP, 1);
  kit_number(fd, SBX_CONFIG_NETWORK, o->network);
  kit_string(fd, SBX_CONFIG_HOSTNAME, "sandbox");
  if (o->nproc) kit_number(fd, SBX_CONFIG_NPROC, o->nproc);
  if (o->tmp_bytes) kit_number(fd, SBX_CONFIG_TMP_BYTES, o->tmp_bytes);
  if (s->folder[0]) kit_string(fd, SBX_CONFIG_REMOVE, s->folder);
  if (o->fail_step) kit_number(fd, SBX_CONFIG_FAIL_STEP, o->fail_step);
  if (o->fail_errno)
    kit_number(fd, SBX_CONFIG_FAIL_ERRNO, (uint64_t) o->fail_errno);
  if (o->make) kit_number(fd, SBX_CONFIG_MAKE, 1);
  kit_view(fd);
  if (o->extra != NULL) o->extra(o->arg, fd);
  return fd;
}

/* ---- life of a session ---- */

KIT void kit_folders(struct kit_session* s, const struct kit_options* o) {
  if (o->directory != NULL) {
    snprintf(s->workspace, sizeof(s->workspace), "%s", o->directory);
    return;
  }
  strcpy(s->folder, "/tmp/sbx-test-XXXXXX");
  if (mkdtemp(s->folder) == NULL) kit_die("mkdtemp");
  snprintf(s->workspace, sizeof(s->workspace), "%s/ws", s->folder);
  if (o->make) {
    if (rmdir(s->folder) != 0) kit_die("rmdir");
    return;
  }
  if (mkdir(s->workspace, 0700) != 0) kit_die("mkdir");
  if (geteuid() == 0 && !o->no_base && !o->none &&
      chown(s->workspace, KIT_BASE + KIT_INNER, KIT_BASE + KIT_INNER) != 0)
    kit_die("chown");
}

/* The fds of protocol.h, nothing else, no environment. */
/* A filter around the launcher: ENOSYS for `missing`. */
KIT void kit_filter(const int* missing) {
  struct sock_filter code[64];
  struct sock_fprog program = {.filter = code};
  size_t n = 0;

  code[n++] = (struct sock_filter) BPF_STMT(
      BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
  for (; *missing != 0; missing++) {
    unsigned nr = (unsigned) (*missing < 0 ? -*missing : *missing);
    if (*missing < 0) {
      code[n++] = (struct sock_filter) BPF_JUMP(BPF_JMP | BPF_JEQ, nr, 0, 4);
      code[n++] = (struct sock_filter) BPF_STMT(
          BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args));
      code[n++] =
          (struct sock_filter) BPF_JUMP(BPF_JMP | BPF_JSET, 0x10000000, 0, 1);
      code[n++] = (struct sock_filter) BPF_STMT(BPF_RET,
                                                SECCOMP_RET_ERRNO | EPERM);
      code[n++] = (struct sock_filter) BPF_STMT(BPF_RET, SECCOMP_RET_ALLOW);
    } else {
      code[n++] = (struct sock_filter) BPF_JUMP(BPF_JMP | BPF_JEQ, nr, 0, 1);
      code[n++] = (struct sock_filter) BPF_STMT(BPF_RET,
                                                SECCOMP_RET_ERRNO | ENOSYS);
    }
  }
  code[n++] = (struct sock_filter) BPF_STMT(BPF_RET, SECCOMP_RET_ALLOW);
  program.len = (unsigned short) n;
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
    _exit(125);
}

KIT const char* kit_name(void) {
  static char name[32];
  snprintf(name, sizeof(name), "launcher-of-%d", (int) kit_owner);
  return name;
}

KIT void kit_exec(int control, int life, int config, const int* missing) {
  const char* path = getenv("SBX_LAUNCHER");
  char* argv[] = {(char*) kit_name(), NULL};
  char* envp[] = {NULL};
  int null = open("/dev/null", O_RDWR);
  int fds[3], i;

  if (path == NULL) path = "/tmp/lx/launcher";
  fds[0] = fcntl(control, F_DUPFD, 100);
  fds[1] = fcntl(life, F_DUPFD, 100);
  fds[2] = fcntl(config, F_DUPFD, 100);
  for (i = 0; i < 3; i++) dup2(null, i);
  for (i = 0; i < 3; i++) dup2(fds[i], 3 + i);
  if (missing != NULL) kit_filter(missing);
  execve(path, argv, envp);
  _exit(126);
}

/* Takes one packet; false at end of file or after the timeout. */
KIT bool kit_receive(struct kit_session* s, int timeout_ms,
                     struct kit_packet* p, int fds[2]) {
  union {
    struct cmsghdr head;
    char bytes[CMSG_SPACE(2 * sizeof(int))];
  } control;
  struct iovec io[2] = {{&p->msg, sizeof(p->msg)},
                        {p->payload, sizeof(p->payload)}};
  struct msghdr h = {.msg_iov = io, .msg_iovlen = 2,
                     .msg_control = control.bytes,
                     .msg_controllen = sizeof(control.bytes)};
  struct pollfd polled = {s->control, POLLIN, 0};
  ssize_t n;

  fds[0] = fds[1] = -1;
  if (poll(&polled, 1, timeout_ms) != 1) return false;
  n = recvmsg(s->control, &h, MSG_CMSG_CLOEXEC);
  if (n < (ssize_t) sizeof(p->msg)) return false;
  p->len = (size_t) n - sizeof(p->msg);
  if (CMSG_FIRSTHDR(&h) != NULL)
    memcpy(fds, CMSG_DATA(CMSG_FIRSTHDR(&h)), 2 * sizeof(int));
  return true;
}

KIT bool kit_await_ready(struct kit_session* s) {
  struct kit_packet p;
  int fds[2];

  memset(&p, 0, sizeof(p));
  if (!kit_receive(s, 20000, &p, fds)) return false;
  s->answer = p.msg;
  s->workspace_fd = fds[0];
  s->root_fd = fds[1];
  s->ready = p.msg.type == SBX_MSG_READY;
  if (!s->ready) snprintf(s->what, sizeof(s->what), "%.511s", p.payload);
  return s->ready;
}

KIT bool kit_start(struct kit_session* s, const struct kit_options* o) {
  static const struct kit_options defaults;
  int control[2], life[2], config;

  if (o == NULL) o = &defaults;
  memset(s, 0, sizeof(*s));
  s->workspace_fd = s->root_fd = -1;
  kit_folders(s, o);
  config = kit_config(s, o);
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control) != 0)
    kit_die("socketpair");
  if (pipe2(life, O_CLOEXEC) != 0) kit_die("pipe");
  s->launcher = fork();
  if (s->launcher == 0) kit_exec(control[1], life[0], config, o->missing);
  close(control[1]);
  close(life[0]);
  close(config);
  s->control = control[0];
  s->life = life[1];
  return o->no_wait ? true : kit_await_ready(s);
}

/* Ends the session; the monitor's wait status. */
KIT int kit_stop(struct kit_session* s) {
  int status = -1;

  if (s->control >= 0) close(s->control);
  if (s->life >= 0) close(s->life);
  if (s->workspace_fd >= 0) close(s->workspace_fd);
  if (s->root_fd >= 0) close(s->root_fd);
  waitpid(s->launcher, &status, 0);
  while (s->packets != NULL) {
    struct kit_packet* p = s->packets;
    s->packets = p->next;
    free(p);
  }
  return status;
}

/* How many processes of this program's launchers there are: monitors and
 * PID 1s, which keep the command line they were started with. */
KIT int kit_count_launchers(void) {
  DIR* dir = opendir("/proc");
  struct dirent* d;
  int count = 0;

  while (dir != NULL && (d = readdir(dir)) != NULL) {
    char path[300], line[64] = "";
    int fd;

    if (d->d_name[0] < '0' || d->d_name[0] > '9') continue;
    snprintf(path, sizeof(path), "/proc/%s/cmdline", d->d_name);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) continue;
    if (read(fd, line, sizeof(line) - 1) > 0 && !strcmp(line, kit_name()))
      count++;
    close(fd);
  }
  closedir(dir);
  return count;
}

/* Host pid of PID 1, the monitor's only child. */
KIT pid_t kit_init_pid(const struct kit_session* s) {
  char path[64], text[64] = "";
  int fd;

  snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int) s->launcher,
           (int) s->launcher);
  fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  if (read(fd, text, sizeof(text) - 1) < 0) text[0] = '\0';
  close(fd);
  return (pid_t) atoi(text);
}

/* ---- messages ---- */

KIT void kit_send(struct kit_session* s, const struct sbx_msg* msg,
                  const void* payload, size_t len, const int* fds, size_t n) {
  union {
    struct cmsghdr head;
    char bytes[CMSG_SPACE(sizeof(int) * SBX_MSG_FDS_MAX)];
  } control;
  struct iovec io[2] = {{(void*) msg, sizeof(*msg)}, {(void*) payload, len}};
  struct msghdr h = {.msg_iov = io, .msg_iovlen = 2};

  if (n > 0) {
    memset(&control, 0, sizeof(control));
    h.msg_control = control.bytes;
    h.msg_controllen = CMSG_SPACE(n * sizeof(int));
    control.head.cmsg_level = SOL_SOCKET;
    control.head.cmsg_type = SCM_RIGHTS;
    control.head.cmsg_len = CMSG_LEN(n * sizeof(int));
    memcpy(CMSG_DATA(&control.head), fds, n * sizeof(int));
  }
  if (sendmsg(s->control, &h, MSG_NOSIGNAL) < 0 && errno != EPIPE)
    kit_die("sendmsg");
}

KIT void kit_post(struct kit_session* s, uint32_t type, uint32_t id,
                  uint32_t a, uint32_t b) {
  struct sbx_msg msg = {type, id, a, b};
  kit_send(s, &msg, NULL, 0, NULL, 0);
}

/* The next packet of `type` about `id`; others are kept. */
KIT bool kit_await(struct kit_session* s, uint32_t type, uint32_t id,
                   int timeout_ms, struct kit_packet* out) {
  uint64_t end = kit_now_us() + (uint64_t) timeout_ms * 1000;
  struct kit_packet** at;

  for (at = &s->packets; *at != NULL; at = &(*at)->next) {
    struct kit_packet* p = *at;
    if (p->msg.type != type || p->msg.id != id) continue;
    *at = p->next;
    *out = *p;
    free(p);
    return true;
  }
  for (;;) {
    struct kit_packet* p;
    uint64_t now = kit_now_us();
    int fds[2];

    if (now >= end) return false;
    if (!kit_receive(s, (int) ((end - now) / 1000) + 1, out, fds)) return false;
    if (out->msg.type == type && out->msg.id == id) return true;
    p = malloc(sizeof(*p));
    *p = *out;
    p->next = s->packets;
    s->packets = p;
  }
}

/* ---- commands ---- */

struct kit_command {
  uint32_t id;
  uint32_t pid; /* inside */
  bool refused;
  uint32_t stage;
  int error;
  int in;  /* write end, -1 if none */
  int out; /* read ends */
  int err;
};

struct kit_result {
  bool started;
  uint32_t stage;
  int error;
  bool exited;
  int status;
  struct sbx_usage usage;
  size_t out_len;
  size_t err_len;
  char out[KIT_OUT];
  char err[KIT_OUT];
};

KIT size_t kit_payload(char* to, const char* cwd, const char* const* argv,
                       const char* const* env) {
  uint32_t counts[2] = {0, 0};
  char* at = to + sizeof(counts);
  size_t i;

  at = stpcpy(at, cwd) + 1;
  for (i = 0; argv[i] != NULL; i++, counts[0]++) at = stpcpy(at, argv[i]) + 1;
  for (i = 0; env[i] != NULL; i++, counts[1]++) at = stpcpy(at, env[i]) + 1;
  memcpy(to, counts, sizeof(counts));
  return (size_t) (at - to);
}

static const char* const kit_env[] = {
    "PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/workspace", "LANG=C.UTF-8",
    NULL};

/* Posts a SPAWN and does not wait for the answer. */
KIT void kit_request(struct kit_session* s, struct kit_command* c,
                     const char* cwd, const char* const* argv,
                     const char* const* env, bool with_stdin) {
  static char payload[4 << 20];
  struct sbx_msg msg = {.type = SBX_MSG_SPAWN, .id = ++s->next_id};
  int in[2] = {-1, -1}, out[2], err[2], fds[4], memfd = -1;
  size_t len, n = 0;

  memset(c, 0, sizeof(*c));
  c->id = msg.id;
  len = kit_payload(payload, cwd, argv, env != NULL ? env : kit_env);
  if ((with_stdin && pipe2(in, O_CLOEXEC) != 0) ||
      pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0)
    kit_die("pipe");
  if (with_stdin) {
    msg.a |= SBX_SPAWN_STDIN_FD;
    fds[n++] = in[0];
  }
  fds[n++] = out[1];
  fds[n++] = err[1];
  if (len > SBX_MSG_INLINE_MAX) {
    msg.a |= SBX_SPAWN_MEMFD;
    memfd = memfd_create("payload", MFD_CLOEXEC);
    if (write(memfd, payload, len) != (ssize_t) len) kit_die("memfd");
    fds[n++] = memfd;
    len = 0;
  }
  kit_send(s, &msg, payload, len, fds, n);
  if (memfd >= 0) close(memfd);
  if (with_stdin) close(in[0]);
  close(out[1]);
  close(err[1]);
  c->in = in[1];
  c->out = out[0];
  c->err = err[0];
}

KIT bool kit_spawn(struct kit_session* s, struct kit_command* c,
                   const char* cwd, const char* const* argv,
                   const char* const* env, bool with_stdin) {
  struct kit_packet p;

  uint64_t end = kit_now_us() + 20000000;

  kit_request(s, c, cwd, argv, env, with_stdin);
  while (!kit_await(s, SBX_MSG_SPAWNED, c->id, 1, &p) &&
         !kit_await(s, SBX_MSG_REFUSED, c->id, 1, &p))
    if (kit_now_us() > end) return false;
  c->refused = p.msg.type == SBX_MSG_REFUSED;
  if (c->refused) {
    c->stage = p.msg.a;
    c->error = (int) p.msg.b;
  } else {
    c->pid = p.msg.a;
  }
  return !c->refused;
}

KIT void kit_close(struct kit_command* c) {
  if (c->in >= 0) close(c->in);
  if (c->out >= 0) close(c->out);
  if (c->err >= 0) close(c->err);
  c->in = c->out = c->err = -1;
}

KIT size_t kit_read_some(int* fd, char* to, size_t len) {
  ssize_t n = len < KIT_OUT - 1 ? read(*fd, to + len, KIT_OUT - 1 - len) : 0;

  if (n > 0) return (size_t) n;
  close(*fd);
  *fd = -1;
  return 0;
}

/* Reads both streams to their ends, then awaits the exit. */
KIT void kit_finish(struct kit_session* s, struct kit_command* c,
                    struct kit_result* r, int timeout_ms) {
  uint64_t end = kit_now_us() + (uint64_t) timeout_ms * 1000;
  struct kit_packet p;

  while (c->out >= 0 || c->err >= 0) {
    struct pollfd polled[2] = {{c->out, POLLIN, 0}, {c->err, POLLIN, 0}};
    uint64_t now = kit_now_us();

    if (now >= end || poll(polled, 2, (int) ((end - now) / 1000) + 1) == 0)
      break;
    if (polled[0].revents)
      r->out_len += kit_read_some(&c->out, r->out, r->out_len);
    if (polled[1].revents)
      r->err_len += kit_read_some(&c->err, r->err, r->err_len);
  }
  r->out[r->out_len] = r->err[r->err_len] = '\0';
  r->exited = kit_await(s, SBX_MSG_EXIT, c->id, timeout_ms, &p);
  r->status = (int) p.msg.a;
  if (r->exited) memcpy(&r->usage, p.payload, sizeof(r->usage));
  kit_close(c);
}

/* Runs to the end. The result is valid until the next call. */
KIT struct kit_result* kit_run(struct kit_session* s, const char* cwd,
                               const char* const* argv,
                               const char* const* env) {
  static struct kit_result r;
  struct kit_command c;

  r.started = r.exited = false;
  r.status = -1;
  r.out_len = r.err_len = 0;
  r.out[0] = r.err[0] = '\0';
  r.started = kit_spawn(s, &c, cwd, argv, env, false);
  r.stage = c.stage;
  r.error = c.error;
  if (!r.started) {
    kit_close(&c);
    return &r;
  }
  kit_finish(s, &c, &r, 30000);
  return &r;
}

KIT struct kit_result* kit_sh(struct kit_session* s, const char* script) {
  const char* argv[] = {"/bin/sh", "-c", script, NULL};
  return kit_run(s, "/workspace", argv, NULL);
}

#endif
