/* The remote kit: file calls and command wrapping as POSIX-sh programs for a
 * sandbox that has a shell and nothing of ours, and parsers of their answers.
 *
 * Works with dash, bash and busybox sh. Pure: it makes an argv and bytes for
 * stdin, and takes the bytes that came back; the owner runs the command. The
 * answers are claims of the sandbox, not facts: everything is bounded and
 * checked. Each call has a nonce of its own in its marks.
 */
#ifndef SBX_KIT_H
#define SBX_KIT_H

#include "../../native/files/files.h"

struct sbx_kit_place {
  const char* root; /* absolute: what the request's paths are below; "/" */
  const char* inside; /* the workspace as commands see it, "/workspace" */
  const char* folder; /* the kit's own, 0700; NULL: "/tmp/.sbx" */
  const char* tools; /* PATH of the kit itself; NULL: the system's folders */
  bool binary_output; /* stdout arrives byte for byte; else base64 is used */
  uint64_t inline_max; /* bytes of content in one call; 0: 64 KiB */
};

struct sbx_kit_call;

/* The texts of the place and the request's paths, lists and data are referenced
 * until free. */
int sbx_kit_call_new(const struct sbx_kit_place* place,
                     const struct sbx_file_request* request,
                     struct sbx_kit_call** out, struct sbx_error* error);
void sbx_kit_call_free(struct sbx_kit_call* call);

/* What to do next; ask again after each answer. */
enum sbx_kit_step {
  SBX_KIT_RUN = 1,  /* argv (and stdin); then feed stdout and call ran */
  SBX_KIT_UPLOAD,   /* `data` to the private file `path`; then call moved */
  SBX_KIT_DOWNLOAD, /* the file `path`; feed its bytes, then call moved */
  SBX_KIT_DONE
};
struct sbx_kit_next {
  enum sbx_kit_step step;
  const char* const* argv; /* valid until the next answer */
  size_t argc;
  const void* stdin_bytes; /* NULL: end-of-file at once */
  size_t stdin_len;
  const char* path;
  const void* data;
  size_t data_len;
};
void sbx_kit_call_next(struct sbx_kit_call* call, struct sbx_kit_next* out);

/* Bytes of stdout, or of the download, cut anywhere. Negative: give up. */
int sbx_kit_call_feed(struct sbx_kit_call* call, const char* bytes, size_t len);
/* Bytes of the answer so far. */
size_t sbx_kit_call_size(const struct sbx_kit_call* call);
/* The command ended so; stderr_text for messages. Of a large answer this is the
 * work: it may be done on another thread. */
int sbx_kit_call_ran(struct sbx_kit_call* call, int exit_code,
                     const char* stderr_text, size_t stderr_len);
int sbx_kit_call_moved(struct sbx_kit_call* call,
                       const struct sbx_error* error);

/* After DONE: 0 and the result, whose data the caller frees; or a negative code
 * with `error` as Local would fill it. */
int sbx_kit_call_result(struct sbx_kit_call* call,
                        struct sbx_file_result* result,
                        struct sbx_error* error);

#endif
