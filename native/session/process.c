/* One command, of whatever kind: what was read kept in rings and told to those
 * who listen, and its end. The kinds bring the bytes.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "process.h"

#include <stdlib.h>

#include "process_internal.h"

void sbx__process_init(struct sbx_process* p,
                       const struct sbx__process_ops* ops,
                       const struct sbx_process_spec* spec,
                       const struct sbx_process_events* events) {
  size_t retain = spec->retain < SBX_RETAIN_MAX ? spec->retain : SBX_RETAIN_MAX;

  p->ops = ops;
  p->events = *events;
  p->terminal = spec->columns > 0 && spec->rows > 0;
  p->grace_ms = spec->grace_ms;
  p->started = uv_hrtime();
  for (int i = 0; i < 2; i++) {
    p->streams[i].process = p;
    sbx_ring_init(&p->streams[i].ring, retain);
  }
}

void sbx__process_free(struct sbx_process* p) {
  sbx_ring_free(&p->streams[0].ring);
  sbx_ring_free(&p->streams[1].ring);
  free(p);
}

void sbx__process_spawned(struct sbx_process* p, uint32_t pid) {
  if (p->spawned) return;
  p->spawned = true;
  if (!p->closed && p->events.on_spawn != NULL)
    p->events.on_spawn(p->events.data, pid);
}

/* ---- output ---- */

static void on_piece(void* arg, const char* bytes, size_t len) {
  struct sbx__stream* s = arg;
  struct sbx_process* p = s->process;

  if (p->closed || p->events.on_text == NULL) return;
  if ((s->listen & SBX_LISTEN_TEXT) == 0) return;
  p->events.on_text(p->events.data, (int) (s - p->streams), bytes, len);
}

/* The bytes may lie in the ring: the pin keeps them alive while a listener
 * looks at the retained output. */
void sbx__process_deliver(struct sbx_process* p, int stream, const char* bytes,
                          size_t len) {
  struct sbx__stream* s = &p->streams[stream];

  s->ring.pinned = true;
  if (!p->closed && (s->listen & SBX_LISTEN_BYTES) != 0 &&
      p->events.on_bytes != NULL)
    p->events.on_bytes(p->events.data, stream, bytes, len);
  sbx_utf8_feed(&s->cutter, bytes, len, on_piece, s);
  s->ring.pinned = false;
}

void sbx__process_put(struct sbx_process* p, int stream, const char* bytes,
                      size_t len) {
  sbx_ring_append(&p->streams[stream].ring, bytes, len);
  sbx__process_deliver(p, stream, bytes, len);
}

/* ---- the end ---- */

/* Listeners may close the process in any of these calls: then nothing more is
 * told. */
void sbx__process_settle(struct sbx_process* p,
                         struct sbx_process_result* result) {
  p->settled = true;
  for (int i = 0; i < 2; i++) {
    struct sbx__stream* s = &p->streams[i];

    sbx_utf8_flush(&s->cutter, on_piece, s);
    sbx_ring_trim(&s->ring);
  }
  result->killed = p->killed;
  result->timed_out = p->timed_out;
  if (p->timed_out && result->error == NULL)
    result->exit_code = SBX__EXIT_TIMEOUT;
  result->duration_ms = (double) (uv_hrtime() - p->started) / 1e6;
  if (!p->closed && p->events.on_exit != NULL)
    p->events.on_exit(p->events.data, result);
}

/* ---- the surface ---- */

int sbx_process_write(struct sbx_process* p, const void* bytes, size_t len,
                      sbx_write_cb cb, void* arg) {
  if (p->settled || p->closed) return UV_EPIPE;
  return p->ops->write(p, bytes, len, cb, arg);
}

int sbx_process_close_stdin(struct sbx_process* p) {
  return p->settled || p->closed ? 0 : p->ops->close_stdin(p);
}

int sbx_process_end(struct sbx_process* p, uint64_t grace_ms) {
  return p->settled ? SBX_E_NOT_FOUND : p->ops->end(p, grace_ms);
}

int sbx_process_signal(struct sbx_process* p, int signo) {
  if (signo < 1 || signo > 64) return SBX_E_INVALID_INPUT;
  return p->settled ? SBX_E_NOT_FOUND : p->ops->signal(p, signo);
}

int sbx_process_resize(struct sbx_process* p, uint32_t columns, uint32_t rows) {
  if (!p->terminal) return SBX_E_INVALID_INPUT;
  return p->settled ? SBX_E_NOT_FOUND : p->ops->resize(p, columns, rows);
}

void sbx_process_listen(struct sbx_process* p, int stream, unsigned mask) {
  p->streams[stream].listen = mask;
}

void sbx_process_pause(struct sbx_process* p, int stream, bool paused) {
  if (p->streams[stream].paused == paused) return;
  p->streams[stream].paused = paused;
  p->ops->pause(p, stream);
}

void sbx_process_retained(struct sbx_process* p, int stream,
                          struct sbx_retained* out) {
  out->bytes = sbx_ring_view(&p->streams[stream].ring, &out->len,
                             &out->dropped);
}

void sbx_process_close(struct sbx_process* p) {
  if (p->closed) return;
  p->closed = true;
  p->ops->close(p);
}
