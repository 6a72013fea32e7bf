/* One command in the sandbox: the stream of its output and end, and beside it
 * the calls that carry its input, in order, and its signals. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../native/parse/base64.h"
#include "../../native/parse/envelope.h"
#include "closing.h"
#include "e2b.h"
#include "exit.h"

enum {
  STREAM = 1,        /* the exchange of the output; the others count on */
  LINGER_TIMER = 1,  /* for the stream's end, so that its connection lives */
  LINGER_MS = 1000,
  CLOSING_TIMER = 2, /* for the end of a command whose input was not ended */
  PIECE_MAX = 32 * 1024 - 16 /* with its length before it */
};

/* Input that waits: bytes, or the end. */
struct piece {
  struct piece* next;
  bool end;
  size_t len, off;
  char bytes[];
};

struct process {
  struct sbx_machine machine; /* first */
  struct sbx_e2b* e;
  const char* operation;
  struct sbx_request request; /* that begins the stream */
  struct sbx_envelope_reader reader;
  struct sbx_answer refusal;
  struct sbx_text decoded;
  struct sbx_error error;

  bool terminal, started, exited, done;
  bool input_only; /* beside a stream of another kind */
  bool framed; /* envd cannot end the input: it is told in the input */
  uint32_t pid;
  uint32_t exchange; /* the last one */
  int signal;        /* that came before the start */

  struct piece *first, *last;
  uint32_t sending; /* the exchange of the piece that is on its way, or 0 */
  size_t sent;      /* of it */
  struct sbx_answer closing; /* to the end of the input */
  bool closed;      /* takes no more input */
  bool refused;     /* as its command does */

  sbx_act_cb act; /* during a step */
  void* arg;
};

/* ---- actions ---- */

static void act(struct process* p, enum sbx_action_type type,
                uint32_t exchange, int64_t number) {
  struct sbx_action action = {.type = type, .exchange = exchange,
                              .number = number};

  p->act(p->arg, &action);
}

static void emit(struct process* p, int64_t what, const void* bytes,
                 size_t len) {
  struct sbx_action action = {.type = SBX_ACTION_EMIT, .exchange = STREAM,
                              .number = what, .bytes = bytes, .len = len};

  if (!p->done) p->act(p->arg, &action);
}

static int finish(struct process* p, const struct sbx_error* error) {
  struct sbx_action action = {.type = SBX_ACTION_DONE};
  struct sbx_error clean;

  if (p->done) return 0;
  if (error != NULL) {
    clean = *error;
    sbx_answer_scrub(&p->e->words, &clean);
    action.error = &clean;
  }
  p->done = true;
  p->act(p->arg, &action);
  return 0;
}

/* The result is known: whatever the stream does after it is no matter. */
static int fail(struct process* p, const struct sbx_error* error) {
  return finish(p, p->exited ? NULL : error);
}

static int open_exchange(struct process* p, uint32_t exchange,
                         struct sbx_request* r) {
  struct sbx_action action = {.type = SBX_ACTION_OPEN, .exchange = exchange,
                              .request = &r->http};
  int err = sbx_request_ready(r);

  if (err == 0) p->act(p->arg, &action);
  sbx_request_free(r);
  return err;
}

/* ---- calls beside the stream ---- */

static void write_selector(const struct process* p, struct sbx_json_writer* w) {
  sbx_json_write_object(w, NULL);
  sbx_json_write_object(w, "process");
  sbx_json_write_integer(w, "pid", p->pid);
  sbx_json_write_end(w);
}

/* The exchange's id, or 0 without memory. */
static uint32_t call(struct process* p, const char* path,
                     struct sbx_json_writer* w) {
  struct sbx_request r;

  sbx_json_write_end(w);
  sbx_e2b_rpc(p->e, &r, path);
  sbx_request_json(&r, w);
  return open_exchange(p, p->exchange + 1, &r) == 0 ? ++p->exchange : 0;
}

