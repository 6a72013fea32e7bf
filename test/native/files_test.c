/* The verbs on files: the table of the Mastra contract (3.1), links, atomic
 * replacement, races, ids. */
#include "files_help.h"

#include <errno.h>
#include <linux/fs.h>
#include <pthread.h>
#include <sys/xattr.h>
#include <time.h>

#include "files_table.h"

static void contract_make(struct scratch* s) {
  char script[1024];
  snprintf(script, sizeof(script),
           "rm -rf ./* %s.out; mkdir %s.out; printf secret > %s.out/f;"
           "printf src > src; printf file > file; mkdir dir; touch dir/x;"
           "ln -s file lfile; ln -s dir ldir; ln -s %s.out/f escape;"
           "ln -s %s.out edir; ln -s nowhere dangling;"
           "ln -s %s.out/new dangling-out",
           s->path, s->path, s->path, s->path, s->path, s->path);
  shell(s, script);
}

static void contract_check_outside(struct scratch* s) {
  char script[256];
  snprintf(script, sizeof(script),
           "test \"$(ls -A %s.out)\" = f && test \"$(cat %s.out/f)\" = secret",
           s->path, s->path);
  shell(s, script);
}

static int contract_run(struct scratch* s, const struct row* row,
                        const char* path) {
  struct sbx_file_request r =
      REQUEST(.verb = row->verb, .flags = row->flags, .data = "new",
              .data_len = 3);
  r.path = row->is_target ? "src" : path;
  r.to = row->is_target ? path : "made";
  return code_of(s, r);
}

static void contract_table(void** state) {
  struct scratch* s = *state;
  for (int pass = 0; pass < 2; pass++) {
    s->root->no_openat2 = pass == 1;
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
      for (size_t c = 0; c < 11; c++) {
        contract_make(s);
        int code = contract_run(s, &rows[i], columns[c]);
        if (code != rows[i].codes[c])
          fail_msg("%s '%s': %d, expected %d", rows[i].name, columns[c], code,
                   rows[i].codes[c]);
        contract_check_outside(s);
      }
    }
  }
}

static void exists_is_never_an_error(void** state) {
  struct scratch* s = *state;
  const bool expected[11] = {false, true, true,  true,  true, false,
                             false, false, false, false, true};
  contract_make(s);
  for (size_t c = 0; c < 11; c++)
    assert_int_equal(exists(s, columns[c]), expected[c]);
  shell(s, "ln -s loop loop");
  assert_false(exists(s, "loop"));
  assert_int_equal(simple(s, READ, "loop", 0), SBX_E_IO);
  contract_check_outside(s);
}

/* --- links --------------------------------------------------------------- */

static void links_as_commands_see_them(void** state) {
  struct scratch* s = *state;
  shell(s, "mkdir -p d/e; printf old > d/real; ln -s d/real l1; ln -s l1 l2;"
           "ln -s /workspace/d/real abs; ln -s ../workspace/d up;"
           "ln -s /workspace root; ln -s ../../../workspace/d/e d/e/far;"
           "ln -s /workspacex/d no; ln -s ../other no2; ln -s / slash");
  for (int pass = 0; pass < 2; pass++) {
    s->root->no_openat2 = pass == 1;
    assert_int_equal(put(s, "l2", "new", 0), 0);
    assert_int_equal(code_of(s, REQUEST(.verb = APPEND, .path = "l1",
                                        .data = "+", .data_len = 1)), 0);
    assert_content(s, "d/real", "new+");
    assert_content(s, "abs", "new+");
    assert_content(s, "up/real", "new+");
    assert_content(s, "root/up/real", "new+");
    assert_content(s, "d/e/far/far/../real", "new+");
    assert_int_equal(put(s, "abs", "abs", 0), 0);
    assert_content(s, "d/real", "abs");
    assert_int_equal(put(s, "root/fresh", "1", EXCLUSIVE), 0);
    assert_int_equal(unlinkat(s->fd, "fresh", 0), 0);
    assert_int_equal(simple(s, READDIR, "no", 0), PERM);
    assert_int_equal(simple(s, READDIR, "no2", 0), PERM);
    assert_int_equal(simple(s, READ, "slash/etc/passwd", 0), PERM);
    assert_content(s, "slash/workspace/d/real", "abs");
    assert_int_equal(stat_of(s, "l2", 0).type, SBX_TYPE_FILE);
    assert_int_equal(stat_of(s, "l2", SBX_FILE_NOFOLLOW).type, SBX_TYPE_LINK);
  }
  shell(s, "test \"$(readlink l1 l2 abs | tr '\\n' ' ')\" = "
           "'d/real l1 /workspace/d/real '");
}

static void realpath_has_no_links(void** state) {
  struct scratch* s = *state;
  shell(s, "mkdir -p d/e; ln -s d/e l; ln -s /workspace/l/. abs; touch d/e/f");
  const char* pairs[][2] = {{"l/f", "d/e/f"}, {"abs/f", "d/e/f"},
                            {"abs", "d/e"}, {"", ""}, {"d", "d"}};
  for (size_t i = 0; i < 5; i++) {
    struct sbx_file_request r = REQUEST(.verb = REAL, .path = pairs[i][0]);
    struct answer a = ask(s, &r);
    assert_int_equal(a.code, 0);
    assert_string_equal(a.result.data, pairs[i][1]);
    assert_int_equal(a.result.len, strlen(pairs[i][1]));
    free(a.result.data);
  }
}

static void a_root_of_everything(void** state) {
  struct scratch* s = *state;
  sbx_root_unref(s->root);
  struct sbx_root_spec spec = {dup(s->fd), "/", -1, -1};
  assert_int_equal(sbx_root_new(&spec, &s->root), 0);
  shell(s, "mkdir etc; printf x > etc/f; ln -s /etc/f a; ln -s ../../etc/f b");
  assert_content(s, "a", "x");
  assert_content(s, "b", "x");
}

