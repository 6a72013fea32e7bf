/* The answer of a service, whole, and what a bad one means to the user. */
#ifndef SBX_ANSWER_H
#define SBX_ANSWER_H

#include "../../native/parse/fault.h"
#include "../../native/http/http.h"
#include "../../native/parse/json.h"
#include "../../native/text.h"

/* Collects one. Zeroed memory is its start. */
struct sbx_answer {
  int status;
  bool streams;        /* by its Content-Type: Connect's messages */
  bool html;
  int64_t retry_after; /* seconds, -1: none or a date */
  char* next;          /* the header that was asked for, or NULL */
  struct sbx_text body;
  struct sbx_json* json; /* by sbx_answer_json */
};

enum { SBX_ANSWER_MAX = 8 * 1024 * 1024, SBX_ANSWER_ERROR_MAX = 64 * 1024 };

void sbx_answer_clear(struct sbx_answer* a);
bool sbx_answer_good(const struct sbx_answer* a); /* 2xx */
/* `next`: lower-case name of one header to keep, or NULL. */
int sbx_answer_head(struct sbx_answer* a, const struct sbx_http_head* head,
                    const char* next);
/* SBX_E_PROVIDER where it gets larger than the limits; of an error's body the
 * rest is dropped instead. */
int sbx_answer_bytes(struct sbx_answer* a, const char* bytes, size_t len);

/* What the service is called, and the remedies that it has. */
struct sbx_answer_words {
  const char* title;          /* "E2B" */
  const char* authentication; /* sentence after a 401, " Check …" */
  const char* address;        /* after an answer that is not the service's */
  const char* const* secrets; /* never in a message; NULL at the end */
};

/* Puts "***" for every secret in a message: services repeat what they got. */
void sbx_answer_scrub(const struct sbx_answer_words* words,
                      struct sbx_error* error);

/* The document; SBX_E_PROVIDER where it is no JSON. */
int sbx_answer_json(struct sbx_answer* a, const struct sbx_answer_words* words,
                    const char* operation, struct sbx_json_node* out,
                    struct sbx_error* error);

/* Fills `error` for an answer that is not a success; returns its code. */
int sbx_answer_error(const struct sbx_answer* a,
                     const struct sbx_answer_words* words,
                     const char* operation, struct sbx_error* error);

/* The same for what a stream's trailer or a body said, with the HTTP status
 * that stands for it. */
int sbx_fault_error(int status, const struct sbx_fault* fault,
                    int64_t retry_after, const struct sbx_answer_words* words,
                    const char* operation, struct sbx_error* error);

#endif
