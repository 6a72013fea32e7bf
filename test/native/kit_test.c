/* The file calls of the remote kit, run for real under three shells: the table
 * of the contract, and what makes shell programs fail elsewhere. */
#include "kit_help.h"

#include <sys/stat.h>

#include "files_table.h"

/* Each test runs once per shell. */
/* --- the table ------------------------------------------------------------ */

static void table_make(struct kit* k) {
  char script[1024];
  const char* p = k->path;
  snprintf(script, sizeof(script),
           "rm -rf ./* %s.out; mkdir %s.out; printf secret > %s.out/f;"
           "printf src > src; printf file > file; mkdir dir; touch dir/x;"
           "ln -s file lfile; ln -s dir ldir; ln -s %s.out/f escape;"
           "ln -s %s.out edir; ln -s nowhere dangling;"
           "ln -s %s.out/new dangling-out", p, p, p, p, p, p);
  kit_shell(k, script);
}

static void table_check_outside(struct kit* k) {
  char script[256];
  snprintf(script, sizeof(script),
           "test \"$(ls -A %s.out)\" = f && test \"$(cat %s.out/f)\" = secret "
           "&& test -z \"$(ls -A | grep sbx)\"", k->path, k->path);
  kit_shell(k, script);
}

static void table_row(struct kit* k, const struct row* row) {
  for (size_t c = 0; c < 11; c++) {
    struct sbx_file_request r = REQUEST(.verb = row->verb, .flags = row->flags,
                                        .data = "new", .data_len = 3);
    r.path = row->is_target ? "src" : columns[c];
    r.to = row->is_target ? columns[c] : "made";
    table_make(k);
    int code = kit_code(k, r);
    if (code != row->codes[c])
      fail_msg("%s: %s '%s': %d, expected %d", k->shell->name, row->name,
               columns[c], code, row->codes[c]);
    table_check_outside(k);
  }
}

static void table_body(struct kit* k) {
  for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
    table_row(k, &rows[i]);
}

static void contract_table(void** state) {
  (void)state;
  each_shell(table_body);
}

static void exists_is_never_an_error_body(struct kit* k) {
  const bool expected[11] = {false, true, true,  true,  true, false,
                             false, false, false, false, true};
  table_make(k);
  for (size_t c = 0; c < 11; c++)
    assert_int_equal(kit_exists(k, columns[c]), expected[c]);
  kit_shell(k, "ln -s loop loop");
  assert_false(kit_exists(k, "loop"));
  assert_int_equal(kit_simple(k, READ, "loop", 0), SBX_E_IO);
}
EACH(exists_is_never_an_error)

/* --- links ---------------------------------------------------------------- */

static void links_as_commands_see_them_body(struct kit* k) {
  char script[1024];
  const char* base = strrchr(k->path, '/') + 1;
  snprintf(script, sizeof(script),
           "mkdir -p d/e; printf old > d/real; ln -s d/real l1; ln -s l1 l2;"
           "ln -s %s/d/real abs; ln -s ../%s/d up; ln -s %s root;"
           "ln -s ../../../%s/d/e d/e/far; ln -s %sx/d no; ln -s ../other no2;"
           "ln -s / slash; mkdir '%s.out'", k->path, base, k->path, base,
           k->path, k->path);
  kit_shell(k, script);
  assert_int_equal(kit_put(k, "l2", "new", 0), 0);
  assert_int_equal(kit_code(k, REQUEST(.verb = APPEND, .path = "l1",
                                       .data = "+", .data_len = 1)), 0);
  kit_content(k, "d/real", "new+");
  kit_content(k, "abs", "new+");
  kit_content(k, "up/real", "new+");
  kit_content(k, "root/up/real", "new+");
  kit_content(k, "d/e/far/far/../real", "new+");
  assert_int_equal(kit_put(k, "root/fresh", "1", EXCLUSIVE), 0);
  assert_int_equal(kit_simple(k, READDIR, "no", 0), PERM);
  assert_int_equal(kit_simple(k, READDIR, "no2", 0), PERM);
  assert_int_equal(kit_simple(k, READ, "slash/etc/passwd", 0), PERM);
  assert_int_equal(kit_stat(k, "l2", 0).type, SBX_TYPE_FILE);
  assert_int_equal(kit_stat(k, "l2", SBX_FILE_NOFOLLOW).type, SBX_TYPE_LINK);
  kit_shell(k, "test \"$(readlink l1 l2 | tr '\\n' ' ')\" = 'd/real l1 '");
  const char* pairs[][2] = {{"l1", "d/real"}, {"up/e", "d/e"},
                            {"root", ""}, {"", ""}, {"d", "d"}};
  for (size_t i = 0; i < 5; i++) {
    struct sbx_file_request r = REQUEST(.verb = REAL, .path = pairs[i][0]);
    struct answer a = kit_ask(k, &r);
    assert_int_equal(a.code, 0);
    assert_string_equal(a.result.data, pairs[i][1]);
    free(a.result.data);
  }
}
EACH(links_as_commands_see_them)

