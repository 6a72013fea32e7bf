/* Drives a protocol machine by hand and writes down what it does, as the engine
 * would see it. Included after cmocka.h. */
#ifndef MACHINE_RIG_H
#define MACHINE_RIG_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../native/error.h"
#include "../../native/http/http.h"
#include "../../native/step.h"
#include "../../native/text.h"

struct rig {
  struct sbx_machine* m;
  size_t piece; /* bytes of a body at once; 0: all */
  struct sbx_text log; /* "open 1 GET http://… body\n", "emit 5 bytes\n" … */
  struct sbx_text headers; /* of the last request, a line each */
  uint64_t head_ms, idle_ms;
  unsigned flags;
  uint32_t opened; /* the last exchange */
  unsigned dones;
  struct sbx_error error; /* of DONE; code 0: success */
};

static void rig_log(struct rig* rig, const char* format, ...)
    __attribute__((format(printf, 2, 3)));

static void rig_log(struct rig* rig, const char* format, ...) {
  char text[1024];
  va_list args;

  va_start(args, format);
  vsnprintf(text, sizeof(text), format, args);
  va_end(args);
  sbx_text_puts(&rig->log, text);
}

/* Envelopes and numbers are made readable, the rest is as it is. */
static void rig_log_bytes(struct rig* rig, const char* bytes, size_t len) {
  char hex[8];

  for (size_t i = 0; i < len; i++) {
    unsigned char c = (unsigned char) bytes[i];

    if (c >= ' ' && c < 127) {
      sbx_text_add(&rig->log, bytes + i, 1);
    } else {
      snprintf(hex, sizeof(hex), "\\%02x", c);
      sbx_text_puts(&rig->log, hex);
    }
  }
}

static void rig_open(struct rig* rig, const struct sbx_action* a) {
  const struct sbx_http_request* r = a->request;

  rig->opened = a->exchange;
  rig->head_ms = r->head_ms;
  rig->idle_ms = r->idle_ms;
  rig->flags = r->flags;
  rig->headers.len = 0;
  for (size_t i = 0; i < r->headers_len; i++) {
    assert_null(strpbrk(r->headers[i], "\r\n"));
    sbx_text_puts(&rig->headers, r->headers[i]);
    sbx_text_puts(&rig->headers, "\n");
  }
  rig_log(rig, "open %u %s ", a->exchange, r->method);
  sbx_text_puts(&rig->log, r->url);
  if (r->body_len > 0) {
    rig_log(rig, " ");
    rig_log_bytes(rig, r->body, r->body_len);
  }
  rig_log(rig, "\n");
}

static void rig_act(void* arg, const struct sbx_action* a) {
  struct rig* rig = arg;

  assert_int_equal(rig->dones, 0);
  switch (a->type) {
    case SBX_ACTION_OPEN: rig_open(rig, a); return;
    case SBX_ACTION_CLOSE: rig_log(rig, "close %u\n", a->exchange); return;
    case SBX_ACTION_TIMER:
      rig_log(rig, "timer %u %lld\n", a->exchange, (long long) a->number);
      return;
    case SBX_ACTION_EMIT:
      rig_log(rig, "emit %lld ", (long long) a->number);
      rig_log_bytes(rig, a->bytes, a->len);
      rig_log(rig, "\n");
      return;
    case SBX_ACTION_DONE:
      rig->dones++;
      if (a->error != NULL) rig->error = *a->error;
      rig_log(rig, "done %s\n",
              a->error == NULL ? "well" : sbx_code_name(a->error->code));
      return;
    default: fail_msg("action %d", (int) a->type);
  }
}

static int rig_give(struct rig* rig, const struct sbx_step_event* event) {
  if (rig->dones > 0) return 0;
  return rig->m->step(rig->m, event, rig_act, rig);
}

static int rig_event(struct rig* rig, enum sbx_step_event_type type,
                     uint32_t exchange) {
  struct sbx_error error;
  struct sbx_step_event event = {.type = type, .exchange = exchange};

  sbx_error_set(&error, SBX_E_UNAVAILABLE, 104, "http", "The connection broke.");
  if (type == SBX_STEP_FAILED) event.error = &error;
  return rig_give(rig, &event);
}

static void rig_start(struct rig* rig, struct sbx_machine* m, size_t piece) {
  memset(rig, 0, sizeof(*rig));
  assert_non_null(m);
  rig->m = m;
  rig->piece = piece;
  assert_int_equal(rig_event(rig, SBX_STEP_BEGIN, 0), 0);
}

/* "name: value" lines. */
static int rig_head(struct rig* rig, uint32_t exchange, int status,
                    const char* name, const char* value) {
  const char* names[2] = {name, NULL};
  const char* values[2] = {value, NULL};
  struct sbx_http_head head = {.status = status, .names = names,
                               .values = values, .count = name != NULL};
  struct sbx_step_event event = {.type = SBX_STEP_HEAD, .exchange = exchange,
                                 .number = status, .head = &head};

  return rig_give(rig, &event);
}

static int rig_bytes(struct rig* rig, uint32_t exchange, const char* bytes,
                     size_t len) {
  size_t piece = rig->piece > 0 ? rig->piece : len;
  int err = 0;

  for (size_t at = 0; err == 0 && at < len; at += piece) {
    struct sbx_step_event event = {
        .type = SBX_STEP_BYTES, .exchange = exchange, .bytes = bytes + at,
        .len = len - at < piece ? len - at : piece};

    err = rig_give(rig, &event);
  }
  return err;
}

static int rig_input(struct rig* rig, int64_t number, const void* bytes,
                     size_t len) {
  struct sbx_step_event event = {.type = SBX_STEP_INPUT, .number = number,
                                 .bytes = bytes, .len = len};

  return rig_give(rig, &event);
}

/* A whole answer to the request that was opened last. */
static void rig_answer(struct rig* rig, int status, const char* body) {
  uint32_t exchange = rig->opened;

  assert_int_equal(rig_head(rig, exchange, status, NULL, NULL), 0);
  assert_int_equal(rig_bytes(rig, exchange, body, strlen(body)), 0);
  assert_int_equal(rig_event(rig, SBX_STEP_END, exchange), 0);
}

/* What was written down, which is then forgotten. */
static void rig_expect(struct rig* rig, const char* log) {
  sbx_text_add(&rig->log, "", 1);
  assert_string_equal(rig->log.bytes, log);
  rig->log.len = 0;
}

static bool rig_has_header(struct rig* rig, const char* line) {
  char wanted[512];
  size_t len = (size_t) snprintf(wanted, sizeof(wanted), "%s\n", line);
  const char* at = memmem(rig->headers.bytes, rig->headers.len, wanted, len);

  return at != NULL && (at == rig->headers.bytes || at[-1] == '\n');
}

static void rig_end(struct rig* rig) {
  rig->m->free(rig->m);
  sbx_text_free(&rig->log);
  sbx_text_free(&rig->headers);
}

#endif
