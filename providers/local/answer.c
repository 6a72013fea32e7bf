/* Answers that come at once, but never inside the call. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <stdlib.h>

#include "internal.h"

struct answer {
  uv_timer_t timer;
  sbx_done_cb done;
  sbx_found_cb found;
  bool yes;
  bool failed;
  struct sbx_error error;
  void* arg;
};

static void on_answer_closed(uv_handle_t* handle) {
  free(handle->data);
}

static void on_answer(uv_timer_t* timer) {
  struct answer* a = timer->data;
  const struct sbx_error* error = a->failed ? &a->error : NULL;

  if (a->done != NULL)
    a->done(a->arg, error);
  else
    a->found(a->arg, error, a->yes);
  uv_close((uv_handle_t*) timer, on_answer_closed);
}

/* Without memory the answer comes inside the call after all. */
static void answer(struct sbx__local* l, const struct answer* what) {
  struct answer* a = malloc(sizeof(*a));
  struct sbx_error error;

  if (a == NULL) {
    sbx_error_set(&error, SBX_E_INTERNAL, ENOMEM, "local", "Out of memory.");
    if (what->done != NULL)
      what->done(what->arg, &error);
    else
      what->found(what->arg, &error, false);
    return;
  }
  *a = *what;
  uv_timer_init(l->base.loop, &a->timer);
  a->timer.data = a;
  uv_timer_start(&a->timer, on_answer, 0, 0);
}

void sbx__local_answer(struct sbx__local* l, sbx_done_cb cb, void* arg,
                       const struct sbx_error* error) {
  struct answer a = {.done = cb, .arg = arg, .failed = error != NULL};

  if (error != NULL) a.error = *error;
  answer(l, &a);
}

void sbx__local_answer_found(struct sbx__local* l, sbx_found_cb cb, void* arg,
                             bool yes) {
  struct answer a = {.found = cb, .arg = arg, .yes = yes};

  answer(l, &a);
}