/* --- writing -------------------------------------------------------------- */

static void write_keeps_what_there_was_body(struct kit* k) {
  kit_shell(k, "printf 1 > run; chmod 755 run; printf 1 > a; ln a b;"
               "printf 1 > sid; chmod 6755 sid; printf 1 > own; chmod 640 own;"
               "chown 1234:2345 own 2>/dev/null || :");
  assert_int_equal(kit_put(k, "run", "2", 0), 0);
  assert_int_equal(kit_stat(k, "run", 0).mode, 0755);
  assert_int_equal(kit_put(k, "a", "longer", 0), 0);
  kit_content(k, "b", "longer");
  assert_int_equal(kit_put(k, "b", "s", 0), 0);
  kit_content(k, "a", "s");
  assert_int_equal(kit_put(k, "sid", "2", 0), 0);
  assert_int_equal(kit_stat(k, "sid", 0).mode, 0755);
  assert_int_equal(kit_put(k, "own", "2", 0), 0);
  assert_int_equal(kit_stat(k, "own", 0).mode, 0640);
  if (geteuid() == 0)
    kit_shell(k, "test \"$(stat -c %u:%g own)\" = 1234:2345");
  kit_put(k, "n/new", "x", PARENTS);
  kit_code(k, REQUEST(.verb = APPEND, .path = "app", .data = "",
                      .data_len = 0));
  kit_simple(k, MKDIR, "m", 0);
  kit_code(k, REQUEST(.verb = WRITE, .path = "x", .data = "", .mode = 04755));
  kit_shell(k, "test \"$(stat -c %a n n/new app m x | tr '\\n' ' ')\" = "
               "'755 644 644 755 755 ' && test -z \"$(ls -A | grep sbx)\"");
}
EACH(write_keeps_what_there_was)

static void full_disk_body(struct kit* k) {
  char script[256];
  if (geteuid() != 0) return;
  kit_shell(k, "mkdir m");
  snprintf(script, sizeof(script), "mount -t tmpfs -o size=64k none %s/m",
           k->path);
  if (system(script) != 0) return;
  kit_shell(k, "printf old > m/f; printf old > m/a; ln m/a m/b");
  size_t len = 80000;
  char* big = malloc(len);
  memset(big, 'x', len);
  const char* targets[] = {"m/f", "m/a", "m/new"};
  k->place.inline_max = len;
  for (size_t i = 0; i < 3; i++) {
    struct sbx_file_request r = REQUEST(.verb = WRITE, .path = targets[i],
                                        .data = big, .data_len = len);
    struct answer a = kit_ask(k, &r);
    assert_int_equal(a.code, SBX_E_IO);
    assert_int_equal(a.error.sys, ENOSPC);
    r.verb = APPEND;
    a = kit_ask(k, &r);
    assert_int_equal(a.code, SBX_E_IO);
    assert_int_equal(a.error.sys, ENOSPC);
  }
  free(big);
  kit_content(k, "m/f", "old");
  kit_content(k, "m/b", "old");
  kit_shell(k, "test \"$(ls -A m | tr '\\n' ' ')\" = 'a b f '; umount m");
}
EACH(full_disk)

static void text_over_other_bytes_body(struct kit* k) {
  kit_shell(k, "printf 'caf\\351\\n' > l1; printf 'caf\\303\\251' > u8");
  assert_int_equal(kit_put(k, "l1", "caf\xef\xbf\xbd", SBX_FILE_TEXT),
                   SBX_E_INVALID_INPUT);
  kit_content(k, "l1", "caf\xe9\n");
  assert_int_equal(kit_put(k, "u8", "caf\xef\xbf\xbd", SBX_FILE_TEXT), 0);
  kit_content(k, "u8", "caf\xef\xbf\xbd");
  k->runs = 0;
  assert_int_equal(kit_put(k, "l1", "cafe", SBX_FILE_TEXT), 0);
  assert_int_equal(k->runs, 1);
  assert_int_equal(kit_put(k, "new", "\xef\xbf\xbd", SBX_FILE_TEXT), 0);
}
EACH(text_over_other_bytes)

