/* Which addresses are public, and which are something else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../native/network/address.h"

static const char* special(const char* text) {
  struct sockaddr_storage a;

  assert_true(sbx_address_parse(text, &a));
  return sbx_address_special((struct sockaddr*) &a);
}

static void public_ones_are_not_special(void** state) {
  static const char* const good[] = {
      "1.1.1.1",        "8.8.8.8",         "9.255.255.255", "11.0.0.0",
      "100.63.255.255", "100.128.0.0",     "126.255.255.255", "128.0.0.1",
      "169.253.255.255", "169.255.0.0",    "172.15.255.255", "172.32.0.0",
      "192.167.255.255", "192.169.0.0",    "198.17.255.255", "198.20.0.0",
      "223.255.255.255", "2606:4700::1111", "2a00:1450::1",
      "2001:4860:4860::8888"};

  (void) state;
  for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
    if (special(good[i]) != NULL)
      fail_msg("%s is %s", good[i], special(good[i]));
}

static void others_are_named(void** state) {
  static const char* const bad[][2] = {
      {"127.0.0.1", "loopback"},       {"127.255.255.255", "loopback"},
      {"0.0.0.0", "unspecified"},      {"0.1.2.3", "unspecified"},
      {"10.0.0.1", "private"},         {"172.16.0.1", "private"},
      {"172.31.255.255", "private"},   {"192.168.1.1", "private"},
      {"169.254.169.254", "link-local"}, {"100.64.0.1", "carrier"},
      {"100.127.255.255", "carrier"},  {"224.0.0.1", "multicast"},
      {"239.1.1.1", "multicast"},      {"255.255.255.255", "reserved"},
      {"240.0.0.1", "reserved"},       {"198.18.0.1", "reserved"},
      {"198.19.255.255", "reserved"},  {"192.0.2.1", "reserved"},
      {"203.0.113.9", "reserved"},     {"192.88.99.1", "relay"},
      {"::1", "loopback"},             {"::", "unspecified"},
      {"::2", "IPv4"},                 {"::127.0.0.1", "IPv4"},
      {"::ffff:127.0.0.1", "IPv4"},     {"::ffff:8.8.8.8", "IPv4"},
      {"64:ff9b::7f00:1", "NAT64"},    {"64:ff9b::8.8.8.8", "NAT64"},
      {"64:ff9b:1::1", "NAT64"},       {"fd00:ec2::254", "private"},
      {"fc00::1", "private"},          {"fe80::1", "link-local"},
      {"febf::1", "link-local"},       {"fec0::1", "reserved"},
      {"ff02::1", "multicast"},        {"2001::1", "Teredo"},
      {"2001:1ff::1", "Teredo"},       {"2001:db8::1", "reserved"},
      {"2002:7f00:1::", "6to4"},       {"3fff:fff::1", "reserved"},
      {"4000::1", "reserved"}};

  (void) state;
  for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
    if (special(bad[i][0]) == NULL ||
        strstr(special(bad[i][0]), bad[i][1]) == NULL)
      fail_msg("%s is %s, not %s", bad[i][0], special(bad[i][0]), bad[i][1]);
}

static void reads_addresses_strictly(void** state) {
  static const char* const bad[] = {"",         "127.1",     "2130706433",
                                    "0x7f.0.0.1", "1.2.3.4.", "01.2.3.4",
                                    "[1.2.3.4]", "[::1",      "::1]",
                                    "fe80::1%lo", "localhost", "[]"};
  struct sockaddr_storage a, b;
  char text[SBX_ADDRESS_TEXT];

  (void) state;
  for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
    if (sbx_address_parse(bad[i], &a)) fail_msg("%s was read", bad[i]);
  assert_true(sbx_address_parse("[2001:DB8::1]", &a));
  assert_true(sbx_address_parse("2001:db8:0::1", &b));
  assert_true(sbx_address_equal((struct sockaddr*) &a, (struct sockaddr*) &b));
  assert_string_equal(sbx_address_text((struct sockaddr*) &a, text),
                      "2001:db8::1");
  assert_true(sbx_address_parse("1.2.3.4", &b));
  assert_false(sbx_address_equal((struct sockaddr*) &a, (struct sockaddr*) &b));
}

static void metadata_is_known(void** state) {
  static const char* const yes[] = {"169.254.169.254", "169.254.170.2",
                                    "100.100.100.200", "fd00:ec2::254",
                                    "fe80::a9fe:a9fe"};
  static const char* const no[] = {"127.0.0.1", "10.0.0.1", "100.64.0.1",
                                   "::1", "fd00::1", "8.8.8.8"};
  struct sockaddr_storage a;

  (void) state;
  for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++)
    if (!sbx_address_parse(yes[i], &a) ||
        !sbx_address_is_metadata((struct sockaddr*) &a))
      fail_msg("%s is where metadata are", yes[i]);
  for (size_t i = 0; i < sizeof(no) / sizeof(no[0]); i++)
    if (!sbx_address_parse(no[i], &a) ||
        sbx_address_is_metadata((struct sockaddr*) &a))
      fail_msg("%s has no metadata", no[i]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(public_ones_are_not_special),
      cmocka_unit_test(others_are_named),
      cmocka_unit_test(reads_addresses_strictly),
      cmocka_unit_test(metadata_is_known),
  };

  return cmocka_run_group_tests(tests, NULL, NULL);
}
