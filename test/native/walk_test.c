/* Lists: readdir and walk. */
#include "files_help.h"

#include <sys/resource.h>
#include <sys/wait.h>

static void readdir_one_level(void** state) {
  struct scratch* s = *state;
  shell(s, "mkdir d d/e; printf 123 > d/f.txt; mkfifo d/p; ln -s e d/l;"
           "ln -s /etc d/out; ln -s nothing d/x; ln -s /workspace/d/e d/abs;"
           "touch d/.h d/Z");
  assert_list(s, REQUEST(.verb = SBX_FILE_READDIR, .path = "d"),
              ".h=0 Z=0 abs/@ e/ f.txt=3 l/@ out@ p| x@");
  assert_int_equal(simple(s, SBX_FILE_READDIR, "d/f.txt", 0),
                   SBX_E_NOT_DIRECTORY);
  assert_int_equal(simple(s, SBX_FILE_READDIR, "d/f.txt/x", 0),
                   SBX_E_NOT_DIRECTORY);
  assert_int_equal(simple(s, SBX_FILE_READDIR, "d/no", 0),
                   SBX_E_DIRECTORY_NOT_FOUND);
  assert_int_equal(simple(s, SBX_FILE_READDIR, "d/x", 0),
                   SBX_E_DIRECTORY_NOT_FOUND);
  assert_int_equal(simple(s, SBX_FILE_READDIR, "d/out", 0), SBX_E_ACCESS);
  assert_int_equal(simple(s, SBX_FILE_READDIR, "d/p", 0),
                   SBX_E_NOT_DIRECTORY);
}

static void depths(void** state) {
  struct scratch* s = *state;
  shell(s, "mkdir -p a/b/c; touch 0 a/1 a/b/2 a/b/c/3 a-z");
  struct sbx_file_request r = REQUEST(.verb = SBX_FILE_READDIR, .path = "");
  assert_list(s, r, "0=0 a/ a-z=0");
  r.flags = SBX_FILE_RECURSIVE;
  assert_list(s, r, "0=0 a/ a-z=0");
  r.max_depth = 1;
  assert_list(s, r, "0=0 a/ a/1=0 a/b/ a-z=0");
  r.max_depth = 100;
  assert_list(s, r, "0=0 a/ a/1=0 a/b/ a/b/2=0 a/b/c/ a/b/c/3=0 a-z=0");
  r.verb = SBX_FILE_WALK;
  r.max_depth = 1;
  assert_list(s, r, "0 a/ a-z");
  r.max_depth = 2;
  assert_list(s, r, "0 a/ a/1 a/b/ a-z");
  r.max_depth = 0;
  assert_list(s, r, "0 a/ a/1 a/b/ a/b/2 a/b/c/ a/b/c/3 a-z");
}

static void hidden_names(void** state) {
  struct scratch* s = *state;
  shell(s, "mkdir -p .git/x v; touch .a v/.b v/c");
  struct sbx_file_request r = REQUEST(.verb = SBX_FILE_WALK, .path = "");
  assert_list(s, r, "v/ v/c");
  r.flags = SBX_FILE_HIDDEN;
  assert_list(s, r, ".a .git/ .git/x/ v/ v/.b v/c");
}

static void extensions(void** state) {
  struct scratch* s = *state;
  const char* ts[] = {".ts", "md"};
  shell(s, "mkdir x.js; touch a.ts b.d.ts c.md .ts d.TS e ts; ln -s e l.js");
  assert_list(s, REQUEST(.verb = SBX_FILE_READDIR, .path = "",
                         .extensions = ts, .extensions_len = 2),
              "a.ts=0 b.d.ts=0 c.md=0 l.js@ x.js/");
}

static void links_are_not_followed(void** state) {
  struct scratch* s = *state;
  shell(s, "mkdir t; echo x > t/f; ln -s . t/a; ln -s . t/b; ln -s ../t t/c;"
           "ln -s y x; ln -s x y; ln -s /etc e");
  assert_list(s, REQUEST(.verb = SBX_FILE_READDIR, .path = "", .max_depth = 9,
                         .flags = SBX_FILE_RECURSIVE),
              "e@ t/ t/a/@ t/b/@ t/c/@ t/f=2 x@ y@");
}

