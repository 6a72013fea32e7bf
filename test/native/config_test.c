/* The launcher's configuration: layout of the records and the sealed memfd. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <fcntl.h>
#include <unistd.h>

#include "../../native/session/config.h"

static void records_follow_each_other(void** state) {
  struct sbx_config* c;
  const struct sbx_config_item* item;
  const char* payload;
  size_t at = 0;
  uint64_t number;

  (void) state;
  assert_int_equal(sbx_config_new(&c), 0);
  sbx_config_add_text(c, SBX_CONFIG_WORKSPACE, "/w");
  sbx_config_add_number(c, SBX_CONFIG_LEVEL, 2);
  sbx_config_add_pair(c, SBX_CONFIG_BIND_RO, "/from", "/to");
  sbx_config_add_file(c, "/etc/x", "a\0b", 3);

  item = sbx_config_next(c, &at, &payload);
  assert_int_equal(item->tag, SBX_CONFIG_WORKSPACE);
  assert_int_equal(item->len, 3);
  assert_string_equal(payload, "/w");
  assert_int_equal(at, 16);
  item = sbx_config_next(c, &at, &payload);
  assert_int_equal(item->len, 8);
  memcpy(&number, payload, sizeof(number));
  assert_int_equal(number, 2);
  item = sbx_config_next(c, &at, &payload);
  assert_int_equal(item->len, 10);
  assert_memory_equal(payload, "/from\0/to", 10);
  item = sbx_config_next(c, &at, &payload);
  assert_int_equal(item->len, 10);
  assert_memory_equal(payload, "/etc/x\0a\0b", 10);
  assert_null(sbx_config_next(c, &at, &payload));
  sbx_config_free(c);
}

static void memfd_is_sealed_and_at_its_start(void** state) {
  struct sbx_config* c;
  char buffer[16];
  int fd;

  (void) state;
  assert_int_equal(sbx_config_new(&c), 0);
  sbx_config_add_text(c, SBX_CONFIG_HOSTNAME, "h");
  fd = sbx_config_open(c);
  sbx_config_free(c);
  assert_true(fd >= 0);
  assert_int_equal(read(fd, buffer, sizeof(buffer)), 16);
  assert_int_equal(write(fd, "x", 1), -1);
  assert_int_equal(ftruncate(fd, 0), -1);
  assert_true((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
  assert_true((fcntl(fd, F_GET_SEALS) & F_SEAL_WRITE) != 0);
  close(fd);
}

static void many_records(void** state) {
  struct sbx_config* c;
  const char* payload;
  size_t at = 0;
  int count = 0;

  (void) state;
  assert_int_equal(sbx_config_new(&c), 0);
  for (int i = 0; i < 5000; i++)
    sbx_config_add_pair(c, SBX_CONFIG_SYMLINK, "target", "/a/path");
  while (sbx_config_next(c, &at, &payload) != NULL) count++;
  assert_int_equal(count, 5000);
  sbx_config_free(c);
  sbx_config_free(NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(records_follow_each_other),
      cmocka_unit_test(memfd_is_sealed_and_at_its_start),
      cmocka_unit_test(many_records),
  };

  return cmocka_run_group_tests(tests, NULL, NULL);
}
