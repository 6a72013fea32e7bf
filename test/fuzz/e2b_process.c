/* Whatever a sandbox streams: the machine ends once, and is the same however
 * the bytes are cut. The first byte says what comes when; then lines become
 * messages, or all bytes are the stream as they are. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "native/parse/envelope.h"
#include "providers/e2b/e2b.h"

struct seen {
  uint64_t hash; /* of what was emitted */
  unsigned dones;
  int code;
};

static void mix(struct seen* seen, const char* bytes, size_t len) {
  for (size_t i = 0; i < len; i++)
    seen->hash = (seen->hash ^ (unsigned char) bytes[i]) * 1099511628211u;
}

static void on_action(void* arg, const struct sbx_action* a) {
  struct seen* seen = arg;

  if (seen->dones > 0) abort();
  if (a->type == SBX_ACTION_EMIT) {
    mix(seen, (const char*) &a->number, sizeof(a->number));
    mix(seen, a->bytes, a->len);
  }
  if (a->type != SBX_ACTION_DONE) return;
  seen->dones++;
  seen->code = a->error == NULL ? 0 : a->error->code;
}

static struct sbx_service_state* state(void) {
  struct sbx_service_state* s;
  struct sbx_options* o;

  if (sbx_options_new(&o) != 0) abort();
  if (sbx_options_add_string(o, "apiKey", "e2b_x", 5) != 0) abort();
  if (sbx_service_e2b.open(o, &s, NULL) != 0) abort();
  sbx_options_free(o);
  s->id = strdup("iabc");
  if (s->id == NULL) abort();
  return s;
}

static int give(struct sbx_machine* m, struct seen* seen,
                const struct sbx_step_event* event) {
  return seen->dones > 0 ? 0 : m->step(m, event, on_action, seen);
}

static struct seen run(struct sbx_service_state* s, const char* bytes,
                       size_t len, size_t piece, unsigned what) {
  static const char* const names[] = {"content-type"};
  static const char* const values[] = {"application/connect+json"};
  static const char* const argv[] = {"x"};
  const struct sbx_start_spec spec = {.argv = argv, .argc = 1,
                                      .stdin_pipe = true};
  const struct sbx_attach_spec pid = {.pid = 7};
  struct sbx_http_head head = {200, names, values, 1};
  struct sbx_step_event event = {.type = SBX_STEP_BEGIN, .exchange = 1};
  struct seen seen = {0};
  struct sbx_machine* m = what & 128 ? sbx_e2b_watch(s, "/x", true)
                          : what & 1 ? sbx_e2b_attach(s, &pid)
                                     : sbx_e2b_start(s, &spec);
  int err;

  if (m == NULL) abort();
  err = give(m, &seen, &event);
  event.type = SBX_STEP_INPUT;
  event.number = SBX_INPUT_BYTES;
  event.bytes = "in";
  event.len = 2;
  if (err == 0 && (what & 2)) err = give(m, &seen, &event);
  event.type = SBX_STEP_HEAD;
  event.head = &head;
  if (err == 0) err = give(m, &seen, &event);
  for (size_t at = 0; err == 0 && at < len; at += piece) {
    event.type = SBX_STEP_BYTES;
    event.bytes = bytes + at;
    event.len = len - at < piece ? len - at : piece;
    err = give(m, &seen, &event);
  }
  event.type = what & 4 ? SBX_STEP_CANCEL : SBX_STEP_END;
  if (err == 0) err = give(m, &seen, &event);
  if (err == 0 && seen.dones != 1) abort();
  m->free(m);
  return seen;
}

/* Each line a message; one that begins with '!' is the trailer. */
static void frame_lines(struct sbx_text* out, const char* bytes, size_t len) {
  while (len > 0) {
    const char* end = memchr(bytes, '\n', len);
    size_t line = end == NULL ? len : (size_t) (end - bytes);
    bool last = line > 0 && bytes[0] == '!';
    size_t size;
    char* frame = sbx_envelope_encode(last ? SBX_ENVELOPE_END : 0, bytes + last,
                                      line - last, &size);

    if (frame == NULL) abort();
    sbx_text_add(out, frame, size);
    free(frame);
    line += end != NULL;
    bytes += line;
    len -= line;
  }
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  struct sbx_service_state* s;
  struct sbx_text text = {0};
  struct seen whole, cut;
  unsigned what;

  if (size < 1) return 0;
  what = data[0];
  if (what & 8) sbx_text_add(&text, data + 1, size - 1);
  else frame_lines(&text, (const char*) data + 1, size - 1);
  s = state();
  whole = run(s, text.bytes, text.len, text.len + 1, what);
  cut = run(s, text.bytes, text.len, 1 + (what >> 4) % 5, what);
  if (whole.hash != cut.hash || whole.dones != cut.dones ||
      whole.code != cut.code)
    abort();
  sbx_service_e2b.free(s);
  sbx_text_free(&text);
  return 0;
}