/* envd knows these two signals; kill(1) sends the others. */
static int send_signal(struct process* p, int number) {
  const char* name = number == SIGKILL ? "SIGNAL_SIGKILL" : "SIGNAL_SIGTERM";
  struct sbx_json_writer w = {0};
  struct sbx_request r;
  char text[2][16];

  if (number == SIGKILL || number == SIGTERM) {
    write_selector(p, &w);
    sbx_json_write_string(&w, "signal", name);
    return call(p, "/process.Process/SendSignal", &w) != 0 ? 0 : SBX_E_INTERNAL;
  }
  snprintf(text[0], sizeof(text[0]), "-%d", number);
  snprintf(text[1], sizeof(text[1]), "%u", p->pid);
  sbx_json_write_object(&w, NULL);
  sbx_json_write_object(&w, "process");
  sbx_json_write_string(&w, "cmd", "/bin/kill");
  sbx_json_write_array(&w, "args");
  sbx_json_write_string(&w, NULL, text[0]);
  sbx_json_write_string(&w, NULL, text[1]);
  sbx_json_write_end(&w);
  sbx_json_write_end(&w);
  sbx_json_write_bool(&w, "stdin", false);
  sbx_json_write_end(&w);
  sbx_e2b_stream(p->e, &r, "/process.Process/Start", 10 * 1000);
  sbx_e2b_as(p->e, &r, true);
  sbx_request_envelope(&r, &w);
  return open_exchange(p, ++p->exchange, &r);
}

static int send_size(struct process* p, const uint32_t size[2]) {
  struct sbx_json_writer w = {0};

  write_selector(p, &w);
  sbx_json_write_object(&w, "pty");
  sbx_json_write_object(&w, "size");
  sbx_json_write_integer(&w, "cols", size[0]);
  sbx_json_write_integer(&w, "rows", size[1]);
  sbx_json_write_end(&w);
  sbx_json_write_end(&w);
  return call(p, "/process.Process/Update", &w) != 0 ? 0 : SBX_E_INTERNAL;
}

/* ---- input ---- */

static void free_pieces(struct process* p) {
  while (p->first != NULL) {
    struct piece* piece = p->first;

    p->first = piece->next;
    free(piece);
  }
  p->last = NULL;
}

static void told_written(struct process* p) {
  uint32_t one = 1;

  emit(p, SBX_EMIT_WRITTEN, &one, sizeof(one));
}

static void drop_first(struct process* p) {
  struct piece* piece = p->first;

  p->first = piece->next;
  if (p->first == NULL) p->last = NULL;
  if (!piece->end) told_written(p);
  free(piece);
}

/* As behind a pipe that nobody reads: the end of the command tells the rest. */
static void close_input(struct process* p) {
  p->closed = true;
  while (p->first != NULL) drop_first(p);
}

static int send_raw(struct process* p, const char* bytes, size_t len) {
  struct sbx_json_writer w = {0};

  write_selector(p, &w);
  sbx_json_write_object(&w, "input");
  sbx_json_write_base64(&w, p->terminal ? "pty" : "stdin", bytes, len);
  sbx_json_write_end(&w);
  p->sending = call(p, "/process.Process/SendInput", &w);
  return p->sending != 0 ? 0 : SBX_E_INTERNAL;
}

/* What waits at the front, as much of it as goes into one call. */
static size_t gather(const struct process* p, char* out, size_t size) {
  size_t len = 0;

  for (const struct piece* at = p->first;
       at != NULL && !at->end && len < size; at = at->next) {
    size_t left = at->len - at->off;
    size_t n = left < size - len ? left : size - len;

    memcpy(out + len, at->bytes + at->off, n);
    len += n;
  }
  return len;
}

