/* The HTTP engine against a small server on the same loop that answers from a
 * script: whole, in pieces, cut, broken or never. */
#include "engine_kit.h"

#include "../../native/http.h"

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

static void serve(struct peer* p) {
  struct server* s = p->server;
  size_t size = request_size(p);
  size_t i;

  if (!size) return;
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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_get),
  };

  return cmocka_run_group_tests(tests, NULL, NULL);
}
