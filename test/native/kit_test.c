/* The file calls of the remote kit, run for real under three shells: the table
 * of the contract, and what makes shell programs fail elsewhere. */
#include "kit_help.h"

#include <sys/stat.h>

#include "files_table.h"

/* Each test runs once per shell. */
typedef void (*kit_body)(struct kit* k);

static void each_shell(kit_body body) {
  const char* only = getenv("SBX_SHELL");
  for (size_t i = 0; i < SHELLS; i++) {
    struct kit k;
    if (only && strcmp(only, shells[i].name) != 0) continue;
    kit_open(&k, i);
    body(&k);
    kit_close(&k);
  }
}

/* --- the table ------------------------------------------------------------- */

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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(contract_table),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