/* --- writing ------------------------------------------------------------- */

static void write_keeps_what_there_was(void** state) {
  struct scratch* s = *state;
  shell(s, "printf 1 > run; chmod 755 run; printf 1 > a; ln a b;"
           "printf 1 > x; printf 1 > sid; chmod 6755 sid; mkdir p");
  int fd = openat(s->fd, "x", O_RDONLY);
  bool has = fsetxattr(fd, "user.k", "v", 1, 0) == 0;
  close(fd);
  assert_int_equal(put(s, "run", "2", 0), 0);
  assert_int_equal(stat_of(s, "run", 0).mode, 0755);
  assert_int_equal(put(s, "a", "longer", 0), 0);
  assert_content(s, "b", "longer");
  assert_int_equal(put(s, "b", "s", 0), 0);
  assert_content(s, "a", "s");
  assert_int_equal(put(s, "x", "2", 0), 0);
  char value[4];
  fd = openat(s->fd, "x", O_RDONLY);
  if (has) assert_int_equal(fgetxattr(fd, "user.k", value, 4), 1);
  close(fd);
  assert_int_equal(put(s, "sid", "2", 0), 0);
  assert_int_equal(stat_of(s, "sid", 0).mode, 0755);
  shell(s, "test $(ls -A | wc -l) = 6");
}

static void new_files_follow_umask_022(void** state) {
  struct scratch* s = *state;
  mode_t old = umask(077);
  put(s, "n/new", "x", PARENTS);
  code_of(s, REQUEST(.verb = APPEND, .path = "app", .data = "", .data_len = 0));
  simple(s, MKDIR, "m", 0);
  code_of(s, REQUEST(.verb = WRITE, .path = "x", .data = "", .mode = 04755));
  umask(old);
  shell(s, "test \"$(stat -c %a n n/new app m x | tr '\\n' ' ')\" = "
           "'755 644 644 755 755 '");
}

static void owner_is_kept(void** state) {
  struct scratch* s = *state;
  if (geteuid() != 0) skip();
  shell(s, "printf 1 > f; chown 1234:2345 f; chmod 640 f");
  assert_int_equal(put(s, "f", "2", 0), 0);
  shell(s, "test \"$(stat -c '%u:%g %a' f)\" = '1234:2345 640'");
}

static void ids_of_the_owner(void** state) {
  struct scratch* s = *state;
  if (geteuid() != 0) skip();
  shell(s, "chown 65534:65534 .; printf 1 > theirs; chmod 600 theirs;"
           "printf keep > ro; chown 65534 ro; chmod 444 ro; printf 1 > shared;"
           "chmod 666 shared; mkdir closed; printf 1 > closed/f;"
           "chmod 666 closed/f");
  s->root->fsuid = s->root->fsgid = 65534;
  assert_int_equal(put(s, "mine/x", "1", PARENTS), 0);
  assert_int_equal(simple(s, READ, "theirs", 0), PERM);
  assert_int_equal(put(s, "theirs", "2", 0), PERM);
  assert_int_equal(put(s, "ro", "x", 0), PERM);
  assert_content(s, "ro", "keep");
  /* Another's file in our folder, and a folder that takes no new names: in
   * place. */
  assert_int_equal(put(s, "shared", "22", 0), 0);
  assert_int_equal(put(s, "closed/f", "22", 0), 0);
  assert_int_equal(put(s, "closed/new", "1", 0), PERM);
  struct sbx_file_request r = REQUEST(.verb = READ, .path = "theirs");
  struct answer a = {0};
  assert_true(sbx_files_try(&s->loop, s->root, &r, &a.result, &a.error) <= 0);
  shell(s, "test \"$(stat -c %u mine mine/x shared closed/f | tr '\\n' ' ')\""
           " = '65534 65534 0 0 ' && test $(cat shared closed/f) = 2222");
  /* The threads got their rights back. */
  s->root->fsuid = -1;
  assert_content(s, "theirs", "1");
}

/* A disk of `size` at m, with a file f and one of two names, a and b. */
static void small_disk(struct scratch* s, const char* size) {
  char script[512];
  if (geteuid() != 0) skip();
  shell(s, "mkdir m");
  snprintf(script, sizeof(script), "mount -t tmpfs -o size=%s none %s/m", size,
           s->path);
  if (system(script) != 0) skip();
  shell(s, "printf old > m/f; printf old > m/a; ln m/a m/b");
}

/* What it held before is whole, and nothing else is there. */
static void assert_small_disk_kept(struct scratch* s) {
  assert_content(s, "m/f", "old");
  assert_content(s, "m/b", "old");
  shell(s, "test \"$(ls -A m | tr '\\n' ' ')\" = 'a b f '; umount m");
}

static void full_disk(void** state) {
  struct scratch* s = *state;
  small_disk(s, "1m");
  size_t len = 4 << 20;
  char* big = calloc(1, len);
  const char* targets[] = {"m/f", "m/a", "m/new"};
  for (size_t i = 0; i < 3; i++) {
    struct sbx_file_request r = REQUEST(.verb = WRITE, .path = targets[i],
                                        .data = big, .data_len = len);
    struct answer a = ask(s, &r);
    assert_int_equal(a.code, SBX_E_IO);
    assert_int_equal(a.error.sys, ENOSPC);
    r.verb = APPEND;
    assert_int_equal(code_of(s, r), SBX_E_IO);
  }
  free(big);
  assert_small_disk_kept(s);
}