static int send_bytes(struct process* p) {
  enum { HEAD = 16 };
  char text[HEAD + PIECE_MAX], head[HEAD];
  size_t len = gather(p, text + HEAD, PIECE_MAX);
  size_t head_len = 0;

  p->sent = len;
  if (p->framed)
    head_len = (size_t) snprintf(head, sizeof(head), "%zu\n", len);
  memcpy(text + HEAD - head_len, head, head_len);
  return send_raw(p, text + HEAD - head_len, len + head_len);
}

static int send_end(struct process* p) {
  struct sbx_json_writer w = {0};

  if (p->terminal) return send_raw(p, "\004", 1);
  if (p->framed) return send_raw(p, ".\n", 2);
  write_selector(p, &w);
  p->sending = call(p, "/process.Process/CloseStdin", &w);
  return p->sending != 0 ? 0 : SBX_E_INTERNAL;
}

/* One at a time: parallel ones would overtake each other. */
static int pump(struct process* p) {
  while (p->first != NULL && !p->first->end && p->first->len == 0)
    drop_first(p);
  if (p->first == NULL || p->sending != 0 || !p->started || p->done) return 0;
  return p->first->end ? send_end(p) : send_bytes(p);
}

static int queue(struct process* p, const char* bytes, size_t len, bool end) {
  struct piece* piece;

  if (p->refused) {
    emit(p, SBX_EMIT_REFUSED, NULL, 0);
    return 0;
  }
  if (p->closed || p->exited) {
    if (!end) told_written(p);
    return 0;
  }
  piece = malloc(sizeof(*piece) + len);
  if (piece == NULL) return SBX_E_INTERNAL;
  *piece = (struct piece){.end = end, .len = len};
  if (len > 0) memcpy(piece->bytes, bytes, len);
  if (p->last != NULL) p->last->next = piece;
  else p->first = piece;
  p->last = piece;
  return pump(p);
}

/* What was sent is off the queue; an empty piece goes with those before it. */
static void consume(struct process* p) {
  while (p->first != NULL && !p->first->end) {
    size_t left = p->first->len - p->first->off;
    size_t n = left < p->sent ? left : p->sent;

    p->first->off += n;
    p->sent -= n;
    if (n < left) return;
    drop_first(p);
    if (p->sent == 0) return;
  }
}

static int on_sent(struct process* p) {
  p->sending = 0;
  if (p->first == NULL) return 0;
  if (p->first->end && !p->terminal) {
    close_input(p);
    return 0;
  }
  if (p->first->end) drop_first(p);
  else consume(p);
  return pump(p);
}

static int on_input(struct process* p, const struct sbx_step_event* event) {
  uint32_t numbers[2] = {0, 0};
  bool enough = event->len <= sizeof(numbers);

  switch (event->number) {
    case SBX_INPUT_BYTES: return queue(p, event->bytes, event->len, false);
    case SBX_INPUT_EOF: return queue(p, NULL, 0, true);
    default: break;
  }
  if (!enough) return SBX_E_INTERNAL;
  if (event->len > 0) memcpy(numbers, event->bytes, event->len);
  if (p->exited) return 0;
  if (event->number == SBX_INPUT_RESIZE)
    return p->started ? send_size(p, numbers) : 0;
  if (event->number != SBX_INPUT_SIGNAL) return SBX_E_INTERNAL;
  if (p->started) return send_signal(p, (int) numbers[0]);
  p->signal = (int) numbers[0];
  return 0;
}

/* ---- what the stream says ---- */

static int on_started(struct process* p, struct sbx_json_node start,
                      struct sbx_error* error) {
  int64_t pid;
  int err;

  if (p->started) return 0;
  err = sbx_json_integer(start, "pid", 1, INT32_MAX, &pid, error);
  if (err != 0) return err;
  p->started = true;
  p->pid = (uint32_t) pid;
  emit(p, SBX_EMIT_PID, &p->pid, sizeof(p->pid));
  if (p->signal != 0) err = send_signal(p, p->signal);
  return err == 0 ? pump(p) : err;
}

