/* The HTTP engine against a small server on the same loop that answers from a
 * script: whole, in pieces, cut, broken or never. */
#include "engine_kit.h"

#include "../../native/parse/base64.h"
#include "../../native/http/http.h"
#include "../../native/http/sha1.h"

enum { REQUEST_MAX = 1 << 16 };

struct answer {
  const char* text;
  size_t len;   /* 0: that of the text */
  bool close;   /* after it */
  bool reset;   /* in place of an orderly end */
  bool pieces;  /* byte by byte, a turn of the loop each */
};

struct server {
  uv_loop_t* loop;
  uv_tcp_t tcp;
  const struct answer* answers;
  size_t count;
  size_t requests, connections, open;
  char last[REQUEST_MAX]; /* the newest request */
  size_t last_len;
  int port;
  bool sockets;
};

struct peer {
  uv_tcp_t tcp;
  uv_idle_t idle;
  struct server* server;
  const struct answer* answer; /* being sent in pieces */
  size_t sent;
  char text[REQUEST_MAX];
  size_t len;
  int handles;
  bool upgraded;
};

/* ---- the server ---- */

static void on_peer_closed(uv_handle_t* handle) {
  struct peer* p = handle->data;

  if (--p->handles) return;
  p->server->open--;
  free(p);
}

static void close_peer(struct peer* p) {
  if (uv_is_closing((uv_handle_t*) &p->tcp)) return;
  uv_close((uv_handle_t*) &p->tcp, on_peer_closed);
  uv_close((uv_handle_t*) &p->idle, on_peer_closed);
}

static void on_reset(uv_handle_t* handle) {
  on_peer_closed(handle);
}

static void finish_answer(struct peer* p, const struct answer* a) {
  if (a->reset && !uv_is_closing((uv_handle_t*) &p->tcp)) {
    uv_tcp_close_reset(&p->tcp, on_reset);
    uv_close((uv_handle_t*) &p->idle, on_peer_closed);
  } else if (a->close) {
    close_peer(p);
  }
}

static void write_now(struct peer* p, const char* text, size_t len) {
  while (len) {
    uv_buf_t buf = uv_buf_init((char*) text, (unsigned) len);
    int n = uv_try_write((uv_stream_t*) &p->tcp, &buf, 1);
    if (n == UV_EAGAIN) continue;
    if (n < 0) return;
    text += n;
    len -= (size_t) n;
  }
}

static size_t answer_len(const struct answer* a) {
  return a->len ? a->len : strlen(a->text);
}

static void on_piece(uv_idle_t* idle) {
  struct peer* p = idle->data;
  const struct answer* a = p->answer;

  if (p->sent < answer_len(a)) {
    write_now(p, a->text + p->sent++, 1);
    return;
  }
  uv_idle_stop(idle);
  finish_answer(p, a);
}

static void give(struct peer* p, const struct answer* a) {
  if (a->pieces) {
    p->answer = a;
    p->sent = 0;
    uv_idle_start(&p->idle, on_piece);
    return;
  }
  if (a->text) write_now(p, a->text, answer_len(a));
  finish_answer(p, a);
}

static size_t request_size(struct peer* p) {
  char* end = memmem(p->text, p->len, "\r\n\r\n", 4);
  const char* length;
  size_t size;

  if (!end) return 0;
  size = (size_t) (end - p->text) + 4;
  p->text[p->len] = '\0';
  length = strcasestr(p->text, "content-length: ");
  if (length && length < end) size += (size_t) atoi(length + 16);
  if (strcasestr(p->text, "transfer-encoding: chunked") &&
      !memmem(p->text, p->len, "\r\n0\r\n\r\n", 7))
    return 0;
  if (strcasestr(p->text, "transfer-encoding: chunked")) size = p->len;
  return size <= p->len ? size : 0;
}

/* The upgrade; the answer's bytes are then frames. */
static void upgrade(struct peer* p) {
  char* key = strcasestr(p->text, "sec-websocket-key: ");
  char text[128], head[256];
  uint8_t hash[SBX_SHA1_LEN];
  char accept[32] = "";

  if (!key) return;
  snprintf(text, sizeof(text), "%.24s258EAFA5-E914-47DA-95CA-C5AB0DC85B11",
           key + 19);
  sbx_sha1(text, strlen(text), hash);
  sbx_base64_encode(hash, sizeof(hash), 0, accept);
  snprintf(head, sizeof(head),
           "HTTP/1.1 101 Switching\r\nupgrade: WebSocket\r\n"
           "Connection: upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n", accept);
  p->upgraded = true;
  write_now(p, head, strlen(head));
}

static void serve(struct peer* p) {
  struct server* s = p->server;
  size_t size = request_size(p);
  size_t i;

  if (p->upgraded) {
    memcpy(s->last, p->text, p->len);
    s->last_len = p->len;
    return;
  }
  if (!size) return;
  if (s->sockets) upgrade(p);
  memcpy(s->last, p->text, size);
  s->last[size] = '\0';
  s->last_len = size;
  memmove(p->text, p->text + size, p->len - size);
  p->len -= size;
  i = s->requests++;
  give(p, &s->answers[i < s->count ? i : s->count - 1]);
}

