/* What clients say to the proxy and to an exposed port, cut anywhere. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../native/network/host_check.h"
#include "../../native/network/proxy_http.h"
#include "../../native/network/socks.h"

#define CREDENTIALS "eDpzZWNyZXQ="
#define AUTH "Proxy-Authorization: Basic " CREDENTIALS "\r\n"

/* The verdict of the whole; every shorter piece must ask for more, and is in
 * memory that ends with it. */
static enum sbx_proxy_verdict parse(const char* text, size_t len,
                                    struct sbx_proxy_request* r) {
  for (size_t i = 0; i <= len; i++) {
    char* piece = malloc(i > 0 ? i : 1);
    enum sbx_proxy_verdict v;

    memcpy(piece, text, i);
    v = sbx_proxy_http_parse(piece, i, CREDENTIALS, r);
    free(piece);
    if (v != SBX_PROXY_MORE) {
      if (v == SBX_PROXY_DONE) assert_int_equal(r->used, i);
      return v;
    }
  }
  return SBX_PROXY_MORE;
}

static void reads_a_tunnel(void** state) {
  static const char text[] =
      "CONNECT Example.com:443 HTTP/1.1\r\nHost: x\r\n" AUTH "\r\n";
  struct sbx_proxy_request r;

  (void) state;
  assert_int_equal(parse(text, strlen(text), &r), SBX_PROXY_DONE);
  assert_true(r.connect && r.authorised);
  assert_string_equal(r.host, "example.com");
  assert_int_equal(r.port, 443);
  assert_null(r.head);
}

static void rewrites_a_request(void** state) {
  static const char text[] =
      "POST http://me:pw@Example.com:8080/a?b HTTP/1.0\r\n"
      "Host: other\r\nProxy-Connection: keep-alive\r\n" AUTH
      "Connection: keep-alive\r\nX-A: 1\r\n\r\n";
  static const char wanted[] =
      "POST /a?b HTTP/1.1\r\nHost: example.com:8080\r\n"
      "X-A: 1\r\nConnection: close\r\n\r\n";
  struct sbx_proxy_request r;

  (void) state;
  assert_int_equal(parse(text, strlen(text), &r), SBX_PROXY_DONE);
  assert_true(!r.connect && r.authorised);
  assert_int_equal(r.head_len, strlen(wanted));
  assert_memory_equal(r.head, wanted, r.head_len);
  free(r.head);
}

static void rewrites_short_targets(void** state) {
  static const char* const cases[][2] = {
      {"GET http://a HTTP/1.1\n\n",
       "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"},
      {"GET http://a?q HTTP/1.1\r\nUpgrade: websocket\r\n\r\n",
       "GET /?q HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\n"
       "Connection: Upgrade\r\n\r\n"},
      {"GET http://[::1]:81/ HTTP/1.1\r\n\r\n",
       "GET / HTTP/1.1\r\nHost: [::1]:81\r\nConnection: close\r\n\r\n"}};

  (void) state;
  for (size_t i = 0; i < 3; i++) {
    struct sbx_proxy_request r;

    assert_int_equal(parse(cases[i][0], strlen(cases[i][0]), &r),
                     SBX_PROXY_DONE);
    assert_int_equal(r.head_len, strlen(cases[i][1]));
    assert_memory_equal(r.head, cases[i][1], r.head_len);
    assert_false(r.authorised);
    free(r.head);
  }
}

static void refuses_broken_requests(void** state) {
  static const char* const bad[] = {
      "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
      "GET https://a/ HTTP/1.1\r\n\r\n",
      "GET ftp://a/ HTTP/1.1\r\n\r\n",
      "CONNECT example.com HTTP/1.1\r\n\r\n",
      "CONNECT a\x1b[2Jb:443 HTTP/1.1\r\n\r\n",
      "CONNECT a:443\r\n\r\n",
      "CONNECT a:443 HTTP/2.0\r\n\r\n",
      "CONNECT a:443 HTTP/1.1 x\r\n\r\n",
      "CONNECT a:443 HTTP/1.1\r\nno colon\r\n\r\n",
      "CONNECT a:443 HTTP/1.1\r\nA: b\r\n folded: x\r\n\r\n",
      "CONNECT a:443 HTTP/1.1\r\nA : b\r\n\r\n",
      "GET http://a/\rx HTTP/1.1\r\n\r\n",
      "GET http://a/ HTTP/1.1\r\nA: b\rHost: c\r\n\r\n",
      " \r\n\r\n"};
  struct sbx_proxy_request r;

  (void) state;
  for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
    if (parse(bad[i], strlen(bad[i]), &r) != SBX_PROXY_BAD)
      fail_msg("%s was taken", bad[i]);
    assert_null(r.head);
  }
}

