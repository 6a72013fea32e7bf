/* What the body of a service's refusal says, in the forms that are in use. */
#ifndef SBX_FAULT_H
#define SBX_FAULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "json.h"

struct sbx_fault {
  int64_t number;    /* {"code":404} or {"statusCode":404}; 0: none */
  char code[64];     /* {"code":"not_found"} or {"error_code":..}; "": none */
  char message[512]; /* one line; "" if nothing was there to quote */
};

/* Reads {"code","message"}, {"error":{"code","message"}}, {"error":".."} and
 * {"statusCode","message"}; of anything else, HTML for one, it quotes a line
 * into the message and returns false. */
bool sbx_fault_read(const char* body, size_t len, struct sbx_fault* out);
/* The same of a parsed object. */
bool sbx_fault_of(struct sbx_json_node n, struct sbx_fault* out);

#endif