static void on_alloc(uv_handle_t* handle, size_t size, uv_buf_t* buf) {
  struct peer* p = handle->data;

  (void) size;
  *buf = uv_buf_init(p->text + p->len, (unsigned) (REQUEST_MAX - 1 - p->len));
}

static void on_read(uv_stream_t* stream, ssize_t n, const uv_buf_t* buf) {
  struct peer* p = stream->data;

  (void) buf;
  if (n < 0) {
    close_peer(p);
    return;
  }
  p->len += (size_t) n;
  serve(p);
}

static void on_connection(uv_stream_t* stream, int status) {
  struct server* s = stream->data;
  struct peer* p = calloc(1, sizeof(*p));

  assert_int_equal(status, 0);
  p->server = s;
  p->handles = 2;
  p->tcp.data = p->idle.data = p;
  uv_tcp_init(s->loop, &p->tcp);
  uv_idle_init(s->loop, &p->idle);
  uv_accept(stream, (uv_stream_t*) &p->tcp);
  uv_tcp_nodelay(&p->tcp, 1);
  s->connections++;
  s->open++;
  uv_read_start((uv_stream_t*) &p->tcp, on_alloc, on_read);
}

static void start_server(struct server* s, uv_loop_t* loop,
                         const struct answer* answers, size_t count) {
  struct sockaddr_in address;
  int len = sizeof(address);

  memset(s, 0, sizeof(*s));
  s->loop = loop;
  s->answers = answers;
  s->count = count;
  s->tcp.data = s;
  uv_tcp_init(loop, &s->tcp);
  uv_ip4_addr("127.0.0.1", 0, &address);
  uv_tcp_bind(&s->tcp, (struct sockaddr*) &address, 0);
  uv_listen((uv_stream_t*) &s->tcp, 64, on_connection);
  uv_tcp_getsockname(&s->tcp, (struct sockaddr*) &address, &len);
  s->port = ntohs(address.sin_port);
}

/* ---- the client's side ---- */

struct call {
  struct sbx_exchange* x;
  int status;
  char retry[32]; /* the header x-test */
  char body[1 << 20];
  size_t len;
  size_t heads, messages, drains;
  bool ended, drained;
  bool failed;
  struct sbx_error error;
  /* What to do in an event. */
  bool close_in_head, close_in_bytes, pause_in_bytes;
  bool got_bytes;
  struct sbx_http* close_http; /* in bytes */
};

struct bench {
  uv_loop_t loop;
  struct sbx_http* http;
  struct server server;
  bool closed;
};

static void on_head(void* data, const struct sbx_http_head* head) {
  struct call* c = data;
  const char* value = sbx_http_header(head, "x-test");

  c->heads++;
  c->status = head->status;
  if (value) snprintf(c->retry, sizeof(c->retry), "%s", value);
  if (c->close_in_head) {
    sbx_exchange_close(c->x);
    c->ended = true;
  }
}

static void on_http_closed(void* arg) {
  *(bool*) arg = true;
}

static void on_bytes(void* data, const char* bytes, size_t len) {
  struct call* c = data;

  if (c->len + len <= sizeof(c->body)) memcpy(c->body + c->len, bytes, len);
  c->len += len;
  c->got_bytes = true;
  if (c->pause_in_bytes) sbx_exchange_pause(c->x, true);
  if (c->close_in_bytes) {
    sbx_exchange_close(c->x);
    c->ended = true;
  }
  if (c->close_http) {
    sbx_http_close(c->close_http, on_http_closed, &c->ended);
    c->close_http = NULL;
  }
}

static void on_message(void* data, bool text) {
  struct call* c = data;

  (void) text;
  c->messages++;
}

static void on_drain(void* data) {
  struct call* c = data;

  c->drains++;
  c->drained = true;
}

static void on_end(void* data, const struct sbx_error* error) {
  struct call* c = data;

  assert_false(c->ended);
  c->ended = true;
  if (!error) return;
  c->failed = true;
  if (getenv("VERBOSE")) puts(error->message);
  c->error = *error;
}

static void begin(struct bench* b, const struct answer* answers, size_t count) {
  struct sbx_http_settings settings = {.proxy = "", .provider = "Test"};

  memset(b, 0, sizeof(*b));
  uv_loop_init(&b->loop);
  start_server(&b->server, &b->loop, answers, count);
  assert_int_equal(sbx_http_new(&b->loop, &settings, &b->http), 0);
}

static void on_server_closed(uv_handle_t* handle) {
  (void) handle;
}

static void close_any(uv_handle_t* handle, void* arg) {
  (void) arg;
  if (uv_is_closing(handle)) return;
  if (handle->close_cb) return;
  if (handle->type == UV_TCP) close_peer(handle->data);
}

