/* A pure protocol machine: events in, actions out.
 *
 * A cloud provider's verb is such a machine. It owns no socket, loop, thread
 * or clock; the engine (drive.h) owns connections, retries, deadlines and
 * back-pressure. Checked on paper: E2B needs one streaming exchange and further
 * ones for input; Daytona a log socket, a poll and an input at once, hence the
 * exchange ids; Vercel and Upstash one streaming answer whose frames are cut
 * anywhere; Mastra platform a lease request and then a WebSocket.
 */
#ifndef SBX_STEP_H
#define SBX_STEP_H

#include <stddef.h>
#include <stdint.h>

#include "error.h"

struct sbx_http_request;
struct sbx_http_head;

enum sbx_step_event_type {
  SBX_STEP_BEGIN = 1, /* first event */
  SBX_STEP_HEAD,      /* status and headers of an exchange */
  SBX_STEP_BYTES,     /* part of a body or a WebSocket message, cut anywhere */
  SBX_STEP_MESSAGE,   /* WebSocket: the message is whole; number: 1 for text */
  SBX_STEP_DRAIN,     /* what was sent on a streaming body has left */
  SBX_STEP_END,       /* the exchange ended in order */
  SBX_STEP_FAILED,    /* it did not; error says why */
  SBX_STEP_TIMER,
  SBX_STEP_INPUT,  /* from the user; number: what (the verb's own), bytes */
  SBX_STEP_CANCEL, /* close what is open and be done */
  SBX_STEP_DEADLINE
};

struct sbx_step_event {
  enum sbx_step_event_type type;
  uint32_t exchange; /* which one; timers have ids of their own */
  int64_t number;
  const struct sbx_http_head* head;
  const struct sbx_error* error;
  const char* bytes;
  size_t len;
};

enum sbx_action_type {
  SBX_ACTION_OPEN = 1, /* request; exchange: an id that is not in use */
  SBX_ACTION_SEND,     /* bytes on an open exchange; number: 1 for text */
  SBX_ACTION_FINISH,   /* end of the streamed body */
  SBX_ACTION_CLOSE,    /* no more events of that exchange */
  SBX_ACTION_TIMER,    /* number: ms from now; 0 stops it */
  SBX_ACTION_EMIT,     /* number: what (the verb's own), bytes: payload */
  SBX_ACTION_DONE      /* error, or NULL: success. Closes everything */
};

struct sbx_action {
  enum sbx_action_type type;
  uint32_t exchange;
  int64_t number;
  const struct sbx_http_request* request;
  const struct sbx_error* error;
  const char* bytes; /* all of it valid until `act` returns */
  size_t len;
};

typedef void (*sbx_act_cb)(void* arg, const struct sbx_action* action);

struct sbx_machine {
  /* Takes one event, calls `act` for each action, in order. After DONE it is
   * given nothing more. Returns 0, or a negative code for an event that it
   * could not take (out of memory, input that breaks the protocol): the driver
   * then ends it as failed. `act` may not call back into the machine. */
  int (*step)(struct sbx_machine* m, const struct sbx_step_event* event,
              sbx_act_cb act, void* arg);
  void (*free)(struct sbx_machine* m);
};

#endif
