/* Every allocation of the HTTP engine fails once, in turn: the exchange ends
 * with an error or as it does with memory, nothing crashes and nothing leaks.
 * Against a server in a thread of its own. Linked with --wrap for the names
 * below; what libcurl and libuv allocate does not count. */
#include "engine_kit.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "../../native/http/http.h"

/* The server's allocations do not count, nor the tests' own. */
static __thread bool armed;

#include "alloc_fault.h"

/* ---- a server that answers anything with the same ---- */

struct server {
  uv_thread_t thread;
  int fd;
  int port;
};

/* Until the end of the head, or of the chunked body. */
static bool read_request(int fd) {
  char text[4096];
  size_t len = 0;

  while (len < sizeof(text)) {
    ssize_t n = read(fd, text + len, sizeof(text) - len);

    if (n <= 0) return false;
    len += (size_t) n;
    if (memmem(text, len, "chunked", 7) != NULL) {
      if (len >= 5 && memcmp(text + len - 5, "0\r\n\r\n", 5) == 0) return true;
    } else if (memmem(text, len, "\r\n\r\n", 4) != NULL) {
      return true;
    }
  }
  return false;
}

static void serve(void* arg) {
  static const char text[] =
      "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-Long: 0123456789\r\n"
      "Connection: close\r\n\r\nhello";
  struct server* s = arg;
  int fd;

  while ((fd = accept(s->fd, NULL, NULL)) >= 0) {
    if (read_request(fd)) {
      ssize_t n = write(fd, text, sizeof(text) - 1);
      (void) n;
      shutdown(fd, SHUT_WR);
      while (read(fd, (char[256]){0}, 256) > 0) continue;
    }
    close(fd);
  }
}

static void server_start(struct server* s) {
  struct sockaddr_in a = {.sin_family = AF_INET,
                          .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t len = sizeof(a);

  s->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_int_equal(bind(s->fd, (struct sockaddr*) &a, len), 0);
  assert_int_equal(listen(s->fd, 16), 0);
  getsockname(s->fd, (struct sockaddr*) &a, &len);
  s->port = ntohs(a.sin_port);
  assert_int_equal(uv_thread_create(&s->thread, serve, s), 0);
}

static void server_stop(struct server* s) {
  shutdown(s->fd, SHUT_RDWR);
  uv_thread_join(&s->thread);
  close(s->fd);
}

/* ---- one exchange ---- */

enum kind { PLAIN, STREAMED, SOCKET };

struct call {
  struct sbx_exchange* exchange;
  bool ended, failed;
  int status;
  size_t len;
};

static void on_head(void* data, const struct sbx_http_head* head) {
  struct call* c = data;

  c->status = head->status;
  assert_string_equal(sbx_http_header(head, "x-long"), "0123456789");
}

static void on_bytes(void* data, const char* bytes, size_t len) {
  (void) bytes;
  ((struct call*) data)->len += len;
}

static void on_end(void* data, const struct sbx_error* error) {
  struct call* c = data;

  assert_false(c->ended);
  c->ended = true;
  c->failed = error != NULL;
  if (error == NULL) return;
  assert_true(error->code < 0);
  assert_true(error->message[0] != '\0');
}

static void send_body(struct call* c) {
  if (sbx_exchange_send(c->exchange, "body", 4, false) == 0)
    assert_int_equal(sbx_exchange_finish(c->exchange), 0);
  else
    c->ended = c->failed = true; /* the owner gives it up */
}

static void exchange(uv_loop_t* loop, struct sbx_http* http, int port,
                     enum kind kind) {
  static const char* const headers[] = {"X-A: b", "Content-Type: a/b"};
  struct call c = {0};
  struct sbx_http_events events = {.data = &c, .on_head = on_head,
                                   .on_bytes = on_bytes, .on_end = on_end};
  char url[64];
  struct sbx_http_request request = {
      .method = kind == PLAIN ? "GET" : "POST", .url = url,
      .headers = headers, .headers_len = 2, .stream_len = -1,
      .flags = kind == STREAMED ? SBX_HTTP_STREAM_BODY : 0};
  struct sbx_error error = {0};
  int rc;

  snprintf(url, sizeof(url), "%s://127.0.0.1:%d/x",
           kind == SOCKET ? "ws" : "http", port);
  rc = sbx_http_open(http, &request, &events, &c.exchange, &error);
  if (rc != 0) {
    assert_int_equal(rc, error.code);
    assert_true(error.message[0] != '\0');
    return;
  }
  if (kind == STREAMED) send_body(&c);
  while (!c.ended) uv_run(loop, UV_RUN_ONCE);
  if (!c.failed) {
    assert_int_equal(c.status, 200);
    assert_int_equal(c.len, 5);
  }
  sbx_exchange_close(c.exchange);
}

/* The engine keeps no loop alive. */
static void on_tick(uv_timer_t* timer) {
  (void) timer;
}

static void on_http_closed(void* arg) {
  *(bool*) arg = true;
}

static bool run(int n, int port) {
  struct sbx_http_settings settings = {.provider = "Test", .proxy = ""};
  struct sbx_http* http;
  uv_loop_t loop;
  uv_timer_t tick;
  bool closed = false;

  uv_loop_init(&loop);
  uv_timer_init(&loop, &tick);
  uv_timer_start(&tick, on_tick, 100, 100);
  fired = false;
  countdown = n;
  armed = true;
  if (sbx_http_new(&loop, &settings, &http) == 0) {
    for (int kind = PLAIN; kind <= SOCKET; kind++)
      exchange(&loop, http, port, (enum kind) kind);
    sbx_http_close(http, on_http_closed, &closed);
    while (!closed) uv_run(&loop, UV_RUN_ONCE);
  }
  armed = false;
  countdown = -1;
  uv_close((uv_handle_t*) &tick, NULL);
  uv_run(&loop, UV_RUN_DEFAULT);
  assert_int_equal(uv_loop_close(&loop), 0);
  return fired;
}

static void each_call_fails_once(void** state) {
  struct server s;
  int before, n = 0;

  (void) state;
  server_start(&s);
  run(-1, s.port);
  before = kit_open_fds();
  while (run(n, s.port)) n++;
  print_message("%d calls failed in turn\n", n);
  assert_true(n > 10);
  server_stop(&s);
  assert_true(kit_open_fds() <= before);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(each_call_fails_once)};

  signal(SIGPIPE, SIG_IGN);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