/* Each size in the fewest steps, bytes as they are. */
static void contents_of_all_sizes_body(struct kit* k) {
  const size_t sizes[] = {0, 1, 4096, 65536, 65537, 300000};
  for (int round = 0; round < 8; round++) {
    unsigned bare = round < 4 ? 0 : SBX_FILE_BARE;
    size_t len = 300000;
    char* data = malloc(len);
    for (size_t i = 0; i < len; i++)
      data[i] = round % 4 < 2 ? (char)(i * 7 + i / 251) : 'a' + (char)(i % 26);
    k->place.binary_output = round % 2 == 0;
    for (size_t i = 0; i < 6; i++) {
      struct sbx_file_request r = REQUEST(.verb = WRITE, .path = "f",
                                          .flags = bare, .data = data,
                                          .data_len = sizes[i]);
      k->runs = k->uploads = k->downloads = 0;
      struct answer a = kit_ask(k, &r);
      assert_int_equal(a.code, 0);
      if (!bare) assert_true(a.result.stat.size == sizes[i]);
      assert_int_equal(k->runs, 1);
      assert_int_equal(k->uploads, sizes[i] > 65536);
      r = REQUEST(.verb = READ, .path = "f", .flags = bare);
      a = kit_ask(k, &r);
      assert_int_equal(a.code, 0);
      assert_int_equal(a.result.len, sizes[i]);
      assert_memory_equal(a.result.data, data, sizes[i]);
      assert_int_equal(k->runs, 2);
      assert_int_equal(k->downloads, sizes[i] > 65536);
      if (!bare) assert_true(a.result.stat.size == sizes[i]);
      free(a.result.data);
    }
    free(data);
  }
  kit_shell(k, "test -z \"$(ls -A | grep sbx)\"");
}
EACH(contents_of_all_sizes)

static void limits_of_a_read_body(struct kit* k) {
  kit_put(k, "f", "12345", 0);
  assert_int_equal(kit_code(k, REQUEST(.verb = READ, .path = "f",
                                       .max_bytes = 5)), 0);
  assert_int_equal(kit_code(k, REQUEST(.verb = READ, .path = "f",
                                       .max_bytes = 4)), SBX_E_IO);
}
EACH(limits_of_a_read)

/* --- times ---------------------------------------------------------------- */

static struct answer put_if(struct kit* k, const char* text, int64_t ms,
                            unsigned flags) {
  struct sbx_file_request r = REQUEST(.verb = WRITE, .path = "f",
                                      .data = text, .data_len = strlen(text),
                                      .flags = flags);
  r.expected_mtime_ms = ms;
  return kit_ask(k, &r);
}

static void stale_writes_body(struct kit* k) {
  kit_shell(k, "echo a > f; touch -d '2024-05-06 07:08:09.123987654 UTC' f");
  int64_t ms = kit_stat(k, "f", 0).modified_ms;
  assert_true(ms == 1714979289123);
  assert_int_equal(put_if(k, "b", ms, 0).code, 0);
  kit_shell(k, "touch -d '1969-12-31 23:59:59.999999999 UTC' f");
  assert_true(kit_stat(k, "f", 0).modified_ms == -1);
  assert_int_equal(put_if(k, "b", -1, 0).code, 0);
  kit_shell(k, "rm f");
  assert_int_equal(put_if(k, "first", 5, 0).code, 0); /* nothing there */
  ms = kit_stat(k, "f", 0).modified_ms;
  for (int64_t off = -1; off <= 1; off += 2) {
    struct answer a = put_if(k, "x", ms + off, EXCLUSIVE);
    assert_int_equal(a.code, SBX_E_STALE);
    assert_true(a.error.number == ms);
  }
  assert_int_equal(put_if(k, "x", ms, EXCLUSIVE).code, EXI);
  assert_int_equal(put_if(k, "x", ms, 0).code, 0);
  assert_int_equal(put_if(k, "y", ms, 0).code, SBX_E_STALE);
  kit_content(k, "f", "x");
  kit_shell(k, "echo > hard; ln hard hard2");
  int64_t last = 0, last_hard = 0;
  for (int i = 0; i < 5; i++) {
    struct answer a = put_if(k, "same", INT64_MIN, 0);
    assert_true(a.result.stat.modified_ms > last);
    last = a.result.stat.modified_ms;
    kit_put(k, "hard", "same", 0);
    assert_true(kit_stat(k, "hard", 0).modified_ms > last_hard);
    last_hard = kit_stat(k, "hard", 0).modified_ms;
  }
}
EACH(stale_writes)

/* --- many at once --------------------------------------------------------- */

/* In processes of their own, for each waits for its shell. */
static int race(struct kit* k, int count, const struct sbx_file_request* r,
                int loser) {
  pid_t pids[32];
  int winners = 0, status;
  for (int i = 0; i < count; i++) {
    pids[i] = fork();
    if (pids[i] > 0) continue;
    struct answer a = kit_ask(k, r);
    _exit(a.code == 0 ? 0 : a.code == loser ? 1 : 2);
  }
  for (int i = 0; i < count; i++) {
    waitpid(pids[i], &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) > 1) fail_msg("a racer");
    winners += WEXITSTATUS(status) == 0;
  }
  return winners;
}

