/* The public URLs of a sandbox's ports, which the service's names tell. */
#include <stdlib.h>

#include "internal.h"

struct exposing {
  sbx_exposed_cb cb;
  void* arg;
  bool failed;
  struct sbx_error error;
  char url[1024];
  char header[1024];
};

static void on_exposed(void* arg) {
  struct exposing* e = arg;
  struct sbx_exposed exposed = {.url = e->url,
                                .header = e->header[0] != '\0' ? e->header
                                                               : NULL};

  e->cb(e->arg, e->failed ? &e->error : NULL, &exposed);
  free(e);
}

void sbx_remote_expose(struct sbx_sandbox* s, unsigned port, sbx_exposed_cb cb,
                       void* arg) {
  struct sbx_remote* r = (struct sbx_remote*) s;
  struct exposing* e = calloc(1, sizeof(*e));
  struct sbx_error error;

  if (e == NULL) {
    sbx__remote_no_memory(&error, "ports.expose");
    cb(arg, &error, NULL);
    return;
  }
  e->cb = cb;
  e->arg = arg;
  e->failed = sbx__remote_check(r, "ports.expose", &e->error) != 0;
  if (!e->failed && r->service->port_url == NULL) {
    e->failed = true;
    sbx_error_set(&e->error, SBX_E_UNSUPPORTED, 0, "ports.expose",
                  "%s has no public ports.", r->service->title);
  } else if (!e->failed &&
             r->service->port_url(r->account, port, e->url, sizeof(e->url),
                                  e->header, sizeof(e->header)) != 0) {
    e->failed = true;
    sbx_error_set(&e->error, SBX_E_PROVIDER, 0, "ports.expose",
                  "%s gives no URL for port %u of this sandbox.",
                  r->service->title, port);
  }
  sbx__remote_soon(r->base.loop, on_exposed, e);
}