static int decode(struct process* p, const char* text, size_t len,
                  size_t* out_len) {
  p->decoded.len = 0;
  if (sbx_text_grow(&p->decoded, SBX_BASE64_DECODED(len)) == NULL)
    return SBX_E_INTERNAL;
  return sbx_base64_decode(text, len, SBX_BASE64_BARE | SBX_BASE64_URL,
                           p->decoded.bytes, out_len);
}

static int emit_decoded(struct process* p, struct sbx_json_node data,
                        const char* name, int64_t what,
                        struct sbx_error* error) {
  const char* text = NULL;
  size_t out_len;
  int err = sbx_json_opt_string(data, name, &text, error);

  if (err != 0 || text == NULL || text[0] == '\0') return err;
  err = decode(p, text, strlen(text), &out_len);
  if (err == SBX_E_INTERNAL) return err;
  if (err != 0) return sbx_json_refuse(data, name, "is no base64", error);
  if (out_len > 0) emit(p, what, p->decoded.bytes, out_len);
  return 0;
}

static int on_data(struct process* p, struct sbx_json_node data,
                   struct sbx_error* error) {
  int err = emit_decoded(p, data, "stdout", SBX_EMIT_STDOUT, error);

  if (err == 0) err = emit_decoded(p, data, "stderr", SBX_EMIT_STDERR, error);
  return err != 0 ? err : emit_decoded(p, data, "pty", SBX_EMIT_STDOUT, error);
}

static int on_exit_event(struct process* p, struct sbx_json_node end,
                         struct sbx_error* error) {
  struct sbx_emit_exit result;
  const char *status = "", *why = "";
  int64_t code = 0;
  int err = sbx_json_opt_integer(end, "exitCode", INT32_MIN, INT32_MAX, &code,
                                 error);

  if (err == 0) err = sbx_json_opt_string(end, "status", &status, error);
  if (err == 0) err = sbx_json_opt_string(end, "error", &why, error);
  if (err != 0 || p->exited) return err;
  result = sbx_e2b_exit(code, status[0] != '\0' ? status : why);
  close_input(p);
  emit(p, SBX_EMIT_EXIT, &result, sizeof(result));
  p->exited = true;
  act(p, SBX_ACTION_TIMER, LINGER_TIMER, LINGER_MS);
  return 0;
}

static int on_event(struct process* p, struct sbx_json_node root,
                    struct sbx_error* error) {
  struct sbx_json_node event = {0}, part = {0};
  int err = sbx_json_opt_object(root, "event", &event, error);

  if (err != 0 || event.item == NULL) return err;
  err = sbx_json_opt_object(event, "start", &part, error);
  if (err != 0 || part.item != NULL)
    return err != 0 ? err : on_started(p, part, error);
  err = sbx_json_opt_object(event, "data", &part, error);
  if (err == 0 && part.item == NULL)
    err = sbx_json_opt_object(event, "end", &part, error);
  else if (err == 0 && p->started)
    return on_data(p, part, error);
  if (err != 0 || part.item == NULL) return err;
  if (p->started) return on_exit_event(p, part, error);
  return sbx_json_refuse(event, NULL, "comes before the start", error);
}

/* Behind the word and the blanks before it; NULL where it does not stand. */
static const char* after(const char* at, const char* end, const char* word) {
  size_t len = strlen(word);

  while (at != NULL && at < end &&
         (*at == ' ' || *at == '\t' || *at == '\r' || *at == '\n'))
    at++;
  if (at == NULL || (size_t) (end - at) < len) return NULL;
  return memcmp(at, word, len) == 0 ? at + len : NULL;
}

/* Nearly all messages are {"event":{"data":{"stdout":"…"}}}: read without a
 * document, three times as fast. False: of another form, nothing was done. */
