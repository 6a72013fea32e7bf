/* Contents of many files for a search. */
#include "files_help.h"

/* "name=content;..." */
static char* gathered(const struct sbx_file_result* result) {
  char* out = calloc(1, result->len + 64);
  const char* at = result->data;
  char* to = out;
  for (uint32_t i = 0; i < result->count; i++) {
    uint32_t name_len;
    uint64_t size;
    memcpy(&name_len, at + 4, 4);
    memcpy(&size, at + 12, 8);
    const char* name = at + SBX_ENTRY_HEADER;
    to += sprintf(to, "%.*s=%.*s;", (int)name_len, name, (int)size,
                  name + name_len);
    at = name + name_len + size;
  }
  return out;
}

static void assert_gathered(struct scratch* s,
                            struct sbx_file_request request, const char* text,
                            bool more) {
  request.verb = SBX_FILE_GATHER;
  struct answer a = ask(s, &request);
  assert_int_equal(a.code, 0);
  char* found = gathered(&a.result);
  assert_string_equal(found, text);
  assert_int_equal(a.result.more, more);
  free(found);
  free(a.result.data);
}

static void plain_files_in_order(void** state) {
  struct scratch* s = *state;
  shell(s, "mkdir -p a/b .g; printf 1 > a/b/x; printf 2 > a-z; printf 3 > .g/y;"
           "printf 4 > c.TS; mkfifo p; ln -s a/b/x l; ln -s /etc/passwd e;"
           "ln -s a d; : > empty");
  assert_gathered(s, REQUEST(.path = ""), "a/b/x=1;a-z=2;c.TS=4;empty=;l=1;",
                  false);
  assert_gathered(s, REQUEST(.path = "", .flags = SBX_FILE_HIDDEN),
                  ".g/y=3;a/b/x=1;a-z=2;c.TS=4;empty=;l=1;", false);
  assert_gathered(s, REQUEST(.path = "a"), "b/x=1;", false);
  const char* prune[] = {"z", "b"};
  assert_gathered(s, REQUEST(.path = "", .prune = prune, .prune_len = 2),
                  "a-z=2;c.TS=4;empty=;l=1;", false);
  assert_gathered(s, REQUEST(.path = "a/b", .prune = prune, .prune_len = 2),
                  "x=1;", false);
  assert_gathered(s, REQUEST(.path = "a/b/x"), "x=1;", false);
  assert_gathered(s, REQUEST(.path = "l"), "l=1;", false);
  assert_gathered(s, REQUEST(.path = "p"), "", false);
  const char* ts[] = {".ts"};
  assert_gathered(s, REQUEST(.path = "", .extensions = ts,
                             .extensions_len = 1), "c.TS=4;", false);
  assert_int_equal(simple(s, SBX_FILE_GATHER, "no", 0),
                   SBX_E_DIRECTORY_NOT_FOUND);
  assert_int_equal(simple(s, SBX_FILE_GATHER, "e", 0), SBX_E_ACCESS);
}

static void only_with_the_bytes(void** state) {
  struct scratch* s = *state;
  shell(s, "printf 'one Two\\0Three' > a; printf two > b; printf TWO > c;"
           "printf 't w o' > d; printf tw > e");
  struct sbx_file_request r = REQUEST(.path = "", .data = "two",
                                      .data_len = 3);
  assert_gathered(s, r, "b=two;", false);
  r.flags = SBX_FILE_FOLD;
  r.verb = SBX_FILE_GATHER;
  struct answer a = ask(s, &r);
  assert_int_equal(a.result.count, 3);
  free(a.result.data);
}

static void only_lines_with_the_bytes(void** state) {
  struct scratch* s = *state;
  shell(s, "printf 'one\\ntwo and two\\n\\nTwo\\n three\\ntwo\\r\\nlast' > a;"
           "printf two > b; printf '\\n\\ntwo' > c; printf 'two\\n' > d;"
           "printf 'tw\\no' > e; : > f; ln -s c l;"
           "(yes | head -n 70000; echo TWO; echo; yes | head -n 70000) > z");
  struct sbx_file_request r = REQUEST(.path = "", .data = "two", .data_len = 3,
                                      .flags = SBX_FILE_LINES);
  assert_gathered(s, r, "a=\ntwo and two\n\n\n\ntwo\r\n;b=two;c=\n\ntwo;"
                        "d=two\n;l=\n\ntwo;", false);
  r.path = "a";
  r.flags |= SBX_FILE_FOLD;
  assert_gathered(s, r, "a=\ntwo and two\n\nTwo\n\ntwo\r\n;", false);
  r.path = "z";
  r.verb = SBX_FILE_GATHER;
  struct answer a = ask(s, &r);
  assert_int_equal(a.result.count, 1);
  assert_int_equal(a.result.len, SBX_ENTRY_HEADER + 1 + 70004);
  free(a.result.data);
  /* Many lines with it in one case, and none in the other. */
  shell(s, "yes two | head -n 700000 > y");
  r.path = "y";
  a = ask(s, &r);
  assert_int_equal(a.result.len, SBX_ENTRY_HEADER + 1 + 2800000);
  free(a.result.data);
  /* In no line, so the files are given whole. */
  r = REQUEST(.path = "", .data = "w\no", .data_len = 3,
              .flags = SBX_FILE_LINES);
  assert_gathered(s, r, "e=tw\no;", false);
}

