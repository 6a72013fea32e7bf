/* Which certificate authorities are trusted: a setting, the usual variables, the
 * system's bundle where the distributions keep it, the host's own roots. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"

enum { FILE_MAX = 16 << 20 };

static const char* const bundles[] = {
    "/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem", "/etc/pki/tls/cacert.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/ssl/cert.pem"};

void sbx__ca_free(struct sbx__ca* ca) {
  free(ca->file);
  free(ca->pem);
  memset(ca, 0, sizeof(*ca));
}

/* Appends to ca->pem. 0 or a negative errno. */
static int append(struct sbx__ca* ca, const char* text, size_t len) {
  char* pem = realloc(ca->pem, ca->len + len + 2);

  if (!pem) return -ENOMEM;
  ca->pem = pem;
  memcpy(pem + ca->len, text, len);
  ca->len += len;
  pem[ca->len++] = '\n';
  pem[ca->len] = '\0';
  return 0;
}

static int read_all(int fd, struct sbx__ca* ca) {
  char bytes[16384];
  ssize_t n;

  while ((n = read(fd, bytes, sizeof(bytes))) > 0) {
    if (ca->len + (size_t) n > FILE_MAX) return -EFBIG;
    if (append(ca, bytes, (size_t) n)) return -ENOMEM;
    ca->len--; /* the line end belongs to the end of the file */
  }
  return n < 0 ? -errno : append(ca, "", 0);
}

static int append_file(struct sbx__ca* ca, const char* path) {
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  int rc;

  if (fd < 0) return -errno;
  rc = read_all(fd, ca);
  close(fd);
  return rc;
}

static bool readable(const char* path) {
  return path && *path && access(path, R_OK) == 0;
}

static const char* find_bundle(void) {
  const char* path = getenv("SSL_CERT_FILE");

  if (readable(path)) return path;
  for (size_t i = 0; i < sizeof(bundles) / sizeof(bundles[0]); i++)
    if (readable(bundles[i])) return bundles[i];
  return NULL;
}

static int fail(struct sbx_error* error) {
  return sbx_error_set(error, SBX_E_INTERNAL, ENOMEM, "http", "out of memory");
}

static int load_setting(struct sbx__ca* ca, const char* path,
                        struct sbx_error* error) {
  char text[SBX_SYS_TEXT_MAX];

  if (!readable(path))
    return sbx_error_set(error, SBX_E_INVALID_INPUT, errno, "http",
                         "the CA file %s cannot be read: %s", path,
                         sbx_sys_text(errno, text));
  return (ca->file = strdup(path)) ? 0 : fail(error);
}

static int append_base(struct sbx__ca* ca, const char* bundle,
                       const struct sbx_http_host* host) {
  const char* roots;
  size_t len = 0;

  if (bundle) return append_file(ca, bundle);
  roots = host && host->roots ? host->roots(host->lender, &len) : NULL;
  return roots ? append(ca, roots, len) : 0;
}

/* An extra file that cannot be read is passed over, as Node does. */
int sbx__ca_load(struct sbx__ca* ca, const char* setting,
                 const struct sbx_http_host* host, struct sbx_error* error) {
  const char* extra = getenv("NODE_EXTRA_CA_CERTS");
  const char* bundle;

  if (setting) return load_setting(ca, setting, error);
  bundle = find_bundle();
  if (bundle && !readable(extra))
    return (ca->file = strdup(bundle)) ? 0 : fail(error);
  if (append_base(ca, bundle, host) == -ENOMEM) return fail(error);
  if (readable(extra) && append_file(ca, extra) == -ENOMEM) return fail(error);
  return 0;
}
