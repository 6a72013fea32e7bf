/* One error of the engine from what failed below: names the service and the
 * host, never a path, query, header or user info. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "internal.h"

static const char* reason(const struct sbx_failure* failure, char* buffer) {
  if (failure->sys) return sbx_sys_text(failure->sys, buffer);
  return failure->text && *failure->text ? failure->text : NULL;
}

static int set(const struct sbx_exchange* x, const struct sbx_failure* failure,
               struct sbx_error* error, int code, const char* what,
               const char* remedy) {
  char buffer[SBX_SYS_TEXT_MAX];
  const char* why = reason(failure, buffer);

  return sbx_error_set(error, code, failure->sys, "http", "%s: %s %s%s%s%s%s",
                       x->http->provider, what, x->host, why ? ": " : "",
                       why ? why : "", *remedy ? "; " : "", remedy);
}

static int set_proxy(const struct sbx_exchange* x,
                     const struct sbx_failure* failure,
                     struct sbx_error* error) {
  char buffer[SBX_SYS_TEXT_MAX];
  const char* why = reason(failure, buffer);

  return sbx_error_set(error, SBX_E_UNAVAILABLE, failure->sys, "http",
                       "%s: cannot reach %s through the proxy of %s%s%s",
                       x->http->provider, x->host, x->proxy_name,
                       why ? ": " : "", why ? why : "");
}

static int set_proxy_auth(const struct sbx_exchange* x,
                          const struct sbx_failure* failure,
                          struct sbx_error* error) {
  bool told = failure->text && *failure->text;

  return sbx_error_set(error, SBX_E_AUTHENTICATION, 0, "http",
                       "%s: the proxy of %s refuses our credentials (%s): put "
                       "the right user:password@ into its URL",
                       x->http->provider, x->proxy_name,
                       told ? failure->text : "407");
}

static int describe(const struct sbx_exchange* x,
                    const struct sbx_failure* f, struct sbx_error* error) {
  switch (f->kind) {
    case SBX_FAIL_RESOLVE:
      return set(x, f, error, SBX_E_UNAVAILABLE, "no address found for",
                 "check the name, the network and the DNS of this machine");
    case SBX_FAIL_CONNECT:
      return set(x, f, error, SBX_E_UNAVAILABLE, "cannot connect to",
                 "check the base URL, and the network and proxies of this "
                 "machine");
    case SBX_FAIL_CONNECT_TIME:
      return set(x, f, error, SBX_E_TIMEOUT, "no connection in time to",
                 "check the network and proxies of this machine");
    case SBX_FAIL_TLS:
      return set(x, f, error, SBX_E_UNAVAILABLE, "no secure connection to",
                 "where a proxy or company CA signs, name its PEM file in "
                 "NODE_EXTRA_CA_CERTS");
    case SBX_FAIL_PROXY:
      return set_proxy(x, f, error);
    case SBX_FAIL_PROXY_AUTH:
      return set_proxy_auth(x, f, error);
    case SBX_FAIL_CLOSED:
      return set(x, f, error, SBX_E_UNAVAILABLE,
                 x->stage == SBX__BODY ? "the answer was cut off by"
                                       : "the connection was cut off by",
                 "");
    case SBX_FAIL_PROTOCOL:
      return set(x, f, error, SBX_E_PROVIDER, "no proper HTTP answer from", "");
    case SBX_FAIL_DECODE:
      return set(x, f, error, SBX_E_PROVIDER,
                 "the compressed answer is broken, from", "");
    case SBX_FAIL_UNSUPPORTED:
      return set(x, f, error, SBX_E_UNSUPPORTED, "no way to", "");
    case SBX_FAIL_MEMORY:
      return sbx_error_set(error, SBX_E_INTERNAL, ENOMEM, "http",
                           "%s: out of memory", x->http->provider);
    default:
      return set(x, f, error, SBX_E_UNAVAILABLE, "the request failed at", "");
  }
}

static bool passes(const struct sbx_failure* failure) {
  switch (failure->kind) {
    case SBX_FAIL_RESOLVE:
    case SBX_FAIL_CONNECT:
    case SBX_FAIL_CONNECT_TIME:
    case SBX_FAIL_PROXY:
    case SBX_FAIL_CLOSED:
    case SBX_FAIL_OTHER: return true;
    default: return false;
  }
}

int sbx__http_error(const struct sbx_exchange* x,
                    const struct sbx_failure* failure,
                    struct sbx_error* error) {
  int code = describe(x, failure, error);

  if (failure->kind == SBX_FAIL_CLOSED && !error->sys) error->sys = ECONNRESET;
  error->retryable = passes(failure);
  return code;
}
