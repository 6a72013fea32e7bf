/* What the parts of the remote kit share: commands that are made, answers that
 * are taken apart. */
#ifndef SBX_KIT_INTERNAL_H
#define SBX_KIT_INTERNAL_H

#include "../../native/files/internal.h"

#include "kit.h"

enum {
  SBX__NONCE_SIZE = 33,
  /* What one element of argv may have on Linux, with its NUL. */
  SBX__ARG_MAX = 128 << 10
};

/* The most that Node puts into one Buffer. */
#define SBX__READ_MAX ((uint64_t)1 << 32)

/* 32 hexadecimal digits nobody can guess. */
int sbx__kit_nonce(char out[SBX__NONCE_SIZE]);

/* --- scripts.c: the shell text ---------------------------------------- */

enum sbx__script {
  SBX__SH_END,
  SBX__SH_BASE,
  SBX__SH_LOCK,
  SBX__SH_REPLACE,
  SBX__SH_LOOK,
  SBX__SH_READ,
  SBX__SH_WRITE,
  SBX__SH_APPEND,
  SBX__SH_FOLDER,
  SBX__SH_TRANSFER,
  SBX__SH_LIST,
  SBX__SH_GATHER,
  SBX__SH_RUN,
  SBX__SH_TREE,
  SBX__SH_JOB,
  SBX__SH_KILL,
  SBX__SH_SIGNAL,
  SBX__SH_JOBS,
  SBX__SH_PREPARE,
  SBX__SH_FOLLOW,
};

/* Not NUL-terminated. */
const char* sbx__kit_script(enum sbx__script script, size_t* len);

/* --- command.c: an argv ----------------------------------------------- */

/* Zeroed memory is an empty one. */
struct sbx__command {
  char* text; /* the arguments, each ended by NUL */
  size_t len;
  size_t size;
  size_t* starts;
  size_t starts_size;
  const char** argv;
  size_t argc;
  bool failed;   /* no memory */
  bool too_long; /* an argument that Linux does not take */
};

/* /bin/sh -c with these scripts (up to SH_END) and nonce, PATH, private folder
 * and root as the first arguments. */
void sbx__command_shell(struct sbx__command* c,
                        const struct sbx_kit_place* place, const char* nonce,
                        const enum sbx__script* scripts);
void sbx__command_add(struct sbx__command* c, const char* text);
void sbx__command_bytes(struct sbx__command* c, const char* text, size_t len);
/* In the form that the function arg of base.sh reads. */
void sbx__command_arg(struct sbx__command* c, const char* text, size_t len);
void sbx__command_number(struct sbx__command* c, uint64_t number);
void sbx__command_base64(struct sbx__command* c, const void* data, size_t len);
/* The scripts as one argument. */
void sbx__command_scripts(struct sbx__command* c,
                          const enum sbx__script* scripts);
const char* sbx__kit_tools(const struct sbx_kit_place* place);
const char* sbx__kit_folder(const struct sbx_kit_place* place);
/* Sets argv. 0, SBX_E_INTERNAL or SBX_E_INVALID_INPUT (too long). */
int sbx__command_finish(struct sbx__command* c);
void sbx__command_free(struct sbx__command* c);

/* --- answer.c: what came back ----------------------------------------- */

/* What lies between the marks; what comes before them is dropped. */
struct sbx__answer {
  char mark[SBX__NONCE_SIZE + 8];
  bool base64;
  bool begun;
  char* data;
  size_t len;
  size_t size;
  size_t limit;
};

void sbx__answer_start(struct sbx__answer* a, const char* nonce, bool base64,
                       size_t limit);
/* SBX_E_PROVIDER: more than the limit; SBX_E_INTERNAL: no memory. */
int sbx__answer_feed(struct sbx__answer* a, const char* bytes, size_t len);
/* The payload, inside `data`. SBX_E_PROVIDER if a mark is missing. */
int sbx__answer_end(struct sbx__answer* a, char** payload, size_t* len);
void sbx__answer_free(struct sbx__answer* a);

/* "81a4 5|2026-11-29 21:22:00.144989603 +0000|...": FACTS of base.sh. */
int sbx__facts_parse(const char* text, size_t len, struct sbx_file_stat* out);
/* "2026-11-29 21:22:00.144" as milliseconds, floored, and back. */
int sbx__time_parse(const char* text, size_t len, int64_t* ms);
void sbx__time_format(int64_t ms, char out[40]);
/* Digits only, to the end. */
int sbx__number_parse(const char* text, size_t len, uint64_t* out);

/* The payload of an error ("Ept ENOENT ...") as Local would fill it. */
int sbx__kit_error(struct sbx__job* job, const struct sbx_kit_place* place,
                   const char* text, size_t len);

/* A few printable characters of hostile bytes, for a message. */
enum { SBX__QUOTE_SIZE = 201 };
const char* sbx__kit_quote(const char* text, size_t len,
                           char out[SBX__QUOTE_SIZE]);

#endif
