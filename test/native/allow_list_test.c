/* Which hosts a list allows, and which entries are none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../native/network/address.h"
#include "../../native/network/allow_list.h"

static struct sbx_allow_list* list_of(const char* a, const char* b) {
  struct sbx_allow_list* list;
  struct sbx_error error;

  assert_int_equal(sbx_allow_list_new(&list), 0);
  assert_int_equal(sbx_allow_list_add(list, "network", a, &error), 0);
  if (b != NULL)
    assert_int_equal(sbx_allow_list_add(list, "network", b, &error), 0);
  return list;
}

static void check(const char* entry, const char* host, unsigned port,
                  bool allowed) {
  struct sbx_allow_list* list = list_of(entry, NULL);

  if (sbx_allow_list_host(list, host, port) != allowed)
    fail_msg("\"%s\" and %s:%u", entry, host, port);
  sbx_allow_list_free(list);
}

static void names_and_ports(void** state) {
  (void) state;
  check("example.com", "example.com", 443, true);
  check("example.com", "example.com", 80, true);
  check("example.com", "example.com", 22, false);
  check("EXAMPLE.com.", "example.com", 443, true);
  check("example.com", "a.example.com", 443, false);
  check("example.com", "xexample.com", 443, false);
  check("example.com", "example.com.evil.org", 443, false);
  check("example.com:8443", "example.com", 8443, true);
  check("example.com:8443", "example.com", 443, false);
  check("*.example.com", "a.example.com", 443, true);
  check("*.example.com", "a.b.example.com", 443, true);
  check("*.example.com", "example.com", 443, false);
  check("*.example.com", "xexample.com", 443, false);
  check("*.example.com:99", "a.example.com", 99, true);
  check("*", "any.host", 443, true);
  check("*", "any.host", 25, false);
  check("*:25", "any.host", 25, true);
}

static void addresses(void** state) {
  struct sockaddr_storage a;
  struct sbx_allow_list* list;

  (void) state;
  check("10.0.0.5", "10.0.0.5", 80, true);
  check("10.0.0.5:5432", "10.0.0.5", 5432, true);
  check("10.0.0.5:5432", "10.0.0.6", 5432, false);
  check("::1", "::1", 443, true);
  check("[::1]:8080", "0:0::1", 8080, true);
  check("*", "10.0.0.5", 80, true); /* the address check still refuses it */
  check("*.5", "10.0.0.5", 80, false);
  list = list_of("db.example", "10.0.0.5:5432");
  sbx_address_parse("10.0.0.5", &a);
  assert_true(sbx_allow_list_address(list, (struct sockaddr*) &a, 5432));
  assert_false(sbx_allow_list_address(list, (struct sockaddr*) &a, 80));
  sbx_address_parse("::ffff:10.0.0.5", &a);
  assert_false(sbx_allow_list_address(list, (struct sockaddr*) &a, 5432));
  sbx_allow_list_free(list);
}

static void presets(void** state) {
  (void) state;
  check("npm", "registry.npmjs.org", 443, true);
  check("npm", "npm", 443, false);
  check("pip", "files.pythonhosted.org", 443, true);
  check("git", "objects.githubusercontent.com", 443, true);
  check("git", "registry.npmjs.org", 443, false);
  check("apt", "deb.debian.org", 80, true);
  check("apt", "de.archive.ubuntu.com", 80, true);
}

static void refuses_what_is_no_host(void** state) {
  static const char* const bad[] = {
      "", " ", "https://example.com", "example.com/path", "a..b", ".a",
      "exa mple.com", "example.com:", "example.com:0", "example.com:65536",
      "example.com:80x", "a.*.com", "**.a", "*.", "*.*", "*a.com", "::1:80x",
      "[::1", "[1.2.3.4]:80", "a\x1b[31m.com", "a\nb", "\xc3\xa4.example",
      "user@example.com", "*.1.2.3.4:0"};
  struct sbx_allow_list* list;
  struct sbx_error error;

  (void) state;
  assert_int_equal(sbx_allow_list_new(&list), 0);
  for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
    if (sbx_allow_list_add(list, "network", bad[i], &error) !=
        SBX_E_INVALID_INPUT)
      fail_msg("\"%s\" was taken", bad[i]);
    assert_non_null(strstr(error.message, "network holds"));
    for (const char* c = error.message; *c != '\0'; c++)
      assert_true((unsigned char) *c >= 0x20);
  }
  sbx_allow_list_free(list);
}

static void is_bounded(void** state) {
  struct sbx_allow_list* list;
  struct sbx_error error;
  int err = 0, added = 0;

  (void) state;
  assert_int_equal(sbx_allow_list_new(&list), 0);
  while (err == 0 && added < 2 * SBX_ALLOW_MAX) {
    err = sbx_allow_list_add(list, "network", "a.example", &error);
    added++;
  }
  assert_int_equal(err, SBX_E_INVALID_INPUT);
  assert_int_equal(added, SBX_ALLOW_MAX + 1);
  sbx_allow_list_free(list);
}

static void split(const char* text, const char* host, unsigned port) {
  char out[SBX_HOST_MAX];
  unsigned got;

  if (!sbx_host_split(text, strlen(text), 80, out, &got)) {
    if (host != NULL) fail_msg("\"%s\" was refused", text);
    return;
  }
  if (host == NULL) fail_msg("\"%s\" was taken", text);
  assert_string_equal(out, host);
  assert_int_equal(got, port);
}

static void splits_hosts(void** state) {
  char out[SBX_HOST_MAX], longest[300];
  unsigned port;

  (void) state;
  split("Example.COM:8080", "example.com", 8080);
  split("example.com.", "example.com", 80);
  split("example.com.:1", "example.com", 1);
  split("[::1]:3000", "::1", 3000);
  split("[::1]", "::1", 80);
  split("::1", NULL, 0);
  split("a:b:1", NULL, 0);
  split("[a]:1", NULL, 0);
  split(":80", NULL, 0);
  split("a\r:80", NULL, 0);
  split("a:80 ", NULL, 0);
  assert_false(sbx_host_split("example.com", 11, 0, out, &port));
  assert_false(sbx_host_split("a\0b:80", 6, 80, out, &port));
  memset(longest, 'a', sizeof(longest));
  for (size_t i = 50; i < sizeof(longest); i += 50) longest[i] = '.';
  assert_true(sbx_host_clean(longest, 255, out));
  assert_false(sbx_host_clean(longest, 256, out));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(names_and_ports),
      cmocka_unit_test(addresses),
      cmocka_unit_test(presets),
      cmocka_unit_test(refuses_what_is_no_host),
      cmocka_unit_test(is_bounded),
      cmocka_unit_test(splits_hosts),
  };

  return cmocka_run_group_tests(tests, NULL, NULL);
}