static bool take_plain(struct process* p, const char* at, size_t len) {
  static const char* const head[] = {"{", "\"event\"", ":", "{",
                                     "\"data\"", ":", "{"};
  const char *end = at + len, *name, *quote;
  int64_t what = SBX_EMIT_STDOUT;
  size_t out_len;

  if (!p->started) return false;
  for (size_t i = 0; i < sizeof(head) / sizeof(head[0]); i++)
    at = after(at, end, head[i]);
  name = after(at, end, "\"stdout\"");
  if (name == NULL) {
    name = after(at, end, "\"stderr\"");
    what = SBX_EMIT_STDERR;
  }
  at = after(after(name, end, ":"), end, "\"");
  quote = at == NULL ? NULL : memchr(at, '"', (size_t) (end - at));
  if (quote == NULL) return false;
  for (name = quote + 1, len = 0; len < 3; len++) name = after(name, end, "}");
  if (after(name, end, "") != end ||
      decode(p, at, (size_t) (quote - at), &out_len) != 0)
    return false;
  if (out_len > 0) emit(p, what, p->decoded.bytes, out_len);
  return true;
}

static int on_message(void* data, const char* bytes, size_t len,
                      struct sbx_error* error) {
  struct process* p = data;
  struct sbx_json* json;
  int err;

  if (p->done || take_plain(p, bytes, len)) return 0;
  err = sbx_json_parse(bytes, len, &p->reader.source, &json, error);
  if (err != 0) return err;
  err = on_event(p, sbx_json_root(json), error);
  sbx_json_free(json);
  return err;
}

/* The time limit that went with the start is over: envd has killed it. */
static int on_deadline(struct process* p) {
  sbx_error_set(&p->error, SBX_E_TIMEOUT, 0, p->operation,
                "E2B ended the command at its time limit.");
  return fail(p, &p->error);
}

static int on_trailer(void* data, const struct sbx_fault* fault,
                      struct sbx_error* error) {
  struct process* p = data;

  (void) error;
  if (p->exited || p->done) return 0;
  if (fault != NULL && strcmp(fault->code, "deadline_exceeded") == 0)
    return on_deadline(p);
  if (fault != NULL)
    sbx_e2b_fault_error(p->e, fault, p->operation, &p->error);
  else
    sbx_error_set(&p->error, SBX_E_PROVIDER, 0, p->operation,
                  "E2B ended the command's stream without its result.");
  return fail(p, &p->error);
}

static int on_bytes(struct process* p, const char* bytes, size_t len) {
  int err;

  if (!p->refusal.streams || !sbx_answer_good(&p->refusal))
    return sbx_answer_bytes(&p->refusal, bytes, len);
  err = sbx_envelope_feed(&p->reader, bytes, len, &p->error);
  return err == 0 ? 0 : p->error.code != 0 ? fail(p, &p->error) : err;
}

static int on_stream_end(struct process* p) {
  if (!p->refusal.streams || !sbx_answer_good(&p->refusal)) {
    sbx_e2b_envd_error(p->e, &p->refusal, p->operation, &p->error);
    return fail(p, &p->error);
  }
  if (p->exited) return finish(p, NULL);
  sbx_envelope_finish(&p->reader, &p->error);
  if (p->error.code == 0) return finish(p, NULL);
  p->error.sys = ECONNRESET;
  return fail(p, &p->error);
}

static int on_stream(struct process* p, const struct sbx_step_event* event) {
  switch (event->type) {
    case SBX_STEP_HEAD: return sbx_answer_head(&p->refusal, event->head, NULL);
    case SBX_STEP_BYTES: return on_bytes(p, event->bytes, event->len);
    case SBX_STEP_END: return on_stream_end(p);
    case SBX_STEP_FAILED: return fail(p, event->error);
    default: return 0;
  }
}

static int lose_input(struct process* p, int status) {
  sbx_error_set(&p->error, SBX_E_UNAVAILABLE, ECONNRESET, p->operation,
                "E2B answered %d to the input of a command.", status);
  return fail(p, &p->error);
}

