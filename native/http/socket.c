/* WebSockets: the upgrade and the frames, on a transport that only carries
 * bytes. The framing is wslay's. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <wslay/wslay.h>
#include <wslay_event.h>

#include "../parse/base64.h"
#include "internal.h"
#include "sha1.h"
#include "../text.h"

enum {
  LINE_MAX_LEN = 16384,
  KEY_LEN = 24,
  ACCEPT_LEN = 28,
  GOODBYE_MS = 5000,
  PINGS_MAX = 1000, /* whose answers the peer has not read */
  FRAME_HEAD_MAX = 14,
  CONTROL_MAX = 125 /* bytes that a control frame may carry */
};

struct sbx__socket {
  wslay_event_context_ptr frames;
  char* request; /* of the upgrade */
  size_t request_len, request_sent;
  char accept[ACCEPT_LEN + 1]; /* the answer that proves that it was read */
  char* line;                  /* of the head, as far as it has come */
  size_t line_len;
  const uint8_t* in; /* what wslay is to read */
  size_t in_len;
  bool upgraded;
  bool pinged; /* and nothing heard since */
  bool sending; /* messages of the owner wait */
  bool text;
  bool control, fin; /* of the frame that comes */
  unsigned pings;    /* since all that was to be sent had left */
  uint8_t held[FRAME_HEAD_MAX + CONTROL_MAX]; /* a frame that has only begun */
  size_t held_len;
  uint64_t passing; /* bytes of a frame whose head wslay has */
};

/* ---- the upgrade ---- */

