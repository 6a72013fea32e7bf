/* What the parts of a launcher's command know of each other; nothing public. */
#ifndef SBX_PIPES_H
#define SBX_PIPES_H

#include "internal.h"
#include "limits.h"
#include "packet.h"
#include "process_internal.h"
#include "rate.h"

enum { SBX__READ_MIN = 64 * 1024 }; /* what one read asks for at first */

struct sbx__pipes;

/* The reading end of one stream. */
struct sbx__output {
  struct sbx__pipes* owner;
  int fd; /* our end, -1 once at end-of-file or handed over */
  uv_poll_t poll;
  bool polled; /* handle is open */
  size_t read_size;
};

struct sbx__input {
  int fd;
  uv_poll_t poll;
  bool polled;
  bool ending; /* close after what is queued */
  struct sbx__write* first;
  struct sbx__write** last;
};

struct sbx__pipes {
  struct sbx_process base;
  struct sbx__client client;
  struct sbx_session* session; /* NULL once detached */
  uv_loop_t* loop;
  struct sbx__output outputs[2];
  struct sbx__input input;
  uv_timer_t timer;
  bool timed; /* timer handle is open */
  uint64_t time_left; /* ms, while the sandbox is paused */
  bool withdrawn; /* ended in the pause that it waited in: never started */
  struct sbx_rate rate;
  uv_timer_t slow; /* while output waits for its rate */
  bool slowed;     /* slow's handle is open */
  bool waiting;    /* it runs */
  char reason[SBX_REASON_MAX];
  char* name; /* argv[0], for messages */
  char* cwd;
  unsigned handles;
};

/* ---- pipes.c: handles keep the struct alive, and so does a running callback */

int sbx__pipes_handle_open(struct sbx__pipes* p, uv_poll_t* poll, int fd,
                           bool* open);
void sbx__pipes_handle_close(uv_handle_t* handle, bool* open);

/* ---- output.c ---- */

/* Reads whenever there is something, unless the stream is paused or waits for
 * its rate. */
void sbx__output_start(struct sbx__output* o);
/* At most `want` bytes into the ring and to the listeners; what read says. */
ssize_t sbx__output_read(struct sbx__output* o, size_t want);
void sbx__output_end(struct sbx__output* o);

/* ---- input.c ---- */

int sbx__input_write(struct sbx_process* base, const void* bytes, size_t len,
                     sbx_write_cb cb, void* arg);
int sbx__input_close(struct sbx_process* base);
/* At once; what is queued is told `status`. */
void sbx__input_end(struct sbx__pipes* p, int status);

/* ---- request.c ---- */

struct sbx__request {
  char* bytes;
  size_t len;
  int fds[4]; /* theirs: stdin, stdout, stderr, payload */
  size_t nfds;
  uint32_t flags;
};

/* Both give 0 or a negative errno; sbx__request_clear in every case. */
int sbx__request_payload(struct sbx__request* r,
                         const struct sbx_process_spec* spec);
/* Our ends are the process's, polled already. */
int sbx__request_fds(struct sbx__request* r, struct sbx__pipes* p,
                     const struct sbx_process_spec* spec);
void sbx__request_clear(struct sbx__request* r);

/* ---- refusal.c ---- */

/* PID 1 could not start the command at that stage. */
void sbx__refusal_error(const struct sbx__pipes* p, uint32_t stage, int sys,
                        struct sbx_error* error);
/* The program could not be run: the words of a shell for it, and its exit
 * code. */
int sbx__refusal_text(const struct sbx__pipes* p, int sys, char* text,
                      size_t size);
/* This process could not ask for it. Returns the error's code. */
int sbx__refusal_here(int err, struct sbx_error* error);

#endif