static void races_body(struct kit* k) {
  struct sbx_file_request r = REQUEST(.verb = WRITE, .path = "once",
                                      .data = "x", .data_len = 1,
                                      .flags = EXCLUSIVE);
  assert_int_equal(race(k, 12, &r, EXI), 1);
  for (int i = 0; i < 3; i++) {
    kit_put(k, "f", "start", 0);
    kit_shell(k, "touch -d 2001-01-01 f");
    r = REQUEST(.verb = WRITE, .path = "f", .data = "y", .data_len = 1);
    r.expected_mtime_ms = kit_stat(k, "f", 0).modified_ms;
    assert_int_equal(race(k, 8, &r, SBX_E_STALE), 1);
  }
  char line[3001];
  memset(line, 'x', 2999);
  line[2999] = '\n';
  r = REQUEST(.verb = APPEND, .path = "a/log", .data = line,
              .data_len = 3000);
  assert_int_equal(race(k, 20, &r, 0), 20);
  kit_shell(k, "test $(grep -cx 'x\\{2999\\}' a/log) = 20");
}
EACH(races)

static void broken_locks_body(struct kit* k) {
  char script[256];
  kit_put(k, "f", "1", 0);
  kit_put(k, "f", "2", 0);
  snprintf(script, sizeof(script), "echo '99999999 5' > %s/lock.100000005",
           k->folder);
  kit_shell(k, script);
  assert_int_equal(kit_put(k, "f", "3", 0), 0);
  snprintf(script, sizeof(script), "echo '1 5' > %s/lock.100000007",
           k->folder);
  kit_shell(k, script);
  assert_int_equal(kit_put(k, "f", "4", 0), 0);
  kit_content(k, "f", "4");
  snprintf(script, sizeof(script),
           "cd %s; test \"$(ls -A | grep -v '^lock.10000000[1-8]$')\" = '' && "
           "test \"$(head -n 1 lock.100000008)\" = done", k->folder);
  kit_shell(k, script);
  snprintf(script, sizeof(script), "rm -r %s && ln -s /tmp %s", k->folder,
           k->folder);
  kit_shell(k, script);
  assert_int_equal(kit_put(k, "f", "5", 0), 0);
  kit_content(k, "f", "5");
  /* The link made room, and was not followed. */
  snprintf(script, sizeof(script), "test ! -h %s && test ! -e /tmp/lock",
           k->folder);
  kit_shell(k, script);
}
EACH(broken_locks)

static void locks_are_forgotten_body(struct kit* k) {
  char script[512];
  kit_put(k, "f", "1", 0);
  snprintf(script, sizeof(script),
           "mkdir -pm 700 %s; cd %s; for i in $(seq 300); do "
           "echo done > lock.$((100000000 + i)); done", k->folder, k->folder);
  kit_shell(k, script);
  assert_int_equal(kit_put(k, "f", "2", 0), 0);
  snprintf(script, sizeof(script),
           "cd %s; test $(ls | wc -l) = 32 && "
           "test \"$(head -n 1 lock.100000301)\" = done", k->folder);
  kit_shell(k, script);
}
EACH(locks_are_forgotten)

/* --- copy and move -------------------------------------------------------- */