static void end_bench(struct bench* b) {
  if (b->http) {
    sbx_http_close(b->http, on_http_closed, &b->closed);
    kit_until(&b->loop, &b->closed);
  }
  uv_close((uv_handle_t*) &b->server.tcp, on_server_closed);
  uv_walk(&b->loop, close_any, NULL);
  uv_run(&b->loop, UV_RUN_DEFAULT);
  assert_int_equal(uv_loop_close(&b->loop), 0);
}

static const struct sbx_http_events events = {.on_head = on_head,
                                              .on_bytes = on_bytes,
                                              .on_message = on_message,
                                              .on_drain = on_drain,
                                              .on_end = on_end};

static int open_call(struct bench* b, struct sbx_http_request* request,
                     struct call* c) {
  static char url[256];
  struct sbx_http_events mine = events;

  mine.data = c;
  if (!request->method) request->method = "GET";
  if (!request->url) {
    snprintf(url, sizeof(url), "http://127.0.0.1:%d/path?secret=1",
             b->server.port);
    request->url = url;
  }
  return sbx_http_open(b->http, request, &mine, &c->x, &c->error);
}

static struct call* run(struct bench* b, struct sbx_http_request request) {
  struct call* c = calloc(1, sizeof(*c));

  assert_int_equal(open_call(b, &request, c), 0);
  assert_int_equal(c->heads, 0);
  kit_until(&b->loop, &c->ended);
  if (c->x) sbx_exchange_close(c->x);
  return c;
}

/* ---- tests ---- */

static const struct answer hello = {
    .text = "HTTP/1.1 200 OK\r\nX-Test:  a b \r\nContent-Length: 5\r\n\r\nhello"};

static void test_get(void** state) {
  struct bench b;
  struct call* c;

  (void) state;
  begin(&b, &hello, 1);
  for (int i = 0; i < 3; i++) {
    c = run(&b, (struct sbx_http_request){0});
    assert_false(c->failed);
    assert_int_equal(c->status, 200);
    assert_string_equal(c->retry, "a b");
    assert_string_equal(c->body, "hello");
    free(c);
  }
  assert_int_equal(b.server.connections, 1);
  assert_non_null(strstr(b.server.last, "GET /path?secret=1 HTTP/1.1\r\n"));
  assert_null(strcasestr(b.server.last, "content-type"));
  end_bench(&b);
}

static void test_pieces(void** state) {
  static const struct answer answers[] = {
      {.text = "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
               "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
               "3\r\nabc\r\n4\r\ndefg\r\n0\r\nX-Test: trailer\r\n\r\n",
       .pieces = true}};
  struct bench b;
  struct call* c;

  (void) state;
  begin(&b, answers, 1);
  c = run(&b, (struct sbx_http_request){0});
  assert_false(c->failed);
  assert_int_equal(c->heads, 1);
  assert_int_equal(c->status, 200);
  assert_string_equal(c->body, "abcdefg");
  assert_string_equal(c->retry, "");
  free(c);
  end_bench(&b);
}

static void test_post(void** state) {
  static const char* const headers[] = {"Content-Type: text/x", "X-Empty:",
                                        "Authorization: Bearer t"};
  struct bench b;
  struct call* c;

  (void) state;
  begin(&b, &hello, 1);
  c = run(&b, (struct sbx_http_request){.method = "POST",
                                        .headers = headers,
                                        .headers_len = 3,
                                        .body = "a\0b",
                                        .body_len = 3});
  assert_false(c->failed);
  assert_non_null(strstr(b.server.last, "Content-Type: text/x\r\n"));
  assert_non_null(strstr(b.server.last, "X-Empty:\r\n"));
  assert_memory_equal(b.server.last + b.server.last_len - 3, "a\0b", 3);
  free(c);
  c = run(&b, (struct sbx_http_request){.method = "PUT",
                                        .body = "xyz",
                                        .body_len = 3});
  assert_non_null(strstr(b.server.last, "PUT /path"));
  assert_non_null(strstr(b.server.last, "\r\n\r\nxyz"));
  free(c);
  c = run(&b, (struct sbx_http_request){.method = "DELETE"});
  assert_non_null(strstr(b.server.last, "DELETE /path"));
  assert_null(strcasestr(b.server.last, "content-length"));
  free(c);
  c = run(&b, (struct sbx_http_request){.method = "POST"});
  assert_non_null(strstr(b.server.last, "Content-Length: 0\r\n"));
  assert_null(strcasestr(b.server.last, "content-type"));
  free(c);
  end_bench(&b);
}

static void expect_error(struct call* c, int code, bool retryable,
                         const char* part) {
  assert_true(c->failed);
  assert_int_equal(c->error.code, code);
  assert_int_equal(c->error.retryable, retryable);
  if (!strstr(c->error.message, part)) fail_msg("%s", c->error.message);
  assert_null(strstr(c->error.message, "secret"));
  assert_non_null(strstr(c->error.message, "127.0.0.1"));
  free(c);
}

