/* Archives: what a tree keeps on its way through one, that other programs read
 * them, what hostile ones cannot do, and restores that fail or are killed. */
#include "files_help.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>

#include "native/archive/archive.h"
#include "native/archive/tar.h"

static void sh(struct scratch* s, const char* script) {
  char line[8192];
  snprintf(line, sizeof(line), "set -e; cd %s; %s", s->path, script);
  int status = system(line);
  if (status != 0) print_error("%s\n", script);
  assert_int_equal(status, 0);
}

static int archive_file(void) {
  char path[] = "/tmp/sbx-archive-XXXXXX";
  int fd = mkstemp(path);
  assert_true(fd >= 0);
  unlink(path);
  return fd;
}

static int run(struct scratch* s, enum sbx_archive_verb verb, int fd) {
  struct sbx_error error = {0};
  uint64_t bytes;
  assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
  int rc = sbx_archive_run(s->root, verb, fd, "test", &bytes, &error);
  if (rc < 0 && getenv("SBX_SHOW")) print_error("%s\n", error.message);
  return rc;
}

/* Everything that tells two trees apart. */
#define PRINT                                                              \
  "find . -mindepth 1 -name .sandbox-sdk-restore -prune -o -mindepth 1 "   \
  "-printf '%p %y %m %n %T@ %l\\n' | sort; "                               \
  "find . -type f -size -100M -readable -exec md5sum {} + | sort"

static void same_trees(struct scratch* a, struct scratch* b) {
  char line[512];
  snprintf(line, sizeof(line), "(%s) > %s.out", PRINT, a->path);
  sh(a, line);
  snprintf(line, sizeof(line), "(%s) > %s.out; diff %s.out %s.out", PRINT,
           b->path, a->path, b->path);
  sh(b, line);
}

static void make_tree(struct scratch* s) {
  sh(s,
     "mkdir -p a/b/c empty closed; echo one > a/one; echo two > a/b/two; "
     "chmod 751 a/b; chmod 4755 a/one; ln -s ../nowhere a/link; "
     "ln a/one a/b/again; ln a/one again; mkfifo pipe; chmod 640 pipe; "
     "printf x > \"$(printf 'new\\nline \\351')\"; : > nothing; "
     "n=$(printf 'n%.0s' $(seq 200)); mkdir $n; echo deep > $n/$n; "
     "ln -s $n/$n long; touch -d '2001-02-03 04:05:06.789' a/b; "
     "truncate -s 1T sparse; printf data | dd of=sparse bs=1 seek=5000000000 "
     "conv=notrunc 2>/dev/null; truncate -s 300K hole; "
     "dd if=/dev/urandom of=big bs=1000 count=3000 2>/dev/null; "
     "mkdir -m 1777 sticky; echo s > closed/s; chmod 000 closed/s; "
     "chmod 000 closed");
}

static void test_round_trip(void** state) {
  struct scratch* a = *state;
  struct scratch* b = NULL;
  scratch_open((void**)&b);
  int fd = archive_file();
  make_tree(a);
  sh(a, "touch -d '1960-01-01 00:00:00.25' nothing");
  assert_int_equal(run(a, SBX_ARCHIVE_PACK, fd), 0);
  assert_int_equal(run(b, SBX_ARCHIVE_UNPACK, fd), 0);
  sh(a, "chmod 755 a/one");
  same_trees(a, b);
  sh(b, "test $(stat -c %s sparse) = 1099511627776; "
        "test $(du -k sparse | cut -f1) -lt 100; test ! -u a/one; "
        "test a/one -ef again; test a/one -ef a/b/again");
  struct stat st;
  assert_int_equal(fstat(fd, &st), 0);
  assert_true(st.st_size < 4 << 20);
  close(fd);
  scratch_close((void**)&b);
}

static void test_tar_reads_it(void** state) {
  struct scratch* a = *state;
  struct scratch* b = NULL;
  char line[256];
  scratch_open((void**)&b);
  int fd = archive_file();
  make_tree(a);
  assert_int_equal(run(a, SBX_ARCHIVE_PACK, fd), 0);
  snprintf(line, sizeof(line), "tar -xpf /proc/%d/fd/%d --no-same-owner",
           getpid(), fd);
  sh(b, line);
  sh(a, "chmod 755 a/one");
  same_trees(a, b);
  close(fd);
  scratch_close((void**)&b);
}

