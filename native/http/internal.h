/* What the files of the HTTP engine know of each other; nothing public. */
#ifndef SBX_HTTP_INTERNAL_H
#define SBX_HTTP_INTERNAL_H

#include "http.h"
#include "transport.h"
#include "url.h"

struct sbx__socket; /* the WebSocket part of an exchange */

/* ---- route.c: which proxy ---- */

struct sbx__route {
  char* https;
  char* http;
  char* all;
  char* none;
};

/* From the environment. 0 or UV_ENOMEM. */
int sbx__route_load(struct sbx__route* r);
void sbx__route_free(struct sbx__route* r);
/* The proxy for a URL, NULL for none. `setting` is the client's own: NULL: the
 * environment says, "": none. `*name` is what to call it in a message. */
const char* sbx__route_choose(const struct sbx__route* r, const char* setting,
                              const struct sbx_url* url, const char** name);
/* A checked copy, with a scheme; NULL with `error` filled. */
char* sbx__route_check(const char* proxy, const char* name,
                       struct sbx_error* error);

/* ---- ca.c: whom to trust ---- */

struct sbx__ca {
  char* file;
  char* pem;
  size_t len;
};

int sbx__ca_load(struct sbx__ca* ca, const char* setting,
                 const struct sbx_http_host* host, struct sbx_error* error);
void sbx__ca_free(struct sbx__ca* ca);

/* ---- transport.c ---- */

/* Sees that the client has a transport. 0, or negative with `error` filled. */
int sbx__transport_need(struct sbx_http* http, struct sbx_error* error);

/* ---- head.c: status and headers ---- */

struct sbx__head {
  struct sbx_http_head view; /* once complete */
  char* text;
  size_t len, size;
  uint32_t* at; /* offsets in text: name, value, name ... */
  const char** pointers;
  size_t count;
  size_t total; /* bytes, also of what was thrown away */
  int status;
  bool complete;
};

void sbx__head_free(struct sbx__head* h);
/* Takes a line. 1: the final head is complete; 0: go on; UV_E2BIG, UV_EPROTO or
 * UV_ENOMEM. Lines after that one, which are trailers, are dropped. */
int sbx__head_line(struct sbx__head* h, const char* line, size_t len);

/* ---- request.c: from a request to what a transport takes ---- */

/* NULL with `error` filled. `url` gets the address taken apart. */
struct sbx_transfer_spec* sbx__request_check(
    const struct sbx_http_request* request, struct sbx_url* url,
    struct sbx_error* error);

/* ---- the client and its exchanges ---- */

struct sbx_http {
  uv_loop_t* loop;
  const char* provider;
  const struct sbx_http_host* host;
  char* ca_file;
  char* proxy;
  struct sbx__route route;
  const struct sbx_transport_ops* ops;
  struct sbx_transport* transport; /* NULL until first needed */
  uv_timer_t clock;
  uint64_t armed; /* when the clock fires, 0: never */
  struct sbx_exchange* exchanges;
  struct sbx_http* next; /* in the pool */
  struct sbx_http** link; /* NULL: in none */
  char* key;              /* all that makes a shared one what it is */
  unsigned users;
  unsigned random;
  bool closing;
  unsigned open_parts; /* clock, transport */
  void (*on_closed)(void* arg);
  void* arg;
};

enum sbx__stage {
  SBX__ATTEMPT = 1, /* a transfer is under way, no head yet */
  SBX__WAIT,        /* for the next attempt */
  SBX__BODY,
  SBX__OVER /* on_end has been called */
};

struct sbx__chunk {
  struct sbx__chunk* next;
  size_t len;
  char bytes[];
};

struct sbx_exchange {
  struct sbx_http* http;
  struct sbx_exchange* next;
  struct sbx_exchange** link;
  struct sbx_http_events events;
  struct sbx_transfer_spec* spec;
  struct sbx_transfer* transfer;
  struct sbx__head head;
  struct sbx__socket* socket;
  char host[SBX_HOST_MAX];
  const char* proxy_name;
  enum sbx__stage stage;
  unsigned flags;
  unsigned attempts;
  uint64_t head_ms, idle_ms, max_body;
  uint64_t due;      /* of the stage, 0: none */
  uint64_t head_due; /* last moment for a head */
  uint64_t received;
  bool suspect; /* due once: what has come in the meantime is read first */
  bool paused;
  bool closed;   /* by the owner: freed when `busy` is over */
  unsigned busy; /* of our frames on the stack */
  bool pulled;   /* part of the streamed body is gone */
  bool finished; /* no more will be sent */
  struct sbx__chunk* first;
  struct sbx__chunk** last;
  size_t offset; /* in first */
};

uint64_t sbx__now(void); /* ms */

/* Moves its due time and sees that the clock fires then. */
void sbx__exchange_due(struct sbx_exchange* x, uint64_t due);
/* The clock: its time has come. */
void sbx__exchange_expire(struct sbx_exchange* x);

/* on_end, unless that was called or the owner has closed. */
void sbx__exchange_end(struct sbx_exchange* x, const struct sbx_error* error);
void sbx__exchange_fail(struct sbx_exchange* x,
                        const struct sbx_failure* failure);
/* Judges a complete head: false where it is not the owner's to see. */
bool sbx__exchange_head(struct sbx_exchange* x);
/* Counts towards max_body: false, and ended, where it is too much. */
bool sbx__exchange_count(struct sbx_exchange* x, size_t len);
/* A head that is too long or none at all. */
void sbx__exchange_bad_head(struct sbx_exchange* x, int rc);

/* ---- retry.c ---- */

/* ms until the next attempt after this failure; -1: none. */
int64_t sbx__retry_failure(struct sbx_exchange* x,
                           const struct sbx_failure* failure);
/* The same after an answer; where the server named a time, *named is true. */
int64_t sbx__retry_answer(struct sbx_exchange* x, bool* named);

/* ---- error.c ---- */

int sbx__http_error(const struct sbx_exchange* x,
                    const struct sbx_failure* failure, struct sbx_error* error);

/* ---- socket.c: WebSockets ---- */

int sbx__socket_new(struct sbx_exchange* x, const struct sbx_url* url);
void sbx__socket_free(struct sbx__socket* s);
void sbx__socket_open(struct sbx_exchange* x);
void sbx__socket_bytes(struct sbx_exchange* x, const char* bytes, size_t len);
ssize_t sbx__socket_pull(struct sbx_exchange* x, char* out, size_t len);
void sbx__socket_done(struct sbx_exchange* x,
                      const struct sbx_failure* failure);
int sbx__socket_send(struct sbx_exchange* x, const void* bytes, size_t len,
                     bool text);
int sbx__socket_finish(struct sbx_exchange* x);
void sbx__socket_expire(struct sbx_exchange* x);
void sbx__socket_restart(struct sbx_exchange* x); /* before another attempt */

#endif
