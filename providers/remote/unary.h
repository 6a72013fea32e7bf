/* Machines that send one request after another and read each answer whole: most
 * calls of a service. Its own part is a plan: what to send first, and what to
 * do with each answer. */
#ifndef SBX_UNARY_H
#define SBX_UNARY_H

#include "../../native/step.h"
#include "answer.h"
#include "request.h"

struct sbx_unary;

struct sbx_unary_plan {
  size_t size; /* of the machine, whose first member is a struct sbx_unary */
  const char* operation;
  const char* next;    /* lower-case name of a header to keep, or NULL */
  /* Each sends the next request or is done; or returns a negative code. */
  int (*begin)(struct sbx_unary* u);
  int (*answer)(struct sbx_unary* u, struct sbx_answer* a);
  /* May be NULL. Takes the body of a good answer piece by piece instead. */
  int (*bytes)(struct sbx_unary* u, const char* bytes, size_t len);
  /* No answer came. NULL: done with that error. */
  int (*failed)(struct sbx_unary* u, const struct sbx_error* error);
  /* Cancelled, or out of time. False, or NULL: done at once. */
  bool (*give_up)(struct sbx_unary* u, const struct sbx_error* error);
  void (*dispose)(struct sbx_unary* u); /* of what its own part holds */
};

struct sbx_unary {
  struct sbx_machine machine; /* first */
  const struct sbx_unary_plan* plan;
  void* state; /* of the service */
  const struct sbx_answer_words* words;
  struct sbx_answer reply;
  uint32_t exchange; /* of the last request; 0: none yet */
  bool open, done;
  sbx_act_cb act; /* during a step */
  void* arg;
};

/* Zeroed but for what is the same for all; NULL without memory. State and words
 * outlive it. */
void* sbx_unary_new(const struct sbx_unary_plan* plan, void* state,
                    const struct sbx_answer_words* words);

/* Sends it and frees what it owns. A negative code if it could not be built. */
int sbx_unary_send(struct sbx_unary* u, struct sbx_request* request);
/* Gives the open request up: nothing of it comes any more. */
void sbx_unary_drop(struct sbx_unary* u);
void sbx_unary_emit(struct sbx_unary* u, int64_t what, const void* bytes,
                    size_t len);
/* NULL: success. No secret gets into the error. Always 0. */
int sbx_unary_done(struct sbx_unary* u, const struct sbx_error* error);
/* The answer as an error. Always 0. */
int sbx_unary_refused(struct sbx_unary* u);

#endif