static void odd_names_as_bytes(void** state) {
  struct scratch* s = *state;
  const char* names[] = {"a\nb", "-x", "\xff\xfe", "e\xcc\x81", "\xc3\xa9"};
  char longest[256];
  memset(longest, 'n', 255);
  longest[255] = 0;
  for (size_t i = 0; i < 5; i++) assert_int_equal(put(s, names[i], "1", 0), 0);
  assert_int_equal(put(s, longest, "1", 0), 0);
  assert_content(s, longest, "1");
  struct sbx_file_request r = REQUEST(.verb = SBX_FILE_WALK, .path = "");
  struct answer a = ask(s, &r);
  assert_int_equal(a.result.count, 6);
  free(a.result.data);
  longest[0] = 'm';
  char too_long[300] = "x";
  strcat(too_long, longest);
  assert_int_equal(put(s, too_long, "1", 0), SBX_E_INVALID_INPUT);
  assert_false(exists(s, too_long));
}

/* Deeper than a path can be long, with few descriptors. */
static void deep_tree(void** state) {
  struct scratch* s = *state;
  enum { DEPTH = 2500 };
  int dir = dup(s->fd);
  for (int i = 0; i < DEPTH; i++) {
    assert_int_equal(mkdirat(dir, "abc", 0755), 0);
    assert_int_equal(mkdirat(dir, "z", 0755), 0);
    int next = openat(dir, "abc", O_PATH);
    close(dir);
    dir = next;
  }
  close(dir);
  struct rlimit old, few = {80, 80};
  getrlimit(RLIMIT_NOFILE, &old);
  few.rlim_max = old.rlim_max;
  setrlimit(RLIMIT_NOFILE, &few);
  struct sbx_file_request r = REQUEST(.verb = SBX_FILE_WALK, .path = "");
  struct answer a = ask(s, &r);
  assert_int_equal(a.code, 0);
  assert_int_equal(a.result.count, 2 * DEPTH);
  free(a.result.data);
  assert_int_equal(pair(s, SBX_FILE_COPY, "abc", "copy", SBX_FILE_RECURSIVE),
                   0);
  r.path = "copy";
  a = ask(s, &r);
  assert_int_equal(a.result.count, 2 * (DEPTH - 1));
  free(a.result.data);
  assert_int_equal(simple(s, SBX_FILE_RMDIR, "copy", SBX_FILE_RECURSIVE), 0);
  setrlimit(RLIMIT_NOFILE, &old);
}

static void unreadable_folders(void** state) {
  struct scratch* s = *state;
  if (geteuid() == 0) s->root->fsuid = s->root->fsgid = 65534;
  shell(s, "mkdir -p t/ok t/locked/in; touch t/ok/a; chmod 000 t/locked");
  assert_list(s, REQUEST(.verb = SBX_FILE_READDIR, .path = "t",
                         .max_depth = 100, .flags = SBX_FILE_RECURSIVE),
              "locked/ ok/ ok/a=0");
  assert_int_equal(simple(s, SBX_FILE_READDIR, "t/locked", 0), SBX_E_ACCESS);
  s->root->fsuid = -1;
  shell(s, "chmod 755 t/locked");
}

static void sparse_size(void** state) {
  struct scratch* s = *state;
  shell(s, "truncate -s 5368709123 big");
  assert_list(s, REQUEST(.verb = SBX_FILE_READDIR, .path = ""),
              "big=5368709123");
  assert_true(stat_of(s, "big", 0).size == 5368709123);
  assert_int_equal(simple(s, SBX_FILE_READ, "big", 0), SBX_E_IO);
}

/* Names come and go while the tree is listed. */
static void vanishing_names(void** state) {
  struct scratch* s = *state;
  pid_t pid = fork();
  if (pid == 0) {
    if (chdir(s->path) != 0) _exit(1);
    execl("/bin/sh", "sh", "-c",
          "for i in $(seq 40); do mkdir -p v/$i; touch v/$i/f; "
          "rm -rf v/$((i / 2)); done", NULL);
    _exit(127);
  }
  int status = -1;
  while (waitpid(pid, &status, WNOHANG) == 0) {
    int code = code_of(s, REQUEST(.verb = SBX_FILE_READDIR, .path = "",
                                  .max_depth = 9,
                                  .flags = SBX_FILE_RECURSIVE));
    assert_int_equal(code, 0);
    usleep(2000);
  }
  assert_int_equal(status, 0);
}

#define T(f) cmocka_unit_test_setup_teardown(f, scratch_open, scratch_close)

int main(void) {
  const struct CMUnitTest tests[] = {
      T(readdir_one_level), T(depths),     T(hidden_names),
      T(extensions),        T(links_are_not_followed),
      T(odd_names_as_bytes), T(deep_tree), T(unreadable_folders),
      T(sparse_size),       T(vanishing_names),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