static void text_over_other_bytes(void** state) {
  struct scratch* s = *state;
  shell(s, "printf 'caf\\351\\n' > l1; printf 'caf\\303\\251' > u8");
  assert_int_equal(put(s, "l1", "caf\xef\xbf\xbd", SBX_FILE_TEXT),
                   SBX_E_INVALID_INPUT);
  assert_content(s, "l1", "caf\xe9\n");
  assert_int_equal(put(s, "u8", "caf\xef\xbf\xbd", SBX_FILE_TEXT), 0);
  assert_int_equal(put(s, "l1", "cafe", SBX_FILE_TEXT), 0);
  assert_int_equal(put(s, "new", "\xef\xbf\xbd", SBX_FILE_TEXT), 0);
}

/* --- times --------------------------------------------------------------- */

static struct answer put_if(struct scratch* s, const char* text, int64_t ms,
                            unsigned flags) {
  struct sbx_file_request r = REQUEST(.verb = WRITE, .path = "f",
                                      .data = text, .data_len = strlen(text),
                                      .flags = flags);
  r.expected_mtime_ms = ms;
  return ask(s, &r);
}

static void times_are_floored(void** state) {
  struct scratch* s = *state;
  shell(s, "echo a > f; touch -d '2024-05-06 07:08:09.123987654 UTC' f");
  int64_t ms = stat_of(s, "f", 0).modified_ms;
  assert_true(ms == 1714979289123);
  assert_int_equal(put_if(s, "b", ms, 0).code, 0);
  shell(s, "touch -d '1969-12-31 23:59:59.999999999 UTC' f");
  assert_true(stat_of(s, "f", 0).modified_ms == -1);
  assert_int_equal(put_if(s, "b", -1, 0).code, 0);
}

static void stale_writes(void** state) {
  struct scratch* s = *state;
  assert_int_equal(put_if(s, "first", 5, 0).code, 0); /* nothing there */
  int64_t ms = stat_of(s, "f", 0).modified_ms;
  for (int64_t off = -1; off <= 1; off += 2) {
    struct answer a = put_if(s, "x", ms + off, EXCLUSIVE);
    assert_int_equal(a.code, SBX_E_STALE);
    assert_true(a.error.number == ms);
  }
  assert_int_equal(put_if(s, "x", ms, EXCLUSIVE).code, EXI);
  assert_int_equal(put_if(s, "x", ms, 0).code, 0);
  assert_int_equal(put_if(s, "y", ms, 0).code, SBX_E_STALE);
  assert_content(s, "f", "x");
}

/* Every write shows in the time, however fast they follow. */
static void each_write_moves_the_time(void** state) {
  struct scratch* s = *state;
  shell(s, "echo > hard; ln hard hard2");
  int64_t last = 0, last_hard = 0;
  for (int i = 0; i < 50; i++) {
    struct answer a = put_if(s, "same", INT64_MIN, 0);
    assert_true(a.result.stat.modified_ms > last);
    last = a.result.stat.modified_ms;
    assert_true(stat_of(s, "f", 0).modified_ms == last);
    put(s, "hard", "same", 0);
    assert_true(stat_of(s, "hard", 0).modified_ms > last_hard);
    last_hard = stat_of(s, "hard", 0).modified_ms;
  }
}

struct racer {
  struct scratch* s;
  int64_t expected;
  int won;
};

static void* race_write(void* arg) {
  struct racer* racer = arg;
  struct sbx_file_request r = REQUEST(.verb = WRITE, .path = "f",
                                      .data = "racer", .data_len = 5);
  struct sbx_file_result result = {0};
  struct sbx_error error;
  struct sbx__job job = {racer->s->root, &r, &result, &error, NULL};
  r.expected_mtime_ms = racer->expected;
  racer->won = sbx__file_write(&job);
  return NULL;
}

static void one_of_many_writers_wins(void** state) {
  struct scratch* s = *state;
  enum { RACERS = 8 };
  for (int round = 0; round < 40; round++) {
    struct racer racers[RACERS];
    pthread_t threads[RACERS];
    int winners = 0;
    put(s, "f", "x", 0);
    if (round % 2) shell(s, "rm -f f2; ln f f2");
    int64_t expected = stat_of(s, "f", 0).modified_ms;
    for (int i = 0; i < RACERS; i++) {
      racers[i] = (struct racer){s, expected, 1};
      pthread_create(&threads[i], NULL, race_write, &racers[i]);
    }
    for (int i = 0; i < RACERS; i++) {
      pthread_join(threads[i], NULL);
      winners += racers[i].won == 0;
      if (racers[i].won) assert_int_equal(racers[i].won, SBX_E_STALE);
    }
    assert_true(winners == 1);
  }
}

/* --- many at once -------------------------------------------------------- */

static void on_flight(void* arg, const struct sbx_error* error,
                      struct sbx_file_result* result) {
  int* code = arg;
  *code = error ? error->code : 0;
  free(result->data);
}

static void fly(struct scratch* s, struct sbx_file_request* r, int count,
                int* codes) {
  for (int i = 0; i < count; i++)
    assert_int_equal(
        sbx_files_request(&s->loop, s->root, r, on_flight, &codes[i]), 0);
  uv_run(&s->loop, UV_RUN_DEFAULT);
}

static void exclusive_has_one_winner(void** state) {
  struct scratch* s = *state;
  int codes[20], winners = 0;
  struct sbx_file_request r = REQUEST(.verb = WRITE, .path = "once",
                                      .data = "x", .data_len = 1,
                                      .flags = EXCLUSIVE);
  fly(s, &r, 20, codes);
  for (int i = 0; i < 20; i++) {
    winners += codes[i] == 0;
    if (codes[i]) assert_int_equal(codes[i], EXI);
  }
  assert_int_equal(winners, 1);
  shell(s, "test \"$(ls -A)\" = once");
}

