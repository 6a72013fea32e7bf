/* One client after another: reads its request, asks the policy, resolves,
 * checks, connects and joins.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "proxy.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "acceptor.h"
#include "address.h"
#include "proxy_http.h"
#include "pump.h"
#include "socks.h"

enum {
  TICK_MS = 1000,
  REQUEST_MS = 30000, /* for the whole head */
  REACH_MS = 60000,   /* resolve and connect */
  TRY_MS = 10000,     /* one address */
  IDLE_MS = 10 * 60000,
  ENDING_MS = 60000, /* half closed and quiet */
  REFUSING_MS = 2000,
  ADDRESSES = 8
};

enum stage { ASKING, RESOLVING, CONNECTING, JOINED, REFUSED };

struct connection {
  struct sbx_pump pump; /* first */
  struct sbx_proxy* proxy;
  struct connection *next, **back;
  enum stage stage;
  uint64_t since; /* of the stage; of CONNECTING: of the address */
  uint64_t started;
  unsigned busy; /* pump, lookup, dialling poll: who still needs the memory */
  bool over;

  char* head; /* bytes that are not answered yet */
  size_t len;
  bool is_socks;
  struct sbx_socks socks;
  bool tunnel;
  char host[SBX_HOST_MAX];
  unsigned port;

  uv_getaddrinfo_t lookup;
  struct sockaddr_storage addresses[ADDRESSES]; /* that passed the check */
  size_t count, at;
  const char* special; /* why one did not */
  char special_text[SBX_ADDRESS_TEXT];
  struct dial* dial; /* NULL: none under way */
  int error;         /* of the last address */
};

/* One address that is tried. Its handle may close while the next is tried. */
struct dial {
  uv_poll_t poll;
  struct connection* connection;
  int fd;
};

struct sbx_proxy {
  struct sbx_proxy_spec spec;
  char token[SBX_PROXY_TOKEN_MAX];
  char credentials[SBX_PROXY_TOKEN_MAX * 2]; /* base64 of "x:token" */
  struct sbx_allow_list* list;
  struct sbx_acceptor acceptor;
  uv_timer_t tick;
  struct sbx_pump_pool pool;
  struct connection* connections;
  size_t connected;
  unsigned open; /* acceptor and timer that are not closed */
  bool closing;
  sbx_proxy_cb cb;
  void* arg;
  uint64_t denied[SBX_PROXY_DENIALS];
  size_t denials;
};

static void connect_next(struct connection* c);

/* ---- the end ---- */

static void free_if_over(struct sbx_proxy* p) {
  sbx_proxy_cb cb = p->cb;
  void* arg = p->arg;

  if (p->open > 0 || p->connected > 0) return;
  sbx_allow_list_free(p->list);
  sbx_pump_pool_clear(&p->pool);
  free(p);
  if (cb != NULL) cb(arg);
}

static void release(struct connection* c) {
  struct sbx_proxy* p = c->proxy;

  if (--c->busy > 0) return;
  *c->back = c->next;
  if (c->next != NULL) c->next->back = c->back;
  free(c->head);
  free(c);
  p->connected--;
  if (p->closing)
    free_if_over(p);
  else
    sbx_acceptor_pause(&p->acceptor, p->connected >= SBX_PROXY_CONNECTIONS);
}

static void on_pump_closed(struct sbx_pump* pump) {
  release((struct connection*) pump);
}

static void on_dial_closed(uv_handle_t* handle) {
  struct dial* d = handle->data;

  release(d->connection);
  free(d);
}

/* The descriptor, -1 for none, becomes the caller's. */
static int drop_dial(struct connection* c) {
  struct dial* d = c->dial;

  if (d == NULL) return -1;
  c->dial = NULL;
  uv_close((uv_handle_t*) &d->poll, on_dial_closed);
  return d->fd;
}

static void end(struct connection* c) {
  int fd;

  if (c->over) return;
  c->over = true;
  if (c->stage == RESOLVING) uv_cancel((uv_req_t*) &c->lookup);
  fd = drop_dial(c);
  if (fd >= 0) close(fd);
  sbx_pump_close(&c->pump);
}

