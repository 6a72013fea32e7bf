/* Runs the kit's commands under a shell of this machine, as a service would in
 * its sandbox, on a scratch folder. */
#ifndef KIT_HELP_H
#define KIT_HELP_H

#include "files_help.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>

#include "providers/kit/kit.h"

struct shell {
  const char* name;
  bool busybox; /* its tools as well */
};

static const struct shell shells[] = {
    {"dash", false}, {"bash", false}, {"busybox", true}};
enum { SHELLS = 3 };

struct kit {
  char path[64];    /* the workspace */
  char folder[96];  /* the kit's own */
  char sh[96];      /* the shell, as "sh" */
  char tools[128];
  struct sbx_kit_place place;
  const struct shell* shell;
  size_t piece;     /* bytes fed at once */
  unsigned runs, uploads, downloads;
};

struct output {
  char* data;
  size_t len;
  size_t size;
};

static inline void output_add(struct output* o, const char* bytes, size_t n) {
  if (o->len + n >= o->size) {
    o->size = o->size * 2 + n + 64;
    o->data = realloc(o->data, o->size);
  }
  memcpy(o->data + o->len, bytes, n);
  o->len += n;
  o->data[o->len] = 0;
}

static inline void run_child(const struct kit* k, const char* const* argv,
                             size_t argc, int out, int err) {
  int null = open("/dev/null", O_RDONLY);
  (void)argc;
  dup2(null, 0);
  dup2(out, 1);
  dup2(err, 2);
  for (int fd = 3; fd < 64; fd++) close(fd);
  execv(k->sh, (char* const*)argv);
  _exit(127);
}

