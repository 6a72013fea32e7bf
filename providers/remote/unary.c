/* Steps through one exchange after another; see unary.h. */
#include "unary.h"

#include <stdlib.h>
#include <string.h>

static void act(struct sbx_unary* u, struct sbx_action* action) {
  action->exchange = u->exchange;
  u->act(u->arg, action);
}

int sbx_unary_send(struct sbx_unary* u, struct sbx_request* request) {
  struct sbx_action action = {.type = SBX_ACTION_OPEN,
                              .request = &request->http};
  int err = sbx_request_ready(request);

  if (err == 0) {
    u->exchange++;
    u->open = true;
    act(u, &action);
  }
  sbx_request_free(request);
  return err;
}

void sbx_unary_drop(struct sbx_unary* u) {
  struct sbx_action action = {.type = SBX_ACTION_CLOSE};

  if (u->open) act(u, &action);
  u->open = false;
}

void sbx_unary_emit(struct sbx_unary* u, int64_t what, const void* bytes,
                    size_t len) {
  struct sbx_action action = {.type = SBX_ACTION_EMIT,
                              .number = what,
                              .bytes = bytes,
                              .len = len};

  act(u, &action);
}

int sbx_unary_done(struct sbx_unary* u, const struct sbx_error* error) {
  struct sbx_action action = {.type = SBX_ACTION_DONE};
  struct sbx_error clean;

  if (u->done) return 0;
  if (error != NULL) {
    clean = *error;
    sbx_answer_scrub(u->words, &clean);
    action.error = &clean;
  }
  u->done = true;
  act(u, &action);
  return 0;
}

int sbx_unary_refused(struct sbx_unary* u) {
  struct sbx_error error;

  sbx_answer_error(&u->reply, u->words, u->plan->operation, &error);
  return sbx_unary_done(u, &error);
}

static int on_end(struct sbx_unary* u) {
  u->open = false;
  return u->plan->answer(u, &u->reply);
}

static int on_failed(struct sbx_unary* u, const struct sbx_error* error) {
  u->open = false;
  if (u->plan->failed != NULL) return u->plan->failed(u, error);
  return sbx_unary_done(u, error);
}

static int on_too_large(struct sbx_unary* u, int code) {
  struct sbx_error error;

  if (code != SBX_E_PROVIDER) return code;
  sbx_unary_drop(u);
  sbx_error_set(&error, code, 0, u->plan->operation,
                "The answer of %s is larger than %d MiB.", u->words->title,
                SBX_ANSWER_MAX >> 20);
  return on_failed(u, &error);
}

static int on_give_up(struct sbx_unary* u, bool cancelled) {
  struct sbx_error error;

  if (cancelled)
    sbx_error_set(&error, SBX_E_ABORTED, 0, u->plan->operation,
                  "The call to %s was cancelled.", u->words->title);
  else
    sbx_error_set(&error, SBX_E_TIMEOUT, 0, u->plan->operation,
                  "%s did not answer in time.", u->words->title);
  error.retryable = !cancelled;
  if (u->plan->give_up != NULL && u->plan->give_up(u, &error)) return 0;
  return sbx_unary_done(u, &error);
}

static int on_bytes(struct sbx_unary* u, const char* bytes, size_t len) {
  int err;

  if (u->plan->bytes != NULL && sbx_answer_good(&u->reply))
    return u->plan->bytes(u, bytes, len);
  err = sbx_answer_bytes(&u->reply, bytes, len);
  return err == 0 ? 0 : on_too_large(u, err);
}

static int on_exchange(struct sbx_unary* u,
                       const struct sbx_step_event* event) {
  if (!u->open || event->exchange != u->exchange) return 0;
  switch (event->type) {
    case SBX_STEP_HEAD:
      return sbx_answer_head(&u->reply, event->head, u->plan->next);
    case SBX_STEP_BYTES: return on_bytes(u, event->bytes, event->len);
    case SBX_STEP_END: return on_end(u);
    case SBX_STEP_FAILED: return on_failed(u, event->error);
    default: return 0;
  }
}

static int step(struct sbx_machine* m, const struct sbx_step_event* event,
                sbx_act_cb cb, void* arg) {
  struct sbx_unary* u = (struct sbx_unary*) m;

  u->act = cb;
  u->arg = arg;
  if (u->done) return 0;
  switch (event->type) {
    case SBX_STEP_BEGIN: return u->plan->begin(u);
    case SBX_STEP_CANCEL:
    case SBX_STEP_DEADLINE:
      return on_give_up(u, event->type == SBX_STEP_CANCEL);
    default: return on_exchange(u, event);
  }
}

static void dispose(struct sbx_machine* m) {
  struct sbx_unary* u = (struct sbx_unary*) m;

  if (u->plan->dispose != NULL) u->plan->dispose(u);
  sbx_answer_clear(&u->reply);
  free(u);
}

void* sbx_unary_new(const struct sbx_unary_plan* plan, void* state,
                    const struct sbx_answer_words* words) {
  struct sbx_unary* u = calloc(1, plan->size);

  if (u == NULL) return NULL;
  u->machine.step = step;
  u->machine.free = dispose;
  u->plan = plan;
  u->state = state;
  u->words = words;
  return u;
}