static void on_over(struct sbx_pump* pump) {
  end((struct connection*) pump);
}

static void enter(struct connection* c, enum stage stage) {
  c->stage = stage;
  c->since = uv_now(c->proxy->spec.loop);
}

/* ---- answers ---- */

static void refuse_http(struct connection* c, const char* status,
                        const char* fields, const char* body) {
  char answer[2048];
  int len = snprintf(answer, sizeof(answer),
                     "HTTP/1.1 %s\r\nContent-Type: text/plain\r\n%s"
                     "Content-Length: %zu\r\nConnection: close\r\n\r\n%s",
                     status, fields, strlen(body), body);

  sbx_pump_refuse(&c->pump, answer, (size_t) len);
}

static void refuse_socks(struct connection* c, int code) {
  char answer[10] = {5, (char) code, 0, 1};

  sbx_pump_refuse(&c->pump, answer, sizeof(answer));
}

/* `code` is SOCKS5's. */
static void refuse(struct connection* c, int code, const char* status,
                   const char* body) {
  enter(c, REFUSED);
  if (c->is_socks)
    refuse_socks(c, code);
  else
    refuse_http(c, status, "", body);
}

/* "host", "host:8443", "[v6]:8443": what an allow list would say. */
static void spell(const char* host, unsigned port, char* out, size_t size) {
  bool v6 = strchr(host, ':') != NULL;

  if (port == 80 || port == 443)
    snprintf(out, size, "%s", host);
  else
    snprintf(out, size, "%s%s%s:%u", v6 ? "[" : "", host, v6 ? "]" : "", port);
}

static uint64_t hash_of(const char* host, unsigned port) {
  uint64_t h = UINT64_C(0xcbf29ce484222325) ^ port;

  for (; *host != '\0'; host++)
    h = (h ^ (unsigned char) *host) * UINT64_C(0x100000001b3);
  return h;
}

/* A program in a loop must not fill the log. */
static void tell(struct connection* c, const char* reason) {
  struct sbx_proxy* p = c->proxy;
  uint64_t hash = hash_of(c->host, c->port);
  struct sbx_denial denial = {c->host, c->port, reason, false};

  for (size_t i = 0; i < p->denials; i++)
    if (p->denied[i] == hash) return;
  if (p->denials == SBX_PROXY_DENIALS) return;
  p->denied[p->denials++] = hash;
  denial.last = p->denials == SBX_PROXY_DENIALS;
  if (p->spec.on_denied != NULL) p->spec.on_denied(p->spec.data, &denial);
}

/* `entry`: what would allow it in a list; NULL: nothing should. An entry is an
 * addition where there are others, which setNetworkPolicy would replace. */
static void deny_with(struct connection* c, const char* reason,
                      const char* entry) {
  const char* more = c->proxy->list == NULL ? "" : "..., ";
  char status[512], body[1024];

  snprintf(status, sizeof(status),
           "403 Blocked by the sandbox's network policy%s%s%s%s",
           entry == NULL ? "" : " (network: [",
           entry == NULL ? "" : more, entry == NULL ? "" : "\"",
           entry == NULL ? "" : entry);
  if (entry != NULL)
    snprintf(status + strlen(status), sizeof(status) - strlen(status),
             "\"] allows it)");
  if (entry == NULL)
    snprintf(body, sizeof(body), "%s\nTrying again does not help.\n", reason);
  else
    snprintf(body, sizeof(body),
             "%s\nTrying again does not help. The user of the sandbox can allow "
             "it with the option network: [%s\"%s\"] of local(), or with "
             "setNetworkPolicy([%s\"%s\"]) while it runs%s.\n",
             reason, more, entry, more, entry,
             *more == '\0' ? "" : "; \"...\" stands for what is listed now");
  tell(c, reason);
  refuse(c, 2, status, body);
}

/* `text`: a host as it was asked for, or the address it led to. */
static bool is_metadata(const char* text) {
  struct sockaddr_storage a;

  if (strcasecmp(text, "metadata.google.internal") == 0) return true;
  return sbx_address_parse(text, &a) &&
         sbx_address_is_metadata((const struct sockaddr*) &a);
}

