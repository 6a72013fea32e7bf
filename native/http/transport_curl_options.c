/* One transfer of the libcurl transport: its options, its callbacks, and what
 * its result means. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "transport_curl.h"

/* ---- callbacks; in each the owner may end the transfer ---- */

static int on_about_to_send(void* arg, char* ip, char* local_ip, int port,
                            int local_port) {
  struct sbx__carry* x = arg;

  (void) ip, (void) local_ip, (void) port, (void) local_port;
  if (x->doomed) return CURL_PREREQFUNC_ABORT;
  if (x->sends++ && !x->spec->again) return CURL_PREREQFUNC_ABORT;
  return CURL_PREREQFUNC_OK;
}

static size_t on_header(char* bytes, size_t size, size_t count, void* arg) {
  struct sbx__carry* x = arg;

  (void) size;
  if (x->doomed) return 0;
  x->events.on_line(x->events.data, bytes, count);
  return x->doomed ? 0 : count;
}

static size_t on_write(char* bytes, size_t size, size_t count, void* arg) {
  struct sbx__carry* x = arg;

  (void) size;
  if (x->doomed) return 0;
  if (x->paused || sbx__carry_spent(x)) {
    x->recv_paused = true;
    if (!x->paused) sbx__carry_queue(x);
    return CURL_WRITEFUNC_PAUSE;
  }
  x->events.on_bytes(x->events.data, bytes, count);
  return x->doomed ? 0 : count;
}

static size_t on_read(char* out, size_t size, size_t count, void* arg) {
  struct sbx__carry* x = arg;
  ssize_t n;

  (void) size;
  if (x->doomed) return CURL_READFUNC_ABORT;
  n = x->events.on_pull(x->events.data, out, count);
  if (x->doomed) return CURL_READFUNC_ABORT;
  if (n < 0) return 0;
  x->send_paused = n == 0;
  return n == 0 ? CURL_READFUNC_PAUSE : (size_t) n;
}

/* A streamed body cannot be sent twice. */
static int on_seek(void* arg, curl_off_t offset, int origin) {
  (void) arg, (void) offset, (void) origin;
  return CURL_SEEKFUNC_FAIL;
}

/* ---- options ---- */

static bool has_header(const struct sbx_transfer_spec* spec, const char* name) {
  size_t len = strlen(name);

  for (size_t i = 0; i < spec->headers_len; i++)
    if (strncasecmp(spec->headers[i], name, len) == 0 &&
        spec->headers[i][len] == ':')
      return true;
  return false;
}

static int add_header(struct sbx__carry* x, const char* line) {
  struct curl_slist* list = x->client->api->slist_append(x->headers, line);

  if (!list) return UV_ENOMEM;
  x->headers = list;
  return 0;
}

/* "Name:" alone would remove a header, "Name;" sends an empty one. */
static int add_own(struct sbx__carry* x, const char* line) {
  const char* colon = strchr(line, ':');
  char empty[128];
  int len = (int) (colon - line);

  if (colon[1 + strspn(colon + 1, " \t")]) return add_header(x, line);
  if ((size_t) len + 2 > sizeof(empty)) return 0;
  snprintf(empty, sizeof(empty), "%.*s;", len, line);
  return add_header(x, empty);
}

static int add_headers(struct sbx__carry* x) {
  const struct sbx_transfer_spec* spec = x->spec;

  for (size_t i = 0; i < spec->headers_len; i++)
    if (add_own(x, spec->headers[i])) return UV_ENOMEM;
  /* What libcurl would add by itself. */
  if (add_header(x, "Expect:")) return UV_ENOMEM;
  if (!has_header(spec, "Content-Type") && add_header(x, "Content-Type:"))
    return UV_ENOMEM;
  if (!has_header(spec, "Accept") && add_header(x, "Accept: */*"))
    return UV_ENOMEM;
  if (!has_header(spec, "User-Agent"))
    return add_header(x, "User-Agent: sandbox-sdk-native");
  return 0;
}

#define SET(option, value) failed |= api->easy_setopt(x->easy, option, value)