static void test_cut_body(void** state) {
  static const struct answer answers[] = {
      {.text = "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello",
       .close = true}};
  struct bench b;
  struct call* c;

  (void) state;
  begin(&b, answers, 1);
  c = run(&b, (struct sbx_http_request){.flags = SBX_HTTP_IDEMPOTENT});
  assert_string_equal(c->body, "hello");
  assert_int_equal(c->error.sys, ECONNRESET);
  expect_error(c, SBX_E_UNAVAILABLE, true, "cut off");
  assert_int_equal(b.server.requests, 1);
  end_bench(&b);
}

/* After the request may have arrived, only what may run twice runs twice. */
static void test_reset_before_head(void** state) {
  static const struct answer answers[] = {{.text = NULL, .reset = true},
                                          {.text = NULL, .reset = true}};
  struct answer script[3] = {answers[0], hello, hello};
  struct bench b;
  struct call* c;

  (void) state;
  begin(&b, answers, 2);
  c = run(&b, (struct sbx_http_request){.method = "POST"});
  expect_error(c, SBX_E_UNAVAILABLE, true, "cut off");
  assert_int_equal(b.server.requests, 1);
  end_bench(&b);
  begin(&b, script, 3);
  c = run(&b, (struct sbx_http_request){.flags = SBX_HTTP_IDEMPOTENT});
  assert_false(c->failed);
  assert_int_equal(b.server.requests, 2);
  assert_int_equal(c->heads, 1);
  free(c);
  end_bench(&b);
}

/* A kept connection that dies as the request is sent: libcurl would repeat it by
 * itself. */
static void test_reset_of_kept(void** state) {
  const struct answer script[] = {hello, {.text = NULL, .reset = true}, hello};
  struct bench b;
  struct call* c;

  (void) state;
  begin(&b, script, 3);
  free(run(&b, (struct sbx_http_request){0}));
  c = run(&b, (struct sbx_http_request){.method = "POST", .body = "run",
                                        .body_len = 3});
  expect_error(c, SBX_E_UNAVAILABLE, true, "cut off");
  assert_int_equal(b.server.requests, 2);
  end_bench(&b);
  begin(&b, script, 3);
  free(run(&b, (struct sbx_http_request){0}));
  c = run(&b, (struct sbx_http_request){.method = "POST"});
  expect_error(c, SBX_E_UNAVAILABLE, true, "cut off");
  assert_int_equal(b.server.requests, 2);
  end_bench(&b);
}

static void test_busy(void** state) {
  static const struct answer busy = {
      .text = "HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy"};
  static const struct answer limited = {
      .text = "HTTP/1.1 429 Slow\r\nRetry-After: 0\r\nContent-Length: 1\r\n\r\nx"};
  static const struct answer dated = {
      .text = "HTTP/1.1 429 Slow\r\nRetry-After: Sun, 06 Nov 1994 08:49:37 "
              "GMT\r\nContent-Length: 0\r\n\r\n"};
  const struct answer script[] = {busy, limited, dated, hello};
  const struct answer post[] = {limited, busy, hello};
  struct bench b;
  struct call* c;

  (void) state;
  begin(&b, script, 4);
  c = run(&b, (struct sbx_http_request){.flags = SBX_HTTP_IDEMPOTENT});
  assert_int_equal(c->status, 200);
  assert_int_equal(c->heads, 1);
  assert_int_equal(b.server.requests, 4);
  free(c);
  end_bench(&b);
  begin(&b, post, 3);
  c = run(&b, (struct sbx_http_request){.method = "POST"});
  assert_int_equal(c->status, 503);
  assert_string_equal(c->body, "busy");
  assert_false(c->failed);
  assert_int_equal(b.server.requests, 2);
  free(c);
  end_bench(&b);
}

static void test_wait_too_long(void** state) {
  static const struct answer answers[] = {
      {.text = "HTTP/1.1 429 Slow\r\nRetry-After: 3600\r\n"
               "Content-Length: 0\r\n\r\n"},
      {.text = "HTTP/1.1 429 Slow\r\nRetry-After: 99999999999999999999\r\n"
               "Content-Length: 0\r\n\r\n"},
      {.text = "HTTP/1.1 429 Slow\r\nRetry-After: soon\r\n"
               "Content-Length: 0\r\n\r\n"},
      {.text = "HTTP/1.1 429 Slow\r\nDate: Sun, 06 Nov 1994 08:00:00 GMT\r\n"
               "Retry-After: Sun, 06 Nov 1994 08:10:00 GMT\r\n"
               "Content-Length: 0\r\n\r\n"}};
  struct bench b;
  struct call* c;

  (void) state;
  begin(&b, answers, 4);
  c = run(&b, (struct sbx_http_request){.method = "POST"});
  expect_error(c, SBX_E_RATE_LIMITED, true, "3600 s");
  c = run(&b, (struct sbx_http_request){.method = "POST"});
  expect_error(c, SBX_E_RATE_LIMITED, true, "wants");
  c = run(&b, (struct sbx_http_request){.method = "POST"});
  assert_false(c->failed);
  assert_int_equal(c->status, 429);
  free(c);
  c = run(&b, (struct sbx_http_request){.method = "POST"});
  expect_error(c, SBX_E_RATE_LIMITED, true, " 600 s");
  end_bench(&b);
}