/* envd says that the command reads none, or is gone. What waits is not told as
 * written. */
static int refuse_input(struct process* p, int status) {
  if (!p->input_only) {
    free_pieces(p);
    p->refused = true;
    emit(p, SBX_EMIT_REFUSED, NULL, 0);
    return 0;
  }
  if (status == 404)
    sbx_error_set(&p->error, SBX_E_NOT_FOUND, 0, p->operation,
                  "The sandbox has no process with pid %u.", p->pid);
  else
    sbx_error_set(&p->error, SBX_E_CONFLICT, 0, p->operation,
                  "The command reads no more input.");
  return fail(p, &p->error);
}

/* It says nothing about the command, which may still wait for its input: bytes
 * are their writer's to send again. */
static int deny_input(struct process* p, int status) {
  struct sbx_emit_denied denied = {0};
  struct sbx_fault none = {0};

  denied.code = sbx_fault_error(status, &none, -1, &p->e->envd_words,
                                p->operation, &p->error);
  if (p->input_only) return fail(p, &p->error);
  memset(&p->error, 0, sizeof(p->error));
  p->sending = 0;
  while (p->first != NULL && !p->first->end) {
    struct piece* piece = p->first;

    p->first = piece->next;
    if (p->first == NULL) p->last = NULL;
    free(piece);
    denied.count++;
  }
  emit(p, SBX_EMIT_DENIED, &denied, sizeof(denied));
  return pump(p);
}

static int on_call_head(struct process* p, int status) {
  if (status >= 200 && status < 300) return 0;
  if (sbx_e2b_in_between(status)) return lose_input(p, status);
  return status == 401 || status == 403 ? deny_input(p, status)
                                        : refuse_input(p, status);
}

/* Nobody else would tell that the input has no end, for which the command may
 * wait for ever: it is told at once where no other try would go better. */
static int deny_end(struct process* p) {
  struct sbx_emit_denied denied = {0};
  struct sbx_e2b_closing closing =
      sbx_e2b_closing(p->e, &p->closing, p->operation, &p->error);

  if (!closing.final) return lose_input(p, p->closing.status);
  denied.code = p->error.code;
  emit(p, SBX_EMIT_DENIED, &denied, sizeof(denied));
  return fail(p, &p->error);
}

static int on_closing_end(struct process* p) {
  struct sbx_e2b_closing closing;

  if (sbx_answer_good(&p->closing)) return on_sent(p);
  closing = sbx_e2b_closing(p->e, &p->closing, p->operation, NULL);
  if (closing.wait_ms == 0) return deny_end(p);
  if (p->framed || p->terminal) /* sent as bytes, which nobody reads */
    return refuse_input(p, p->closing.status);
  act(p, SBX_ACTION_TIMER, CLOSING_TIMER, (int64_t) closing.wait_ms);
  return 0;
}

static int on_closing(struct process* p, const struct sbx_step_event* event) {
  switch (event->type) {
    case SBX_STEP_HEAD: return sbx_answer_head(&p->closing, event->head, NULL);
    case SBX_STEP_BYTES:
      return sbx_answer_bytes(&p->closing, event->bytes, event->len);
    case SBX_STEP_END: return on_closing_end(p);
    case SBX_STEP_FAILED: return fail(p, event->error);
    default: return 0;
  }
}

/* Of bytes only whether they went well matters; the body is dropped. Where that
 * is not known, the whole is broken: nothing was told as written. */
static int on_call(struct process* p, const struct sbx_step_event* event) {
  if (event->exchange != p->sending || p->exited) return 0;
  if (p->first != NULL && p->first->end) return on_closing(p, event);
  switch (event->type) {
    case SBX_STEP_HEAD: return on_call_head(p, event->head->status);
    case SBX_STEP_END: return on_sent(p);
    case SBX_STEP_FAILED: return fail(p, event->error);
    default: return 0;
  }
}

