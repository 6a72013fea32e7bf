/* Starts commands. Everything that can be computed is computed before the
 * vfork: the child shares PID 1's memory until its exec and makes system calls
 * only.
 */
#include "sys.h" /* first: feature macros */

#include "spawn.h"

#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "terminal.h"

#define SBX__DEFAULT_PATH "/usr/local/bin:/usr/bin:/bin"

enum { SBX__STACK_SIZE = 64 * 1024 };

/* What the child needs, and what it says when it fails. */
struct sbx__child {
  const char* cwd;
  char** argv;
  char** envp;
  char** shell;       /* room for /bin/sh and the path before argv[1...] */
  const char** paths; /* candidates for the program, ended by NULL */
  const int* fds;
  const struct sbx_limits* limits;
  bool terminal;
  uint32_t stage;
  int error;
};

int sbx_spawner_init(struct sbx_spawner* s) {
  void* stack = mmap(NULL, SBX__STACK_SIZE, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);

  if (stack == MAP_FAILED) return -1;
  s->stack = stack;
  return 0;
}

/* ---- the child ---- */

static void sbx__limit(const struct sbx_limits* l) {
  struct rlimit files = {l->files_soft, l->files_hard};
  struct rlimit processes = {l->processes, l->processes};
  struct rlimit size = {l->file_size, l->file_size};
  struct rlimit data = {l->data, l->data};

  if (l->file_size > 0) setrlimit(RLIMIT_FSIZE, &size);
  if (l->data > 0) setrlimit(RLIMIT_DATA, &data);
  if (l->files_hard > 0) setrlimit(RLIMIT_NOFILE, &files);
  if (l->apply) setrlimit(RLIMIT_NPROC, &processes);
}

/* As execvp does: a file without a header is a script. */
static void sbx__exec_one(struct sbx__child* c, const char* path) {
  execve(path, c->argv, c->envp);
  if (errno != ENOEXEC) return;
  c->shell[1] = (char*) path;
  execve(c->shell[0], c->shell, c->envp);
}

static void sbx__exec(struct sbx__child* c) {
  bool denied = false;
  size_t i;

  errno = ENOENT;
  for (i = 0; c->paths[i] != NULL; i++) {
    /* An execve that finds nothing takes several times as long. */
    if (access(c->paths[i], F_OK) == 0) sbx__exec_one(c, c->paths[i]);
    if (errno == EACCES) denied = true;
    else if (errno != ENOENT && errno != ENOTDIR) return;
  }
  if (denied) errno = EACCES;
}

static int sbx__child(void* arg) {
  struct sbx__child* c = arg;
  sigset_t none;
  int i;

  setsid();
  c->stage = SBX_STAGE_CWD;
  if (chdir(c->cwd) == 0) {
    c->stage = SBX_STAGE_FORK;
    for (i = 0; i < 3; i++)
      if (dup2(c->fds[i], i) < 0) break;
    if (i == 3) {
      /* All others are close-on-exec as well; this is the second lock. */
      syscall(SBX_SYS_CLOSE_RANGE, 3u, ~0u, 0);
      if (c->terminal) sbx_terminal_control();
      sbx__limit(c->limits);
      sigemptyset(&none);
      sigprocmask(SIG_SETMASK, &none, NULL);
      c->stage = SBX_STAGE_EXEC;
      sbx__exec(c);
    }
  }
  c->error = errno;
  _exit(127);
}

/* ---- before the child ---- */

struct sbx__reader {
  char* at;
  char* end;
};

static char* sbx__string(struct sbx__reader* r) {
  char* s = r->at;
  char* nul = s < r->end ? memchr(s, '\0', (size_t) (r->end - s)) : NULL;

  if (nul == NULL) return NULL;
  r->at = nul + 1;
  return s;
}

static bool sbx__strings(struct sbx__reader* r, char** out, uint32_t count) {
  uint32_t i;

  for (i = 0; i < count; i++)
    if ((out[i] = sbx__string(r)) == NULL) return false;
  out[count] = NULL;
  return true;
}

static const char* sbx__path_of(char** envp) {
  for (; *envp != NULL; envp++)
    if (strncmp(*envp, "PATH=", 5) == 0) return *envp + 5;
  return SBX__DEFAULT_PATH;
}

static size_t sbx__count_colons(const char* s) {
  size_t n = 0;

  for (; *s != '\0'; s++) n += *s == ':';
  return n;
}

/* An empty part is the working directory, which the child is in by then. */
static void sbx__join_paths(const char* path, const char* name,
                            const char** out, char* text) {
  size_t name_len = strlen(name) + 1;

  for (;;) {
    size_t len = strcspn(path, ":");

    *out++ = text;
    memcpy(text, path, len);
    text += len;
    if (len > 0) *text++ = '/';
    memcpy(text, name, name_len);
    text += name_len;
    if (path[len] == '\0') break;
    path += len + 1;
  }
  *out = NULL;
}