static void test_what_is_left_out(void** state) {
  struct scratch* a = *state;
  struct scratch* b = NULL;
  scratch_open((void**)&b);
  int fd = archive_file();
  sh(a, "mkdir planted; echo x > planted/file; "
        "python3 -c 'import socket; socket.socket(socket.AF_UNIX)"
        ".bind(\"sock\")'");
  char path[128];
  snprintf(path, sizeof(path), "%s/planted", a->path);
  assert_int_equal(setxattr(path, "user.overlay.opaque", "y", 1, 0), 0);
  snprintf(path, sizeof(path), "%s/planted/file", a->path);
  assert_int_equal(setxattr(path, "user.overlay.redirect", "/etc", 4, 0), 0);
  if (geteuid() == 0) sh(a, "mknod gone c 0 0; chmod 2755 planted");
  assert_int_equal(run(a, SBX_ARCHIVE_PACK, fd), 0);
  assert_int_equal(run(b, SBX_ARCHIVE_UNPACK, fd), 0);
  sh(b, "test ! -e sock; test ! -e gone; test ! -g planted; test -f planted/file");
  snprintf(path, sizeof(path), "%s/planted", b->path);
  assert_int_equal(listxattr(path, NULL, 0), 0);
  snprintf(path, sizeof(path), "%s/planted/file", b->path);
  assert_int_equal(listxattr(path, NULL, 0), 0);
  close(fd);
  scratch_close((void**)&b);
}

/* --- hostile archives ------------------------------------------------------- */

static void put_entry(int fd, enum sbx_tar_type type, const char* path,
                      const char* link, const char* data) {
  static const char zeros[1024];
  struct sbx_tar_entry entry = {.type = type, .path = path, .link = link,
                                .mode = 04777, .size = strlen(data)};
  size_t len;
  char* header = sbx_tar_header(&entry, NULL, 0, &len);
  assert_int_equal(write(fd, header, len), len);
  len = strlen(data);
  assert_int_equal(write(fd, data, len), len);
  len = -len % 512;
  assert_int_equal(write(fd, zeros, len), len);
  free(header);
}

static void end_archive(int fd) {
  static const char zeros[1024];
  assert_int_equal(write(fd, zeros, sizeof(zeros)), sizeof(zeros));
}

static const struct {
  enum sbx_tar_type type;
  const char* path;
  const char* link;
} hostile[] = {
    {SBX_TAR_FILE, "../escaped", ""},
    {SBX_TAR_FILE, "/tmp/sbx-escaped", ""},
    {SBX_TAR_FILE, "a/../../escaped", ""},
    {SBX_TAR_FILE, "out/escaped", ""},     /* through a link to / */
    {SBX_TAR_FOLDER, "out/escaped", ""},
    {SBX_TAR_LINK, "out/escaped", "x"},
    {SBX_TAR_FILE, "out", ""},             /* onto the link */
    {SBX_TAR_HARD_LINK, "mine", "../etc/passwd"},
    {SBX_TAR_HARD_LINK, "mine", "out/etc/passwd"},
    {SBX_TAR_HARD_LINK, "mine", ""},
    {SBX_TAR_FILE, "missing/file", ""},
    {SBX_TAR_FILE, "", ""},
    {SBX_TAR_LINK, "", "/etc"},
    {SBX_TAR_FIFO, "../escaped", ""},
};

static void test_hostile_archives(void** state) {
  struct scratch* s = *state;
  for (size_t i = 0; i < sizeof(hostile) / sizeof(*hostile); i++) {
    int fd = archive_file();
    put_entry(fd, SBX_TAR_LINK, "out", "/", "");
    put_entry(fd, hostile[i].type, hostile[i].path, hostile[i].link, "");
    end_archive(fd);
    sh(s, "rm -rf ./* && echo kept > kept");
    assert_true(run(s, SBX_ARCHIVE_RESTORE, fd) < 0);
    sh(s, "test \"$(ls -A)\" = kept; test \"$(cat kept)\" = kept; "
          "test ! -e ../escaped; test ! -e /escaped; test ! -e /tmp/sbx-escaped");
    close(fd);
  }
}

static void test_broken_archives(void** state) {
  struct scratch* s = *state;
  struct scratch* source = NULL;
  scratch_open((void**)&source);
  make_tree(source);
  sh(s, "echo kept > kept");
  int whole = archive_file();
  assert_int_equal(run(source, SBX_ARCHIVE_PACK, whole), 0);
  for (off_t len = 0; len < 20000; len += 777) {
    char bytes[20000];
    int fd = archive_file();
    assert_int_equal(pread(whole, bytes, len, 0), len);
    assert_int_equal(write(fd, bytes, len), len);
    assert_true(run(s, SBX_ARCHIVE_RESTORE, fd) < 0);
    sh(s, "test \"$(ls -A)\" = kept");
    close(fd);
  }
  close(whole);
  scratch_close((void**)&source);
}

