/* Whole files to and from the sandbox, by envd's own calls. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "e2b.h"

struct transfer {
  struct sbx_unary unary; /* first */
  char* path;
  const void* data; /* the caller's */
  size_t len;
};

static void transfer_dispose(struct sbx_unary* u) {
  free(((struct transfer*) u)->path);
}

static struct sbx_machine* transfer_new(const struct sbx_unary_plan* plan,
                                        struct sbx_service_state* s,
                                        const char* path, const void* data,
                                        size_t len) {
  struct transfer* t = sbx_e2b_unary(plan, s);

  if (t == NULL) return NULL;
  t->path = strdup(path);
  t->data = data;
  t->len = len;
  if (t->path != NULL) return &t->unary.machine;
  t->unary.machine.free(&t->unary.machine);
  return NULL;
}

static void begin(const struct transfer* t, struct sbx_request* r,
                  const char* method) {
  const struct sbx_e2b* e = t->unary.state;
  const char* user = sbx_e2b_user(e);

  sbx_e2b_envd(e, r, method, "/files");
  sbx_url_query(&r->url, "path", t->path);
  if (user != NULL) sbx_url_query(&r->url, "username", user);
  r->http.flags = SBX_HTTP_IDEMPOTENT;
}

/* As envd's words for it are, a missing file and a folder in its place. */
static int transfer_refused(struct transfer* t, const struct sbx_answer* a) {
  const struct sbx_e2b* e = t->unary.state;
  const char* operation = t->unary.plan->operation;
  struct sbx_fault fault = {0};
  struct sbx_error error;

  sbx_fault_read(a->body.bytes, a->body.len, &fault);
  if (a->status == 404 && strstr(fault.message, "does not exist") != NULL)
    sbx_error_set(&error, SBX_E_FILE_NOT_FOUND, 0, operation,
                  "%s does not exist.", t->path);
  else if (a->status == 400 && strstr(fault.message, "is a directory") != NULL)
    sbx_error_set(&error, SBX_E_IS_DIRECTORY, 0, operation,
                  "%s is a directory.", t->path);
  else
    sbx_e2b_envd_error(e, a, operation, &error);
  return sbx_unary_done(&t->unary, &error);
}

/* ---- upload ---- */

static const char boundary[] = "sandbox-sdk-native-7d1f0a6c2b9e";

/* For envd before 0.5.7. The path stands in the query: it goes before the
 * file's name here, which cannot hold every byte. */
static void put_multipart(struct sbx_request* r, const void* data, size_t len) {
  char mark[64] = "";
  struct sbx_text body = {0};
  size_t size = 0;

  /* Data that holds the boundary would end too early. */
  snprintf(mark, sizeof(mark), "%s", boundary);
  for (unsigned i = 0; memmem(data, len, mark, strlen(mark)) != NULL; i++)
    snprintf(mark, sizeof(mark), "%s%u", boundary, i);
  sbx_text_puts(&body, "--");
  sbx_text_puts(&body, mark);
  sbx_text_puts(&body, "\r\nContent-Disposition: form-data; name=\"file\"; "
                       "filename=\"file\"\r\n"
                       "Content-Type: application/octet-stream\r\n\r\n");
  sbx_text_add(&body, data, len);
  sbx_text_puts(&body, "\r\n--");
  sbx_text_puts(&body, mark);
  sbx_text_puts(&body, "--\r\n");
  sbx_request_header(r, "Content-Type: multipart/form-data; boundary=%s", mark);
  r->body = sbx_text_take(&body, &size);
  r->http.body = r->body;
  r->http.body_len = size;
  if (r->body == NULL) r->failed = true;
}

static int upload_begin(struct sbx_unary* u) {
  struct transfer* t = (struct transfer*) u;
  struct sbx_e2b* e = u->state;
  struct sbx_request r;

  begin(t, &r, "POST");
  if (e->version < SBX_E2B_VERSION(0, 5, 7)) {
    put_multipart(&r, t->data, t->len);
  } else {
    sbx_request_header(&r, "Content-Type: application/octet-stream");
    r.http.body = t->data;
    r.http.body_len = t->len;
  }
  /* At 100 kB/s the body has left before the answer is waited for. */
  r.http.head_ms += t->len / 100;
  r.http.max_body = SBX_ANSWER_MAX;
  return sbx_unary_send(u, &r);
}

static int upload_answer(struct sbx_unary* u, struct sbx_answer* a) {
  if (sbx_answer_good(a)) return sbx_unary_done(u, NULL);
  return transfer_refused((struct transfer*) u, a);
}

static const struct sbx_unary_plan upload_plan = {
    .size = sizeof(struct transfer),
    .operation = "files.upload",
    .begin = upload_begin,
    .answer = upload_answer,
    .dispose = transfer_dispose,
};

struct sbx_machine* sbx_e2b_upload(struct sbx_service_state* s,
                                   const char* path, const void* data,
                                   size_t len) {
  return transfer_new(&upload_plan, s, path, data, len);
}

/* ---- download ---- */

/* envd compresses whatever it may, and then tells no length: without a limit of
 * the body the engine does not offer it. */
static int download_begin(struct sbx_unary* u) {
  struct sbx_request r;

  begin((struct transfer*) u, &r, "GET");
  return sbx_unary_send(u, &r);
}

static int download_bytes(struct sbx_unary* u, const char* bytes, size_t len) {
  sbx_unary_emit(u, SBX_EMIT_DATA, bytes, len);
  return 0;
}

static int download_answer(struct sbx_unary* u, struct sbx_answer* a) {
  if (a->status == 200) return sbx_unary_done(u, NULL);
  return transfer_refused((struct transfer*) u, a);
}

static const struct sbx_unary_plan download_plan = {
    .size = sizeof(struct transfer),
    .operation = "files.download",
    .begin = download_begin,
    .answer = download_answer,
    .bytes = download_bytes,
    .dispose = transfer_dispose,
};

struct sbx_machine* sbx_e2b_download(struct sbx_service_state* s,
                                     const char* path) {
  return transfer_new(&download_plan, s, path, NULL, 0);
}