static void copies_body(struct kit* k) {
  kit_shell(k, "mkdir -p t/a t/ro; printf 1 > t/a/f; chmod 755 t/a/f;"
               "mkfifo t/p; ln -s a/f t/l; ln -s /etc/passwd t/e;"
               "printf x > t/ro/x; touch -d 2001-01-01 t/a/f; chmod 555 t/ro;"
               "chmod 700 t/a; printf w > t/w; chmod 666 t/w");
  assert_int_equal(kit_pair(k, COPY, "t", "u/v", RECURSIVE), 0);
  kit_shell(k, "test \"$(cd u/v; stat -c '%n %a %F' a a/f p l e ro ro/x w)\" ="
               " \"$(cd t; stat -c '%n %a %F' a a/f p l e ro ro/x w)\" && "
               "test $(readlink u/v/l) = a/f && test u/v/a/f -nt t/a/f && "
               "test -z \"$(ls -A u | grep sbx)\"");
  assert_int_equal(kit_pair(k, COPY, "t", "t/x/y", RECURSIVE),
                   SBX_E_INVALID_INPUT);
  assert_int_equal(kit_pair(k, COPY, "t", "t", RECURSIVE),
                   SBX_E_INVALID_INPUT);
  assert_int_equal(kit_pair(k, COPY, "", "t/z", RECURSIVE),
                   SBX_E_INVALID_INPUT);
  assert_false(kit_exists(k, "t/x"));
  kit_put(k, "u/v/a/f", "kept", 0);
  kit_shell(k, "rm u/v/l");
  assert_int_equal(kit_pair(k, COPY, "t", "u/v", RECURSIVE | EXCLUSIVE), 0);
  kit_content(k, "u/v/a/f", "kept");
  kit_content(k, "u/v/l", "kept");
  assert_int_equal(kit_pair(k, COPY, "t", "u/v", RECURSIVE), 0);
  kit_content(k, "u/v/a/f", "1");
  assert_int_equal(kit_pair(k, COPY, "t/p", "q", 0), SBX_E_SPECIAL_FILE);
  assert_int_equal(kit_pair(k, COPY, "t/a/f", "t/a/f", 0), 0);
  kit_content(k, "t/a/f", "1");
  assert_int_equal(kit_pair(k, COPY, "t/a/f", "u", EXCLUSIVE), EXI);
  assert_int_equal(kit_pair(k, COPY, "t", "t/a/f", RECURSIVE),
                   SBX_E_INVALID_INPUT);
  kit_put(k, "plain", "1", 0);
  assert_int_equal(kit_pair(k, COPY, "t", "plain", RECURSIVE), NOTD);
  assert_int_equal(kit_pair(k, COPY, "t/a/f", "new/f", 0), 0);
  assert_int_equal(kit_stat(k, "new/f", 0).mode, 0755);
  /* Nothing is written through the links of an older copy. */
  char script[512];
  snprintf(script, sizeof(script),
           "mkdir %s.out; printf secret > %s.out/f; mkdir -p s/d old;"
           "printf n > s/f; printf n > s/d/f; ln -s %s.out/f old/f;"
           "ln -s %s.out old/d", k->path, k->path, k->path, k->path);
  kit_shell(k, script);
  assert_int_equal(kit_pair(k, COPY, "s", "old", RECURSIVE), NOTD);
  kit_shell(k, "rm old/d");
  assert_int_equal(kit_pair(k, COPY, "s", "old", RECURSIVE), 0);
  kit_content(k, "old/f", "n");
  snprintf(script, sizeof(script),
           "test \"$(cat %s.out/f)\" = secret && test $(ls %s.out) = f",
           k->path, k->path);
  kit_shell(k, script);
}
EACH(copies)

static void moves_body(struct kit* k) {
  kit_shell(k, "mkdir a b; printf 1 > a/x; printf 2 > b/y; printf 3 > f");
  assert_int_equal(kit_pair(k, MOVE, "a", "b", 0), NE);
  assert_int_equal(kit_pair(k, MOVE, "a", "a/sub", 0), SBX_E_INVALID_INPUT);
  assert_int_equal(kit_pair(k, MOVE, "a", "a/n/sub", 0), SBX_E_INVALID_INPUT);
  assert_int_equal(kit_pair(k, MOVE, "f", "b", 0), ISD);
  assert_int_equal(kit_pair(k, MOVE, "a", "f", 0), NOTD);
  assert_int_equal(kit_pair(k, MOVE, "missing", "n/x", 0), FNF);
  assert_int_equal(kit_pair(k, MOVE, "f", "f", 0), 0);
  assert_int_equal(kit_pair(k, MOVE, "a", "a", 0), 0);
  assert_int_equal(kit_pair(k, MOVE, "a", "b", EXCLUSIVE), EXI);
  kit_shell(k, "test \"$(find . | sort | tr '\\n' ' ')\" = "
               "'. ./a ./a/x ./b ./b/y ./f '; rm -rf ./*;"
               "mkdir a e; printf 1 > a/x; printf s > s; printf d > d; ln s h;"
               "touch -d 2001-01-01 a/x; ln -s nothing l");
  assert_int_equal(kit_pair(k, MOVE, "s", "d", EXCLUSIVE), EXI);
  assert_int_equal(kit_pair(k, MOVE, "s", "p/q/new", EXCLUSIVE), 0);
  assert_int_equal(kit_pair(k, MOVE, "h", "p/q/new", 0), 0);
  assert_int_equal(kit_pair(k, MOVE, "a", "e", 0), 0);
  assert_int_equal(kit_pair(k, MOVE, "e", "g", EXCLUSIVE), 0);
  assert_int_equal(kit_pair(k, MOVE, "l", "l2", 0), 0);
  assert_int_equal(kit_pair(k, MOVE, "d", "l2", 0), 0);
  kit_shell(k, "test \"$(find . | sort | tr '\\n' ' ')\" = "
               "'. ./g ./g/x ./l2 ./p ./p/q ./p/q/new ' && test -f l2 && "
               "test $(stat -c %Y g/x) = $(date -d 2001-01-01 +%s)");
}
EACH(moves)