static void appends_all_arrive(void** state) {
  struct scratch* s = *state;
  int codes[100];
  char line[5001];
  memset(line, 'x', 4999);
  line[4999] = '\n';
  struct sbx_file_request r = REQUEST(.verb = APPEND, .path = "a/log",
                                      .data = line, .data_len = 5000);
  fly(s, &r, 100, codes);
  for (int i = 0; i < 100; i++) assert_int_equal(codes[i], 0);
  shell(s, "test $(grep -cx 'x\\{4999\\}' a/log) = 100 && "
           "test $(stat -c %s a/log) = 500000");
}

static void* write_both(void* arg) {
  struct scratch* s = arg;
  size_t len = 2 << 20;
  char* data = malloc(len);
  for (int i = 0; i < 20; i++) {
    memset(data, i % 2 ? 'A' : 'B', len);
    struct sbx_file_request r = REQUEST(.verb = WRITE, .path = "f",
                                        .data = data, .data_len = len);
    struct sbx_file_result result = {0};
    struct sbx_error error;
    struct sbx__job job = {s->root, &r, &result, &error, NULL};
    assert_int_equal(sbx__file_write(&job), 0);
  }
  free(data);
  return NULL;
}

static void readers_see_whole_files(void** state) {
  struct scratch* s = *state;
  pthread_t thread;
  write_both(s);
  pthread_create(&thread, NULL, write_both, s);
  for (int i = 0; i < 20; i++) {
    struct sbx_file_request r = REQUEST(.verb = READ, .path = "f");
    struct answer a = ask(s, &r);
    assert_int_equal(a.code, 0);
    assert_int_equal(a.result.len, 2 << 20);
    const char* data = a.result.data;
    assert_memory_equal(data, data + 1, a.result.len - 1);
    free(a.result.data);
  }
  pthread_join(thread, NULL);
}

/* --- copy and move ------------------------------------------------------- */

static void copies(void** state) {
  struct scratch* s = *state;
  shell(s, "mkdir -p t/a t/ro; printf 1 > t/a/f; chmod 755 t/a/f; mkfifo t/p;"
           "ln -s a/f t/l; ln -s /etc/passwd t/e; printf x > t/ro/x;"
           "touch -d 2001-01-01 t/a/f; chmod 555 t/ro; chmod 700 t/a");
  assert_int_equal(pair(s, COPY, "t", "u/v", RECURSIVE), 0);
  shell(s, "test \"$(cd u/v; stat -c '%n %a %F' a a/f p l e ro ro/x)\" = "
           "\"$(cd t; stat -c '%n %a %F' a a/f p l e ro ro/x)\" && "
           "test $(readlink u/v/l) = a/f && test u/v/a/f -nt t/a/f");
  assert_int_equal(pair(s, COPY, "t", "t/x/y", RECURSIVE), SBX_E_INVALID_INPUT);
  assert_int_equal(pair(s, COPY, "t", "t", RECURSIVE), SBX_E_INVALID_INPUT);
  assert_int_equal(pair(s, COPY, "", "t/z", RECURSIVE), SBX_E_INVALID_INPUT);
  assert_false(exists(s, "t/x"));
  put(s, "u/v/a/f", "kept", 0);
  shell(s, "rm u/v/l");
  assert_int_equal(pair(s, COPY, "t", "u/v", RECURSIVE | EXCLUSIVE), 0);
  assert_content(s, "u/v/a/f", "kept");
  assert_content(s, "u/v/l", "kept");
  assert_int_equal(pair(s, COPY, "t", "u/v", RECURSIVE), 0);
  assert_content(s, "u/v/a/f", "1");
  assert_int_equal(pair(s, COPY, "t/p", "q", 0), SBX_E_SPECIAL_FILE);
  assert_int_equal(pair(s, COPY, "t/a/f", "t/a/f", 0), 0);
  assert_content(s, "t/a/f", "1");
  assert_int_equal(pair(s, COPY, "t/a/f", "u", EXCLUSIVE), EXI);
  assert_int_equal(pair(s, COPY, "t", "t/a/f", RECURSIVE), SBX_E_INVALID_INPUT);
  put(s, "plain", "1", 0);
  assert_int_equal(pair(s, COPY, "t", "plain", RECURSIVE), NOTD);
}

static void sparse_copies(void** state) {
  struct scratch* s = *state;
  shell(s, "truncate -s 3G big; printf x | dd of=big bs=1 seek=2000000000 "
           "conv=notrunc status=none");
  assert_int_equal(pair(s, COPY, "big", "big2", 0), 0);
  shell(s, "test $(stat -c %s big2) = 3221225472 && test $(du -k big2 | cut "
           "-f1) -lt 1000 && test $(dd if=big2 bs=1 skip=2000000000 count=1 "
           "status=none) = x");
}

/* Large enough for two threads, with an end that is in no step with theirs. */
static void large_copies(void** state) {
  struct scratch* s = *state;
  shell(s, "seq 6000000 | head -c 40004567 > big; cp big holed; truncate -s "
           "70000001 holed; cat big >> holed; ln big other; printf x > over;"
           "ln over over2");
  assert_int_equal(pair(s, COPY, "big", "copy", 0), 0);
  assert_int_equal(pair(s, COPY, "holed", "copy2", 0), 0);
  assert_int_equal(pair(s, COPY, "holed", "over", 0), 0);
  shell(s, "cmp big copy && cmp holed copy2 && cmp holed over2 && "
           "test $(du -k copy2 | cut -f1) -le $(du -k holed | cut -f1)");
}

static void large_copy_to_a_full_disk(void** state) {
  struct scratch* s = *state;
  small_disk(s, "36m");
  shell(s, "seq 6000000 | head -c 40004567 > big");
  const char* targets[] = {"m/f", "m/a", "m/new"};
  for (size_t i = 0; i < 3; i++)
    assert_int_equal(pair(s, COPY, "big", targets[i], 0), SBX_E_IO);
  assert_small_disk_kept(s);
}