static void bounds_the_head(void** state) {
  char* text = malloc(SBX_PROXY_HEAD_MAX + 16);
  struct sbx_proxy_request r;

  (void) state;
  memset(text, 'A', SBX_PROXY_HEAD_MAX + 16);
  assert_int_equal(sbx_proxy_http_parse(text, SBX_PROXY_HEAD_MAX - 1, "", &r),
                   SBX_PROXY_MORE);
  assert_int_equal(sbx_proxy_http_parse(text, SBX_PROXY_HEAD_MAX, "", &r),
                   SBX_PROXY_LONG);
  memcpy(text + SBX_PROXY_HEAD_MAX, "\r\n\r\n", 4);
  assert_int_equal(sbx_proxy_http_parse(text, SBX_PROXY_HEAD_MAX + 4, "", &r),
                   SBX_PROXY_LONG);
  free(text);
}

/* ---- SOCKS5 ---- */

static enum sbx_socks_event say(struct sbx_socks* s, const char* bytes,
                                size_t len) {
  size_t used = 0;
  enum sbx_socks_event e = SBX_SOCKS_MORE;

  for (size_t i = 0; i <= len && e == SBX_SOCKS_MORE; i++) {
    char* piece = malloc(i > 0 ? i : 1);

    memcpy(piece, bytes, i);
    e = sbx_socks_read(s, "secret", piece, i, &used);
    free(piece);
    if (e != SBX_SOCKS_MORE && used > 0) assert_int_equal(used, i);
  }
  return e;
}

#define SAY(s, text) say(s, text, sizeof(text) - 1)
#define GREET(s) assert_int_equal(SAY(s, "\5\2\0\2"), SBX_SOCKS_GREETED)
#define LOGIN(s) \
  assert_int_equal(SAY(s, "\1\1x\6secret"), SBX_SOCKS_LOGIN)

static void reads_socks_requests(void** state) {
  struct sbx_socks s = {0};

  (void) state;
  GREET(&s);
  LOGIN(&s);
  assert_int_equal(SAY(&s, "\5\1\0\3\013Example.com\1\xbb"),
                   SBX_SOCKS_REQUEST);
  assert_string_equal(s.host, "example.com");
  assert_int_equal(s.port, 443);
  s = (struct sbx_socks){.step = s.step};
  assert_int_equal(SAY(&s, "\5\1\0\1\177\0\0\1\0\120"), SBX_SOCKS_REQUEST);
  assert_string_equal(s.host, "127.0.0.1");
  assert_int_equal(SAY(&s, "\5\1\0\4\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1\0\120"),
                   SBX_SOCKS_REQUEST);
  assert_string_equal(s.host, "::1");
}

static void refuses_other_socks(void** state) {
  struct sbx_socks s = {0};

  (void) state;
  assert_int_equal(SAY(&s, "\4\1\0\120"), SBX_SOCKS_BROKEN);
  assert_int_equal(SAY(&s, "\5\1\0"), SBX_SOCKS_NO_METHOD);
  assert_int_equal(SAY(&s, "\5\0"), SBX_SOCKS_NO_METHOD);
  GREET(&s);
  assert_int_equal(SAY(&s, "\1\1x\5wrong"), SBX_SOCKS_WRONG_LOGIN);
  s.step = 0;
  GREET(&s);
  assert_int_equal(SAY(&s, "\1\0\6Secret"), SBX_SOCKS_WRONG_LOGIN);
  s.step = 0;
  GREET(&s);
  LOGIN(&s);
  assert_int_equal(SAY(&s, "\5\2\0\1\1\1\1\1\0\120"), SBX_SOCKS_REFUSED);
  assert_int_equal(s.code, 7);
  assert_int_equal(SAY(&s, "\5\1\0\2"), SBX_SOCKS_REFUSED);
  assert_int_equal(s.code, 8);
  assert_int_equal(SAY(&s, "\5\1\0\3\3a\x1b" "b\0\120"), SBX_SOCKS_REFUSED);
  assert_int_equal(SAY(&s, "\5\1\0\3\0\0\120"), SBX_SOCKS_REFUSED);
  assert_int_equal(SAY(&s, "\5\1\0\3\1a\0\0"), SBX_SOCKS_REFUSED);
}

