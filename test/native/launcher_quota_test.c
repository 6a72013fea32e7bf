/* Finding out how much a folder takes, in this process. */
#include "launcher_kit.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "../../native/launcher/quota.c"
#include "../../native/remove.h"

enum { KB = 1024, MB = 1024 * 1024 };

struct room {
  char path[64];
  int fd;
  struct sbx_quota* quota;
};

static void room_open(struct room* r, uint64_t limit) {
  strcpy(r->path, "/tmp/sbx-quota-test-XXXXXX");
  assert_non_null(mkdtemp(r->path));
  r->fd = open(r->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  r->quota = sbx_quota_new(dup(r->fd), limit);
  assert_non_null(r->quota);
}

static void room_close(struct room* r) {
  int tmp = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

  sbx_quota_free(r->quota);
  close(r->fd);
  assert_int_equal(sbx_remove_tree(tmp, strrchr(r->path, '/') + 1), 0);
  close(tmp);
}

static void fill(int dir, const char* name, size_t bytes) {
  static char text[64 * KB];
  int fd = openat(dir, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

  memset(text, 'x', sizeof(text));
  assert_true(fd >= 0);
  for (; bytes > 0; bytes -= bytes < sizeof(text) ? bytes : sizeof(text))
    assert_true(write(fd, text, bytes < sizeof(text) ? bytes : sizeof(text)) >
                0);
  fsync(fd); /* blocks are counted once they are given out */
  close(fd);
}

/* One whole walk. */
static bool look(struct sbx_quota* q) {
  bool over = false;

  q->next_walk = 0;
  do {
    over = sbx_quota_step(q) || over;
  } while (q->walking);
  return over;
}

static void only_growth_counts(void** state) {
  struct room r;

  (void) state;
  room_open(&r, MB);
  assert_false(look(r.quota));
  fill(r.fd, "a", 512 * KB);
  assert_false(look(r.quota));
  fill(r.fd, "b", 1024 * KB);
  assert_true(look(r.quota));
  assert_true(sbx_quota_used(r.quota) >= 1536 * KB);
  assert_false(look(r.quota)); /* it has been said */
  fill(r.fd, "c", 512 * KB);
  assert_true(look(r.quota));
  assert_int_equal(unlinkat(r.fd, "c", 0), 0);
  assert_false(look(r.quota)); /* cleaning up is allowed */
  assert_int_equal(unlinkat(r.fd, "b", 0), 0);
  assert_false(look(r.quota));
  fill(r.fd, "b", 1024 * KB);
  assert_true(look(r.quota));
  room_close(&r);
}

static void what_was_there_is_no_fault(void** state) {
  struct room r;

  (void) state;
  room_open(&r, MB);
  fill(r.fd, "old", 3 * MB);
  assert_false(look(r.quota));
  fill(r.fd, "new", 512 * KB);
  assert_true(look(r.quota));
  room_close(&r);
}

static void names_of_one_file_count_once(void** state) {
  struct room r;
  char name[16];
  int i;

  (void) state;
  room_open(&r, MB);
  fill(r.fd, "f", 512 * KB);
  for (i = 0; i < 20; i++) {
    snprintf(name, sizeof(name), "l%d", i);
    assert_int_equal(linkat(r.fd, "f", r.fd, name, 0), 0);
  }
  look(r.quota);
  assert_true(sbx_quota_used(r.quota) <= 640 * KB);
  assert_true(sbx_quota_used(r.quota) >= 500 * KB);
  room_close(&r);
}

static void a_sparse_file_takes_little(void** state) {
  struct room r;
  int fd;

  (void) state;
  room_open(&r, MB);
  fd = openat(r.fd, "hole", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  assert_int_equal(ftruncate(fd, (off_t) 1 << 40), 0);
  close(fd);
  assert_false(look(r.quota));
  room_close(&r);
}

/* Far more levels than a path or the descriptors would hold. */
static void a_deep_tree(void** state) {
  struct room r;
  int dir, i;

  (void) state;
  room_open(&r, MB);
  dir = dup(r.fd);
  for (i = 0; i < 3000; i++) {
    int next;
    assert_int_equal(mkdirat(dir, "d", 0700), 0);
    next = openat(dir, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    close(dir);
    dir = next;
  }
  fill(dir, "bottom", 512 * KB);
  close(dir);
  fill(r.fd, "top", 512 * KB);
  look(r.quota);
  assert_true(sbx_quota_used(r.quota) >= 1024 * KB);
  assert_int_equal(r.quota->levels_len, 0);
  room_close(&r);
}

static void links_are_not_followed(void** state) {
  struct room r;

  (void) state;
  room_open(&r, MB);
  assert_int_equal(symlinkat("/usr", r.fd, "usr"), 0);
  look(r.quota);
  assert_true(sbx_quota_used(r.quota) < 64 * KB);
  room_close(&r);
}

#define T(name) cmocka_unit_test(name)

int main(void) {
  const struct CMUnitTest tests[] = {
      T(only_growth_counts),   T(what_was_there_is_no_fault),
      T(names_of_one_file_count_once), T(a_sparse_file_takes_little),
      T(a_deep_tree),          T(links_are_not_followed),
  };

  return cmocka_run_group_tests(tests, NULL, NULL);
}