static int make_key(struct sbx__socket* s, char key[KEY_LEN + 1]) {
  static const char magic[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
  uint8_t bytes[16], hash[SBX_SHA1_LEN];
  char text[KEY_LEN + sizeof(magic)];
  int rc = uv_random(NULL, NULL, bytes, sizeof(bytes), 0, NULL);

  if (rc) return rc;
  sbx_base64_encode(bytes, sizeof(bytes), 0, key);
  key[KEY_LEN] = '\0';
  snprintf(text, sizeof(text), "%s%s", key, magic);
  sbx_sha1(text, KEY_LEN + sizeof(magic) - 1, hash);
  sbx_base64_encode(hash, sizeof(hash), 0, s->accept);
  s->accept[ACCEPT_LEN] = '\0';
  return 0;
}

static void put_host(struct sbx_text* t, const struct sbx_url* url) {
  bool six = strchr(url->host, ':') != NULL;
  char port[16];

  sbx_text_puts(t, six ? "\r\nHost: [" : "\r\nHost: ");
  sbx_text_puts(t, url->host);
  if (six) sbx_text_puts(t, "]");
  if (url->port == (url->tls ? 443 : 80)) return;
  snprintf(port, sizeof(port), ":%u", url->port);
  sbx_text_puts(t, port);
}

static void put_target(struct sbx_text* t, const struct sbx_url* url) {
  sbx_text_puts(t, "GET ");
  if (url->path_len)
    sbx_text_add(t, url->path, url->path_len);
  else
    sbx_text_puts(t, "/");
  if (url->query_len) sbx_text_puts(t, "?");
  sbx_text_add(t, url->query, url->query_len);
  sbx_text_puts(t, " HTTP/1.1");
}

static int make_request(struct sbx_exchange* x, const struct sbx_url* url) {
  struct sbx__socket* s = x->socket;
  struct sbx_text t = {0};
  char key[KEY_LEN + 1];

  if (make_key(s, key)) return UV_ENOMEM;
  put_target(&t, url);
  put_host(&t, url);
  sbx_text_puts(&t,
                "\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                "User-Agent: sandbox-sdk-native\r\n"
                "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ");
  sbx_text_puts(&t, key);
  sbx_text_puts(&t, "\r\n");
  for (size_t i = 0; i < x->spec->headers_len; i++) {
    sbx_text_puts(&t, x->spec->headers[i]);
    sbx_text_puts(&t, "\r\n");
  }
  sbx_text_puts(&t, "\r\n");
  s->request = sbx_text_take(&t, &s->request_len);
  return s->request ? 0 : UV_ENOMEM;
}

static void end_with(struct sbx_exchange* x, int code, bool retryable,
                     const char* what) {
  struct sbx_error error;

  sbx_error_set(&error, code, 0, "http", "%s: %s %s", x->http->provider,
                x->host, what);
  error.retryable = retryable;
  sbx__exchange_end(x, &error);
}

static bool is_value(const struct sbx_http_head* head, const char* name,
                     const char* value) {
  const char* found = sbx_http_header(head, name);

  return found && strcasecmp(found, value) == 0;
}

static void heard(struct sbx_exchange* x) {
  x->socket->pinged = false;
  if (!x->finished) sbx__exchange_due(x, sbx__now() + x->idle_ms / 2);
}

/* The owner sees the head of a refusal, too, and then an error. */
static void judge_upgrade(struct sbx_exchange* x) {
  const struct sbx_http_head* head = &x->head.view;
  char what[80];

  if (head->status == 101 &&
      (!is_value(head, "upgrade", "websocket") ||
       strcmp(sbx_http_header(head, "sec-websocket-accept")
                  ? sbx_http_header(head, "sec-websocket-accept") : "",
              x->socket->accept) != 0)) {
    end_with(x, SBX_E_PROVIDER, false, "opened no proper WebSocket");
    return;
  }
  if (!sbx__exchange_head(x)) return;
  if (head->status == 101) {
    x->socket->upgraded = true;
    heard(x);
    return;
  }
  snprintf(what, sizeof(what), "answered %d and opened no WebSocket",
           head->status);
  end_with(x, SBX_E_PROVIDER, head->status >= 500, what);
}

/* Takes one line of the head; returns the bytes used. */
static size_t take_line(struct sbx_exchange* x, const char* bytes, size_t len) {
  struct sbx__socket* s = x->socket;
  const char* end = memchr(bytes, '\n', len);
  size_t n = end ? (size_t) (end - bytes) + 1 : len;
  int rc = UV_E2BIG;

  if (s->line_len + n <= LINE_MAX_LEN) {
    memcpy(s->line + s->line_len, bytes, n);
    s->line_len += n;
    if (!end) return n;
    rc = sbx__head_line(&x->head, s->line, s->line_len);
    s->line_len = 0;
  }
  if (rc > 0) judge_upgrade(x);
  if (rc < 0) sbx__exchange_bad_head(x, rc);
  return n;
}

/* ---- frames in ---- */

static ssize_t on_frame_read(wslay_event_context_ptr frames, uint8_t* out,
                             size_t len, int flags, void* data) {
  struct sbx_exchange* x = data;
  struct sbx__socket* s = x->socket;

  (void) flags;
  if (!s->in_len || x->stage == SBX__OVER) {
    wslay_event_set_error(frames, WSLAY_ERR_WOULDBLOCK);
    return -1;
  }
  if (len > s->in_len) len = s->in_len;
  memcpy(out, s->in, len);
  s->in += len;
  s->in_len -= len;
  return (ssize_t) len;
}

static void on_frame_start(
    wslay_event_context_ptr frames,
    const struct wslay_event_on_frame_recv_start_arg* frame, void* data) {
  struct sbx_exchange* x = data;
  struct sbx__socket* s = x->socket;

  s->control = wslay_is_ctrl_frame(frame->opcode);
  s->fin = frame->fin;
  if (frame->opcode == WSLAY_PING && ++s->pings > PINGS_MAX)
    end_with(x, SBX_E_PROVIDER, false, "sends pings and reads no answers");
  if (s->control || x->stage == SBX__OVER) return;
  if (frame->opcode != WSLAY_CONTINUATION_FRAME)
    s->text = frame->opcode == WSLAY_TEXT_FRAME;
  /* Services send output as text that is no UTF-8: wslay would end it. */
  if (s->text) frames->imsg->opcode = WSLAY_BINARY_FRAME;
  sbx__exchange_count(x, frame->payload_length);
}

static void on_frame_chunk(
    wslay_event_context_ptr frames,
    const struct wslay_event_on_frame_recv_chunk_arg* chunk, void* data) {
  struct sbx_exchange* x = data;

  (void) frames;
  if (x->socket->control || x->stage == SBX__OVER || !chunk->data_length)
    return;
  x->events.on_bytes(x->events.data, (const char*) chunk->data,
                     chunk->data_length);
}

static void on_frame_end(wslay_event_context_ptr frames, void* data) {
  struct sbx_exchange* x = data;

  (void) frames;
  if (x->socket->control || !x->socket->fin || x->stage == SBX__OVER) return;
  x->received = 0;
  if (x->events.on_message)
    x->events.on_message(x->events.data, x->socket->text);
}

static int on_mask(wslay_event_context_ptr frames, uint8_t* out, size_t len,
                   void* data) {
  (void) data;
  if (uv_random(NULL, NULL, out, len, 0, NULL) == 0) return 0;
  wslay_event_set_error(frames, WSLAY_ERR_CALLBACK_FAILURE);
  return -1;
}

/* 1000 is the end of what there was to say; everything else is a fault. */
static void end_closed(struct sbx_exchange* x) {
  unsigned code = wslay_event_get_status_code_received(x->socket->frames);
  char what[64];

  if (code == 1000 || x->finished) {
    sbx__exchange_end(x, NULL);
    return;
  }
  if (code == 0 || code == 1005)
    snprintf(what, sizeof(what), "closed the WebSocket without a reason");
  else
    snprintf(what, sizeof(what), "closed the WebSocket with code %u", code);
  end_with(x, SBX_E_UNAVAILABLE, code != 1002 && code != 1003 && code != 1008,
           what);
}

static void take_frames(struct sbx_exchange* x) {
  struct sbx__socket* s = x->socket;
  int rc = wslay_event_recv(s->frames);

  if (x->stage == SBX__OVER) return;
  if (rc == WSLAY_ERR_NOMEM) {
    end_with(x, SBX_E_INTERNAL, false, "sent more than there is memory for");
  } else if (rc) {
    end_with(x, SBX_E_PROVIDER, false, "broke the WebSocket protocol");
  } else {
    if (wslay_event_want_write(s->frames)) x->http->ops->wake(x->transfer);
    /* wslay answers what is no frame with a close of its own. */
    if (!wslay_event_want_read(s->frames) &&
        !wslay_event_get_close_received(s->frames))
      end_with(x, SBX_E_PROVIDER, false, "broke the WebSocket protocol");
    else if (wslay_event_get_close_received(s->frames) &&
             !wslay_event_want_write(s->frames))
      end_closed(x);
  }
}

/* Of the frame that has begun; false: more of its head is to come. */
static bool frame_sizes(const struct sbx__socket* s, size_t* head,
                        uint64_t* payload) {
  size_t more, i;

  if (s->held_len < 2) return false;
  *payload = s->held[1] & 127;
  more = *payload == 126 ? 2 : *payload == 127 ? 8 : 0;
  *head = 2 + more + (s->held[1] & 128 ? 4 : 0);
  if (s->held_len < *head) return false;
  if (more) *payload = 0;
  for (i = 0; i < more; i++) *payload = *payload << 8 | s->held[2 + i];
  return true;
}

static void give(struct sbx_exchange* x, const uint8_t* bytes, size_t len) {
  struct sbx__socket* s = x->socket;

  s->in = bytes;
  s->in_len = len;
  take_frames(x);
  s->in_len = 0;
}

/* Takes what belongs to a frame's head or to a control frame; the bytes used.
 * A control frame is given whole: wslay takes the first two bytes of each piece
 * of a close frame for its code, and so leaves them out of the check that the
 * reason is UTF-8. */
static size_t hold(struct sbx_exchange* x, const uint8_t* bytes, size_t len) {
  struct sbx__socket* s = x->socket;
  uint64_t payload;
  size_t head, used = 0;
  bool whole;

  while (!frame_sizes(s, &head, &payload)) {
    if (used == len) return used;
    s->held[s->held_len++] = bytes[used++];
  }
  whole = wslay_is_ctrl_frame((s->held[0] & 15)) && payload <= CONTROL_MAX;
  while (whole && s->held_len < head + payload) {
    if (used == len) return used;
    s->held[s->held_len++] = bytes[used++];
  }
  s->passing = whole ? 0 : payload;
  len = s->held_len;
  s->held_len = 0;
  give(x, s->held, len);
  return used;
}

static size_t pass(struct sbx_exchange* x, const uint8_t* bytes, size_t len) {
  struct sbx__socket* s = x->socket;

  if (len > s->passing) len = (size_t) s->passing;
  s->passing -= len;
  give(x, bytes, len);
  return len;
}

void sbx__socket_bytes(struct sbx_exchange* x, const char* bytes, size_t len) {
  struct sbx__socket* s = x->socket;
  const uint8_t* at;

  while (len && !s->upgraded && x->stage == SBX__ATTEMPT) {
    size_t n = take_line(x, bytes, len);
    bytes += n;
    len -= n;
  }
  if (!s->upgraded || x->stage != SBX__BODY) return;
  heard(x);
  at = (const uint8_t*) bytes;
  while (len && x->stage == SBX__BODY) {
    size_t n = s->passing ? pass(x, at, len) : hold(x, at, len);
    at += n;
    len -= n;
  }
}

/* ---- frames out ---- */

static size_t pull_request(struct sbx__socket* s, char* out, size_t len) {
  size_t left = s->request_len - s->request_sent;

  if (len > left) len = left;
  memcpy(out, s->request + s->request_sent, len);
  s->request_sent += len;
  return len;
}

/* Asked again only when what it gave before has left. */
ssize_t sbx__socket_pull(struct sbx_exchange* x, char* out, size_t len) {
  struct sbx__socket* s = x->socket;
  ssize_t n;

  if (s->request_sent < s->request_len)
    return (ssize_t) pull_request(s, out, len);
  if (!s->upgraded) return 0;
  n = wslay_event_write(s->frames, (uint8_t*) out, len);
  if (n < 0) {
    end_with(x, SBX_E_INTERNAL, false, "cannot be sent a WebSocket frame");
    return 0;
  }
  if (n > 0) return n;
  s->pings = 0;
  if (wslay_event_get_close_received(s->frames)) {
    end_closed(x);
  } else if (s->sending) {
    s->sending = false;
    if (x->events.on_drain) x->events.on_drain(x->events.data);
  }
  return 0;
}

int sbx__socket_send(struct sbx_exchange* x, const void* bytes, size_t len,
                     bool text) {
  struct wslay_event_msg message = {
      .opcode = text ? WSLAY_TEXT_FRAME : WSLAY_BINARY_FRAME,
      .msg = bytes,
      .msg_length = len};

  if (wslay_event_queue_msg(x->socket->frames, &message))
    return SBX_E_CONFLICT;
  x->socket->sending = true;
  return 0;
}

int sbx__socket_finish(struct sbx_exchange* x) {
  if (wslay_event_queue_close(x->socket->frames, WSLAY_CODE_NORMAL_CLOSURE,
                              NULL, 0))
    return SBX_E_CONFLICT;
  if (x->stage == SBX__BODY) sbx__exchange_due(x, sbx__now() + GOODBYE_MS);
  return 0;
}

/* ---- life ---- */

void sbx__socket_open(struct sbx_exchange* x) {
  x->http->ops->wake(x->transfer);
}

void sbx__socket_restart(struct sbx_exchange* x) {
  x->socket->request_sent = 0;
  x->socket->line_len = 0;
  x->socket->pings = 0;
  x->socket->held_len = 0;
  x->socket->passing = 0;
}

void sbx__socket_done(struct sbx_exchange* x,
                      const struct sbx_failure* failure) {
  struct sbx_failure cut = {.kind = SBX_FAIL_CLOSED, .sent = true, .text = ""};

  if (x->stage == SBX__BODY && x->socket->upgraded &&
      (x->finished || wslay_event_get_close_received(x->socket->frames)))
    end_closed(x);
  else
    sbx__exchange_fail(x, failure ? failure : &cut);
}

/* A peer that is gone answers no ping. */
void sbx__socket_expire(struct sbx_exchange* x) {
  struct sbx__socket* s = x->socket;
  struct wslay_event_msg ping = {.opcode = WSLAY_PING};

  if (x->finished) {
    sbx__exchange_end(x, NULL);
  } else if (s->pinged && !x->paused) {
    end_with(x, SBX_E_TIMEOUT, true, "gives no sign of life");
  } else {
    s->pinged = wslay_event_queue_msg(s->frames, &ping) == 0;
    sbx__exchange_due(x, sbx__now() + x->idle_ms / 2);
    x->http->ops->wake(x->transfer);
  }
}

int sbx__socket_new(struct sbx_exchange* x, const struct sbx_url* url) {
  static const struct wslay_event_callbacks callbacks = {
      .recv_callback = on_frame_read,
      .genmask_callback = on_mask,
      .on_frame_recv_start_callback = on_frame_start,
      .on_frame_recv_chunk_callback = on_frame_chunk,
      .on_frame_recv_end_callback = on_frame_end};
  struct sbx__socket* s = calloc(1, sizeof(*s));

  if (!s) return UV_ENOMEM;
  x->socket = s;
  s->line = malloc(LINE_MAX_LEN);
  if (!s->line) return UV_ENOMEM;
  if (wslay_event_context_client_init(&s->frames, &callbacks, x)) {
    s->frames = NULL; /* it may be left pointing to what is freed */
    return UV_ENOMEM;
  }
  wslay_event_config_set_no_buffering(s->frames, 1);
  wslay_event_config_set_max_recv_msg_length(s->frames, INT64_MAX);
  return make_request(x, url);
}

void sbx__socket_free(struct sbx__socket* s) {
  if (!s) return;
  if (s->frames) wslay_event_context_free(s->frames);
  free(s->request);
  free(s->line);
  free(s);
}