static void special_files_do_not_block_body(struct kit* k) {
  kit_shell(k, "mkfifo p");
  assert_int_equal(kit_simple(k, READ, "p", 0), SBX_E_SPECIAL_FILE);
  assert_int_equal(kit_put(k, "p", "x", 0), SBX_E_SPECIAL_FILE);
  assert_int_equal(kit_simple(k, APPEND, "p", 0), SBX_E_SPECIAL_FILE);
  assert_int_equal(kit_stat(k, "p", 0).type, SBX_TYPE_OTHER);
  assert_true(kit_exists(k, "p"));
  assert_int_equal(kit_simple(k, SBX_FILE_GATHER, "p", 0), 0);
  assert_int_equal(kit_simple(k, DELETE, "p", 0), 0);
}
EACH(special_files_do_not_block)

/* --- lists ---------------------------------------------------------------- */

static void lists_body(struct kit* k) {
  char script[512];
  const char* ts[] = {".ts", "md"};
  snprintf(script, sizeof(script),
           "mkdir d d/e; printf 123 > d/f.txt; mkfifo d/p; ln -s e d/l;"
           "ln -s /etc d/out; ln -s nothing d/x; ln -s %s/d/e d/abs;"
           "touch d/.h d/Z", k->path);
  kit_shell(k, script);
  kit_list(k, REQUEST(.verb = READDIR, .path = "d"),
           ".h=0 Z=0 abs/@ e/ f.txt=3 l/@ out@ p| x@");
  assert_int_equal(kit_simple(k, READDIR, "d/p", 0), NOTD);
  kit_shell(k, "rm -rf ./*; mkdir -p a/b/c .git/x; touch 0 a/1 a/b/2 a/b/c/3 "
               "a-z a/.n");
  struct sbx_file_request r = REQUEST(.verb = READDIR, .path = "");
  kit_list(k, r, ".git/ 0=0 a/ a-z=0");
  r.flags = RECURSIVE;
  r.max_depth = 1;
  kit_list(k, r, ".git/ .git/x/ 0=0 a/ a/.n=0 a/1=0 a/b/ a-z=0");
  r.verb = SBX_FILE_WALK;
  r.flags = 0;
  r.max_depth = 2;
  kit_list(k, r, "0 a/ a/1 a/b/ a-z");
  r.max_depth = 0;
  kit_list(k, r, "0 a/ a/1 a/b/ a/b/2 a/b/c/ a/b/c/3 a-z");
  r.flags = SBX_FILE_HIDDEN;
  r.path = "a";
  kit_list(k, r, ".n 1 b/ b/2 b/c/ b/c/3");
  kit_shell(k, "rm -rf ./* .git; mkdir x.js; touch a.ts b.d.ts c.md .ts d.TS "
               "ts; ln -s ts l.js; mkdir t; ln -s . t/a; ln -s ../t t/c");
  kit_list(k, REQUEST(.verb = READDIR, .path = "", .extensions = ts,
                      .extensions_len = 2, .flags = RECURSIVE, .max_depth = 9),
           "a.ts=0 b.d.ts=0 c.md=0 l.js@ t/ t/a/@ t/c/@ x.js/");
  kit_list(k, REQUEST(.verb = READDIR, .path = "x.js"), "");
}
EACH(lists)

static void unreadable_folders_body(struct kit* k) {
  if (geteuid() == 0) return; /* who may read all */
  kit_shell(k, "mkdir -p t/ok t/locked/in; touch t/ok/a; chmod 000 t/locked");
  kit_list(k, REQUEST(.verb = READDIR, .path = "t", .max_depth = 100,
                      .flags = RECURSIVE), "locked/ ok/ ok/a=0");
  assert_int_equal(kit_simple(k, READDIR, "t/locked", 0), PERM);
  assert_int_equal(kit_simple(k, READ, "t/locked/in", 0), PERM);
}
EACH(unreadable_folders)

/* --- names ---------------------------------------------------------------- */

/* What a hostile sandbox would write to look like an answer. */
static const char* const odd[] = {
    "a\nb", "-x", "\xff\xfe", "e\xcc\x81", " ", "  x ", "-rf", "...", "it's",
    "\"", "$HOME", "$(touch pwned)", "`touch pwned`", ";touch pwned", "*",
    "\\", "\\n", "con\tx", "[a]", "a\n", "\n", "\x01", "\x02x", "R", "+R",
    "E", "%s", "=x", "81a4 5 ./f", "x\n81a4 5 ./zzz\n", "!", "printf", "--"};