static void impossible_moves_lose_nothing(void** state) {
  struct scratch* s = *state;
  shell(s, "mkdir a b; printf 1 > a/x; printf 2 > b/y; printf 3 > f");
  assert_int_equal(pair(s, MOVE, "a", "b", 0), NE);
  assert_int_equal(pair(s, MOVE, "a", "a/sub", 0), SBX_E_INVALID_INPUT);
  assert_int_equal(pair(s, MOVE, "a", "a/n/sub", 0), SBX_E_INVALID_INPUT);
  assert_int_equal(pair(s, MOVE, "f", "b", 0), ISD);
  assert_int_equal(pair(s, MOVE, "a", "f", 0), NOTD);
  assert_int_equal(pair(s, MOVE, "missing", "n/x", 0), FNF);
  assert_int_equal(pair(s, MOVE, "f", "f", 0), 0);
  assert_int_equal(pair(s, MOVE, "a", "a", 0), 0);
  assert_int_equal(pair(s, MOVE, "a", "b", EXCLUSIVE), EXI);
  shell(s, "test \"$(find . | sort | tr '\\n' ' ')\" = "
           "'. ./a ./a/x ./b ./b/y ./f '");
}

static void moves(void** state) {
  struct scratch* s = *state;
  shell(s, "mkdir a e; printf 1 > a/x; printf s > s; printf d > d; ln s h;"
           "touch -d 2001-01-01 a/x; ln -s nothing l");
  assert_int_equal(pair(s, MOVE, "s", "d", EXCLUSIVE), EXI);
  assert_int_equal(pair(s, MOVE, "s", "p/q/new", EXCLUSIVE), 0);
  assert_int_equal(pair(s, MOVE, "h", "p/q/new", 0), 0);
  assert_int_equal(pair(s, MOVE, "a", "e", 0), 0);
  assert_int_equal(pair(s, MOVE, "e", "g", EXCLUSIVE), 0);
  assert_int_equal(pair(s, MOVE, "l", "l2", 0), 0);
  assert_int_equal(pair(s, MOVE, "d", "l2", 0), 0);
  shell(s, "test \"$(find . | sort | tr '\\n' ' ')\" = "
           "'. ./g ./g/x ./l2 ./p ./p/q ./p/q/new ' && test -f l2 && "
           "test $(stat -c %Y g/x) = $(date -d 2001-01-01 +%s)");
}

static void moves_between_file_systems(void** state) {
  struct scratch* s = *state;
  char script[256];
  if (geteuid() != 0) skip();
  shell(s, "mkdir m");
  snprintf(script, sizeof(script), "mount -t tmpfs none %s/m", s->path);
  if (system(script) != 0) skip();
  shell(s, "mkdir -p t/a; printf 1 > t/a/f; chmod 750 t/a/f; mkfifo t/p;"
           "ln -s a/f t/l; touch -d 2001-01-01 t/a/f t/a; chown -R 7:8 t;"
           "chmod 500 t/a; printf 2 > m/old; printf 3 > f");
  assert_int_equal(pair(s, MOVE, "t", "m/n/t", 0), 0);
  assert_int_equal(pair(s, MOVE, "f", "m/old", EXCLUSIVE), EXI);
  assert_int_equal(pair(s, MOVE, "f", "m/old", 0), 0);
  assert_content(s, "m/old", "3");
  shell(s, "test \"$(cd m/n/t; stat -c '%n %a %u:%g' a a/f p l | tr '\\n' ' "
           "')\" = 'a 500 7:8 a/f 750 7:8 p 644 7:8 l 777 7:8 ' ||"
           "{ stat -c '%n %a %u:%g' m/n/t/*; false; } &&"
           "test $(stat -c %Y m/n/t/a) = $(date -d 2001-01-01 +%s) && "
           "test \"$(ls -A . m | tr '\\n' ' ')\" = '.: m  m: n old '");
  assert_int_equal(simple(s, RMDIR, "m", RECURSIVE), SBX_E_IO);
  shell(s, "umount m");
}

/* --- special files ------------------------------------------------------- */

static void special_files_do_not_block(void** state) {
  struct scratch* s = *state;
  shell(s, "mkfifo p; printf ok > f;"
           "python3 -c 'import socket; "
           "socket.socket(socket.AF_UNIX).bind(\"s\")' || mkfifo s");
  const char* names[] = {"p", "s"};
  for (size_t i = 0; i < 2; i++) {
    for (int n = 0; n < 5; n++)
      assert_int_equal(simple(s, READ, names[i], 0), SBX_E_SPECIAL_FILE);
    assert_int_equal(put(s, names[i], "x", 0), SBX_E_SPECIAL_FILE);
    assert_int_equal(simple(s, APPEND, names[i], 0), SBX_E_SPECIAL_FILE);
    assert_int_equal(stat_of(s, names[i], 0).type, SBX_TYPE_OTHER);
    assert_true(exists(s, names[i]));
    assert_int_equal(simple(s, DELETE, names[i], 0), 0);
  }
}

/* --- at once ------------------------------------------------------------- */