/* ---- exposed ports ---- */

static enum sbx_host_verdict judge(const char* text) {
  size_t len = strlen(text);
  enum sbx_host_verdict v = SBX_HOST_MORE;

  for (size_t i = 0; i <= len && v == SBX_HOST_MORE; i++) {
    char* piece = malloc(i > 0 ? i : 1);

    memcpy(piece, text, i);
    v = sbx_host_check(piece, i, 3000);
    free(piece);
  }
  return v;
}

static void good_hosts(void** state) {
  static const char* const good[] = {
      "GET / HTTP/1.1\r\nHost: 127.0.0.1:3000\r\n",
      "GET /a b\nhOsT:localhost:3000\n",
      "OPTIONS * HTTP/1.1\r\nA: b\r\nHost:  [::1]:3000 \r\n",
      "PROPFIND / HTTP/1.1\r\nHost: LocalHost.:3000\r\n", "\x16\x03"};

  (void) state;
  for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
    if (judge(good[i]) != SBX_HOST_GOOD) fail_msg("%s", good[i]);
}

static void other_hosts(void** state) {
  static const char* const bad[] = {
      "GET / HTTP/1.1\r\nHost: evil.example:3000\r\n",
      "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n",
      "GET / HTTP/1.1\r\nHost: 127.0.0.1:3001\r\n",
      "GET / HTTP/1.1\r\nHost: 127.0.0.1.evil.example:3000\r\n",
      "GET / HTTP/1.1\r\nHost: localhost:3000@evil\r\n",
      "GET / HTTP/1.1\r\nHost:\r\n",
      "GET / HTTP/1.1\r\nX-Host: localhost:3000\r\n\r\n",
      "GET / HTTP/1.1\r\n\r\nHost: localhost:3000\r\n"};

  (void) state;
  for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
    if (judge(bad[i]) != SBX_HOST_WRONG) fail_msg("%s", bad[i]);
  assert_int_equal(judge("hello"), SBX_HOST_NOT_HTTP);
  assert_int_equal(judge("\x16\x02"), SBX_HOST_NOT_HTTP);
  assert_int_equal(judge("GE\x1b"), SBX_HOST_NOT_HTTP);
  assert_int_equal(judge("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"),
                   SBX_HOST_NOT_HTTP);
  assert_int_equal(judge(""), SBX_HOST_MORE);
}

static void bounds_the_wait_for_a_host(void** state) {
  char* text = malloc(SBX_HOST_HEAD_MAX);

  (void) state;
  memset(text, 'a', SBX_HOST_HEAD_MAX);
  memcpy(text, "GET ", 4);
  assert_int_equal(sbx_host_check(text, SBX_HOST_HEAD_MAX - 1, 1),
                   SBX_HOST_MORE);
  assert_int_equal(sbx_host_check(text, SBX_HOST_HEAD_MAX, 1), SBX_HOST_LONG);
  free(text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(reads_a_tunnel),
      cmocka_unit_test(rewrites_a_request),
      cmocka_unit_test(rewrites_short_targets),
      cmocka_unit_test(refuses_broken_requests),
      cmocka_unit_test(bounds_the_head),
      cmocka_unit_test(reads_socks_requests),
      cmocka_unit_test(refuses_other_socks),
      cmocka_unit_test(good_hosts),
      cmocka_unit_test(other_hosts),
      cmocka_unit_test(bounds_the_wait_for_a_host),
  };

  return cmocka_run_group_tests(tests, NULL, NULL);
}
