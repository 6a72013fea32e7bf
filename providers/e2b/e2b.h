/* What the parts of the E2B service know of each other: the account and the
 * machine, and how requests to its two planes look. The control plane is REST
 * with the API key; the sandbox itself answers through envd, with a token of
 * its own. The protocol is described at https://e2b.dev/docs and in the open
 * source of envd. */
#ifndef SBX_E2B_H
#define SBX_E2B_H

#include "../remote/service.h"
#include "../remote/unary.h"

#define SBX_E2B_VERSION(major, minor, patch) \
  ((uint32_t) (major) << 20 | (uint32_t) (minor) << 10 | (uint32_t) (patch))

enum { SBX_E2B_PORT = 49983, SBX_E2B_ID_MAX = 64 };

/* The network policy, as E2B wants it. */
struct sbx_e2b_network {
  char** allow; /* hosts and addresses that go through */
  size_t allow_len;
  char** deny; /* addresses and ranges that do not */
  size_t deny_len;
  int internet;       /* allow_internet_access: -1 unsaid, 0, 1 */
  int public_traffic; /* allowPublicTraffic: the same */
  char* mask_host;    /* maskRequestHost, or NULL */
  char* shown;        /* the hosts as the user wrote them, or NULL */
};

struct sbx_e2b {
  struct sbx_service_state base; /* first */

  /* The account and the options. */
  char* api_key;
  char* api_url;
  char* domain;
  char* sandbox_url; /* NULL: by the domain */
  char* template_id;
  char* layer; /* that the next create starts from instead, or NULL */
  char* from;  /* the one that the machine was made of, or NULL */
  char* user; /* NULL: the template's own */
  char* cwd;  /* the workspace, made with the sandbox */
  bool debug, secure, auto_pause, computer;
  uint32_t timeout_s;
  uint64_t request_ms, slow_ms; /* for what takes the service long */
  struct sbx_json* metadata;    /* an object of strings, or NULL */
  struct sbx_e2b_network network;

  /* The machine. */
  char* token;   /* envd's, NULL: it asks for none */
  char* traffic; /* of ports that are not public, or NULL */
  char* host_domain; /* that the service named, or NULL: domain */
  uint32_t version;  /* of envd; SBX_E2B_VERSION */
  bool old_server;   /* has only the first version of create and connect */

  const char* secrets[4];
  struct sbx_answer_words words, envd_words; /* of the two planes */
  char home[128];
};

/* e2b.c */
bool sbx_e2b_id_good(const char* id);
/* A host that the service named for its sandboxes: may it get the token? */
bool sbx_e2b_domain_good(const struct sbx_e2b* e, const char* domain);
/* After the token changed. */
void sbx_e2b_know_secrets(struct sbx_e2b* e);
/* "https://<port>-<id>.<domain>" */
int sbx_e2b_host_url(const struct sbx_e2b* e, unsigned port, char* out,
                     size_t size);

/* A machine of the plan, with E2B's words. */
void* sbx_e2b_unary(const struct sbx_unary_plan* plan,
                    struct sbx_service_state* s);

/* request.c: begin a request; the caller adds to it. */
void sbx_e2b_api(const struct sbx_e2b* e, struct sbx_request* r,
                 const char* method, const char* path);
/* "/sandboxes/<id>/<verb>"; `id` NULL: the machine's; `verb` may be "". */
void sbx_e2b_api_sandbox(const struct sbx_e2b* e, struct sbx_request* r,
                         const char* method, const char* version,
                         const char* id, const char* verb);
void sbx_e2b_envd(const struct sbx_e2b* e, struct sbx_request* r,
                  const char* method, const char* path);
/* A call with one answer; the caller adds the body. */
void sbx_e2b_rpc(const struct sbx_e2b* e, struct sbx_request* r,
                 const char* path);
/* A call whose answer is a stream of messages. `timeout_ms` 0: none. */
void sbx_e2b_stream(const struct sbx_e2b* e, struct sbx_request* r,
                    const char* path, uint64_t timeout_ms);