static void cached_answers(void** state) {
  struct scratch* s = *state;
  put(s, "d/f", "hello", PARENTS);
  struct sbx_file_request r = REQUEST(.verb = READ, .path = "d/f");
  struct answer a = ask(s, &r);
  free(a.result.data);
  int rc = sbx_files_try(&s->loop, s->root, &r, &a.result, &a.error);
  assert_true(rc == 0 || rc == 1);
  if (rc == 1) {
    assert_int_equal(a.result.len, 5);
    assert_memory_equal(a.result.data, "hello", 5);
    assert_int_equal(a.result.stat.mode, 0644);
    free(a.result.data);
  }
  r.verb = STAT;
  r.path = "d";
  if (sbx_files_try(&s->loop, s->root, &r, &a.result, &a.error) == 1)
    assert_int_equal(a.result.stat.type, SBX_TYPE_DIRECTORY);
  r.path = "d/none";
  ask(s, &r);
  rc = sbx_files_try(&s->loop, s->root, &r, &a.result, &a.error);
  assert_true(rc == 0 || rc == FNF);
  r.verb = SBX_FILE_EXISTS;
  rc = sbx_files_try(&s->loop, s->root, &r, &a.result, &a.error);
  assert_true(rc == 0 || (rc == 1 && !a.result.exists));
  r.verb = WRITE;
  assert_int_equal(sbx_files_try(&s->loop, s->root, &r, &a.result, &a.error), 0);
  r.verb = READ;
  r.path = "d";
  assert_int_equal(sbx_files_try(&s->loop, s->root, &r, &a.result, &a.error), 0);
}

static int try_read(struct scratch* s, const char* path, struct answer* a) {
  struct sbx_file_request r = REQUEST(.verb = READ, .path = path);
  memset(a, 0, sizeof(*a));
  uv_update_time(&s->loop);
  return sbx_files_try(&s->loop, s->root, &r, &a->result, &a->error);
}

/* What is remembered of a folder holds as long as the folder is what it was. */
static void remembered_folders(void** state) {
  struct scratch* s = *state;
  struct answer a;
  shell(s, "mkdir -p d/e; printf one > d/e/f; mkfifo d/e/p; sleep .1");
  for (int i = 0; i < 5; i++) {
    if (try_read(s, "d/e/f", &a) != 1) skip(); /* nothing is quick here */
    assert_memory_equal(a.result.data, "one", 3);
    free(a.result.data);
    assert_int_equal(try_read(s, "d/e/p", &a), 0);
  }
  /* A FIFO in the file's place is not opened: a writer waits on. */
  shell(s, "cd d/e; rm f; mkfifo f; (printf x > f; echo gone > w) &");
  uv_sleep(100);
  for (int i = 0; i < 5; i++) assert_int_equal(try_read(s, "d/e/f", &a), 0);
  uv_sleep(100);
  shell(s, "cd d/e; test ! -e w; cat f > /dev/null; sleep .1; test -e w");
  /* Another folder in its place. */
  shell(s, "mv d/e d/old; mkdir d/e; printf two > d/e/f");
  if (try_read(s, "d/e/f", &a) == 1) {
    assert_memory_equal(a.result.data, "two", 3);
    free(a.result.data);
  }
  shell(s, "rm -r d/e; ln -s old d/e");
  assert_int_equal(simple(s, READ, "d/e/f", 0), SBX_E_SPECIAL_FILE);
  shell(s, "rm -r d");
  struct sbx_file_request r = REQUEST(.verb = READ, .path = "d/e/f");
  a = ask(s, &r);
  assert_int_equal(a.code, FNF);
}

/* Whoever asks again at once must not keep the loop from turning. */
static void a_turn_has_its_share(void** state) {
  struct scratch* s = *state;
  struct answer a = {0};
  int done = 0;
  put(s, "f", "x", 0);
  struct sbx_file_request r = REQUEST(.verb = STAT, .path = "f");
  for (int i = 0; i < 1000; i++)
    done += sbx_files_try(&s->loop, s->root, &r, &a.result, &a.error) == 1;
  assert_true(done <= 64);
}

struct flood {
  struct scratch* s;
  unsigned answered, asked;
};

static void on_flood(void* arg, const struct sbx_error* error,
                     struct sbx_file_result* result) {
  struct flood* f = arg;
  struct sbx_file_request r = REQUEST(.verb = READ, .path = "f");
  assert_null(error);
  assert_int_equal(result->len, 5);
  free(result->data);
  f->answered++;
  if (f->asked == 500) return;
  f->asked++;
  assert_int_equal(sbx_files_request(&f->s->loop, f->s->root, &r, on_flood, f),
                   0);
}

static void looks_share_hops(void** state) {
  struct scratch* s = *state;
  struct flood f = {.s = s};
  struct sbx_file_request r = REQUEST(.verb = READ, .path = "f");
  put(s, "f", "hello", 0);
  for (f.asked = 0; f.asked < 100; f.asked++)
    assert_int_equal(sbx_files_request(&s->loop, s->root, &r, on_flood, &f), 0);
  uv_run(&s->loop, UV_RUN_DEFAULT);
  assert_int_equal(f.answered, 500);
}