static int on_timer(struct process* p, uint32_t timer) {
  if (timer == LINGER_TIMER) return finish(p, NULL);
  return p->exited ? 0 : deny_end(p);
}

/* ---- the machine ---- */

static int on_begin(struct process* p) {
  if (p->error.code != 0) return finish(p, &p->error);
  p->exchange = STREAM;
  return p->input_only ? 0 : open_exchange(p, STREAM, &p->request);
}

/* Letting the stream go leaves the command alone. */
static int on_give_up(struct process* p, bool cancelled) {
  sbx_error_set(&p->error, cancelled ? SBX_E_ABORTED : SBX_E_TIMEOUT, 0,
                p->operation, cancelled ? "The command's stream was let go."
                                        : "The command took too long.");
  return fail(p, &p->error);
}

static int process_step(struct sbx_machine* m,
                        const struct sbx_step_event* event, sbx_act_cb cb,
                        void* arg) {
  struct process* p = (struct process*) m;

  p->act = cb;
  p->arg = arg;
  if (p->done) return 0;
  switch (event->type) {
    case SBX_STEP_BEGIN: return on_begin(p);
    case SBX_STEP_INPUT: return on_input(p, event);
    case SBX_STEP_TIMER: return on_timer(p, event->exchange);
    case SBX_STEP_CANCEL:
    case SBX_STEP_DEADLINE:
      return on_give_up(p, event->type == SBX_STEP_CANCEL);
    default:
      return event->exchange == STREAM ? on_stream(p, event)
                                       : on_call(p, event);
  }
}

static void process_free(struct sbx_machine* m) {
  struct process* p = (struct process*) m;

  free_pieces(p);
  sbx_request_free(&p->request);
  sbx_envelope_free(&p->reader);
  sbx_answer_clear(&p->refusal);
  sbx_answer_clear(&p->closing);
  sbx_text_free(&p->decoded);
  free(p);
}

static struct process* process_new(struct sbx_service_state* s,
                                   const char* operation) {
  struct process* p = calloc(1, sizeof(*p));

  if (p == NULL) return NULL;
  p->machine.step = process_step;
  p->machine.free = process_free;
  p->e = (struct sbx_e2b*) s;
  p->operation = operation;
  p->reader.source = (struct sbx_json_source){"E2B", operation};
  p->reader.data = p;
  p->reader.on_message = on_message;
  p->reader.on_end = on_trailer;
  if (s->id == NULL)
    sbx_error_set(&p->error, SBX_E_UNAVAILABLE, 0, operation,
                  "There is no E2B sandbox yet: start it first.");
  return p;
}

static bool is_framed(const struct process* p) {
  return !p->terminal && p->e->version < SBX_E2B_VERSION(0, 5, 2);
}

/* ---- start ---- */

static void write_env(struct sbx_json_writer* w,
                      const struct sbx_start_spec* spec) {
  if (spec->envc == 0) return;
  sbx_json_write_object(w, "envs");
  for (size_t i = 0; i < spec->envc; i++) {
    const char* equals = strchr(spec->env[i], '=');
    char* name = equals == NULL ? NULL
                                : strndup(spec->env[i],
                                          (size_t) (equals - spec->env[i]));

    /* A missing name makes the writer fail. */
    sbx_json_write_string(w, name, equals == NULL ? "" : equals + 1);
    free(name);
  }
  sbx_json_write_end(w);
}

/* What stands before the command where envd is old. Before 0.3.0 it always
 * gives a pipe, which would never end. Before 0.5.2 it cannot end one: pieces then
 * come with their length, "." is the end, and the command, which keeps its pid,
 * reads from a FIFO. What feeds that must not hold the command's output. */
