/* Snapshots that the service keeps: whole machines, from which others can be
 * made. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

enum { KEPT_MAX = 10000, KEPT_MS = 600000 };

struct kept {
  struct sbx__remote_work work; /* first */
  struct sbx_drive* drive;
  const char* operation;
  struct sbx_snapshot* list;
  size_t count, size;
  bool full;
  sbx_snapshot_cb cb;
  void* arg;
};

static void finish(struct kept* k, const struct sbx_error* error) {
  struct sbx_error copy;

  error = sbx_error_keep(&copy, error);
  sbx__remote_unlink(&k->work);
  if (k->drive != NULL) sbx_drive_close(k->drive);
  k->cb(k->arg, error, error == NULL ? k->list : NULL,
        error == NULL ? k->count : 0);
  free(k->list);
  free(k);
}

static void on_stop(struct sbx__remote_work* w,
                    const struct sbx_error* error) {
  finish((struct kept*) w, error);
}

static bool room(struct kept* k) {
  size_t size = k->size > 0 ? k->size * 2 : 8;
  struct sbx_snapshot* grown;

  if (k->count < k->size) return true;
  if (size > KEPT_MAX) return false;
  grown = realloc(k->list, size * sizeof(*grown));
  if (grown == NULL) return false;
  k->list = grown;
  k->size = size;
  return true;
}

/* One id. */
static void on_emit(void* data, int64_t what, const char* bytes, size_t len) {
  struct kept* k = data;
  struct sbx_snapshot one = {0};

  if (what != SBX_EMIT_TEXT) return;
  if (len >= sizeof(one.id) || !room(k)) {
    k->full = true;
    return;
  }
  memcpy(one.id, bytes, len);
  k->list[k->count++] = one;
}

static void on_done(void* data, const struct sbx_error* error) {
  struct kept* k = data;
  struct sbx_error full;

  if (error == NULL && k->full) {
    sbx_error_set(&full, SBX_E_PROVIDER, 0, k->operation,
                  "The service names more snapshots, or longer ones, than can "
                  "be taken.");
    error = &full;
  }
  finish(k, error);
}

static struct sbx_machine* machine_of(struct sbx_remote* r,
                                      enum sbx_snapshot_verb verb,
                                      const char* id) {
  const struct sbx_service* service = r->service;

  switch (verb) {
    case SBX_SNAPSHOT_CREATE:
      return service->snapshot_create(r->account, id[0] != '\0' ? id : NULL);
    case SBX_SNAPSHOT_DELETE: return service->snapshot_delete(r->account, id);
    default: return service->snapshot_list(r->account);
  }
}

static bool can(const struct sbx_service* service,
                enum sbx_snapshot_verb verb) {
  switch (verb) {
    case SBX_SNAPSHOT_CREATE: return service->snapshot_create != NULL;
    case SBX_SNAPSHOT_DELETE: return service->snapshot_delete != NULL;
    case SBX_SNAPSHOT_LIST: return service->snapshot_list != NULL;
    default: return false;
  }
}

int sbx__remote_kept(struct sbx_remote* r, enum sbx_snapshot_verb verb,
                     const char* operation, const char* id, sbx_snapshot_cb cb,
                     void* arg, struct sbx_error* error) {
  struct sbx_drive_events events = {NULL, on_emit, on_done};
  struct kept* k;
  int rc = 0;

  if (!can(r->service, verb))
    return sbx_error_set(error, SBX_E_UNSUPPORTED, 0, operation,
                         "%s keeps no such snapshots.", r->service->title);
  if (verb == SBX_SNAPSHOT_CREATE) rc = sbx__remote_check(r, operation, error);
  if (rc != 0) return rc;
  k = calloc(1, sizeof(*k));
  if (k == NULL) return sbx__remote_no_memory(error, operation);
  k->work.stop = on_stop;
  k->operation = operation;
  k->cb = cb;
  k->arg = arg;
  events.data = k;
  rc = sbx__remote_drive(r, machine_of(r, verb, id), KEPT_MS, &events,
                         &k->drive, error);
  if (rc != 0) {
    free(k);
    return rc;
  }
  sbx__remote_link(r, &k->work);
  return 0;
}
