/* A pure protocol machine: events in, actions out.
 *
 * A cloud provider's verb is such a machine. It owns no socket, loop, thread
 * or clock; the engine owns connections, retries, deadlines and back-pressure.
 * Checked on paper: E2B needs one streaming exchange and a second one for
 * input; Daytona a log socket, a poll and an input at once, hence the exchange
 * ids; Vercel and Upstash one streaming answer whose frames are cut anywhere;
 * Mastra platform a lease request and then a WebSocket.
 */
#ifndef SBX_STEP_H
#define SBX_STEP_H

#include <stddef.h>
#include <stdint.h>

enum sbx_step_event_type {
  SBX_STEP_BEGIN = 1, /* first event */
  SBX_STEP_HEAD,      /* status and headers of an exchange */
  SBX_STEP_BYTES,     /* part of a body or a WebSocket message, cut anywhere */
  SBX_STEP_END,       /* the exchange ended in order */
  SBX_STEP_FAILED,    /* it did not; number: negative code */
  SBX_STEP_TIMER,
  SBX_STEP_INPUT,  /* bytes from the user: stdin, a file */
  SBX_STEP_CANCEL, /* close what is open and be done */
  SBX_STEP_DEADLINE
};

struct sbx_step_event {
  enum sbx_step_event_type type;
  uint32_t exchange; /* which one; timers have ids of their own */
  int64_t number;    /* HEAD: status */
  const char* bytes;
  size_t len;
};

enum sbx_action_type {
  SBX_ACTION_OPEN = 1, /* text: "METHOD url\nHeader: value\n..."; bytes: body */
  SBX_ACTION_SEND,     /* bytes on an open exchange */
  SBX_ACTION_CLOSE,
  SBX_ACTION_TIMER, /* number: ms from now; 0 stops it */
  SBX_ACTION_EMIT,  /* number: what (the verb's own), bytes: payload */
  SBX_ACTION_DONE   /* number: 0 or a negative code, text: message */
};

struct sbx_action {
  enum sbx_action_type type;
  uint32_t exchange;
  int64_t number;
  const char* text; /* both valid until the machine's next event */
  const char* bytes;
  size_t len;
};

struct sbx_machine {
  /* Takes one event, calls `act` for each action, in order. After DONE it is
   * given nothing more. Returns 0, or a negative code for an event that it
   * could not take (out of memory, input that breaks the protocol). */
  int (*step)(struct sbx_machine* m, const struct sbx_step_event* event,
              void (*act)(void* arg, const struct sbx_action* action),
              void* arg);
  void (*free)(struct sbx_machine* m);
};

#endif
