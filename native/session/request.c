/* The request to start a command: its words and the ends of its pipes that it
 * gets. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../memfd.h"
#include "pipes.h"

void sbx__request_clear(struct sbx__request* r) {
  for (size_t i = 0; i < r->nfds; i++) close(r->fds[i]);
  r->nfds = 0;
  free(r->bytes);
  r->bytes = NULL;
}

static size_t strings_len(const char* const* list, size_t count) {
  size_t len = 0;

  for (size_t i = 0; i < count; i++) len += strlen(list[i]) + 1;
  return len;
}

static char* put_string(char* at, const char* text) {
  size_t len = strlen(text) + 1;

  memcpy(at, text, len);
  return at + len;
}

int sbx__request_payload(struct sbx__request* r,
                         const struct sbx_process_spec* spec) {
  uint32_t counts[2] = {(uint32_t) spec->argc, (uint32_t) spec->envc};
  char* at;

  r->len = sizeof(counts) + strlen(spec->cwd) + 1 +
           strings_len(spec->argv, spec->argc) +
           strings_len(spec->env, spec->envc);
  r->bytes = at = malloc(r->len);
  if (at == NULL) return UV_ENOMEM;
  memcpy(at, counts, sizeof(counts));
  at = put_string(at + sizeof(counts), spec->cwd);
  for (size_t i = 0; i < spec->argc; i++) at = put_string(at, spec->argv[i]);
  for (size_t i = 0; i < spec->envc; i++) at = put_string(at, spec->env[i]);
  return 0;
}

/* `ours` is the index of our end: 0 reads, 1 writes. */
static int request_pipe(struct sbx__request* r, int ours, int* fd) {
  int pair[2];

  if (pipe2(pair, O_CLOEXEC) < 0) return -errno;
  *fd = pair[ours];
  r->fds[r->nfds++] = pair[1 - ours];
  return 0;
}

int sbx__request_fds(struct sbx__request* r, struct sbx__pipes* p,
                     const struct sbx_process_spec* spec) {
  int err = 0;

  if (p->base.terminal) r->flags |= SBX_SPAWN_TERMINAL;
  if (spec->stdin_pipe && !p->base.terminal) {
    err = request_pipe(r, 1, &p->input.fd);
    r->flags |= SBX_SPAWN_STDIN_FD;
    if (err == 0 && fcntl(p->input.fd, F_SETFL, O_NONBLOCK | O_WRONLY) < 0)
      err = -errno;
  }
  for (int i = 0; i < 2 && err == 0 && !p->base.terminal; i++) {
    struct sbx__output* o = &p->outputs[i];

    err = request_pipe(r, 0, &o->fd);
    if (err == 0) err = sbx__pipes_handle_open(p, &o->poll, o->fd, &o->polled);
  }
  if (err == 0 && r->len > SBX_MSG_INLINE_MAX) {
    int fd = sbx_memfd_sealed("sandbox-spawn", r->bytes, r->len,
                              SBX_MEMFD_DATA);

    if (fd < 0) return fd;
    r->fds[r->nfds++] = fd;
    r->flags |= SBX_SPAWN_MEMFD;
    r->len = 0;
  }
  return err;
}