static void test_deadlines(void** state) {
  static const struct answer answers[] = {
      {.text = NULL},
      {.text = "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello"}};
  struct bench b;
  struct call* c;

  (void) state;
  begin(&b, answers, 2);
  c = run(&b, (struct sbx_http_request){.head_ms = 30});
  expect_error(c, SBX_E_TIMEOUT, true, "no answer");
  c = run(&b, (struct sbx_http_request){.idle_ms = 30});
  assert_string_equal(c->body, "hello");
  expect_error(c, SBX_E_TIMEOUT, true, "nothing more");
  end_bench(&b);
}

static void test_bounds(void** state) {
  static char wide[80000], many[8000];
  struct answer answers[] = {{.text = wide}, {.text = many}, hello,
                             {.text = "SSH-2.0-x\r\n\r\n", .close = true}};
  size_t n = (size_t) sprintf(wide, "HTTP/1.1 200 OK\r\n");
  struct bench b;
  struct call* c;

  (void) state;
  while (n < sizeof(wide) - 200)
    n += (size_t) sprintf(wide + n, "X-Y: %0100d\r\n", 1);
  n = (size_t) sprintf(many, "HTTP/1.1 200 OK\r\n");
  for (int i = 0; i < 300; i++) n += (size_t) sprintf(many + n, "X-%d: y\r\n", i);
  begin(&b, answers, 4);
  c = run(&b, (struct sbx_http_request){0});
  expect_error(c, SBX_E_PROVIDER, false, "64 KiB");
  c = run(&b, (struct sbx_http_request){0});
  expect_error(c, SBX_E_PROVIDER, false, "256 headers");
  c = run(&b, (struct sbx_http_request){.max_body = 4});
  expect_error(c, SBX_E_PROVIDER, false, "more than the 4 bytes");
  c = run(&b, (struct sbx_http_request){0});
  expect_error(c, SBX_E_PROVIDER, false, "no proper HTTP");
  end_bench(&b);
}

static void test_refused(void** state) {
  struct bench b;
  struct call* c;

  (void) state;
  begin(&b, &hello, 1);
  c = run(&b, (struct sbx_http_request){.url = "http://127.0.0.1:1/?secret"});
  assert_int_equal(c->error.sys, ECONNREFUSED);
  expect_error(c, SBX_E_UNAVAILABLE, true, "cannot connect");
  end_bench(&b);
}

/* Attempts after the first are made as well as that one. */
static void test_no_such_name(void** state) {
  struct bench b;
  struct call* c;

  (void) state;
  begin(&b, &hello, 1);
  c = run(&b, (struct sbx_http_request){.url = "http://no-such-name.invalid/",
                                        .head_ms = 1000});
  assert_true(c->failed);
  assert_true(c->error.code == SBX_E_UNAVAILABLE ||
              c->error.code == SBX_E_TIMEOUT); /* a resolver that is silent */
  assert_non_null(strstr(c->error.message, "no-such-name.invalid"));
  free(c);
  end_bench(&b);
}

static void refuse(struct bench* b, const char* url, const char* header,
                   const char* part) {
  struct call c = {0};
  struct sbx_http_request request = {
      .url = url, .headers = &header, .headers_len = header != NULL};

  assert_int_equal(open_call(b, &request, &c), SBX_E_INVALID_INPUT);
  if (!strstr(c.error.message, part)) fail_msg("%s", c.error.message);
  assert_null(strstr(c.error.message, "secret"));
}

static void test_bad_input(void** state) {
  struct bench b;

  (void) state;
  begin(&b, &hello, 1);
  refuse(&b, "ftp://x/", NULL, "address of a request");
  refuse(&b, "http://u:secret@x/", NULL, "user name");
  refuse(&b, "file:///etc/passwd", NULL, "address");
  refuse(&b, NULL, "X-Key: secret\r\nX: y", "X-Key");
  refuse(&b, NULL, "no colon, secret", "Name: value");
  refuse(&b, NULL, "Content-Length: 7", "Content-Length");
  end_bench(&b);
}

