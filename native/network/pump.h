/* One accepted connection: first the owner looks at what it says, then it is
 * joined with a second socket and bytes flow both ways.
 *
 * Memory is bounded: what the one side does not take is kept, at most one read,
 * and meanwhile nothing is read from the other. */
#ifndef SBX_PUMP_H
#define SBX_PUMP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

enum { SBX_PUMP_READ = 256 * 1024 };

struct sbx_pump_bytes {
  char* bytes;
  size_t at, len;
  bool whole; /* SBX_PUMP_READ bytes large */
};

/* Memory that the pumps of one owner read into. What a socket does not take
 * stays where it was read, and another piece takes its place. */
enum { SBX_PUMP_SPARES = 4, SBX_PUMP_PIPES = 8 };
struct sbx_pump_pool {
  char* scratch;
  char* spares[SBX_PUMP_SPARES];
  size_t spares_len;
  /* Large and empty ones, for those who move much. */
  int pipes[SBX_PUMP_PIPES][2];
  size_t pipes_len;
  size_t pipes_out;
  bool no_pipes; /* this machine gives none that are large */
};

/* Non-zero: no memory. To be cleared when the last pump has closed. */
int sbx_pump_pool_init(struct sbx_pump_pool* pool);
void sbx_pump_pool_clear(struct sbx_pump_pool* pool);

struct sbx_pump_side {
  int fd; /* -1: none */
  uv_poll_t poll;
  int events;   /* watched for */
  bool eof;     /* nothing more comes from it */
  bool shut;    /* nothing more goes to it */
  struct sbx_pump_bytes stuck; /* what it did not take yet */
  unsigned fast; /* full reads from it in a row */
  int pipe[2];   /* by which the other side's bytes come to it; -1: none */
  size_t piped;  /* bytes in there */
};

struct sbx_pump {
  uv_loop_t* loop;
  struct sbx_pump_pool* pool; /* the owner's */
  struct sbx_pump_side client, server; /* sides 0 and 1 */
  int phase;
  unsigned handles;
  uint64_t moved; /* uv_now of the last bytes */
  /* While nobody is joined: bytes of side 0, valid during the call; len 0 is
   * its end. */
  void (*on_head)(struct sbx_pump* p, const char* bytes, size_t len);
  /* It is over: call sbx_pump_close. */
  void (*on_over)(struct sbx_pump* p);
  /* The memory may go. */
  void (*on_closed)(struct sbx_pump* p);
};

/* Takes `fd` over, on failure too; the callbacks must be set. Non-zero: it
 * could not be watched, and on_closed will not come. Reads at once. */
int sbx_pump_open(struct sbx_pump* p, uv_loop_t* loop,
                  struct sbx_pump_pool* pool, int fd);

/* Stops or goes on reading side 0 before it is joined. */
void sbx_pump_hold(struct sbx_pump* p, bool held);

/* Joins with `fd`, which is taken over. `to_fd` are the first bytes for it,
 * `to_client` for side 0; both are copied. */
int sbx_pump_join(struct sbx_pump* p, int fd, const char* to_fd,
                  size_t to_fd_len, const char* to_client,
                  size_t to_client_len);

/* Bytes to side 0 before it is joined. Non-zero: no memory. */
int sbx_pump_say(struct sbx_pump* p, const char* bytes, size_t len);

/* The same, and then nothing more: what still comes is dropped until its end.
 * The owner limits the time. */
void sbx_pump_refuse(struct sbx_pump* p, const char* bytes, size_t len);

/* True where one direction has ended or refuse was called: such a connection
 * may be forgotten by the other side, so the owner limits its idle time. */
bool sbx_pump_ending(const struct sbx_pump* p);

/* Closes both sockets; on_closed follows. Once. */
void sbx_pump_close(struct sbx_pump* p);

#endif