static const char* wrapper(const struct process* p,
                           const struct sbx_start_spec* spec) {
  static const char empty[] = "exec \"$@\" </dev/null";
  static const char framed[] =
      "d=$(mktemp -d) && mkfifo \"$d/in\" || exit 125; exec 3<&0; "
      "(exec >\"$d/in\" 2>/dev/null; rm -rf \"$d\"; "
      "while read -r n && [ \"$n\" != . ]; do head -c \"$n\"; done) <&3 & "
      "exec \"$@\" <\"$d/in\" 3<&-";

  if (p->framed) return framed;
  return !spec->stdin_pipe && !p->terminal &&
                 p->e->version < SBX_E2B_VERSION(0, 3, 0)
             ? empty
             : NULL;
}

static void write_command(const struct process* p, struct sbx_json_writer* w,
                          const struct sbx_start_spec* spec) {
  const char* script = wrapper(p, spec);

  sbx_json_write_string(w, "cmd", script != NULL ? "/bin/sh" : spec->argv[0]);
  sbx_json_write_array(w, "args");
  if (script != NULL) {
    sbx_json_write_string(w, NULL, "-c");
    sbx_json_write_string(w, NULL, script);
    sbx_json_write_string(w, NULL, "sh");
  }
  for (size_t i = script != NULL ? 0 : 1; i < spec->argc; i++)
    sbx_json_write_string(w, NULL, spec->argv[i]);
  sbx_json_write_end(w);
}

static void build_start(struct process* p, const struct sbx_start_spec* spec) {
  struct sbx_json_writer w = {0};

  sbx_json_write_object(&w, NULL);
  sbx_json_write_object(&w, "process");
  write_command(p, &w, spec);
  write_env(&w, spec);
  if (spec->cwd != NULL) sbx_json_write_string(&w, "cwd", spec->cwd);
  sbx_json_write_end(&w);
  if (p->terminal) {
    sbx_json_write_object(&w, "pty");
    sbx_json_write_object(&w, "size");
    sbx_json_write_integer(&w, "cols", spec->columns);
    sbx_json_write_integer(&w, "rows", spec->rows);
    sbx_json_write_end(&w);
    sbx_json_write_end(&w);
  } else {
    sbx_json_write_bool(&w, "stdin", spec->stdin_pipe);
  }
  sbx_json_write_end(&w);
  sbx_e2b_stream(p->e, &p->request, "/process.Process/Start",
                 spec->timeout_ms);
  sbx_e2b_as(p->e, &p->request, spec->as_root);
  sbx_request_envelope(&p->request, &w);
}

struct sbx_machine* sbx_e2b_start(struct sbx_service_state* s,
                                  const struct sbx_start_spec* spec) {
  struct process* p = process_new(s, "run");

  if (p == NULL) return NULL;
  p->terminal = spec->columns > 0 || spec->rows > 0;
  p->closed = !spec->stdin_pipe && !p->terminal;
  p->framed = !p->closed && is_framed(p);
  if (p->error.code == 0 && spec->argc == 0)
    sbx_error_set(&p->error, SBX_E_INVALID_INPUT, 0, "run",
                  "The command is empty.");
  if (p->error.code == 0) build_start(p, spec);
  return &p->machine;
}

/* ---- attach ---- */

struct sbx_machine* sbx_e2b_attach(struct sbx_service_state* s,
                                   const struct sbx_attach_spec* spec) {
  struct process* p = process_new(s, "attach");
  struct sbx_json_writer w = {0};

  if (p == NULL || p->error.code != 0) return p == NULL ? NULL : &p->machine;
  p->pid = spec->pid;
  p->terminal = spec->terminal;
  p->framed = is_framed(p);
  p->input_only = p->started = spec->input_only;
  if (spec->input_only) return &p->machine;
  write_selector(p, &w);
  sbx_json_write_end(&w);
  sbx_e2b_stream(p->e, &p->request, "/process.Process/Connect", 0);
  sbx_request_envelope(&p->request, &w);
  return &p->machine;
}