static void test_stream_up(void** state) {
  struct bench b;
  struct call c = {0};
  struct sbx_http_request request = {.method = "POST",
                                     .flags = SBX_HTTP_STREAM_BODY,
                                     .stream_len = -1};

  (void) state;
  begin(&b, &hello, 1);
  assert_int_equal(open_call(&b, &request, &c), 0);
  assert_int_equal(sbx_exchange_send(c.x, "one", 3, false), 0);
  kit_until(&b.loop, &c.drained);
  c.drained = false;
  assert_int_equal(sbx_exchange_send(c.x, "two", 3, false), 0);
  kit_until(&b.loop, &c.drained);
  assert_int_equal(sbx_exchange_finish(c.x), 0);
  assert_int_equal(sbx_exchange_send(c.x, "x", 1, false), SBX_E_CONFLICT);
  kit_until(&b.loop, &c.ended);
  assert_false(c.failed);
  assert_non_null(strstr(b.server.last, "3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n"));
  sbx_exchange_close(c.x);
  end_bench(&b);
}

static void test_stream_known(void** state) {
  struct bench b;
  struct call c = {0};
  struct sbx_http_request request = {.method = "PUT",
                                     .flags = SBX_HTTP_STREAM_BODY,
                                     .stream_len = 6};

  (void) state;
  begin(&b, &hello, 1);
  assert_int_equal(open_call(&b, &request, &c), 0);
  sbx_exchange_send(c.x, "one", 3, false);
  sbx_exchange_send(c.x, "two", 3, false);
  sbx_exchange_finish(c.x);
  kit_until(&b.loop, &c.ended);
  assert_false(c.failed);
  assert_non_null(strstr(b.server.last, "Content-Length: 6\r\n"));
  assert_non_null(strstr(b.server.last, "\r\n\r\nonetwo"));
  sbx_exchange_close(c.x);
  end_bench(&b);
}

static void turn(struct bench* b, int times) {
  while (times--) uv_run(&b->loop, UV_RUN_NOWAIT);
}

static void test_pause(void** state) {
  static char big[400000];
  struct answer answer = {.text = big};
  size_t n = (size_t) sprintf(big, "HTTP/1.1 200 OK\r\n"
                                   "Content-Length: 300000\r\n\r\n");
  struct bench b;
  struct call* c = calloc(1, sizeof(*c));
  struct sbx_http_request request = {.idle_ms = 1000};
  size_t before;

  (void) state;
  memset(big + n, 'x', 300000);
  answer.len = n + 300000;
  begin(&b, &answer, 1);
  c->pause_in_bytes = true;
  assert_int_equal(open_call(&b, &request, c), 0);
  for (int rounds = 0; !c->ended; rounds++) {
    c->got_bytes = false;
    kit_until(&b.loop, &c->got_bytes);
    before = c->len;
    turn(&b, 20);
    if (rounds == 0) { /* no idle time counts */
      uv_sleep(1100);
      turn(&b, 20);
    }
    assert_int_equal(c->len, before);
    if (c->len == 300000) break;
    assert_false(c->ended);
    sbx_exchange_pause(c->x, false);
    assert_int_equal(c->len, before);
  }
  sbx_exchange_pause(c->x, false);
  if (!c->ended) kit_until(&b.loop, &c->ended);
  assert_false(c->failed);
  assert_int_equal(c->len, 300000);
  sbx_exchange_close(c->x);
  free(c);
  end_bench(&b);
}

static void test_close_anywhere(void** state) {
  struct bench b;
  struct call c;
  struct sbx_http_request request = {0};

  (void) state;
  begin(&b, &hello, 1);
  for (int i = 0; i < 5; i++) {
    struct call fresh = {.close_in_head = i == 0, .close_in_bytes = i == 1};
    c = fresh;
    request.url = NULL;
    assert_int_equal(open_call(&b, &request, &c), 0);
    if (i < 2) {
      kit_until(&b.loop, &c.ended);
    } else {
      turn(&b, i - 2);
      sbx_exchange_close(c.x);
      turn(&b, 20);
      assert_false(c.ended);
    }
  }
  free(run(&b, (struct sbx_http_request){0}));
  end_bench(&b);
}

static void test_close_client(void** state) {
  struct bench b;
  struct call* c = calloc(3, sizeof(*c));
  struct sbx_http_request request = {0};

  (void) state;
  begin(&b, &hello, 1);
  for (int i = 0; i < 3; i++)
    assert_int_equal(open_call(&b, &request, &c[i]), 0);
  c[0].close_http = b.http;
  kit_until(&b.loop, &c[0].ended);
  b.http = NULL;
  end_bench(&b);
  free(c);
}

/* Two users of one pool have one client, another setting has its own; it goes
 * with the last. */