static void odd_names_body(struct kit* k) {
  size_t count = sizeof(odd) / sizeof(*odd);
  char longest[256], path[300];
  memset(longest, 'n', 255);
  longest[255] = 0;
  for (size_t i = 0; i <= count; i++) {
    const char* name = i < count ? odd[i] : longest;
    snprintf(path, sizeof(path), "d/%s", name);
    k->place.binary_output = i % 2;
    assert_int_equal(kit_put(k, path, name, PARENTS), 0);
    assert_int_equal(kit_put(k, path, name, 0), 0);
    kit_content(k, path, name);
    assert_int_equal(kit_stat(k, path, 0).type, SBX_TYPE_FILE);
  }
  for (int binary = 0; binary < 2; binary++) {
    k->place.binary_output = binary;
    struct sbx_file_request r = REQUEST(.verb = READDIR, .path = "d");
    struct answer a = kit_ask(k, &r);
    assert_int_equal(a.code, 0);
    assert_int_equal(a.result.count, count + 1);
    free(a.result.data);
    r.verb = SBX_FILE_GATHER;
    r.path = "";
    r.flags = SBX_FILE_HIDDEN;
    a = kit_ask(k, &r);
    assert_int_equal(a.code, 0);
    /* A search may leave out names with bytes 1 and 2 in them. */
    assert_true(a.result.count >= count - 1);
    free(a.result.data);
  }
  assert_int_equal(kit_pair(k, COPY, "d", "-c", RECURSIVE), 0);
  for (size_t i = 0; i < count; i++) {
    char to[300];
    snprintf(path, sizeof(path), "-c/%s", odd[i]);
    snprintf(to, sizeof(to), "m\n/%s", odd[count - 1 - i]);
    assert_int_equal(kit_pair(k, MOVE, path, to, 0), 0);
    kit_content(k, to, odd[i]);
    assert_int_equal(kit_simple(k, DELETE, to, 0), 0);
  }
  assert_int_equal(kit_simple(k, RMDIR, "m\n", RECURSIVE), 0);
  kit_shell(k, "test $(ls -A d | grep -c pwned) -gt 0 && test ! -e pwned && "
               "test ! -e zzz");
  char too_long[300] = "x";
  strcat(too_long, longest);
  assert_int_equal(kit_put(k, too_long, "1", 0), SBX_E_INVALID_INPUT);
  assert_false(kit_exists(k, too_long));
}
EACH(odd_names)

static void what_links_say_body(struct kit* k) {
  static const char* const texts[] = {"x", "x\n", "\n", "../a b/\n\n", "-n"};
  kit_shell(k, "mkdir d");
  for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
    struct sbx_file_request r = REQUEST(.verb = READDIR, .path = "d");
    char path[128];
    uint32_t len;
    snprintf(path, sizeof(path), "%s/d/l", k->path);
    unlink(path);
    assert_int_equal(symlink(texts[i], path), 0);
    struct answer a = kit_ask(k, &r);
    assert_int_equal(a.code, 0);
    assert_int_equal(a.result.count, 1);
    memcpy(&len, a.result.data + 8, 4);
    assert_int_equal(len, strlen(texts[i]));
    assert_memory_equal(a.result.data + SBX_ENTRY_HEADER + 1, texts[i], len);
    free(a.result.data);
  }
}
EACH(what_links_say)

static void contents_that_look_like_answers_body(struct kit* k) {
  const char* texts[] = {")SBX", "SBX(", "K", "EptENOENT ",
                         "SBX00000000000000000000000000000000(K)"
                         "SBX00000000000000000000000000000000", "\n", "\n\n",
                         "R", "M", "F1\nx"};
  for (size_t p = 0; p < 3; p++) {
    k->piece = p * p * 3 + (p == 1);
    for (size_t i = 0; i < 10; i++) {
      k->place.binary_output = i % 2;
      assert_int_equal(kit_put(k, "f", texts[i], 0), 0);
      kit_content(k, "f", texts[i]);
      assert_int_equal(kit_simple(k, SBX_FILE_GATHER, "f", 0), 0);
    }
  }
}
EACH(contents_that_look_like_answers)

/* --- search --------------------------------------------------------------- */

static void gathered(struct kit* k, struct sbx_file_request r,
                     const char* text, bool more) {
  r.verb = SBX_FILE_GATHER;
  struct answer a = kit_ask(k, &r);
  assert_int_equal(a.code, 0);
  char* out = calloc(1, a.result.len + 64);
  const char* at = a.result.data;
  char* to = out;
  for (uint32_t i = 0; i < a.result.count; i++) {
    uint32_t name_len;
    uint64_t size;
    memcpy(&name_len, at + 4, 4);
    memcpy(&size, at + 12, 8);
    const char* name = at + SBX_ENTRY_HEADER;
    to += sprintf(to, "%.*s=%.*s;", (int)name_len, name, (int)size,
                  name + name_len);
    at = name + name_len + size;
  }
  assert_string_equal(out, text);
  assert_int_equal(a.result.more, more);
  free(out);
  free(a.result.data);
}