/* --- restore ----------------------------------------------------------------- */

static void test_restore_replaces(void** state) {
  struct scratch* a = *state;
  struct scratch* b = NULL;
  scratch_open((void**)&b);
  int fd = archive_file();
  make_tree(a);
  assert_int_equal(run(a, SBX_ARCHIVE_PACK, fd), 0);
  sh(a, "chmod 755 a/one");
  sh(b, "mkdir -p a/other; echo old > a/one; echo old > later; "
        "mkdir shut; echo x > shut/x; chmod 000 shut");
  assert_int_equal(run(b, SBX_ARCHIVE_RESTORE, fd), 0);
  same_trees(a, b);
  sh(b, "test ! -e .sandbox-sdk-restore");
  close(fd);
  scratch_close((void**)&b);
}

/* Killed at any moment, a restore leaves one of the two states, and finding out
 * which is the next start's work. */
static void test_killed_restores(void** state) {
  struct scratch* s = *state;
  int seen[2] = {0, 0};
  int fd = archive_file();
  sh(s, "for i in $(seq 40); do mkdir d$i; echo new > d$i/f; done");
  assert_int_equal(run(s, SBX_ARCHIVE_PACK, fd), 0);
  for (int i = 0; i < 60; i++) {
    sh(s, "chmod -R u+w . ; rm -rf ./* .sandbox*; "
          "for i in $(seq 30); do mkdir d$i; echo old > d$i/f; done");
    lseek(fd, 0, SEEK_SET);
    pid_t child = fork();
    if (child == 0) {
      struct sbx_error error;
      uint64_t bytes;
      sbx_archive_run(s->root, SBX_ARCHIVE_RESTORE, fd, "test", &bytes, &error);
      _exit(0);
    }
    usleep(200 * i);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    int dir = open(s->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(sbx_archive_recover(dir), 0);
    close(dir);
    sh(s, "test ! -e .sandbox-sdk-restore; "
          "test \"$(cat d*/f | sort -u | wc -l)\" = 1; "
          "n=$(ls -d d* | wc -l); case $(cat d1/f) in old) test $n = 30;; "
          "new) test $n = 40;; esac");
    char path[128];
    snprintf(path, sizeof(path), "%s/d40", s->path);
    seen[access(path, F_OK) == 0]++;
  }
  assert_true(seen[0] > 0);
  close(fd);
}

/* Each step of the swap as a killed process leaves it. */
static void test_recovery(void** state) {
  struct scratch* s = *state;
  static const struct {
    const char* left;
    const char* want;
  } cases[] = {
      {"mkdir -p S/new; echo n > S/new/n; echo o > o; echo p > p", "o p "},
      {"mkdir -p S/new S/old; echo n > S/new/n; echo o > S/old/o; echo p > p",
       "o p "},
      {"mkdir -p S/new S/gone; echo n > S/new/n; echo o > S/gone/o; echo m > m",
       "m n "},
      {"mkdir -p S/gone; echo g > S/gone/g; echo n > n", "n "},
      {"mkdir S; echo o > o", "o "},
      {"echo o > o", "o "},
      /* an agent's own: nothing leaves the folder, no start fails of it */
      {"mkdir -p S/gone; ln -s / S/new; echo o > o", ".sandbox-sdk-restore o "},
      {"mkdir S; mkfifo S/old; echo o > o", ".sandbox-sdk-restore o "},
      {"ln -s / S; echo o > o", ".sandbox-sdk-restore o "},
      {"mkfifo S; echo o > o", ".sandbox-sdk-restore o "},
      /* somebody's, made since: not overwritten, and not lost */
      {"mkdir -p S/old/o/x o/y", NULL},
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
    char line[512];
    snprintf(line, sizeof(line), "rm -rf ./* .sandbox*; %s; test ! -e S || "
                                 "mv -T S .sandbox-sdk-restore",
             cases[i].left);
    sh(s, line);
    int dir = open(s->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc = sbx_archive_recover(dir);
    close(dir);
    if (!cases[i].want) {
      assert_true(rc < 0);
      sh(s, "test -d o/y && test -d .sandbox-sdk-restore/old/o/x");
      continue;
    }
    assert_int_equal(rc, 0);
    snprintf(line, sizeof(line), "test \"$(ls -A | tr '\\n' ' ')\" = '%s'",
             cases[i].want);
    sh(s, line);
  }
}

/* What commands made under the stage's name, before a snapshot or after it, is in
 * no restore's way. */
static void test_planted_stage(void** state) {
  struct scratch* s = *state;
  static const char* const plants[] = {
      "mkfifo S", "ln -s / S", "mkdir -p S/sub; echo x > S/sub/x",
      "mkdir -p S/gone S/new; echo x > S/new/zz; ln -s / S/old",
  };
  for (size_t i = 0; i < sizeof(plants) / sizeof(*plants); i++) {
    for (int before = 0; before < 2; before++) {
      char line[256];
      int fd = archive_file();
      snprintf(line, sizeof(line), "%s; mv -T S .sandbox-sdk-restore",
               plants[i]);
      sh(s, "rm -rf ./* .sandbox*; echo 1 > a; mkdir z; echo 2 > z/2");
      if (before) sh(s, line);
      assert_int_equal(run(s, SBX_ARCHIVE_PACK, fd), 0);
      sh(s, "rm -rf ./* .sandbox*; echo old > a; echo old > other");
      if (!before) sh(s, line);
      assert_int_equal(run(s, SBX_ARCHIVE_RESTORE, fd), 0);
      sh(s, "test \"$(ls -A | tr '\\n' ' ')\" = 'a z ' && "
            "test \"$(cat a z/2 | tr '\\n' ' ')\" = '1 2 '");
      close(fd);
    }
  }
}

struct meddler {
  int fd;
  atomic_bool stop;
};

static void* meddle(void* arg) {
  struct meddler* m = arg;
  while (!m->stop) {
    mkdirat(m->fd, "d7", 0700);
    mkdirat(m->fd, "d7/theirs", 0700);
    mkdirat(m->fd, "late", 0700);
  }
  return NULL;
}

/* A host program that writes into the folder all the while: the archive's files
 * are all there afterwards, or still in the stage. */
static void test_meddling(void** state) {
  struct scratch* s = *state;
  struct meddler m = {.fd = s->fd};
  pthread_t thread;
  int fd = archive_file();
  static const char tree[] =
      "rm -rf .sandbox*; for i in $(seq 20); do mkdir -p d$i; echo new > d$i/f; "
      "done";
  sh(s, tree);
  assert_int_equal(run(s, SBX_ARCHIVE_PACK, fd), 0);
  assert_int_equal(pthread_create(&thread, NULL, meddle, &m), 0);
  for (int i = 0; i < 30; i++) {
    lseek(fd, 0, SEEK_SET);
    int rc = run(s, SBX_ARCHIVE_RESTORE, fd);
    sh(s, rc == 0 ? "test $(cat d*/f | wc -l) = 20"
                  : "test $(cat d*/f .sandbox-sdk-restore/*/d*/f | wc -l) -ge 20");
    if (rc < 0) sh(s, tree);
  }
  m.stop = true;
  pthread_join(thread, NULL);
  close(fd);
}

static void test_too_deep(void** state) {
  struct scratch* s = *state;
  int fd = archive_file();
  sh(s, "python3 -c 'import os\nfor i in range(20):\n"
        " os.mkdir(\"n\" * 250)\n os.chdir(\"n\" * 250)'");
  assert_int_equal(run(s, SBX_ARCHIVE_PACK, fd), SBX_E_IO);
  close(fd);
}

static void test_other_owner(void** state) {
  struct scratch* s = *state;
  int fd = archive_file();
  struct sbx_root* root;
  struct sbx_error error = {0};
  uint64_t bytes;
  if (geteuid() != 0) skip();
  sh(s, "mkdir dir; echo secret > dir/secret; chmod 600 dir/secret");
  struct sbx_root_spec spec = {dup(s->fd), "/workspace", 12345, 12345};
  assert_int_equal(sbx_root_new(&spec, &root), 0);
  assert_int_equal(
      sbx_archive_run(root, SBX_ARCHIVE_PACK, fd, "test", &bytes, &error),
      SBX_E_ACCESS);
  assert_non_null(strstr(error.message, "dir/secret"));
  sbx_root_unref(root);
  close(fd);
}

int main(void) {
  const struct CMUnitTest tests[] = {
#define TEST(name) \
  cmocka_unit_test_setup_teardown(name, scratch_open, scratch_close)
      TEST(test_round_trip),      TEST(test_tar_reads_it),
      TEST(test_what_is_left_out), TEST(test_hostile_archives),
      TEST(test_broken_archives), TEST(test_restore_replaces),
      TEST(test_killed_restores), TEST(test_recovery),
      TEST(test_planted_stage),    TEST(test_meddling),
      TEST(test_too_deep),        TEST(test_other_owner),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