static void test_share(void** state) {
  struct bench b;
  struct sbx_http_pool pool = {NULL};
  struct sbx_http_settings settings = {.proxy = "", .provider = "Test"};
  struct sbx_http_settings other = {.proxy = "", .provider = "Other"};
  struct sbx_http *first, *second, *third;
  struct sbx_http_request request = {0};
  bool closed = false;

  (void) state;
  begin(&b, &hello, 1);
  sbx_http_close(b.http, on_http_closed, &b.closed);
  kit_until(&b.loop, &b.closed);
  b.closed = false;
  assert_int_equal(sbx_http_share(&pool, &b.loop, &settings, &first), 0);
  assert_int_equal(sbx_http_share(&pool, &b.loop, &settings, &second), 0);
  assert_int_equal(sbx_http_share(&pool, &b.loop, &other, &third), 0);
  assert_ptr_equal(first, second);
  assert_ptr_not_equal(first, third);
  assert_true(sbx_http_leave(third));
  sbx_http_close(third, on_http_closed, &closed);
  kit_until(&b.loop, &closed);
  b.http = first;
  free(run(&b, request));
  assert_false(sbx_http_leave(second));
  free(run(&b, request));
  assert_int_equal(b.server.connections, 1);
  assert_true(sbx_http_leave(first));
  assert_null(pool.first);
  end_bench(&b);
}

static void test_close_in_flight(void** state) {
  static const struct answer silent = {.text = NULL};
  struct bench b;
  struct call* c = calloc(40, sizeof(*c));
  struct sbx_http_request request = {0};

  (void) state;
  begin(&b, &silent, 1);
  for (int i = 0; i < 40; i++)
    assert_int_equal(open_call(&b, &request, &c[i]), 0);
  turn(&b, 30);
  end_bench(&b);
  for (int i = 0; i < 40; i++) assert_false(c[i].ended);
  free(c);
}

struct chain {
  struct bench* b;
  struct call call;
  int left;
  bool done;
};

static void on_chain_head(void* data, const struct sbx_http_head* head) {
  (void) data;
  assert_int_equal(head->status, 200);
}

static void on_chain_bytes(void* data, const char* bytes, size_t len) {
  (void) data, (void) bytes, (void) len;
}

/* The next request is opened inside the end of the one before. */
static void on_chain_end(void* data, const struct sbx_error* error) {
  struct chain* chain = data;
  struct sbx_http_request request = {.method = "GET"};
  struct sbx_http_events mine = {.data = chain, .on_head = on_chain_head,
                                 .on_bytes = on_chain_bytes,
                                 .on_end = on_chain_end};
  char url[64];

  assert_null(error);
  sbx_exchange_close(chain->call.x);
  if (!--chain->left) {
    chain->done = true;
    return;
  }
  snprintf(url, sizeof(url), "http://127.0.0.1:%d/", chain->b->server.port);
  request.url = url;
  assert_int_equal(sbx_http_open(chain->b->http, &request, &mine,
                                 &chain->call.x, NULL), 0);
}

static void test_chain(void** state) {
  struct bench b;
  struct chain* chain = calloc(1, sizeof(*chain));
  struct sbx_http_request request = {.method = "GET"};
  struct sbx_http_events mine = {.data = chain, .on_head = on_chain_head,
                                 .on_bytes = on_chain_bytes,
                                 .on_end = on_chain_end};
  char url[64];

  (void) state;
  begin(&b, &hello, 1);
  chain->b = &b;
  chain->left = 50;
  snprintf(url, sizeof(url), "http://127.0.0.1:%d/", b.server.port);
  request.url = url;
  assert_int_equal(
      sbx_http_open(b.http, &request, &mine, &chain->call.x, NULL), 0);
  kit_until(&b.loop, &chain->done);
  assert_int_equal(b.server.connections, 1);
  end_bench(&b);
  free(chain);
}

/* ---- WebSockets ---- */

static struct call* run_socket(const char* frames, size_t len,
                               struct bench* b, struct sbx_http_request r,
                               bool pieces) {
  static char url[64];
  static struct answer answer;
  struct call* c = calloc(1, sizeof(*c));

  answer = (struct answer){.text = frames, .len = len, .pieces = pieces};
  begin(b, &answer, 1);
  b->server.sockets = true;
  snprintf(url, sizeof(url), "ws://127.0.0.1:%d/p?secret=1", b->server.port);
  r.url = url;
  assert_int_equal(open_call(b, &r, c), 0);
  return c;
}

static void test_socket(void** state) {
  /* "he" + ping "p" + "llo" + an empty last fragment; binary; close 1000 */
  static const char frames[] =
      "\x01\x02he\x89\x01p\x00\x03llo\x80\x00\x82\x01\x07\x88\x02\x03\xe8";
  struct bench b;
  struct call* c;

  (void) state;
  for (int pieces = 0; pieces < 2; pieces++) {
    c = run_socket(frames, sizeof(frames) - 1, &b,
                   (struct sbx_http_request){0}, pieces);
    kit_until(&b.loop, &c->ended);
    assert_false(c->failed);
    assert_int_equal(c->status, 101);
    assert_memory_equal(c->body, "hello\x07", 6);
    assert_int_equal(c->messages, 2);
    turn(&b, 20);
    assert_memory_equal(b.server.last + b.server.last_len - 8, "\x88\x82", 2);
    if (pieces) { /* else the close, which came with it, was answer enough */
      assert_int_equal(b.server.last_len, 7 + 8);
      assert_memory_equal(b.server.last, "\x8a\x81", 2);
      assert_int_equal(b.server.last[2] ^ b.server.last[6], 'p');
    }
    sbx_exchange_close(c->x);
    free(c);
    end_bench(&b);
  }
}