static void searches_body(struct kit* k) {
  kit_shell(k, "mkdir -p a/b .g; printf 1 > a/b/x; printf 2 > a-z;"
               "printf 3 > .g/y; printf 4 > c.TS; mkfifo p; ln -s a/b/x l;"
               "ln -s /etc/passwd e; ln -s a d; : > empty");
  gathered(k, REQUEST(.path = ""), "a/b/x=1;a-z=2;c.TS=4;empty=;l=1;", false);
  gathered(k, REQUEST(.path = "", .flags = SBX_FILE_HIDDEN),
           ".g/y=3;a/b/x=1;a-z=2;c.TS=4;empty=;l=1;", false);
  gathered(k, REQUEST(.path = "a"), "b/x=1;", false);
  const char* prune[] = {"z", "b"};
  gathered(k, REQUEST(.path = "", .prune = prune, .prune_len = 2),
           "a-z=2;c.TS=4;empty=;l=1;", false);
  gathered(k, REQUEST(.path = "a/b/x"), "x=1;", false);
  gathered(k, REQUEST(.path = "l"), "l=1;", false);
  const char* ts[] = {".ts"};
  gathered(k, REQUEST(.path = "", .extensions = ts, .extensions_len = 1),
           "c.TS=4;", false);
  assert_int_equal(kit_simple(k, SBX_FILE_GATHER, "no", 0), DNF);
  assert_int_equal(kit_simple(k, SBX_FILE_GATHER, "e", 0), PERM);
  kit_shell(k, "rm -rf ./*; printf 'one Two\\0Three' > a; printf two > b;"
               "printf TWO > c; printf 't w o' > d; printf tw > e");
  gathered(k, REQUEST(.path = "", .data = "two", .data_len = 3), "b=two;",
           false);
  struct sbx_file_request r = REQUEST(.verb = SBX_FILE_GATHER, .path = "",
                                      .data = "two", .data_len = 3,
                                      .flags = SBX_FILE_FOLD);
  struct answer a = kit_ask(k, &r);
  assert_int_equal(a.result.count, 3);
  free(a.result.data);
}
EACH(searches)

static void batches_body(struct kit* k) {
  char after[16] = "", content[101] = {0};
  memset(content, 'x', 100);
  const char* names[] = {"a/1", "a/2", "a-", "b/c/3", "b/d", "e"};
  for (size_t i = 0; i < 6; i++)
    assert_int_equal(kit_put(k, names[i], content, PARENTS), 0);
  for (size_t i = 0; i < 6; i++) {
    struct sbx_file_request r = REQUEST(.verb = SBX_FILE_GATHER, .path = "",
                                        .to = *after ? after : NULL,
                                        .max_bytes = 10);
    struct answer a = kit_ask(k, &r);
    assert_int_equal(a.code, 0);
    assert_int_equal(a.result.count, 1);
    assert_memory_equal((char*)a.result.data + SBX_ENTRY_HEADER, names[i],
                        strlen(names[i]));
    assert_int_equal(a.result.more, i < 5);
    strcpy(after, names[i]);
    free(a.result.data);
  }
  gathered(k, REQUEST(.path = "", .to = "e"), "", false);
  /* More endings than find is told: what does not fit is left out here, and
   * the search goes on by itself. */
  const char* many[] = {".1", ".2", ".3", ".4", ".5", ".6", ".7", ".8", ".zz"};
  kit_put(k, "f.zz", "z", 0);
  k->runs = 0;
  gathered(k, REQUEST(.path = "", .max_bytes = 10, .extensions = many,
                      .extensions_len = 9), "f.zz=z;", false);
  assert_true(k->runs > 3);
}
EACH(batches)

#define T(name) cmocka_unit_test(name)

int main(void) {
  const struct CMUnitTest tests[] = {
      T(contract_table),
      T(exists_is_never_an_error),
      T(links_as_commands_see_them),
      T(write_keeps_what_there_was),
      T(full_disk),
      T(text_over_other_bytes),
      T(contents_of_all_sizes),
      T(limits_of_a_read),
      T(stale_writes),
      T(races),
      T(broken_locks),
      T(locks_are_forgotten),
      T(copies),
      T(moves),
      T(special_files_do_not_block),
      T(lists),
      T(unreadable_folders),
      T(odd_names),
      T(what_links_say),
      T(contents_that_look_like_answers),
      T(searches),
      T(batches),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