/* Names that lie beside each other, and what stands in the way of that. */
static void looks_together_answer_as_alone(void** state) {
  static const char* paths[] = {
      "d/a", "d/b", "d/l", "d/out", "d/p", "d/sub", "d/no", "d/a/x", "l/a",
      "l/up", "top", "d/sub/f", "d/sub/../a", "d/loop", "no/a", "", "d",
      "d/empty", "d/a", "sneak/passwd", "d/.", "top/x", "l/l/a", "d/b"};
  enum { PATHS = sizeof(paths) / sizeof(*paths), CALLS = 3 * PATHS };
  static const enum sbx_file_verb verbs[] = {READ, STAT, SBX_FILE_EXISTS};
  struct scratch* s = *state;
  struct answer* answers = calloc(CALLS, sizeof(*answers));
  shell(s, "mkdir -p d/sub; printf aa > d/a; printf b > d/b; ln -s a d/l;"
           "ln -s /etc/passwd d/out; mkfifo d/p; printf t > top; : > d/empty;"
           "ln -s d l; ln -s ../top d/up; printf f > d/sub/f; ln -s . d/l2;"
           "ln -s loop d/loop; ln -s /etc sneak");
  for (int i = 0; i < CALLS; i++) {
    struct sbx_file_request r = REQUEST(.verb = verbs[i / PATHS],
                                        .path = paths[i % PATHS]);
    assert_int_equal(
        sbx_files_request(&s->loop, s->root, &r, on_answer, &answers[i]), 0);
  }
  uv_run(&s->loop, UV_RUN_DEFAULT);
  for (int i = 0; i < CALLS; i++) {
    struct sbx_file_request r = REQUEST(.verb = verbs[i / PATHS],
                                        .path = paths[i % PATHS]);
    struct answer* a = &answers[i];
    struct answer alone = ask(s, &r);
    assert_true(a->called);
    assert_int_equal(a->code, alone.code);
    if (a->code) assert_string_equal(a->error.message, alone.error.message);
    assert_int_equal(a->result.len, alone.result.len);
    if (alone.result.len)
      assert_memory_equal(a->result.data, alone.result.data, alone.result.len);
    assert_int_equal(a->result.exists, alone.result.exists);
    assert_int_equal(a->result.stat.size, alone.result.stat.size);
    assert_int_equal(a->result.stat.type, alone.result.stat.type);
    free(a->result.data);
    free(alone.result.data);
  }
  assert_int_equal(answers[0].result.len, 2);
  assert_int_equal(answers[3].code, SBX_E_ACCESS);
  assert_int_equal(answers[4].code, SBX_E_SPECIAL_FILE);
  assert_int_equal(answers[19].code, SBX_E_ACCESS);
  free(answers);
}

static void hold_thread(uv_work_t* work) {
  uv_sem_wait(work->data);
}

static void on_held(uv_work_t* work, int status) {
  (void)work;
  assert_int_equal(status, 0);
}

/* All threads of the pool are held: nothing of ours begins meanwhile. */
static void what_waits_is_abandoned(void** state) {
  enum { HOLDERS = 4, CALLS = 200 };
  struct scratch* s = *state;
  uv_work_t holders[HOLDERS];
  struct answer* answers = calloc(CALLS, sizeof(*answers));
  uv_sem_t sem;
  if (getenv("UV_THREADPOOL_SIZE")) skip();
  assert_int_equal(uv_sem_init(&sem, 0), 0);
  for (int i = 0; i < HOLDERS; i++) {
    holders[i].data = &sem;
    uv_queue_work(&s->loop, &holders[i], hold_thread, on_held);
  }
  for (int i = 0; i < CALLS; i++) {
    struct sbx_file_request r = REQUEST(.verb = i % 2 ? READ : WRITE,
                                        .path = "f", .data = "x",
                                        .data_len = 1);
    assert_int_equal(
        sbx_files_request(&s->loop, s->root, &r, on_answer, &answers[i]), 0);
  }
  sbx_root_abandon(s->root);
  for (int i = 0; i < HOLDERS; i++) uv_sem_post(&sem);
  uv_run(&s->loop, UV_RUN_DEFAULT);
  uv_sem_destroy(&sem);
  for (int i = 0; i < CALLS; i++) {
    assert_true(answers[i].called);
    assert_int_equal(answers[i].code, SBX_E_ABORTED);
  }
  free(answers);
  shell(s, "test ! -e f");
}

static void limits_of_a_read(void** state) {
  struct scratch* s = *state;
  put(s, "f", "12345", 0);
  assert_int_equal(code_of(s, REQUEST(.verb = READ, .path = "f",
                                      .max_bytes = 5)), 0);
  assert_int_equal(code_of(s, REQUEST(.verb = READ, .path = "f",
                                      .max_bytes = 4)), SBX_E_IO);
}

/* --- the swapper --------------------------------------------------------- */

struct swapper {
  int fd;
  _Atomic bool stop;
  unsigned long swaps;
};

/* "d" is a folder and a link to the outside, all the time. */
static void* swap(void* arg) {
  struct swapper* w = arg;
  while (!w->stop) {
    renameat2(w->fd, "d", w->fd, "link", RENAME_EXCHANGE);
    renameat2(w->fd, "abs", w->fd, "abs2", RENAME_EXCHANGE);
    w->swaps++;
  }
  return NULL;
}

static void swapper_cached(struct scratch* s, const char* path) {
  struct sbx_file_request r = REQUEST(.verb = READ, .path = path);
  struct answer a = {0};
  uv_update_time(&s->loop);
  for (int i = 0; i < 20; i++) {
    if (sbx_files_try(&s->loop, s->root, &r, &a.result, &a.error) != 1)
      continue;
    if (a.result.len > 0 && memmem(a.result.data, a.result.len, "secret", 6))
      fail_msg("cached read escaped");
    free(a.result.data);
  }
}

/* "trap" is outside only. */
static void swapper_looks(struct scratch* s, const char* via) {
  static const enum sbx_file_verb verbs[] = {
      SBX_FILE_STAT, SBX_FILE_EXISTS, SBX_FILE_REALPATH, SBX_FILE_WALK,
      SBX_FILE_GATHER};
  char trap[64];
  snprintf(trap, sizeof(trap), "%s/trap", via);
  for (size_t i = 0; i < sizeof(verbs) / sizeof(*verbs); i++) {
    bool whole = verbs[i] == SBX_FILE_WALK || verbs[i] == SBX_FILE_GATHER;
    struct sbx_file_request r = REQUEST(.verb = verbs[i],
                                        .path = whole ? via : trap,
                                        .max_depth = 9, .max_bytes = 1 << 20);
    struct answer a = ask(s, &r);
    if (verbs[i] == SBX_FILE_EXISTS ? a.result.exists : !whole && a.code == 0)
      fail_msg("looking escaped (verb %d)", verbs[i]);
    if (whole && a.code == 0 && a.result.len > 0 &&
        memmem(a.result.data, a.result.len, "trap", 4))
      fail_msg("walk escaped (verb %d)", verbs[i]);
    free(a.result.data);
  }
}

