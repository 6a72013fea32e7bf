/* The launcher's reader of configurations, in this process: what it takes, what
 * it refuses, and that no bytes whatever make it read out of bounds.
 */
#include "launcher_kit.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "../../native/launcher/config.c"

static int read_bytes(struct sbx_config* c, const void* bytes, size_t len) {
  int fd = memfd_create("config", MFD_CLOEXEC);
  int rc;

  assert_int_equal(write(fd, bytes, len), (ssize_t) len);
  rc = sbx_config_read(c, fd);
  close(fd);
  return rc;
}

static void release(struct sbx_config* c) {
  free(c->bytes);
  free(c->places);
}

/* A good configuration; returns its length. */
static size_t good(char* to, size_t size) {
  int fd = memfd_create("good", MFD_CLOEXEC);
  ssize_t n;

  kit_string(fd, SBX_CONFIG_WORKSPACE, "/tmp/s/ws");
  kit_string(fd, SBX_CONFIG_MOUNTPOINT, "/workspace");
  kit_number(fd, SBX_CONFIG_LEVEL, SBX_LEVEL_FULL);
  kit_number(fd, SBX_CONFIG_INNER_ID, KIT_INNER);
  kit_number(fd, SBX_CONFIG_UID_BASE, KIT_BASE);
  kit_string(fd, SBX_CONFIG_REMOVE, "/tmp/s");
  kit_view(fd);
  n = pread(fd, to, size, 0);
  close(fd);
  assert_true(n > 0 && (size_t) n < size);
  return (size_t) n;
}

static void test_good(void** state) {
  char bytes[4096];
  size_t len = good(bytes, sizeof(bytes)), i;
  struct sbx_config c;
  bool found = false;

  (void) state;
  assert_int_equal(read_bytes(&c, bytes, len), 0);
  assert_string_equal(c.workspace, "/tmp/s/ws");
  assert_int_equal(c.uid_base, KIT_BASE);
  assert_int_equal(c.nproc, 4096);
  for (i = 0; i < c.places_len; i++)
    if (c.places[i].tag == SBX_CONFIG_FILE &&
        strcmp(c.places[i].path, "/etc/hosts") == 0) {
      found = true;
      assert_int_equal(c.places[i].len, strlen("127.0.0.1 localhost\n"));
    }
  assert_true(found);
  release(&c);
}

static void add(int fd, size_t i) {
  static const char not_ended[] = {'/', 'a'};

  switch (i) {
    case 0: kit_string(fd, SBX_CONFIG_WORKSPACE, "relative"); break;
    case 1: kit_item(fd, SBX_CONFIG_HOSTNAME, not_ended, 2); break;
    case 2: kit_number(fd, SBX_CONFIG_LEVEL, SBX_LEVEL_LANDLOCK); break;
    case 3: kit_item(fd, SBX_CONFIG_NPROC, "1234", 4); break;
    case 4: kit_pair(fd, SBX_CONFIG_BIND_RO, "/usr", "usr"); break;
    case 5: kit_string(fd, SBX_CONFIG_BIND_RO, "/usr"); break;
    case 6: kit_number(fd, SBX_CONFIG_IDMAP, 2); break;
    case 7: kit_number(fd, SBX_CONFIG_IDMAP, 1); break; /* without an owner */
    case 8: kit_number(fd, SBX_CONFIG_INNER_ID, 65535); break;
    case 9: kit_number(fd, SBX_CONFIG_UID_BASE, UINT32_MAX - 1); break;
    case 10: kit_number(fd, 77, 1); break;
    /* Only a folder above the workspace is ever removed. */
    case 11: kit_string(fd, SBX_CONFIG_REMOVE, "/usr"); break;
    case 12: kit_string(fd, SBX_CONFIG_REMOVE, "/tmp/s/ws"); break;
    case 13: kit_string(fd, SBX_CONFIG_REMOVE, "/tmp/s/w"); break;
    default: break;
  }
}

static void test_bad(void** state) {
  char bytes[8192];
  size_t i;

  (void) state;
  for (i = 0; i < 14; i++) {
    size_t len = good(bytes, sizeof(bytes));
    int fd = memfd_create("extra", MFD_CLOEXEC);
    struct sbx_config c;
    ssize_t more;

    add(fd, i);
    more = pread(fd, bytes + len, sizeof(bytes) - len, 0);
    close(fd);
    assert_int_equal(read_bytes(&c, bytes, len + (size_t) more), -1);
    assert_int_equal(errno, EINVAL);
    release(&c);
  }
}

static void test_any_bytes(void** state) {
  char bytes[4096], changed[4096];
  size_t len = good(bytes, sizeof(bytes)), i, j;

  (void) state;
  for (i = 0; i < 20000; i++) {
    size_t cut = (size_t) random() % (len + 1);
    struct sbx_config c;

    memcpy(changed, bytes, len);
    for (j = 0; j < (size_t) random() % 4; j++)
      changed[(size_t) random() % len] = (char) random();
    if (random() % 2) cut = len;
    read_bytes(&c, changed, cut);
    release(&c);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_good),
      cmocka_unit_test(test_bad),
      cmocka_unit_test(test_any_bytes),
  };

  srandom(1);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