static void batches(void** state) {
  struct scratch* s = *state;
  char after[16] = "", content[101] = {0};
  memset(content, 'x', 100);
  shell(s, "mkdir a b b/c");
  const char* names[] = {"a/1", "a/2", "a-", "b/c/3", "b/d", "e"};
  for (size_t i = 0; i < 6; i++)
    assert_int_equal(put(s, names[i], content, 0), 0);
  for (size_t i = 0; i < 6; i++) {
    struct sbx_file_request r = REQUEST(.verb = SBX_FILE_GATHER, .path = "",
                                        .to = *after ? after : NULL,
                                        .max_bytes = 10);
    struct answer a = ask(s, &r);
    assert_int_equal(a.code, 0);
    assert_int_equal(a.result.count, 1);
    assert_memory_equal((char*)a.result.data + SBX_ENTRY_HEADER, names[i],
                        strlen(names[i]));
    assert_int_equal(a.result.more, i < 5);
    strcpy(after, names[i]);
    free(a.result.data);
  }
  assert_gathered(s, REQUEST(.path = "", .to = "e"), "", false);
  assert_gathered(s, REQUEST(.path = "", .to = "zzz"), "", false);
}

/* Enough files for two threads: every third one has the line. */
static char* many(struct scratch* s) {
  shell(s, "for i in $(seq 10 49); do mkdir -p d$i/e; for j in $(seq 10 34); do"
           " [ $(((i + j) % 3)) = 0 ] && echo two $i$j > d$i/e/f$j ||"
           " echo one > d$i/e/f$j; done; ln -s e/f10 d$i/l; done;"
           "mkfifo d20/e/p d30/e/p");
  char *text = calloc(1, 64 << 10), *to = text;
  for (int i = 10; i < 50; i++) {
    for (int j = 10; j < 35; j++)
      if ((i + j) % 3 == 0)
        to += sprintf(to, "d%d/e/f%d=two %d%d\n;", i, j, i, j);
    if ((i + 10) % 3 == 0) to += sprintf(to, "d%d/l=two %d10\n;", i, i);
  }
  return text;
}

static void two_threads_find_as_one(void** state) {
  struct scratch* s = *state;
  char* text = many(s);
  struct sbx_file_request r = REQUEST(.path = "", .data = "two", .data_len = 3,
                                      .flags = SBX_FILE_LINES);
  for (int i = 0; i < 20; i++) assert_gathered(s, r, text, false);
  free(text);
}

static void two_threads_batch_as_one(void** state) {
  struct scratch* s = *state;
  char *text = many(s), *found = calloc(1, 64 << 10), after[64] = "";
  for (bool more = true; more;) {
    struct sbx_file_request r = REQUEST(.verb = SBX_FILE_GATHER, .path = "",
        .to = after, .data = "two", .data_len = 3, .max_bytes = 5000,
        .flags = SBX_FILE_LINES);
    struct answer a = ask(s, &r);
    assert_int_equal(a.code, 0);
    assert_true(a.result.count > 0 && a.result.len <= 5000);
    more = a.result.more;
    if (more) assert_true(a.result.len > 5000 - 50);
    char* part = gathered(&a.result);
    strcat(found, part);
    char* last = strrchr(part, '=');
    while (last > part && last[-1] != ';') last--;
    sscanf(last, "%63[^=]", after);
    free(part);
    free(a.result.data);
  }
  assert_string_equal(found, text);
  free(found);
  free(text);
}

#define T(f) cmocka_unit_test_setup_teardown(f, scratch_open, scratch_close)

int main(void) {
  const struct CMUnitTest tests[] = {
      T(plain_files_in_order), T(only_with_the_bytes),
      T(only_lines_with_the_bytes), T(batches),
      T(two_threads_find_as_one), T(two_threads_batch_as_one)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