static CURLcode set_callbacks(struct sbx__carry* x, const struct sbx_curl* api) {
  CURLcode failed = CURLE_OK;

  SET(CURLOPT_PRIVATE, x);
  SET(CURLOPT_ERRORBUFFER, x->error);
  SET(CURLOPT_HEADERFUNCTION, on_header);
  SET(CURLOPT_HEADERDATA, x);
  SET(CURLOPT_WRITEFUNCTION, on_write);
  SET(CURLOPT_WRITEDATA, x);
  SET(CURLOPT_READFUNCTION, on_read);
  SET(CURLOPT_READDATA, x);
  SET(CURLOPT_SEEKFUNCTION, on_seek);
  SET(CURLOPT_PREREQFUNCTION, on_about_to_send);
  SET(CURLOPT_PREREQDATA, x);
  return failed;
}

static CURLcode set_ca(struct sbx__carry* x, const struct sbx_curl* api) {
  struct sbx__curl* c = x->client;
  struct curl_blob blob = {.data = c->ca_pem, .len = c->ca_len};
  CURLcode failed = CURLE_OK;

  SET(CURLOPT_CAPATH, NULL);
  SET(CURLOPT_PROXY_CAPATH, NULL);
  if (c->ca_file) {
    SET(CURLOPT_CAINFO, c->ca_file);
    SET(CURLOPT_PROXY_CAINFO, c->ca_file);
  } else if (c->ca_len) {
    SET(CURLOPT_CAINFO_BLOB, &blob);
    SET(CURLOPT_PROXY_CAINFO_BLOB, &blob);
  }
  return failed;
}

static CURLcode set_connection(struct sbx__carry* x,
                               const struct sbx_curl* api) {
  const struct sbx_transfer_spec* spec = x->spec;
  bool tls = strncmp(spec->url, "https:", 6) == 0;
  CURLcode failed = CURLE_OK;

  SET(CURLOPT_URL, spec->url);
  SET(CURLOPT_PATH_AS_IS, 1L);
  SET(CURLOPT_PROTOCOLS_STR, "http,https");
  SET(CURLOPT_FOLLOWLOCATION, 0L);
  SET(CURLOPT_NOSIGNAL, 1L);
  SET(CURLOPT_QUICK_EXIT, 1L);
  SET(CURLOPT_BUFFERSIZE, 65536L);
  SET(CURLOPT_CONNECTTIMEOUT_MS, (long) spec->connect_ms);
  SET(CURLOPT_TCP_KEEPALIVE, 1L);
  SET(CURLOPT_TCP_KEEPIDLE, 30L);
  SET(CURLOPT_TCP_KEEPINTVL, 15L);
  SET(CURLOPT_SHARE, x->client->share);
  SET(CURLOPT_PROXY, spec->proxy ? spec->proxy : "");
  SET(CURLOPT_NOPROXY, "");
  SET(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  if (tls && !spec->tunnel) {
    /* The first connection says whether one is enough for all. */
    SET(CURLOPT_HTTP_VERSION, (long) CURL_HTTP_VERSION_2TLS);
    SET(CURLOPT_PIPEWAIT, 1L);
  } else {
    SET(CURLOPT_HTTP_VERSION, (long) CURL_HTTP_VERSION_1_1);
  }
  return failed;
}

static CURLcode set_body(struct sbx__carry* x, const struct sbx_curl* api) {
  const struct sbx_transfer_spec* spec = x->spec;
  CURLcode failed = CURLE_OK;

  if (spec->stream) {
    SET(CURLOPT_UPLOAD, 1L);
    SET(CURLOPT_INFILESIZE_LARGE, (curl_off_t) spec->stream_len);
  } else if (spec->body_len || strcmp(spec->method, "POST") == 0) {
    SET(CURLOPT_POST, 1L);
    SET(CURLOPT_POSTFIELDS, spec->body_len ? spec->body : "");
    SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t) spec->body_len);
  } else if (strcmp(spec->method, "HEAD") == 0) {
    SET(CURLOPT_NOBODY, 1L);
  }
  SET(CURLOPT_CUSTOMREQUEST, spec->method);
  SET(CURLOPT_HTTPHEADER, x->headers);
  if (spec->decode) SET(CURLOPT_ACCEPT_ENCODING, "gzip");
  return failed;
}

