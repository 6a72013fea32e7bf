/* What the files of the libcurl transport know of each other. */
#ifndef SBX_TRANSPORT_CURL_H
#define SBX_TRANSPORT_CURL_H

#include "curl.h"
#include "transport.h"

struct sbx__curl {
  const struct sbx_curl* api;
  uv_loop_t* loop;
  CURLM* multi;
  CURLSH* share; /* TLS sessions */
  char* ca_file;
  void* ca_pem; /* where no file can stand for it */
  size_t ca_len;
  int ca_fd; /* memory file behind ca_file, or -1 */
  uv_timer_t timer; /* libcurl's */
  uv_timer_t kick;  /* work that may not run inside its caller */
  unsigned depth;   /* libcurl is on the stack: most calls are forbidden */
  size_t handles;   /* open ones of the loop */
  struct sbx__carry* todo;
  struct sbx__curl_socket* sockets; /* that libcurl watches */
  CURL* spare[32]; /* easy handles at rest */
  size_t spares;
  uint64_t turn;     /* of the loop: its uv_now */
  uint64_t turn_end; /* hrtime when bodies have had their share of it */
  bool closing;
  void (*on_closed)(void* arg);
  void* arg;
};

struct sbx__tunnel {
  uv_poll_t poll;
  struct sbx__carry* carry; /* NULL: over, only the handle closes */
  struct sbx__curl* client;
  int events;
  bool ended; /* the owner sends no more */
  size_t start, len;
  char out[16384]; /* pulled, not sent yet */
};

struct sbx__carry {
  struct sbx__curl* client;
  struct sbx_transfer_spec* spec; /* one reference */
  struct sbx_transfer_events events;
  CURL* easy;
  struct curl_slist* headers;
  struct sbx__carry* next_todo;
  struct sbx__tunnel* tunnel;
  unsigned sends; /* times that the request was about to be sent */
  bool queued;    /* in todo */
  bool added;     /* to the multi handle */
  bool over;      /* nothing more comes from libcurl */
  bool good;      /* it came to its proper end */
  bool doomed;    /* ended while libcurl was on the stack */
  bool paused;    /* by the owner */
  bool recv_paused, send_paused; /* libcurl knows */
  bool woken;
  uint64_t turn; /* the last one in which it gave bytes */
  char error[CURL_ERROR_SIZE];
};

/* Sets every option. 0 or UV_ENOMEM. */
int sbx__carry_configure(struct sbx__carry* x);

/* The failure that a result means; `text` stays valid while `x` does. */
struct sbx_failure sbx__carry_failure(struct sbx__carry* x, CURLcode result);

/* Puts it where sbx__curl_work finds it soon. */
void sbx__carry_queue(struct sbx__carry* x);

/* libcurl reads on for as long as there is something, 6 MB in a row: whether
 * that is enough for this turn of the loop. Each transfer gives a piece in it. */
bool sbx__carry_spent(struct sbx__carry* x);

/* The connection stands; takes its socket over. 0 or a negative code. */
int sbx__tunnel_start(struct sbx__carry* x);
void sbx__tunnel_run(struct sbx__carry* x); /* reads and writes what it can */
void sbx__tunnel_stop(struct sbx__carry* x);

/* No longer watches a socket for libcurl, which keeps that of a tunnel. */
void sbx__curl_forget(struct sbx__curl* c, curl_socket_t fd);

/* The loop's handles, of which the client counts how many are open. */
void sbx__curl_opened(struct sbx__curl* c, uv_handle_t* handle);
void sbx__curl_closed(struct sbx__curl* c);

#endif