static char* sbx__arena(struct sbx_spawner* s, size_t size) {
  if (size > s->arena_size) {
    char* more = realloc(s->arena, size);
    if (more == NULL) return NULL;
    s->arena = more;
    s->arena_size = size;
  }
  return s->arena;
}

/* argv, envp and the vector for /bin/sh live in one block, then come the
 * candidates. The block may move when the candidates are added. */
static int sbx__vectors(struct sbx_spawner* s, struct sbx__child* c,
                        struct sbx__reader* r, uint32_t argc, uint32_t envc) {
  size_t fixed = ((size_t) argc * 2 + envc + 4) * sizeof(char*);
  size_t parts, name, room;
  const char* path;
  char** block = (void*) sbx__arena(s, fixed);

  if (block == NULL) return -1;
  errno = EINVAL;
  if (!sbx__strings(r, block, argc)) return -1;
  if (!sbx__strings(r, block + argc + 1, envc)) return -1;
  if (r->at != r->end) return -1;

  path = sbx__path_of(block + argc + 1);
  parts = sbx__count_colons(path) + 1;
  name = strlen(block[0]) + 2;
  room = (parts + 1) * sizeof(char*) + strlen(path) + parts * name;
  block = (void*) sbx__arena(s, fixed + room);
  if (block == NULL) return -1;

  c->argv = block;
  c->envp = block + argc + 1;
  c->shell = block + argc + 1 + envc + 1;
  c->paths = (const char**) (block + 2 * (size_t) argc + envc + 4);
  c->shell[0] = (char*) "/bin/sh";
  memcpy(c->shell + 2, c->argv + 1, argc * sizeof(char*));
  if (c->argv[0][0] == '\0') {
    c->paths[0] = NULL;
  } else if (strchr(c->argv[0], '/') != NULL) {
    c->paths[0] = c->argv[0];
    c->paths[1] = NULL;
  } else {
    sbx__join_paths(path, c->argv[0], c->paths,
                    (char*) (c->paths + parts + 1));
  }
  return 0;
}

static int sbx__parse(struct sbx_spawner* s, struct sbx__child* c,
                      char* payload, size_t len) {
  struct sbx__reader r = {payload, payload + len};
  uint32_t counts[2];

  errno = EINVAL;
  if (len < sizeof(counts)) return -1;
  memcpy(counts, payload, sizeof(counts));
  r.at += sizeof(counts);
  /* Each string takes a byte at least. */
  if (counts[0] == 0 || counts[0] > len || counts[1] > len) return -1;
  c->cwd = sbx__string(&r);
  if (c->cwd == NULL) return -1;
  return sbx__vectors(s, c, &r, counts[0], counts[1]);
}

/* Returns once the child has executed its program or is dead. */
static pid_t sbx__clone_here(struct sbx_spawner* s, struct sbx__child* c) {
  int flags = CLONE_VM | CLONE_VFORK | SIGCHLD;
  char* stack = s->stack + SBX__STACK_SIZE;
  pid_t pid;

  if (s->supervisor == NULL) return clone(sbx__child, stack, flags, c);
  sbx_supervisor_watch(s->supervisor);
  pid = clone(sbx__child, stack, flags | CLONE_PARENT_SETTID, c,
              &s->supervisor->child);
  sbx_supervisor_unwatch(s->supervisor);
  return pid;
}

struct sbx__birth {
  struct sbx_spawner* spawner;
  struct sbx__child* child;
};

static int sbx__in_nursery(void* arg) {
  struct sbx__birth* b = arg;

  return (int) sbx__clone_here(b->spawner, b->child);
}

static pid_t sbx__clone(struct sbx_spawner* s, struct sbx__child* c) {
  struct sbx__birth b = {s, c};

  if (s->nursery == NULL) return sbx__clone_here(s, c);
  return (pid_t) sbx_nursery_run(s->nursery, sbx__in_nursery, &b);
}

pid_t sbx_spawn(struct sbx_spawner* s, char* payload, size_t len,
                const int fds[3], uint32_t* stage) {
  struct sbx__child c = {
      .fds = fds, .limits = &s->limits, .terminal = s->terminal};
  pid_t pid;

  *stage = SBX_STAGE_REQUEST;
  if (sbx__parse(s, &c, payload, len) != 0) return -1;
  *stage = SBX_STAGE_FORK;
  pid = sbx__clone(s, &c);
  if (pid < 0) return -1;
  if (c.error == 0) return pid;
  while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {
  }
  *stage = c.stage;
  errno = c.error;
  return -1;
}