/* Acts as the option's user, or as root. */
void sbx_e2b_as(const struct sbx_e2b* e, struct sbx_request* r, bool root);
/* "user", or NULL where envd knows it without us. */
const char* sbx_e2b_user(const struct sbx_e2b* e);
/* A request without members: "{}". */
void sbx_e2b_empty(struct sbx_request* r);

/* The status that stands for a Connect code, 500 for one that is not known. */
int sbx_e2b_status_of(const char* code);
/* A refusal by envd or by the edge in front of it. */
int sbx_e2b_envd_error(const struct sbx_e2b* e, const struct sbx_answer* a,
                       const char* operation, struct sbx_error* error);
int sbx_e2b_fault_error(const struct sbx_e2b* e, const struct sbx_fault* fault,
                        const char* operation, struct sbx_error* error);

/* network.c */
int sbx_e2b_network_read(struct sbx_e2b_network* n,
                         const struct sbx_options* options,
                         struct sbx_error* error);
int sbx_e2b_network_set(struct sbx_e2b_network* n, const char* const* hosts,
                        size_t count, struct sbx_error* error);
void sbx_e2b_network_clear(struct sbx_e2b_network* n);
/* Members of the create body. */
void sbx_e2b_network_write(const struct sbx_e2b_network* n,
                           struct sbx_json_writer* w);
void sbx_e2b_network_facts(const struct sbx_e2b_network* n, sbx_fact_cb cb,
                           void* arg);
struct sbx_machine* sbx_e2b_set_network(struct sbx_service_state* s,
                                        const char* const* hosts, size_t count);

/* find.c; the key of the metadata that holds our id. */
#define SBX_E2B_KEY_ID "sandbox-sdk-native-id"
struct sbx_machine* sbx_e2b_find(struct sbx_service_state* s, const char* id);

/* create.c */
struct sbx_machine* sbx_e2b_create(struct sbx_service_state* s, const char* id);

/* life.c */
struct sbx_machine* sbx_e2b_connect(struct sbx_service_state* s);
struct sbx_machine* sbx_e2b_stop(struct sbx_service_state* s);
struct sbx_machine* sbx_e2b_destroy(struct sbx_service_state* s);
struct sbx_machine* sbx_e2b_touch(struct sbx_service_state* s);
struct sbx_machine* sbx_e2b_probe(struct sbx_service_state* s);
/* The request of a connect to a sandbox, as this server knows it. */
void sbx_e2b_connect_request(const struct sbx_e2b* e, struct sbx_request* r,
                             const char* id);
/* No machine any more. */
void sbx_e2b_forget(struct sbx_e2b* e);
/* Takes the machine over from the answer of a create or connect. Where it
 * fails, the id may be known all the same. */
int sbx_e2b_adopt(struct sbx_e2b* e, struct sbx_answer* a,
                  const char* operation, struct sbx_error* error);
/* Whether this refusal says that the server does not know the call at all. */
bool sbx_e2b_is_old(const struct sbx_answer* a);
/* The same, in words: what a proxy on the way answers does not count. */
bool sbx_e2b_lacks_call(const struct sbx_answer* a);

/* watch.c */
struct sbx_machine* sbx_e2b_watch(struct sbx_service_state* s,
                                  const char* path, bool recursive);

/* process.c, files.c, snapshot.c */
struct sbx_machine* sbx_e2b_start(struct sbx_service_state* s,
                                  const struct sbx_start_spec* spec);
struct sbx_machine* sbx_e2b_attach(struct sbx_service_state* s,
                                   const struct sbx_attach_spec* spec);
struct sbx_machine* sbx_e2b_upload(struct sbx_service_state* s,
                                   const char* path, const void* data,
                                   size_t len);
struct sbx_machine* sbx_e2b_download(struct sbx_service_state* s,
                                     const char* path);
struct sbx_machine* sbx_e2b_snapshot_create(struct sbx_service_state* s,
                                            const char* name);
struct sbx_machine* sbx_e2b_snapshot_delete(struct sbx_service_state* s,
                                            const char* id);
struct sbx_machine* sbx_e2b_snapshot_list(struct sbx_service_state* s);

extern const struct sbx_service sbx_service_e2b;

#endif
