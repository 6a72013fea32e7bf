/* The kit's lists and searches: their commands, and their answers packed as
 * Local packs them. */
#ifndef SBX_KIT_LIST_H
#define SBX_KIT_LIST_H

#include "internal.h"

/* Bytes of an answer. */
enum { SBX__LIST_LIMIT = 512 << 20 };

void sbx__list_command(struct sbx__command* c,
                       const struct sbx_kit_place* place, const char* nonce,
                       const struct sbx_file_request* request);
/* 0, SBX_E_PROVIDER or SBX_E_INTERNAL (memory). */
int sbx__list_answer(const struct sbx_file_request* request, const char* text,
                     size_t len, struct sbx_file_result* result);

size_t sbx__gather_limit(const struct sbx_file_request* request);
void sbx__gather_command(struct sbx__command* c,
                         const struct sbx_kit_place* place, const char* nonce,
                         const struct sbx_file_request* request);
/* `last`: the last name that the answer has, malloc'ed, where the result holds
 * none of several and there are more. */
int sbx__gather_answer(const struct sbx_file_request* request,
                       const char* nonce, const char* text, size_t len,
                       struct sbx_file_result* result, char** last);

#endif
