/* What the kinds of processes share: commands of a launcher (pipes.c) and of a
 * cloud sandbox. A kind's own struct begins with this one. */
#ifndef SBX_PROCESS_INTERNAL_H
#define SBX_PROCESS_INTERNAL_H

#include "process.h"
#include "ring.h"
#include "../utf8.h"

enum {
  SBX__EXIT_TIMEOUT = 124,
  SBX__EXIT_NOT_EXECUTABLE = 126,
  SBX__EXIT_NOT_FOUND = 127
};

/* What a kind does behind the public calls, which have checked their arguments
 * and that the process has not settled. */
struct sbx__process_ops {
  int (*write)(struct sbx_process* p, const void* bytes, size_t len,
               sbx_write_cb cb, void* arg);
  int (*close_stdin)(struct sbx_process* p);
  int (*end)(struct sbx_process* p, uint64_t grace_ms);
  int (*signal)(struct sbx_process* p, int signo);
  int (*resize)(struct sbx_process* p, uint32_t columns, uint32_t rows);
  /* streams[stream].paused is set already. */
  void (*pause)(struct sbx_process* p, int stream);
  /* `closed` is set: end what runs, and sbx__process_free when the last handle
   * is gone. */
  void (*close)(struct sbx_process* p);
};

struct sbx__stream {
  struct sbx_process* process;
  bool paused;
  unsigned listen;
  struct sbx_ring ring;
  struct sbx_utf8_cutter cutter;
};

struct sbx_process {
  const struct sbx__process_ops* ops;
  struct sbx_process_events events;
  struct sbx__stream streams[2];
  uint64_t started; /* uv_hrtime */
  uint64_t grace_ms;
  bool terminal;
  bool spawned;
  bool killed;
  bool timed_out;
  bool settled;
  bool closed;
};

/* The memory is zeroed and the kind's. */
void sbx__process_init(struct sbx_process* p,
                       const struct sbx__process_ops* ops,
                       const struct sbx_process_spec* spec,
                       const struct sbx_process_events* events);
/* Frees what the base holds and `p` itself. */
void sbx__process_free(struct sbx_process* p);

/* Once. */
void sbx__process_spawned(struct sbx_process* p, uint32_t pid);

/* Bytes of a stream to the ring and to whoever listens; deliver: those that lie
 * in the ring already. Listeners may close the process in the call. */
void sbx__process_put(struct sbx_process* p, int stream, const char* bytes,
                      size_t len);
void sbx__process_deliver(struct sbx_process* p, int stream, const char* bytes,
                          size_t len);

/* The end, after all output: completes the result and tells it. The last touch,
 * for the owner may close the process in it. */
void sbx__process_settle(struct sbx_process* p,
                         struct sbx_process_result* result);

#endif