static void deny_host(struct connection* c) {
  char name[SBX_HOST_MAX + 16], reason[SBX_HOST_MAX + 128];

  spell(c->host, c->port, name, sizeof(name));
  snprintf(reason, sizeof(reason),
           c->proxy->list == NULL
               ? "The network is off in this sandbox (network: \"deny\"), so "
                 "\"%s\" cannot be reached."
               : "\"%s\" is not among the hosts that this sandbox may reach.",
           name);
  deny_with(c, reason, is_metadata(c->host) ? NULL : name);
}

static void deny_address(struct connection* c) {
  char name[SBX_ADDRESS_TEXT + 16], reason[SBX_HOST_MAX + 256];

  spell(c->special_text, c->port, name, sizeof(name));
  snprintf(reason, sizeof(reason),
           "\"%s\" is %s%s%s. Such addresses are reached only if they are "
           "listed themselves.",
           c->host, strcmp(c->host, c->special_text) != 0 ? c->special_text : "",
           strcmp(c->host, c->special_text) != 0 ? ", " : "", c->special);
  deny_with(c, reason, is_metadata(c->special_text) ? NULL : name);
}

static void fail(struct connection* c, int code, const char* what, int err) {
  char body[512];
  char words[SBX_SYS_TEXT_MAX];
  /* Names have errors of their own, all of which libuv knows. */
  bool name = err <= UV_EAI_ADDRFAMILY && err >= UV_EAI_PROTOCOL;

  snprintf(body, sizeof(body), "\"%s\" port %u %s: %s.\n", c->host, c->port,
           what, name ? uv_strerror(err) : sbx_sys_text(-err, words));
  refuse(c, code,
         err == UV_ETIMEDOUT ? "504 Gateway Timeout" : "502 Bad Gateway", body);
}

/* ---- joining ---- */

static void join(struct connection* c, int fd) {
  static const char socks[10] = {5, 0, 0, 1};
  static const char http[] = "HTTP/1.1 200 Connection established\r\n\r\n";
  const char* first = NULL;
  size_t len = 0;

  if (c->is_socks) first = socks, len = sizeof(socks);
  else if (c->tunnel) first = http, len = sizeof(http) - 1;
  enter(c, JOINED);
  if (sbx_pump_join(&c->pump, fd, c->head, c->len, first, len) != 0) end(c);
  free(c->head);
  c->head = NULL;
  c->len = 0;
}

/* ---- connecting ---- */

static void on_dial(uv_poll_t* handle, int status, int events) {
  struct connection* c = ((struct dial*) handle->data)->connection;
  int error = 0;
  socklen_t len = sizeof(error);
  int fd = drop_dial(c);

  (void) events;
  if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0) error = errno;
  if (status == 0 && error == 0) {
    join(c, fd);
    return;
  }
  close(fd);
  c->error = error != 0 ? -error : status;
  connect_next(c);
}

/* Takes the descriptor over. */
static int watch_dial(struct connection* c, int fd) {
  struct dial* d = calloc(1, sizeof(*d));
  int err = d == NULL ? UV_ENOMEM
                      : uv_poll_init(c->proxy->spec.loop, &d->poll, fd);

  if (err != 0) {
    free(d);
    close(fd);
    return err;
  }
  d->connection = c;
  d->fd = fd;
  d->poll.data = d;
  c->dial = d;
  c->busy++;
  uv_unref((uv_handle_t*) &d->poll);
  uv_poll_start(&d->poll, UV_WRITABLE, on_dial);
  return 0;
}