static void test_socket_ends(void** state) {
  static const struct {
    const char* frames;
    size_t len;
    int code;
    bool retryable;
    const char* part;
  } cases[] = {
      {"\x88\x02\x03\xf3", 4, SBX_E_UNAVAILABLE, true, "code 1011"},
      {"\x88\x02\x03\xf0", 4, SBX_E_UNAVAILABLE, false, "code 1008"},
      {"\x88\x00", 2, SBX_E_UNAVAILABLE, true, "without a reason"},
      {"\x83\x00", 2, SBX_E_PROVIDER, false, "protocol"},
      {"\x82\x7f\x00\x00\x00\x01\x00\x00\x00\x00x", 11, SBX_E_PROVIDER, false,
       "more than the 1000 bytes"},
  };
  struct bench b;
  struct call* c;

  (void) state;
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    c = run_socket(cases[i].frames, cases[i].len, &b,
                   (struct sbx_http_request){.max_body = 1000}, false);
    kit_until(&b.loop, &c->ended);
    sbx_exchange_close(c->x);
    expect_error(c, cases[i].code, cases[i].retryable, cases[i].part);
    end_bench(&b);
  }
}

static void test_socket_send(void** state) {
  struct bench b;
  struct call* c = run_socket("\x81\x01x", 3, &b,
                              (struct sbx_http_request){0}, false);
  const unsigned char* got = (unsigned char*) b.server.last;

  (void) state;
  assert_int_equal(sbx_exchange_send(c->x, "abc", 3, true), 0);
  kit_until(&b.loop, &c->drained);
  while (b.server.last_len != 9) uv_run(&b.loop, UV_RUN_ONCE);
  assert_int_equal(got[0], 0x81);
  assert_int_equal(got[1], 0x83);
  for (int i = 0; i < 3; i++) assert_int_equal(got[6 + i] ^ got[2 + i], "abc"[i]);
  assert_int_equal(sbx_exchange_finish(c->x), 0);
  while (b.server.last_len < 17) uv_run(&b.loop, UV_RUN_ONCE);
  assert_int_equal(got[9], 0x88);
  sbx_exchange_close(c->x);
  free(c);
  end_bench(&b);
}

static void test_socket_dead(void** state) {
  struct bench b;
  struct call* c = run_socket("\x81\x01x", 3, &b,
                              (struct sbx_http_request){.idle_ms = 60}, false);

  (void) state;
  kit_until(&b.loop, &c->ended);
  assert_int_equal(b.server.last[0] & 0xff, 0x89);
  sbx_exchange_close(c->x);
  expect_error(c, SBX_E_TIMEOUT, true, "sign of life");
  end_bench(&b);
}

static void test_socket_refused(void** state) {
  static const struct answer answers[] = {
      {.text = "HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n"},
      {.text = "HTTP/1.1 101 Ok\r\nUpgrade: websocket\r\n"
               "Sec-WebSocket-Accept: wrong\r\n\r\n"}};
  struct bench b;
  struct call* c;
  char url[64];

  (void) state;
  begin(&b, answers, 2);
  snprintf(url, sizeof(url), "ws://127.0.0.1:%d/", b.server.port);
  c = run(&b, (struct sbx_http_request){.url = url});
  assert_int_equal(c->status, 403);
  expect_error(c, SBX_E_PROVIDER, false, "answered 403");
  c = run(&b, (struct sbx_http_request){.url = url});
  assert_int_equal(c->heads, 0);
  expect_error(c, SBX_E_PROVIDER, false, "no proper WebSocket");
  end_bench(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_get),
      cmocka_unit_test(test_share),
      cmocka_unit_test(test_pieces),
      cmocka_unit_test(test_post),
      cmocka_unit_test(test_cut_body),
      cmocka_unit_test(test_reset_before_head),
      cmocka_unit_test(test_reset_of_kept),
      cmocka_unit_test(test_busy),
      cmocka_unit_test(test_wait_too_long),
      cmocka_unit_test(test_deadlines),
      cmocka_unit_test(test_bounds),
      cmocka_unit_test(test_refused),
      cmocka_unit_test(test_no_such_name),
      cmocka_unit_test(test_bad_input),
      cmocka_unit_test(test_stream_up),
      cmocka_unit_test(test_stream_known),
      cmocka_unit_test(test_pause),
      cmocka_unit_test(test_close_anywhere),
      cmocka_unit_test(test_close_client),
      cmocka_unit_test(test_close_in_flight),
      cmocka_unit_test(test_chain),
      cmocka_unit_test(test_socket),
      cmocka_unit_test(test_socket_ends),
      cmocka_unit_test(test_socket_send),
      cmocka_unit_test(test_socket_dead),
      cmocka_unit_test(test_socket_refused),
  };

  return cmocka_run_group_tests(tests, NULL, NULL);
}
