/* A WebSocket whose server is hostile: any cut gives the same messages and the
 * same end, and no message is longer than was asked for. The first byte says
 * whether the upgrade is granted first; else the input is the answer to it. */
#include "../native/cuts.h"
#include "native/parse/base64.h"
#include "native/http/http.h"
#include "native/http/sha1.h"
#include "native/http/transport.h"

enum { MESSAGE_MAX = 4096 };

/* ---- a transport without a network ---- */

struct sbx_transport {
  struct sbx_transfer* transfer; /* the one that was started last */
};

struct sbx_transfer {
  struct sbx_transport* transport;
  struct sbx_transfer_events events;
};

static struct sbx_transport* opened;

static int transport_open(void* lender,
                          const struct sbx_transport_config* config,
                          struct sbx_transport** out, struct sbx_error* error) {
  (void) lender;
  (void) config;
  (void) error;
  opened = *out = calloc(1, sizeof(**out));
  return 0;
}

/* The client is never closed: to load the CA roots for each input is slow. */
static void transport_close(struct sbx_transport* t, void (*cb)(void* arg),
                            void* arg) {
  (void) t;
  (void) cb;
  (void) arg;
  abort();
}

static int transfer_start(struct sbx_transport* t,
                          struct sbx_transfer_spec* spec,
                          const struct sbx_transfer_events* events,
                          struct sbx_transfer** out) {
  if (!spec->tunnel || t->transfer != NULL) abort();
  *out = calloc(1, sizeof(**out));
  (*out)->transport = t;
  (*out)->events = *events;
  t->transfer = *out;
  return 0;
}

static void transfer_pause(struct sbx_transfer* x, bool paused) {
  (void) x;
  (void) paused;
}

static void transfer_wake(struct sbx_transfer* x) {
  (void) x;
}

static void transfer_end(struct sbx_transfer* x) {
  x->transport->transfer = NULL;
  free(x);
}

/* In libcurl's place. */
const struct sbx_transport_ops sbx_transport_curl = {
    "fuzz",         transport_open, transport_close, transfer_start,
    transfer_pause, transfer_wake,  transfer_end};

static struct sbx_transfer* transfer(void) {
  return opened != NULL ? opened->transfer : NULL;
}

/* What is sent, thrown away or kept. */
static size_t pull(char* out, size_t size) {
  char buffer[512];
  size_t used = 0;
  ssize_t n = 1;

  while (transfer() != NULL && n > 0) {
    n = transfer()->events.on_pull(transfer()->events.data, buffer,
                                   sizeof(buffer));
    if (n <= 0 || out == NULL) continue;
    if (used + (size_t) n >= size) abort();
    memcpy(out + used, buffer, (size_t) n);
    used += (size_t) n;
  }
  if (out != NULL) out[used] = '\0';
  return used;
}

static void give(const char* bytes, size_t len) {
  if (transfer() == NULL) return;
  transfer()->events.on_bytes(transfer()->events.data, bytes, len);
  pull(NULL, 0);
}

/* ---- the owner ---- */

struct socket {
  struct journal* journal;
  struct sbx_exchange* exchange;
  char answer[256]; /* that grants the upgrade */
  size_t message;
  bool chosen;
  bool ended;
};

static uv_loop_t loop;
static struct sbx_http* http;

static void on_head(void* data, const struct sbx_http_head* head) {
  struct socket* s = data;

  if (s->ended || head->count > 256) abort();
  journal_number(s->journal, "status", head->status);
}

static void on_bytes(void* data, const char* bytes, size_t len) {
  struct socket* s = data;

  s->message += len;
  if (s->ended || len == 0 || s->message > MESSAGE_MAX) abort();
  journal_data(s->journal, bytes, len);
}

static void on_message(void* data, bool text) {
  struct socket* s = data;

  if (s->ended) abort();
  s->message = 0;
  journal_number(s->journal, "message", text);
}

/* Not with which error: wslay checks the text of a close frame piece by piece,
 * from the third byte of each. */
static void on_end(void* data, const struct sbx_error* error) {
  struct socket* s = data;

  if (s->ended) abort();
  s->ended = true;
  journal_number(s->journal, "ended", error != NULL);
}

static void grant(struct socket* s, char* request) {
  static const char magic[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
  char* key = strstr(request, "Sec-WebSocket-Key: ");
  char text[64], accept[32] = {0};
  uint8_t hash[SBX_SHA1_LEN];

  if (key == NULL) abort();
  snprintf(text, sizeof(text), "%.24s%s", key + 19, magic);
  sbx_sha1(text, strlen(text), hash);
  sbx_base64_encode(hash, sizeof(hash), 0, accept);
  snprintf(s->answer, sizeof(s->answer),
           "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
           "Connection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n", accept);
}

static void* make(struct journal* journal) {
  const struct sbx_http_request request = {.method = "GET",
                                           .url = "ws://host.test/exec",
                                           .max_body = MESSAGE_MAX};
  struct socket* s = calloc(1, sizeof(*s));
  const struct sbx_http_events events = {.data = s,
                                         .on_head = on_head,
                                         .on_bytes = on_bytes,
                                         .on_message = on_message,
                                         .on_end = on_end};
  char sent[2048];

  s->journal = journal;
  if (sbx_http_open(http, &request, &events, &s->exchange, NULL) != 0)
    abort();
  for (int i = 0; i < 10 && transfer() == NULL; i++)
    uv_run(&loop, UV_RUN_NOWAIT);
  if (transfer() == NULL) abort();
  transfer()->events.on_open(transfer()->events.data);
  pull(sent, sizeof(sent));
  grant(s, sent);
  return s;
}

static int feed(void* parser, const char* bytes, size_t len) {
  struct socket* s = parser;

  if (len > 0 && !s->chosen) {
    s->chosen = true;
    if (*bytes & 1) give(s->answer, strlen(s->answer));
    bytes++;
    len--;
  }
  if (len > 0) give(bytes, len);
  return 0;
}

static int finish(void* parser) {
  (void) parser;
  if (transfer() != NULL)
    transfer()->events.on_done(transfer()->events.data, NULL);
  return 0;
}

static void release(void* parser) {
  struct socket* s = parser;

  sbx_exchange_close(s->exchange);
  if (transfer() != NULL) abort();
  uv_run(&loop, UV_RUN_NOWAIT);
  free(s);
}

static const struct cut_parser parser = {make, feed, finish, release};

int LLVMFuzzerInitialize(int* argc, char*** argv) {
  static const struct sbx_http_settings settings = {.proxy = "",
                                                    .provider = "E2B"};

  (void) argc;
  (void) argv;
  unsetenv("SBX_HTTP_TRANSPORT");
  if (uv_loop_init(&loop) != 0 || sbx_http_new(&loop, &settings, &http) != 0)
    abort();
  return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  cuts_fuzz(&parser, data, size);
  return 0;
}
