/* Whatever the control plane and the edge answer: each machine ends once, and
 * the state stays whole. The first byte chooses the machine, the second the
 * status; blank lines part the answers, of which the first line is a status of
 * its own choice and the next page's token. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "providers/e2b/e2b.h"

struct seen {
  uint32_t opened;
  unsigned dones;
};

static void on_action(void* arg, const struct sbx_action* a) {
  struct seen* seen = arg;

  if (seen->dones > 0) abort();
  if (a->type == SBX_ACTION_OPEN) {
    seen->opened = a->exchange;
    if (strncmp(a->request->url, "https://", 8) != 0) abort();
    for (size_t i = 0; i < a->request->headers_len; i++)
      if (strpbrk(a->request->headers[i], "\r\n") != NULL) abort();
  }
  if (a->type == SBX_ACTION_DONE) seen->dones++;
  if (a->type == SBX_ACTION_DONE && a->error != NULL &&
      strstr(a->error->message, "e2b_secret") != NULL)
    abort();
}

static struct sbx_service_state* state(void) {
  struct sbx_service_state* s;
  struct sbx_options* o;

  if (sbx_options_new(&o) != 0) abort();
  if (sbx_options_add_string(o, "apiKey", "e2b_secret", 10) != 0) abort();
  if (sbx_service_e2b.open(o, &s, NULL) != 0) abort();
  sbx_options_free(o);
  s->id = strdup("iabc");
  if (s->id == NULL) abort();
  return s;
}

static struct sbx_machine* make(struct sbx_service_state* s, unsigned which) {
  static const char* const hosts[] = {"npm"};

  switch (which % 12) {
    case 0: return sbx_e2b_find(s, "x");
    case 1: return sbx_e2b_create(s, "x");
    case 2: return sbx_e2b_connect(s);
    case 3: return sbx_e2b_stop(s);
    case 4: return sbx_e2b_destroy(s);
    case 5: return sbx_e2b_touch(s);
    case 6: return sbx_e2b_probe(s);
    case 7: return sbx_e2b_snapshot_create(s, "n");
    case 8: return sbx_e2b_snapshot_list(s);
    case 9: return sbx_e2b_set_network(s, hosts, 1);
    case 10: return sbx_e2b_upload(s, "/x", "y", 1);
    default: return sbx_e2b_download(s, "/x");
  }
}

static int give(struct sbx_machine* m, struct seen* seen,
                const struct sbx_step_event* event) {
  return seen->dones > 0 ? 0 : m->step(m, event, on_action, seen);
}

static int answer(struct sbx_machine* m, struct seen* seen, int status,
                  const char* body, size_t len) {
  static const char* const names[] = {"x-next-token", "retry-after"};
  static const char* const values[] = {"more", "7"};
  struct sbx_http_head head = {status, names, values, status % 2 ? 2 : 0};
  struct sbx_step_event event = {.type = SBX_STEP_HEAD,
                                 .exchange = seen->opened, .head = &head};
  int err = give(m, seen, &event);

  event.type = SBX_STEP_BYTES;
  for (size_t i = 0; err == 0 && i < len; i += 3) {
    event.bytes = body + i;
    event.len = len - i < 3 ? len - i : 3;
    err = give(m, seen, &event);
  }
  event.type = SBX_STEP_END;
  return err == 0 ? give(m, seen, &event) : err;
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const int statuses[] = {200, 201, 204, 400, 401, 403, 404, 405,
                                 409, 429, 500, 502, 503, 504, 507, 302};
  struct sbx_step_event event = {.type = SBX_STEP_BEGIN};
  struct sbx_service_state* s;
  struct seen seen = {0};
  struct sbx_machine* m;
  int err;

  if (size < 2) return 0;
  s = state();
  m = make(s, data[0]);
  if (m == NULL) abort();
  err = give(m, &seen, &event);
  data++, size--;
  for (int i = 0; err == 0 && i < 8 && size > 0 && seen.dones == 0; i++) {
    const uint8_t* end = memchr(data, '\n', size);
    size_t len = end == NULL ? size : (size_t) (end - data);

    err = answer(m, &seen, statuses[data[0] & 15], (const char*) data + (len > 0),
                 len - (len > 0));
    len += end != NULL;
    data += len;
    size -= len;
  }
  event.type = SBX_STEP_FAILED;
  event.exchange = seen.opened;
  event.error = &(struct sbx_error){.code = SBX_E_UNAVAILABLE};
  for (int i = 0; err == 0 && i < 3; i++) {
    event.exchange = seen.opened;
    err = give(m, &seen, &event);
  }
  if (err == 0 && seen.dones != 1) abort();
  m->free(m);
  sbx_service_e2b.free(s);
  return 0;
}
