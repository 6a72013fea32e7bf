/* URLs: their parts, what is refused, who may get a key, and building. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../native/http/url.h"

static struct sbx_url url(const char* text) {
  struct sbx_url out;
  const char* wrong = sbx_url_parse(text, strlen(text), &out);

  if (wrong != NULL) fail_msg("%s: %s", text, wrong);
  return out;
}

static void takes_apart(void** state) {
  struct sbx_url u = url("HTTPS://Api.E2B.app./v2/x?a=b?c");

  (void) state;
  assert_string_equal(u.scheme, "https");
  assert_string_equal(u.host, "api.e2b.app");
  assert_true(u.tls);
  assert_int_equal(u.port, 443);
  assert_int_equal(u.path_len, 5);
  assert_memory_equal(u.path, "/v2/x", 5);
  assert_string_equal(u.query, "a=b?c");
  u = url("ws://[::1]:8080");
  assert_string_equal(u.host, "::1");
  assert_false(u.tls);
  assert_int_equal(u.port, 8080);
  assert_int_equal(u.path_len, 0);
  u = url("http://127.0.0.1:3000?x");
  assert_int_equal(u.port, 3000);
  assert_string_equal(u.query, "x");
  url("https://49983-abc.sandbox.e2b.app");
  url("https://1a.example");
}

static void refuses(const char* text, const char* words) {
  struct sbx_url out;
  const char* wrong = sbx_url_parse(text, strlen(text), &out);

  if (wrong == NULL || strstr(wrong, words) == NULL)
    fail_msg("%s: %s", text, wrong != NULL ? wrong : "accepted");
}

static void what_is_refused(void** state) {
  (void) state;
  refuses("", "begin with https://");
  refuses("api.e2b.app", "begin with https://");
  refuses("//api.e2b.app", "begin with https://");
  refuses("ftp://x", "begin with https://");
  refuses("file:///etc/passwd", "begin with https://");
  refuses("http:/x", "begin with https://");
  refuses("https://", "host");
  refuses("https:///x", "host");
  refuses("https://user:pw@api.e2b.app/", "user name");
  refuses("https://api.e2b.app@evil.example", "user name");
  refuses("https://a\r\nX: y", "control");
  refuses("https://a b", "blanks");
  refuses("https://api.e2b.app\\@evil.example", "backslash");
  refuses("https://a/#b", "fragment");
  refuses("https://\xc3\xa4.example", "ASCII");
  refuses("https://a%2eb", "host");
  refuses("https://a:0", "port");
  refuses("https://a:65536", "port");
  refuses("https://a:", "port");
  refuses("https://a:8a", "port");
  refuses("https://::1/", "host");
  refuses("https://[::1", "host");
  refuses("https://127.1/", "plain address");
  refuses("https://2130706433/", "plain address");
  refuses("https://0x7f000001/", "plain address");
  refuses("https://0177.0.0.1/", "plain address");
  refuses("https://a..b", "host");
}

static void who_may_get_the_key(void** state) {
  struct sbx_url base = url("https://api.e2b.app");
  struct sbx_url plain = url("http://127.0.0.1:3000");
  struct sbx_url named;

  (void) state;
#define NAMED(text) (named = url(text), &named)
  assert_true(sbx_url_trusted(NAMED("https://api.e2b.app:8443"), &base, NULL));
  assert_true(sbx_url_trusted(NAMED("https://x.e2b.app"), &base, "e2b.app"));
  assert_true(sbx_url_trusted(NAMED("wss://e2b.app"), &base, "E2B.app."));
  assert_false(sbx_url_trusted(NAMED("https://x.e2b.app"), &base, NULL));
  assert_false(sbx_url_trusted(NAMED("http://x.e2b.app"), &base, "e2b.app"));
  assert_false(sbx_url_trusted(NAMED("https://xe2b.app"), &base, "e2b.app"));
  assert_false(
      sbx_url_trusted(NAMED("https://e2b.app.evil.example"), &base, "e2b.app"));
  assert_false(
      sbx_url_trusted(NAMED("https://169.254.169.254"), &base, "e2b.app"));
  assert_true(sbx_url_trusted(NAMED("http://127.0.0.1:4"), &plain, NULL));
  assert_true(sbx_url_trusted(NAMED("https://x.local.test"), &plain,
                              "local.test"));
  assert_false(sbx_url_trusted(NAMED("http://127.0.0.2"), &plain, "0.0.2"));
  assert_false(sbx_url_trusted(NAMED("http://127.0.0.2"), &plain, ""));
#undef NAMED
}

static void origins(void** state) {
  struct sbx_url a = url("https://a.example"), b = url("wss://A.example:443/x");
  struct sbx_url c = url("http://a.example:443");

  (void) state;
  assert_true(sbx_url_same_origin(&a, &b));
  assert_false(sbx_url_same_origin(&a, &c));
}

static char* build(const char* base, const char* segment) {
  struct sbx_url_builder b = {0};

  sbx_url_base(&b, base);
  sbx_url_path(&b, "/templates");
  sbx_url_segment(&b, segment);
  return sbx_url_take(&b);
}

static void builds(void** state) {
  struct sbx_url_builder b = {0};
  char* text = build("https://h/prefix//", "my-team/my snap:\xc3\xa4?#%");

  (void) state;
  assert_string_equal(
      text, "https://h/prefix/templates/my-team%2Fmy%20snap%3A%C3%A4%3F%23%25");
  free(text);
  sbx_url_base(&b, "http://h:1");
  sbx_url_path(&b, "/files");
  sbx_url_query(&b, "path", "/w/a b&c=d+e");
  sbx_url_query(&b, "username", "");
  text = sbx_url_take(&b);
  assert_string_equal(text,
                      "http://h:1/files?path=%2Fw%2Fa%20b%26c%3Dd%2Be&username=");
  free(text);
  assert_null(build("https://h", ".."));
  assert_null(build("https://h", "."));
  assert_null(build("https://h", ""));
  assert_null(build("https://h?x=y", "a"));
  assert_null(build("https://u@h", "a"));
}

static const char* quoted(const char* bytes, size_t len) {
  static char out[SBX_QUOTE_MAX];

  return sbx_text_quote(bytes, len, out);
}

static void quotes(void** state) {
  char longer[4096];

  (void) state;
  memset(longer, 'a', sizeof(longer));
  assert_string_equal(quoted("\n\n  first \nsecond", 17), "first");
  assert_string_equal(quoted("a\0b\x7f\xc2\x9b\xff", 7), "a?b???");
  assert_string_equal(quoted("", 0), "");
  assert_string_equal(quoted("<title></title>x", 16), "");
  assert_true(strlen(quoted(longer, sizeof(longer))) < SBX_QUOTE_MAX);
  assert_string_equal(quoted(longer, sizeof(longer)) + SBX_QUOTE_MAX - 7,
                      "aaa...");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(takes_apart),
      cmocka_unit_test(what_is_refused),
      cmocka_unit_test(who_may_get_the_key),
      cmocka_unit_test(origins),
      cmocka_unit_test(builds),
      cmocka_unit_test(quotes),
  };

  return cmocka_run_group_tests(tests, NULL, NULL);
}
