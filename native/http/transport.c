/* Chooses what a client stands on: libcurl, else what the host lends. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

static const struct sbx_transport_ops* lent(const struct sbx_http* http) {
  return http->host ? http->host->ops : NULL;
}

static int open_with(struct sbx_http* http, const struct sbx_transport_ops* ops,
                     const struct sbx__ca* ca, struct sbx_error* error) {
  struct sbx_transport_config config = {.loop = http->loop,
                                        .ca_file = ca->file,
                                        .ca_pem = ca->pem,
                                        .ca_len = ca->len};
  void* lender = http->host ? http->host->lender : NULL;
  int rc = ops->open(lender, &config, &http->transport, error);

  if (rc) return rc;
  http->ops = ops;
  http->open_parts++;
  return 0;
}

/* The remedy where there is neither. */
static int refuse(const struct sbx_http* http, struct sbx_error* error) {
  char why[512];

  snprintf(why, sizeof(why), "%.511s", error->message);
  return sbx_error_set(
      error, SBX_E_UNSUPPORTED, 0, "http",
      "%s: %s: install libcurl 7.87 or newer (Debian, Ubuntu: apt-get install "
      "libcurl4; Fedora, RHEL: dnf install libcurl; Arch: pacman -S curl)",
      http->provider, why);
}

static int choose(struct sbx_http* http, const struct sbx__ca* ca,
                  struct sbx_error* error) {
  const char* wish = getenv("SBX_HTTP_TRANSPORT");
  bool only_host = wish && strcmp(wish, "host") == 0;
  bool only_curl = wish && strcmp(wish, "libcurl") == 0;
  int rc = SBX_E_UNSUPPORTED;

  sbx_error_set(error, rc, 0, "http", "nothing is lent to speak HTTP with");
  if (!only_host) rc = open_with(http, &sbx_transport_curl, ca, error);
  if (rc != SBX_E_UNSUPPORTED) return rc;
  if (only_curl || !lent(http)) return refuse(http, error);
  return open_with(http, lent(http), ca, error);
}

int sbx__transport_need(struct sbx_http* http, struct sbx_error* error) {
  struct sbx__ca ca = {0};
  int rc;

  if (http->transport) return 0;
  rc = sbx__ca_load(&ca, http->ca_file, http->host, error);
  if (!rc) rc = choose(http, &ca, error);
  sbx__ca_free(&ca);
  return rc;
}
