/* Removal of hostile trees: deep, closed, full of links and odd names. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "../../native/remove.h"

static char home[64];
static int home_fd;

static int make_home(void** state) {
  (void) state;
  strcpy(home, "/tmp/sbx-remove-XXXXXX");
  if (mkdtemp(home) == NULL) return -1;
  home_fd = open(home, O_PATH | O_DIRECTORY | O_CLOEXEC);
  return home_fd < 0 ? -1 : mkdirat(home_fd, "top", 0700);
}

static int drop_home(void** state) {
  (void) state;
  close(home_fd);
  return rmdir(home); /* everything in it has been removed */
}

static void touch(int dir, const char* name) {
  int fd = openat(dir, name, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  assert_true(fd >= 0);
  close(fd);
}

static int enter(int dir, const char* name) {
  int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  assert_true(fd >= 0);
  return fd;
}

static bool is_there(int dir, const char* name) {
  return faccessat(dir, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static void make_deep(int dir, int depth) {
  int fd = dup(dir), next, i;

  for (i = 0; i < depth; i++) {
    assert_int_equal(mkdirat(fd, "d", 0700), 0);
    if (i % 100 == 0) touch(fd, "f");
    if (i % 100 == 0) assert_int_equal(mkdirat(fd, "other", 0), 0);
    next = enter(fd, "d");
    close(fd);
    fd = next;
  }
  close(fd);
}

static void test_deep_with_few_descriptors(void** state) {
  struct rlimit old, few;
  int top = enter(home_fd, "top");

  (void) state;
  make_deep(top, 6000);
  close(top);
  getrlimit(RLIMIT_NOFILE, &old);
  few = old;
  few.rlim_cur = 80;
  setrlimit(RLIMIT_NOFILE, &few);
  assert_int_equal(sbx_remove_tree(home_fd, "top"), 0);
  setrlimit(RLIMIT_NOFILE, &old);
  assert_false(is_there(home_fd, "top"));
}

static void test_closed_folders(void** state) {
  int top = enter(home_fd, "top"), fd;

  (void) state;
  assert_int_equal(mkdirat(top, "a", 0700), 0);
  fd = enter(top, "a");
  touch(fd, "x");
  assert_int_equal(mkdirat(fd, "b", 0700), 0);
  assert_int_equal(mkdirat(fd, "b/c", 0), 0);
  assert_int_equal(fchmodat(fd, "b", 0500, 0), 0);
  assert_int_equal(fchmod(fd, 0), 0);
  close(fd);
  assert_int_equal(fchmod(top, 0), 0);
  close(top);
  assert_int_equal(sbx_remove_tree(home_fd, "top"), 0);
}

static void test_links_are_not_followed(void** state) {
  int top = enter(home_fd, "top");

  (void) state;
  assert_int_equal(mkdirat(home_fd, "kept", 0755), 0);
  assert_int_equal(mkdirat(home_fd, "kept/inner", 0500), 0);
  touch(home_fd, "kept/file");
  assert_int_equal(symlinkat("../kept", top, "link"), 0);
  assert_int_equal(symlinkat("/", top, "slash"), 0);
  assert_int_equal(symlinkat(".", top, "self"), 0);
  close(top);
  assert_int_equal(sbx_remove_tree(home_fd, "top"), 0);
  assert_true(is_there(home_fd, "kept/file"));
  assert_int_equal(symlinkat("kept", home_fd, "top"), 0);
  assert_int_equal(sbx_remove_tree(home_fd, "top"), 0);
  assert_true(is_there(home_fd, "kept/inner"));
  assert_int_equal(sbx_remove_tree(home_fd, "kept"), 0);
}

static void test_names(void** state) {
  static const char* const names[] = {"\n", "...", "a b", "\xff\xfe", "-rf",
                                      ".sbx-rm-0", ".sbx-rm-1"};
  int top = enter(home_fd, "top");
  char longest[256];
  size_t i;

  (void) state;
  memset(longest, 'x', 255);
  longest[255] = '\0';
  assert_int_equal(mkdirat(top, longest, 0700), 0);
  for (i = 0; i < sizeof(names) / sizeof(*names); i++) touch(top, names[i]);
  assert_int_equal(mkdirat(top, ".sbx-rm-2", 0700), 0);
  touch(top, ".sbx-rm-2/full");
  assert_int_equal(mkfifoat(top, "fifo", 0600), 0);
  make_deep(top, 300); /* moves folders up beside those names */
  close(top);
  assert_int_equal(sbx_remove_tree(home_fd, "top"), 0);
}

static void test_what_is_no_tree(void** state) {
  (void) state;
  touch(home_fd, "file");
  assert_int_equal(sbx_remove_tree(home_fd, "file"), 0);
  assert_false(is_there(home_fd, "file"));
  assert_int_equal(sbx_remove_tree(home_fd, "file"), -ENOENT);
  assert_int_equal(sbx_remove_tree(home_fd, ""), -EINVAL);
  assert_int_equal(sbx_remove_tree(home_fd, "."), -EINVAL);
  assert_int_equal(sbx_remove_tree(home_fd, ".."), -EINVAL);
  assert_int_equal(sbx_remove_tree(home_fd, "top/x"), -EINVAL);
  assert_int_equal(sbx_remove_tree(home_fd, "top"), 0);
}

/* Somebody goes on filling the tree: it ends, and never leaves the tree. */
static void test_while_it_is_being_filled(void** state) {
  pid_t pid = fork();
  int status, rc;

  (void) state;
  if (pid == 0) {
    char path[128];
    unsigned i;
    for (i = 0;; i++) {
      snprintf(path, sizeof(path), "%s/top/n%u", home, i % 500);
      mkdir(path, 0700);
      snprintf(path, sizeof(path), "%s/top/n%u/m", home, i % 500);
      close(open(path, O_CREAT | O_WRONLY, 0600));
    }
  }
  usleep(20000);
  rc = sbx_remove_tree(home_fd, "top");
  assert_true(rc == 0 || rc == -ENOTEMPTY);
  kill(pid, SIGKILL);
  waitpid(pid, &status, 0);
  rc = sbx_remove_tree(home_fd, "top");
  assert_true(rc == 0 || rc == -ENOENT);
}

/* In a child with a mount namespace of its own. */
static int remove_beside_a_mount(void) {
  char path[128];
  int fd, rc;

  if (unshare(CLONE_NEWNS) != 0) return 77;
  if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) return 77;
  snprintf(path, sizeof(path), "%s/top/mnt", home);
  if (mkdir(path, 0700) != 0 || mount("x", path, "tmpfs", 0, NULL) != 0)
    return 77;
  snprintf(path, sizeof(path), "%s/top/mnt/kept", home);
  close(open(path, O_CREAT | O_WRONLY, 0600));
  snprintf(path, sizeof(path), "%s/top/gone", home);
  close(open(path, O_CREAT | O_WRONLY, 0600));
  fd = open(home, O_PATH | O_DIRECTORY);
  rc = sbx_remove_tree(fd, "top");
  if (rc != -EBUSY || !is_there(fd, "top/mnt/kept")) return 1;
  return is_there(fd, "top/gone") ? 2 : 0;
}

static void test_mounts_are_left_alone(void** state) {
  pid_t pid = fork();
  int status;

  (void) state;
  if (pid == 0) _exit(remove_beside_a_mount());
  waitpid(pid, &status, 0);
  assert_true(WIFEXITED(status));
  assert_int_equal(sbx_remove_tree(home_fd, "top"), 0);
  if (WEXITSTATUS(status) == 77) skip(); /* not root */
  assert_int_equal(WEXITSTATUS(status), 0);
}

#define IN_HOME(f) cmocka_unit_test_setup_teardown(f, make_home, drop_home)

int main(void) {
  const struct CMUnitTest tests[] = {
      IN_HOME(test_deep_with_few_descriptors),
      IN_HOME(test_closed_folders),
      IN_HOME(test_links_are_not_followed),
      IN_HOME(test_names),
      IN_HOME(test_what_is_no_tree),
      IN_HOME(test_while_it_is_being_filled),
      IN_HOME(test_mounts_are_left_alone),
  };

  return cmocka_run_group_tests(tests, NULL, NULL);
}
