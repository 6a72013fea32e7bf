/* The thread that commands are born from. */
#include "sys.h" /* first: feature macros */

#include "nursery.h"

#include <stdlib.h>
#include <sys/socket.h>

#include "thread.h"

struct sbx__call {
  int (*fn)(void* arg);
  void* arg;
};

struct sbx__result {
  int value;
  int error;
};

static void sbx__answer(struct sbx_nursery* n, int value) {
  struct sbx__result r = {value, errno};
  ssize_t done = write(n->other, &r, sizeof(r));

  (void) done; /* a few bytes always fit */
}

static void* sbx__thread(void* arg) {
  struct sbx_nursery* n = arg;
  struct sbx__call call;
  int rc = n->begin(n->arg);

  sbx__answer(n, rc);
  if (rc != 0) return NULL;
  while (read(n->other, &call, sizeof(call)) == sizeof(call)) {
    errno = 0;
    sbx__answer(n, call.fn(call.arg));
  }
  return NULL;
}

static int sbx__result(struct sbx_nursery* n) {
  struct sbx__result r;
  ssize_t got;

  do {
    got = read(n->gate, &r, sizeof(r));
  } while (got < 0 && errno == EINTR);
  if (got != sizeof(r)) return -1;
  errno = r.error;
  return r.value;
}

struct sbx_nursery* sbx_nursery_start(int (*begin)(void* arg), void* arg) {
  struct sbx_nursery* n = calloc(1, sizeof(*n));
  int gate[2];

  if (n == NULL) return NULL;
  n->begin = begin;
  n->arg = arg;
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, gate) != 0) {
    free(n);
    return NULL;
  }
  n->gate = gate[0];
  n->other = gate[1];
  if (sbx_thread_start(sbx__thread, n) != 0) {
    free(n);
    return NULL;
  }
  return sbx__result(n) == 0 ? n : NULL;
}

int sbx_nursery_run(struct sbx_nursery* n, int (*fn)(void*), void* arg) {
  struct sbx__call call = {fn, arg};

  if (write(n->gate, &call, sizeof(call)) != sizeof(call)) return -1;
  return sbx__result(n);
}