static CURLcode set_tunnel(struct sbx__carry* x, const struct sbx_curl* api) {
  CURLcode failed = CURLE_OK;

  SET(CURLOPT_CONNECT_ONLY, 1L);
  SET(CURLOPT_FRESH_CONNECT, 1L);
  SET(CURLOPT_SSL_ENABLE_ALPN, 0L);
  if (x->spec->proxy) SET(CURLOPT_HTTPPROXYTUNNEL, 1L);
  return failed;
}

#undef SET

int sbx__carry_configure(struct sbx__carry* x) {
  const struct sbx_curl* api = x->client->api;

  if (add_headers(x)) return UV_ENOMEM;
  if (set_callbacks(x, api) || set_ca(x, api) || set_connection(x, api))
    return UV_ENOMEM;
  if (x->spec->tunnel) return set_tunnel(x, api) ? UV_ENOMEM : 0;
  return set_body(x, api) ? UV_ENOMEM : 0;
}

/* ---- results ---- */

static enum sbx_failure_kind kind_of(CURLcode result) {
  switch (result) {
    case CURLE_COULDNT_RESOLVE_HOST: return SBX_FAIL_RESOLVE;
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_PROXY: return SBX_FAIL_PROXY;
    case CURLE_COULDNT_CONNECT: return SBX_FAIL_CONNECT;
    case CURLE_OPERATION_TIMEDOUT: return SBX_FAIL_CONNECT_TIME;
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CIPHER:
    case CURLE_SSL_ISSUER_ERROR:
    case CURLE_SSL_INVALIDCERTSTATUS: return SBX_FAIL_TLS;
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_PARTIAL_FILE:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
    case CURLE_SEND_FAIL_REWIND:
    case CURLE_ABORTED_BY_CALLBACK: return SBX_FAIL_CLOSED;
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_WEIRD_SERVER_REPLY: return SBX_FAIL_PROTOCOL;
    case CURLE_BAD_CONTENT_ENCODING: return SBX_FAIL_DECODE;
    case CURLE_OUT_OF_MEMORY: return SBX_FAIL_MEMORY;
    default: return SBX_FAIL_OTHER;
  }
}

/* SOCKS has no status: the password was refused, or none of our ways to log in
 * was taken. */
static bool is_login_refused(struct sbx__carry* x) {
  long reason = CURLPX_OK;

  x->client->api->easy_getinfo(x->easy, CURLINFO_PROXY_ERROR, &reason);
  return reason == CURLPX_USER_REJECTED || reason == CURLPX_NO_AUTH;
}

/* Where the proxy's own answer is the reason. */
static void judge_proxy(struct sbx__carry* x, struct sbx_failure* failure) {
  long status = 0;

  if (!x->spec->proxy) return;
  x->client->api->easy_getinfo(x->easy, CURLINFO_HTTP_CONNECTCODE, &status);
  if (status == 407 || is_login_refused(x)) {
    failure->kind = SBX_FAIL_PROXY_AUTH;
    failure->text = status == 407 ? "407" : "SOCKS";
  } else if (status >= 300) {
    snprintf(x->error, sizeof(x->error), "it answered %ld", status);
    failure->kind = SBX_FAIL_PROXY;
    failure->text = x->error;
  } else if (failure->kind == SBX_FAIL_CONNECT) {
    failure->kind = SBX_FAIL_PROXY;
  }
}

struct sbx_failure sbx__carry_failure(struct sbx__carry* x, CURLcode result) {
  const struct sbx_curl* api = x->client->api;
  struct sbx_failure failure = {.kind = kind_of(result), .text = ""};
  long sys = 0;

  failure.sent = x->sends > 0;
  api->easy_getinfo(x->easy, CURLINFO_OS_ERRNO, &sys);
  if (failure.kind == SBX_FAIL_CONNECT || failure.kind == SBX_FAIL_CLOSED)
    failure.sys = (int) sys;
  /* libcurl's words name the certificate's fault; elsewhere they may repeat the
   * address. */
  if (failure.kind == SBX_FAIL_TLS && x->error[0])
    failure.text = x->error;
  else if (failure.kind == SBX_FAIL_OTHER || failure.kind == SBX_FAIL_PROXY ||
           failure.kind == SBX_FAIL_TLS)
    failure.text = api->easy_strerror(result);
  judge_proxy(x, &failure);
  return failure;
}