static inline int run_wait(const struct kit* k, const char* const* argv,
                           size_t argc, struct output* out,
                           struct output* err) {
  int a[2], b[2], status;
  char bytes[65536];
  assert_int_equal(pipe(a), 0);
  assert_int_equal(pipe(b), 0);
  pid_t pid = fork();
  if (pid == 0) run_child(k, argv, argc, a[1], b[1]);
  close(a[1]);
  close(b[1]);
  struct pollfd fds[2] = {{a[0], POLLIN, 0}, {b[0], POLLIN, 0}};
  while (fds[0].fd >= 0 || fds[1].fd >= 0) {
    poll(fds, 2, -1);
    for (int i = 0; i < 2; i++) {
      if (fds[i].fd < 0 || !fds[i].revents) continue;
      ssize_t got = read(fds[i].fd, bytes, sizeof(bytes));
      if (got > 0) output_add(i ? err : out, bytes, (size_t)got);
      else fds[i].fd = -1;
    }
  }
  close(a[0]);
  close(b[0]);
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static inline void feed_all(const struct kit* k, struct sbx_kit_call* call,
                            const char* bytes, size_t len) {
  size_t step = k->piece ? k->piece : len;
  for (size_t at = 0; at < len; at += step)
    if (sbx_kit_call_feed(call, bytes + at, len - at < step ? len - at : step))
      return;
}

static inline void step_run(struct kit* k, struct sbx_kit_call* call,
                            const struct sbx_kit_next* next) {
  struct output out = {0}, err = {0};
  int code = run_wait(k, next->argv, next->argc, &out, &err);
  if (getenv("SBX_SHOW") && err.len) fprintf(stderr, "%s\n", err.data);
  k->runs++;
  feed_all(k, call, out.data, out.len);
  sbx_kit_call_ran(call, code, err.data ? err.data : "", err.len);
  free(out.data);
  free(err.data);
}

static inline void step_upload(struct kit* k, struct sbx_kit_call* call,
                               const struct sbx_kit_next* next) {
  mkdir(k->folder, 0700);
  int fd = open(next->path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
  assert_true(fd >= 0);
  assert_int_equal(write(fd, next->data, next->data_len), next->data_len);
  close(fd);
  k->uploads++;
  sbx_kit_call_moved(call, NULL);
}

static inline void step_download(struct kit* k, struct sbx_kit_call* call,
                                 const struct sbx_kit_next* next) {
  char bytes[65536];
  ssize_t n;
  int fd = open(next->path, O_RDONLY);
  assert_true(fd >= 0);
  while ((n = read(fd, bytes, sizeof(bytes))) > 0)
    if (sbx_kit_call_feed(call, bytes, (size_t)n)) break;
  close(fd);
  k->downloads++;
  sbx_kit_call_moved(call, NULL);
}

static inline struct answer kit_ask(struct kit* k,
                                    const struct sbx_file_request* request) {
  struct answer a = {.called = true};
  struct sbx_kit_call* call;
  struct sbx_kit_next next;
  assert_int_equal(sbx_kit_call_new(&k->place, request, &call, &a.error), 0);
  for (;;) {
    sbx_kit_call_next(call, &next);
    if (next.step == SBX_KIT_DONE) break;
    if (next.step == SBX_KIT_RUN) step_run(k, call, &next);
    else if (next.step == SBX_KIT_UPLOAD) step_upload(k, call, &next);
    else step_download(k, call, &next);
  }
  a.code = sbx_kit_call_result(call, &a.result, &a.error);
  if (a.code == 0) a.error.code = 0;
  assert_int_equal(a.code, a.error.code);
  if (a.code && getenv("SBX_SHOW")) fprintf(stderr, "%s\n", a.error.message);
  sbx_kit_call_free(call);
  return a;
}

static inline int kit_code(struct kit* k, struct sbx_file_request request) {
  struct answer a = kit_ask(k, &request);
  free(a.result.data);
  return a.code;
}

static inline int kit_put(struct kit* k, const char* path, const char* text,
                          unsigned flags) {
  return kit_code(k, REQUEST(.verb = SBX_FILE_WRITE, .path = path,
                             .data = text, .data_len = strlen(text),
                             .flags = flags));
}

static inline int kit_simple(struct kit* k, enum sbx_file_verb verb,
                             const char* path, unsigned flags) {
  return kit_code(k, REQUEST(.verb = verb, .path = path, .flags = flags));
}

static inline int kit_pair(struct kit* k, enum sbx_file_verb verb,
                           const char* path, const char* to, unsigned flags) {
  return kit_code(k, REQUEST(.verb = verb, .path = path, .to = to,
                             .flags = flags));
}

static inline bool kit_exists(struct kit* k, const char* path) {
  struct sbx_file_request r = REQUEST(.verb = SBX_FILE_EXISTS, .path = path);
  struct answer a = kit_ask(k, &r);
  assert_int_equal(a.code, 0);
  return a.result.exists;
}

static inline struct sbx_file_stat kit_stat(struct kit* k, const char* path,
                                            unsigned flags) {
  struct sbx_file_request r = REQUEST(.verb = SBX_FILE_STAT, .path = path,
                                      .flags = flags);
  struct answer a = kit_ask(k, &r);
  assert_int_equal(a.code, 0);
  return a.result.stat;
}

static inline void kit_content(struct kit* k, const char* path,
                               const char* text) {
  struct sbx_file_request r = REQUEST(.verb = SBX_FILE_READ, .path = path);
  struct answer a = kit_ask(k, &r);
  assert_int_equal(a.code, 0);
  assert_int_equal(a.result.len, strlen(text));
  assert_memory_equal(a.result.data, text, a.result.len);
  free(a.result.data);
}

static inline void kit_list(struct kit* k, struct sbx_file_request request,
                            const char* text) {
  struct answer a = kit_ask(k, &request);
  assert_int_equal(a.code, 0);
  char* found = list_text(&a.result);
  assert_string_equal(found, text);
  free(found);
  free(a.result.data);
}

/* As files_help.h's shell, in the workspace. */
static inline void kit_shell(struct kit* k, const char* script) {
  char line[8192];
  snprintf(line, sizeof(line), "cd '%s' && umask 022 && { %s\n}", k->path,
           script);
  if (system(line) != 0) fail_msg("%s: %s", k->shell->name, script);
}

/* A folder with the shell as sh; for busybox with all that it can be. */
static inline void kit_tools(struct kit* k) {
  char line[512];
  const char* all = k->shell->busybox ? "$($b --list)" : "sh";
  snprintf(k->sh, sizeof(k->sh), "%s.bin/sh", k->path);
  snprintf(k->tools, sizeof(k->tools), "%s.bin%s", k->path,
           k->shell->busybox ? "" : ":/usr/bin:/bin");
  snprintf(line, sizeof(line),
           "mkdir '%s.bin' && b=$(command -v %s) && for a in %s; "
           "do ln -s $b '%s.bin'/$a; done", k->path, k->shell->name, all,
           k->path);
  assert_int_equal(system(line), 0);
  k->place.tools = k->tools;
}

static inline void kit_open(struct kit* k, size_t shell) {
  memset(k, 0, sizeof(*k));
  strcpy(k->path, "/tmp/sbx-kit-XXXXXX");
  assert_non_null(mkdtemp(k->path));
  assert_int_equal(chmod(k->path, 0755), 0);
  snprintf(k->folder, sizeof(k->folder), "%s.own", k->path);
  k->shell = &shells[shell];
  k->place = (struct sbx_kit_place){.root = k->path, .inside = k->path,
                                    .folder = k->folder,
                                    .binary_output = true};
  kit_tools(k);
}

/* Helpers of the last command may still write into the private folder. */
static inline void kit_close(struct kit* k) {
  char line[640];
  snprintf(line, sizeof(line),
           "for i in $(seq 100); do chmod -R u+rwx '%s' 2>/dev/null; "
           "rm -rf '%s' '%s.out' '%s' '%s.bin' 2>/dev/null && exit; "
           "sleep 0.1; done; exit 1",
           k->path, k->path, k->path, k->folder, k->path);
  assert_int_equal(system(line), 0);
}

typedef void (*kit_body)(struct kit* k);

static inline void each_shell(kit_body body) {
  const char* only = getenv("SBX_SHELL");
  for (size_t i = 0; i < SHELLS; i++) {
    struct kit k;
    if (only && strcmp(only, shells[i].name) != 0) continue;
    kit_open(&k, i);
    body(&k);
    kit_close(&k);
  }
}

/* The test `name`: name_body under each shell. */
#define EACH(name)                 \
  static void name(void** state) { \
    (void)state;                   \
    each_shell(name##_body);       \
  }

#endif