static int connect_to(struct connection* c, struct sockaddr* address) {
  int fd = socket(address->sa_family,
                  SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  int one = 1;

  if (fd < 0) return -errno;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
  sbx_address_set_port(address, c->port);
  if (connect(fd, address, sbx_address_len(address)) != 0 &&
      errno != EINPROGRESS) {
    int err = -errno;

    close(fd);
    return err;
  }
  return watch_dial(c, fd);
}

static void connect_next(struct connection* c) {
  enter(c, CONNECTING);
  while (c->at < c->count) {
    c->error = connect_to(c, (struct sockaddr*) &c->addresses[c->at++]);
    if (c->error == 0) return;
  }
  fail(c, c->error == UV_ECONNREFUSED ? 5 : 4, "could not be reached",
       c->error);
}

/* ---- resolving ---- */

static void check_address(struct connection* c, const struct sockaddr* a) {
  const char* special = sbx_address_special(a);

  if (special != NULL &&
      (c->proxy->list == NULL ||
       !sbx_allow_list_address(c->proxy->list, a, c->port))) {
    c->special = special;
    sbx_address_text(a, c->special_text);
    return;
  }
  if (c->count == ADDRESSES) return;
  memcpy(&c->addresses[c->count++], a, sbx_address_len(a));
}

static void reach(struct connection* c) {
  if (c->count > 0)
    connect_next(c);
  else if (c->special != NULL)
    deny_address(c);
  else
    fail(c, 4, "has no address", UV_EAI_NONAME);
}

static void on_resolved(uv_getaddrinfo_t* lookup, int status,
                        struct addrinfo* list) {
  struct connection* c = lookup->data;
  bool allowed = c->proxy->list != NULL &&
                 sbx_allow_list_host(c->proxy->list, c->host, c->port);

  if (!c->over) {
    for (const struct addrinfo* i = list; i != NULL; i = i->ai_next)
      if (i->ai_family == AF_INET || i->ai_family == AF_INET6)
        check_address(c, i->ai_addr);
    if (status != 0)
      fail(c, 4, "could not be resolved", status);
    else if (!allowed) /* the policy changed meanwhile */
      deny_host(c);
    else
      reach(c);
  }
  uv_freeaddrinfo(list);
  release(c);
}

static void resolve(struct connection* c) {
  struct addrinfo hints = {.ai_family = AF_UNSPEC,
                           .ai_socktype = SOCK_STREAM};
  struct sockaddr_storage literal;
  int err;

  if (sbx_address_parse(c->host, &literal)) {
    check_address(c, (struct sockaddr*) &literal);
    reach(c);
    return;
  }
  enter(c, RESOLVING);
  c->lookup.data = c;
  c->busy++;
  err = uv_getaddrinfo(c->proxy->spec.loop, &c->lookup, on_resolved, c->host,
                       NULL, &hints);
  if (err == 0) return;
  c->busy--;
  fail(c, 1, "could not be resolved", err);
}

/* ---- requests ---- */

/* Lets go of the first bytes of what came. */
static void used(struct connection* c, size_t n) {
  c->len -= n;
  memmove(c->head, c->head + n, c->len);
}

static void begin(struct connection* c) {
  sbx_pump_hold(&c->pump, true);
  c->started = uv_now(c->proxy->spec.loop);
  if (c->proxy->list == NULL ||
      !sbx_allow_list_host(c->proxy->list, c->host, c->port))
    deny_host(c);
  else
    resolve(c);
}

/* The rewritten head, and what followed the old one. */
static int replace_head(struct connection* c, struct sbx_proxy_request* r) {
  size_t rest = c->len - r->used;
  char* all;

  if (r->connect) {
    used(c, r->used);
    return 0;
  }
  all = realloc(r->head, r->head_len + rest);
  if (all == NULL) {
    free(r->head);
    return -1;
  }
  memcpy(all + r->head_len, c->head + r->used, rest);
  free(c->head);
  c->head = all;
  c->len = r->head_len + rest;
  return 0;
}

static void begin_http(struct connection* c, struct sbx_proxy_request* r) {
  if (!r->authorised) {
    free(r->head);
    enter(c, REFUSED);
    refuse_http(c, "407 Proxy Authentication Required",
                "Proxy-Authenticate: Basic realm=\"sandbox\"\r\n",
                "The sandbox's proxy wants the user name and password that "
                "stand in the variable HTTP_PROXY.\n");
    return;
  }
  memcpy(c->host, r->host, sizeof(c->host));
  c->port = r->port;
  c->tunnel = r->connect;
  if (replace_head(c, r) != 0)
    end(c);
  else
    begin(c);
}

static void read_http(struct connection* c) {
  struct sbx_proxy_request r;
  char body[256];

  switch (sbx_proxy_http_parse(c->head, c->len, c->proxy->credentials, &r)) {
    case SBX_PROXY_MORE: break;
    case SBX_PROXY_DONE: begin_http(c, &r); break;
    case SBX_PROXY_LONG:
      refuse(c, 1, "431 Request Header Fields Too Large",
             "The sandbox's proxy takes request heads of up to 16 KB.\n");
      break;
    case SBX_PROXY_BAD:
      snprintf(body, sizeof(body), "The sandbox's proxy got %s.\n", r.why);
      refuse(c, 1, "400 Bad Request", body);
      break;
    default: end(c);
  }
}

static void begin_socks(struct connection* c) {
  memcpy(c->host, c->socks.host, sizeof(c->host));
  c->port = c->socks.port;
  begin(c);
}

static void refuse_raw(struct connection* c, const char* two) {
  enter(c, REFUSED);
  sbx_pump_refuse(&c->pump, two, 2);
}

/* True if there may be another message. */
static bool read_socks(struct connection* c) {
  size_t n;
  enum sbx_socks_event event = sbx_socks_read(&c->socks, c->proxy->token,
                                              c->head, c->len, &n);

  used(c, n);
  switch (event) {
    case SBX_SOCKS_GREETED: return sbx_pump_say(&c->pump, "\x05\x02", 2) == 0;
    case SBX_SOCKS_LOGIN: return sbx_pump_say(&c->pump, "\x01\x00", 2) == 0;
    case SBX_SOCKS_NO_METHOD: refuse_raw(c, "\x05\xff"); break;
    case SBX_SOCKS_WRONG_LOGIN: refuse_raw(c, "\x01\x01"); break;
    case SBX_SOCKS_REFUSED: refuse(c, c->socks.code, "", ""); break;
    case SBX_SOCKS_REQUEST: begin_socks(c); break;
    case SBX_SOCKS_BROKEN: end(c); break;
    default: break;
  }
  return false;
}

static void on_head(struct sbx_pump* pump, const char* bytes, size_t len) {
  struct connection* c = (struct connection*) pump;
  char* more = len > 0 ? realloc(c->head, c->len + len) : NULL;

  if (more == NULL) {
    end(c);
    return;
  }
  c->head = more;
  memcpy(c->head + c->len, bytes, len);
  c->len += len;
  if (c->head[0] == 5 && !c->is_socks) c->is_socks = true;
  if (!c->is_socks)
    read_http(c);
  else
    while (c->len > 0 && read_socks(c) && !c->over) continue;
}

static void on_accept(struct sbx_acceptor* a, int fd) {
  struct sbx_proxy* p = a->data;
  struct connection* c = calloc(1, sizeof(*c));

  if (c == NULL) {
    close(fd);
    return;
  }
  c->proxy = p;
  c->busy = 1;
  c->pump.on_head = on_head;
  c->pump.on_over = on_over;
  c->pump.on_closed = on_pump_closed;
  if (sbx_pump_open(&c->pump, p->spec.loop, &p->pool, fd) != 0) {
    free(c);
    return;
  }
  enter(c, ASKING);
  c->next = p->connections;
  c->back = &p->connections;
  if (c->next != NULL) c->next->back = &c->next;
  p->connections = c;
  if (++p->connected >= SBX_PROXY_CONNECTIONS)
    sbx_acceptor_pause(&p->acceptor, true);
}

/* ---- time ---- */

static void give_up_address(struct connection* c, uint64_t now) {
  int fd = drop_dial(c);

  if (fd >= 0) close(fd);
  c->error = UV_ETIMEDOUT;
  if (now - c->started > REACH_MS) c->at = c->count;
  connect_next(c);
}

static void look_at(struct connection* c, uint64_t now) {
  uint64_t quiet = now - c->pump.moved;

  switch (c->stage) {
    case ASKING:
      if (now - c->since > REQUEST_MS) end(c);
      break;
    case RESOLVING:
      if (now - c->since > REACH_MS) end(c);
      break;
    case CONNECTING:
      if (now - c->since > TRY_MS) give_up_address(c, now);
      break;
    case JOINED:
      if (quiet > (sbx_pump_ending(&c->pump) ? ENDING_MS : IDLE_MS)) end(c);
      break;
    case REFUSED:
      if (now - c->since > REFUSING_MS) end(c);
      break;
  }
}

static void on_tick(uv_timer_t* timer) {
  struct sbx_proxy* p = timer->data;
  struct connection* next;

  for (struct connection* c = p->connections; c != NULL; c = next) {
    next = c->next;
    if (!c->over) look_at(c, uv_now(p->spec.loop));
  }
}

/* ---- life ---- */

static void encode64(const char* in, size_t len, char* out) {
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                               "abcdefghijklmnopqrstuvwxyz0123456789+/";

  for (size_t i = 0; i < len; i += 3) {
    uint32_t v = (uint32_t) (unsigned char) in[i] << 16;

    if (i + 1 < len) v |= (uint32_t) (unsigned char) in[i + 1] << 8;
    if (i + 2 < len) v |= (unsigned char) in[i + 2];
    *out++ = digits[v >> 18];
    *out++ = digits[v >> 12 & 63];
    *out++ = i + 1 < len ? digits[v >> 6 & 63] : '=';
    *out++ = i + 2 < len ? digits[v & 63] : '=';
  }
  *out = '\0';
}

int sbx_proxy_new(const struct sbx_proxy_spec* spec, struct sbx_proxy** out) {
  struct sbx_proxy* p = calloc(1, sizeof(*p));
  char pair[SBX_PROXY_TOKEN_MAX + 2];

  *out = NULL;
  if (p == NULL || sbx_pump_pool_init(&p->pool) != 0) {
    free(p);
    return UV_ENOMEM;
  }
  p->spec = *spec;
  snprintf(p->token, sizeof(p->token), "%s", spec->token);
  p->spec.token = p->token;
  snprintf(pair, sizeof(pair), "x:%s", p->token);
  encode64(pair, strlen(pair), p->credentials);
  p->acceptor.fd = -1;
  uv_timer_init(spec->loop, &p->tick);
  p->tick.data = p;
  p->open = 1;
  uv_timer_start(&p->tick, on_tick, TICK_MS, TICK_MS);
  uv_unref((uv_handle_t*) &p->tick);
  *out = p;
  return 0;
}

static void on_acceptor_closed(struct sbx_acceptor* a) {
  struct sbx_proxy* p = a->data;

  p->open--;
  free_if_over(p);
}

int sbx_proxy_listen(struct sbx_proxy* p, int fd) {
  p->acceptor.data = p;
  p->acceptor.on_accept = on_accept;
  p->acceptor.on_closed = on_acceptor_closed;
  if (sbx_acceptor_open(&p->acceptor, p->spec.loop, fd) != 0) return -1;
  p->open++;
  return 0;
}

/* Also the address of an open connection, which may have been listed. */
static bool still_allowed(struct connection* c) {
  const struct sockaddr* a;

  if (c->proxy->list == NULL ||
      !sbx_allow_list_host(c->proxy->list, c->host, c->port))
    return false;
  if (c->at == 0) return true;
  a = (const struct sockaddr*) &c->addresses[c->at - 1];
  return sbx_address_special(a) == NULL ||
         sbx_allow_list_address(c->proxy->list, a, c->port);
}

void sbx_proxy_set(struct sbx_proxy* p, struct sbx_allow_list* list) {
  struct connection* next;

  sbx_allow_list_free(p->list);
  p->list = list;
  p->denials = 0;
  for (struct connection* c = p->connections; c != NULL; c = next) {
    next = c->next;
    if ((c->stage == JOINED || c->stage == CONNECTING) && !still_allowed(c))
      end(c);
  }
}

static void on_tick_closed(uv_handle_t* handle) {
  struct sbx_proxy* p = handle->data;

  p->open--;
  free_if_over(p);
}

void sbx_proxy_close(struct sbx_proxy* p, sbx_proxy_cb cb, void* arg) {
  p->closing = true;
  p->cb = cb;
  p->arg = arg;
  sbx_acceptor_close(&p->acceptor);
  for (struct connection* c = p->connections; c != NULL; c = c->next) end(c);
  uv_close((uv_handle_t*) &p->tick, on_tick_closed);
}