/* Asked for together, from one folder that is kept open meanwhile. */
static void swapper_together(struct scratch* s, const char* path) {
  struct sbx_file_request r = REQUEST(.verb = READ, .path = path);
  struct answer answers[20] = {0};
  for (size_t i = 0; i < 20; i++)
    assert_int_equal(
        sbx_files_request(&s->loop, s->root, &r, on_answer, &answers[i]), 0);
  uv_run(&s->loop, UV_RUN_DEFAULT);
  for (size_t i = 0; i < 20; i++) {
    struct sbx_file_result* result = &answers[i].result;
    if (result->len > 0 && memmem(result->data, result->len, "secret", 6))
      fail_msg("reading together escaped");
    free(result->data);
  }
}

static void swapper_round(struct scratch* s, int i) {
  char fresh[64], other[64];
  const char* via = i % 2 ? "abs" : "d";
  swapper_cached(s, "d/f");
  swapper_cached(s, "link/f");
  if (i % 4 < 2) swapper_together(s, i % 2 ? "abs/f" : "d/f");
  snprintf(fresh, sizeof(fresh), "%s/new%d", via, i % 7);
  snprintf(other, sizeof(other), "%s/o%d/p", via, i % 5);
  struct sbx_file_request r = REQUEST(.verb = READ, .path = fresh);
  snprintf(fresh, sizeof(fresh), "%s/f", via);
  struct answer a = ask(s, &r);
  if (a.code == 0 && a.result.len > 0 &&
      memmem(a.result.data, a.result.len, "secret", 6))
    fail_msg("read escaped");
  free(a.result.data);
  put(s, fresh, "inside", 0);
  snprintf(fresh, sizeof(fresh), "%s/new%d", via, i % 7);
  put(s, fresh, "inside", PARENTS);
  put(s, fresh, "inside", EXCLUSIVE);
  code_of(s, REQUEST(.verb = APPEND, .path = fresh, .data = "+",
                     .data_len = 1));
  simple(s, MKDIR, other, PARENTS);
  pair(s, COPY, "tree", other, RECURSIVE);
  pair(s, COPY, "src", fresh, 0);
  r = REQUEST(.verb = READDIR, .path = via, .flags = RECURSIVE,
              .max_depth = 9);
  a = ask(s, &r);
  if (a.code == 0 && a.result.len > 0 &&
      memmem(a.result.data, a.result.len, "trap", 4))
    fail_msg("list escaped");
  free(a.result.data);
  pair(s, MOVE, fresh, "moved", 0);
  pair(s, MOVE, "moved", fresh, 0);
  simple(s, DELETE, fresh, FORCE);
  snprintf(other, sizeof(other), "%s/o%d", via, i % 5);
  simple(s, RMDIR, other, RECURSIVE | FORCE);
  swapper_looks(s, via);
  simple(s, DELETE, "d/trap", FORCE);
  simple(s, RMDIR, "d/trapdir", RECURSIVE | FORCE);
}

static void swapping_never_leads_out(void** state) {
  struct scratch* s = *state;
  char script[1024];
  const char* rounds = getenv("SBX_SWAP_ROUNDS");
  int count = rounds ? atoi(rounds) : 250;
  snprintf(script, sizeof(script),
           "mkdir %s.out %s.out/trapdir; printf secret > %s.out/f; "
           "printf secret > %s.out/trap; touch %s.out/trapdir/x;"
           "mkdir -p d e tree/a; printf in > d/f; printf in > src;"
           "printf 1 > tree/a/b; ln -s %s.out link; ln -s /workspace/d abs;"
           "ln -s %s.out abs2",
           s->path, s->path, s->path, s->path, s->path, s->path, s->path);
  shell(s, script);
  struct swapper w = {.fd = s->fd};
  pthread_t thread;
  pthread_create(&thread, NULL, swap, &w);
  for (int i = 0; i < count; i++) {
    s->root->no_openat2 = i % 4 == 3;
    swapper_round(s, i);
  }
  w.stop = true;
  pthread_join(thread, NULL);
  assert_true(w.swaps > 100);
  snprintf(script, sizeof(script),
           "test \"$(cd %s.out; find . | sort | tr '\\n' ' ')\" = "
           "'. ./f ./trap ./trapdir ./trapdir/x ' && "
           "test \"$(cat %s.out/f %s.out/trap)\" = secretsecret",
           s->path, s->path, s->path);
  shell(s, script);
}

#define T(f) cmocka_unit_test_setup_teardown(f, scratch_open, scratch_close)

int main(void) {
  const struct CMUnitTest tests[] = {
      T(contract_table),
      T(exists_is_never_an_error),
      T(links_as_commands_see_them),
      T(realpath_has_no_links),
      T(a_root_of_everything),
      T(write_keeps_what_there_was),
      T(new_files_follow_umask_022),
      T(owner_is_kept),
      T(ids_of_the_owner),
      T(full_disk),
      T(text_over_other_bytes),
      T(times_are_floored),
      T(stale_writes),
      T(each_write_moves_the_time),
      T(one_of_many_writers_wins),
      T(exclusive_has_one_winner),
      T(appends_all_arrive),
      T(readers_see_whole_files),
      T(copies),
      T(sparse_copies),
      T(large_copies),
      T(large_copy_to_a_full_disk),
      T(impossible_moves_lose_nothing),
      T(moves),
      T(moves_between_file_systems),
      T(special_files_do_not_block),
      T(cached_answers),
      T(remembered_folders),
      T(a_turn_has_its_share),
      T(looks_share_hops), T(looks_together_answer_as_alone),
      T(what_waits_is_abandoned),
      T(limits_of_a_read),
      T(swapping_never_leads_out),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
