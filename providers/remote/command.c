/* Commands that the remote kit wants run: to their end, stdout to a parser. */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

struct sbx__command {
  struct sbx_remote* remote;
  struct sbx_drive* drive;
  struct sbx__command_events events;
  const void* stdin_bytes;
  size_t stdin_len;
  const char* operation;
  bool began;
  size_t stderr_len;
  char stderr_text[SBX__REMOTE_STDERR];
};

void sbx__command_close(struct sbx__command* c) {
  if (c->drive != NULL) sbx_drive_close(c->drive);
  free(c);
}

/* The last touch. */
static void finish(struct sbx__command* c, const struct sbx_error* error,
                   int exit_code) {
  struct sbx__command_events events = c->events;
  struct sbx__command_end end = {.error = error,
                                 .began = c->began,
                                 .exit_code = exit_code,
                                 .stderr_text = c->stderr_text,
                                 .stderr_len = c->stderr_len};

  if (error == NULL)
    sbx__remote_linger(c->remote, c->drive);
  else
    sbx_drive_close(c->drive);
  c->drive = NULL;
  events.on_end(events.data, &end);
  free(c);
}

static void on_garbage(struct sbx__command* c) {
  struct sbx_error error;

  sbx_error_set(&error, SBX_E_PROVIDER, 0, c->operation,
                "The sandbox gave an answer that is none: something in it "
                "disturbs the shell of the file tools.");
  finish(c, &error, 0);
}

static void on_stderr(struct sbx__command* c, const char* bytes, size_t len) {
  size_t room = sizeof(c->stderr_text) - c->stderr_len;

  if (len > room) len = room;
  memcpy(c->stderr_text + c->stderr_len, bytes, len);
  c->stderr_len += len;
}

static void on_exit_emit(struct sbx__command* c, const char* bytes,
                         size_t len) {
  struct sbx_emit_exit exit = {0};

  if (len >= sizeof(exit)) memcpy(&exit, bytes, sizeof(exit));
  finish(c, NULL, exit.signal != 0 ? 128 + exit.signal : exit.exit_code);
}

static void on_pid(struct sbx__command* c) {
  c->began = true;
  if (c->stdin_bytes == NULL) return;
  sbx_drive_input(c->drive, SBX_INPUT_BYTES, c->stdin_bytes, c->stdin_len);
  sbx_drive_input(c->drive, SBX_INPUT_EOF, NULL, 0);
}

static void on_emit(void* data, int64_t what, const char* bytes, size_t len) {
  struct sbx__command* c = data;

  switch (what) {
    case SBX_EMIT_PID: on_pid(c); break;
    case SBX_EMIT_STDOUT:
      if (c->events.on_bytes(c->events.data, bytes, len) < 0) on_garbage(c);
      break;
    case SBX_EMIT_STDERR: on_stderr(c, bytes, len); break;
    case SBX_EMIT_EXIT: on_exit_emit(c, bytes, len); break;
    default: break;
  }
}

static void on_done(void* data, const struct sbx_error* error) {
  struct sbx__command* c = data;
  struct sbx_error cut;

  if (error == NULL) {
    sbx_error_set(&cut, SBX_E_PROVIDER, 0, c->operation,
                  "%s told no end of a command.", c->remote->service->title);
    error = &cut;
  }
  /* Without an answer it may have reached the service. */
  if (error->code == SBX_E_TIMEOUT || error->sys != 0) c->began = true;
  finish(c, error, 0);
}

int sbx__command_start(struct sbx_remote* r,
                       const struct sbx__command_spec* spec,
                       const struct sbx__command_events* events,
                       struct sbx__command** out, struct sbx_error* error) {
  struct sbx__command* c = calloc(1, sizeof(*c));
  struct sbx_start_spec start = {.argv = spec->argv,
                                 .argc = spec->argc,
                                 .stdin_pipe = spec->stdin_bytes != NULL,
                                 .timeout_ms = spec->timeout_ms};
  struct sbx_drive_events own = {c, on_emit, on_done};
  int rc;

  *out = NULL;
  if (c == NULL) return sbx__remote_no_memory(error, spec->operation);
  c->remote = r;
  c->events = *events;
  c->stdin_bytes = spec->stdin_bytes;
  c->stdin_len = spec->stdin_len;
  c->operation = spec->operation;
  rc = sbx__remote_drive(r, r->service->start(r->account, &start),
                         spec->timeout_ms + 10000, &own, &c->drive, error);
  if (rc != 0) {
    free(c);
    return rc;
  }
  *out = c;
  return 0;
}

/* ---- jobs ---- */

struct job_run {
  struct sbx__remote_work work; /* first */
  struct sbx_remote* remote;
  struct sbx_kit_job* job;
  struct sbx__command* command;
  const char* operation;
  sbx__job_cb cb;
  void* arg;
};

static void job_finish(struct job_run* j, const struct sbx_error* error,
                       const struct sbx_kit_job_result* result) {
  sbx__remote_unlink(&j->work);
  j->cb(j->arg, error, result);
  sbx_kit_job_free(j->job);
  free(j);
}

static void job_stop(struct sbx__remote_work* w,
                     const struct sbx_error* error) {
  struct job_run* j = (struct job_run*) w;

  if (j->command != NULL) sbx__command_close(j->command);
  j->command = NULL;
  if (error != NULL) {
    job_finish(j, error, NULL);
    return;
  }
  sbx__remote_unlink(&j->work);
  sbx_kit_job_free(j->job);
  free(j);
}

static int on_job_bytes(void* data, const char* bytes, size_t len) {
  return sbx_kit_job_feed(((struct job_run*) data)->job, bytes, len);
}

static void on_job_end(void* data, const struct sbx__command_end* end) {
  struct job_run* j = data;
  struct sbx_kit_job_result result = {0};
  struct sbx_error error;

  j->command = NULL;
  if (end->error != NULL) {
    job_finish(j, end->error, NULL);
    return;
  }
  if (sbx_kit_job_result(j->job, end->exit_code, end->stderr_text,
                         end->stderr_len, &result, &error) != 0)
    job_finish(j, &error, NULL);
  else
    job_finish(j, NULL, &result);
}

static int job_begin(struct job_run* j, struct sbx_error* error) {
  struct sbx__command_spec spec = {.timeout_ms = SBX__REMOTE_JOB_MS,
                                   .operation = j->operation};
  struct sbx__command_events events = {j, on_job_bytes, on_job_end};

  spec.argv = sbx_kit_job_argv(j->job, &spec.argc);
  return sbx__command_start(j->remote, &spec, &events, &j->command, error);
}

void sbx__job_run(struct sbx_remote* r, struct sbx_kit_job* job,
                  const char* operation, sbx__job_cb cb, void* arg) {
  struct job_run* j = job == NULL ? NULL : calloc(1, sizeof(*j));
  struct sbx_error error;

  if (j == NULL) {
    sbx_kit_job_free(job);
    sbx__remote_no_memory(&error, operation);
    cb(arg, &error, NULL);
    return;
  }
  *j = (struct job_run){.work = {.stop = job_stop}, .remote = r, .job = job,
                        .operation = operation, .cb = cb, .arg = arg};
  sbx__remote_link(r, &j->work);
  if (job_begin(j, &error) != 0) job_finish(j, &error, NULL);
}
