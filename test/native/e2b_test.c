/* The machines of E2B, fed with what the service sends: whole, and one byte at
 * a time. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../../native/parse/envelope.h"
#include "../../providers/e2b/e2b.h"
#include "../../providers/e2b/exit.h"
#include "machine_rig.h"

#define API "https://api.e2b.app"
#define ENVD "https://sandbox.e2b.app"
#define KEY "e2b_0123456789abcdef"
#define ID "izxxon8hhxd6ssugudjex"
#define CREATED                                                         \
  "{\"alias\":\"base\",\"clientID\":\"6532622b\",\"envdAccessToken\":"  \
  "\"tok-envd\",\"envdVersion\":\"0.6.10\",\"sandboxID\":\"" ID "\","    \
  "\"templateID\":\"rki5\",\"future\":{\"x\":[1]}}"

/* ---- options ---- */

struct given {
  const char* name;
  const char* text; /* NULL: the number */
  double number;
};

static int open_with(const struct given* list, size_t count, bool key,
                     struct sbx_service_state** out, struct sbx_error* error) {
  struct sbx_options* o;
  int err;

  memset(error, 0, sizeof(*error));
  assert_int_equal(sbx_options_new(&o), 0);
  if (key) sbx_options_add_string(o, "apiKey", KEY, strlen(KEY));
  for (size_t i = 0; i < count; i++) {
    if (list[i].text != NULL)
      sbx_options_add_string(o, list[i].name, list[i].text,
                             strlen(list[i].text));
    else
      sbx_options_add_number(o, list[i].name, list[i].number);
  }
  err = sbx_service_e2b.open(o, out, error);
  sbx_options_free(o);
  return err;
}

static struct sbx_service_state* open_plain(void) {
  struct sbx_service_state* s;
  struct sbx_error error;

  assert_int_equal(open_with(NULL, 0, true, &s, &error), 0);
  return s;
}

/* One that is connected to a sandbox, as a create would leave it. */
static struct sbx_service_state* open_running(const char* version) {
  struct sbx_service_state* s = open_plain();
  struct sbx_e2b* e = (struct sbx_e2b*) s;
  unsigned v[3] = {0};

  s->id = strdup(ID);
  e->token = strdup("tok-envd");
  sbx_e2b_know_secrets(e);
  assert_int_equal(sscanf(version, "%u.%u.%u", &v[0], &v[1], &v[2]), 3);
  e->version = SBX_E2B_VERSION(v[0], v[1], v[2]);
  return s;
}

static void close_state(struct sbx_service_state* s) {
  sbx_service_e2b.free(s);
}

static void test_bad_options(void** state) {
  static const struct {
    struct given given;
    const char* words; /* that the message must have */
  } list[] = {
      {{"apiUrl", "api.e2b.app", 0}, "apiUrl"},
      {{"apiUrl", "ftp://x", 0}, "apiUrl"},
      {{"apiUrl", "https://u:p@x", 0}, "apiUrl"},
      {{"host.E2B_API_URL", "nonsense", 0}, "E2B_API_URL"},
      {{"sandboxUrl", "wss://x", 0}, "sandboxUrl"},
      {{"domain", "https://e2b.app", 0}, "domain"},
      {{"domain", "e2b.app/x", 0}, "domain"},
      {{"timeout", NULL, 0}, "timeout"},
      {{"timeout", NULL, -5}, "timeout"},
      {{"requestTimeout", NULL, -1}, "requestTimeout"},
      {{"user", "a b", 0}, "user"},
      {{"user", "x:y", 0}, "user"},
      {{"template", "", 0}, "template"},
      {{"metadata", "{\"a\":1}", 0}, "metadata"},
      {{"metadata", "{\"" SBX_E2B_KEY_ID "\":\"x\"}", 0}, "metadata"},
      {{"apiKey", "e2b bad", 0}, "API key"},
      {{"apiKey", "e2b\r\nX: y", 0}, "API key"},
  };
  struct sbx_service_state* s;
  struct sbx_error error;

  (void) state;
  for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++) {
    int err = open_with(&list[i].given, 1, true, &s, &error);

    assert_int_equal(err, strstr(list[i].words, "key") ? SBX_E_AUTHENTICATION
                                                       : SBX_E_INVALID_INPUT);
    assert_null(s);
    assert_non_null(strstr(error.message, list[i].words));
    assert_null(strstr(error.message, "bad"));
  }
}

static void test_key(void** state) {
  static const struct given environment[] = {
      {"host.E2B_API_KEY", "e2b_env", 0}, {"host.E2B_DOMAIN", "foo.example", 0}};
  struct sbx_service_state* s;
  struct sbx_error error;

  (void) state;
  assert_int_equal(open_with(NULL, 0, false, &s, &error), SBX_E_AUTHENTICATION);
  assert_non_null(strstr(error.message, "E2B_API_KEY"));
  assert_int_equal(open_with(environment, 2, false, &s, &error), 0);
  assert_string_equal(((struct sbx_e2b*) s)->api_key, "e2b_env");
  assert_string_equal(((struct sbx_e2b*) s)->api_url, "https://api.foo.example");
  close_state(s);
  assert_int_equal(open_with(environment, 2, true, &s, &error), 0);
  assert_string_equal(((struct sbx_e2b*) s)->api_key, KEY);
  close_state(s);
}

/* ---- find ---- */

static void test_find_pages(void** state) {
  static const char first[] =
      "[{\"sandboxID\":\"iforeign\",\"state\":\"running\",\"startedAt\":\"2026-01-"
      "01T00:00:00Z\",\"metadata\":{\"" SBX_E2B_KEY_ID "\":\"other\"}},"
      "{\"sandboxID\":\"ipaused\",\"state\":\"paused\",\"startedAt\":\"2026-01-01T"
      "00:00:01Z\",\"metadata\":{\"" SBX_E2B_KEY_ID "\":\"a b&c=\xc3\xbc\"}}]";
  static const char second[] =
      "[{\"sandboxID\":\"idying\",\"state\":\"terminating\",\"startedAt\":\"2025-01"
      "-01T00:00:00Z\",\"metadata\":{\"" SBX_E2B_KEY_ID "\":\"a b&c=\xc3\xbc\"}},"
      "{\"sandboxID\":\"iyoung\",\"state\":\"running\",\"startedAt\":\"2026-01-01T0"
      "0:00:02.25Z\",\"metadata\":{\"" SBX_E2B_KEY_ID "\":\"a b&c=\xc3\xbc\"}},"
      "{\"sandboxID\":\"iold\",\"state\":\"running\",\"startedAt\":\"2026-01-01T00:"
      "00:02Z\",\"metadata\":{\"" SBX_E2B_KEY_ID "\":\"a b&c=\xc3\xbc\"}}]";
  size_t piece = *(size_t*) *state;
  struct sbx_service_state* s = open_plain();
  struct rig rig;

  rig_start(&rig, sbx_e2b_find(s, "a b&c=\xc3\xbc"), piece);
  assert_true(rig_has_header(&rig, "X-API-Key: " KEY));
  assert_true(rig.flags & SBX_HTTP_IDEMPOTENT);
  rig_expect(&rig, "open 1 GET " API "/v2/sandboxes?metadata=sandbox-sdk-native-"
                   "id%3Da%252520b%252526c%25253D%2525C3%2525BC"
                   "&state=running%2Cpaused&limit=100\n");
  assert_int_equal(rig_head(&rig, 1, 200, "x-next-token", "n+1"), 0);
  assert_int_equal(rig_bytes(&rig, 1, first, strlen(first)), 0);
  assert_int_equal(rig_event(&rig, SBX_STEP_END, 1), 0);
  rig_expect(&rig, "open 2 GET " API "/v2/sandboxes?metadata=sandbox-sdk-native-"
                   "id%3Da%252520b%252526c%25253D%2525C3%2525BC"
                   "&state=running%2Cpaused&limit=100&nextToken=n%2B1\n");
  rig_answer(&rig, 200, second);
  rig_expect(&rig, "emit 1 \ndone well\n");
  assert_string_equal(s->id, "iold");
  rig_end(&rig);
  close_state(s);
}

static void test_find_old_server(void** state) {
  static const char list[] =
      "[{\"sandboxID\":\"iold\",\"startedAt\":\"2026-01-01T00:00:02Z\","
      "\"metadata\":{\"" SBX_E2B_KEY_ID "\":\"x\"}}]";
  struct sbx_service_state* s = open_plain();
  struct rig rig;

  rig_start(&rig, sbx_e2b_find(s, "x"), *(size_t*) *state);
  rig.log.len = 0;
  rig_answer(&rig, 405, "{\"code\":405,\"message\":\"validation error: method "
                        "not allowed\"}");
  rig_expect(&rig, "open 2 GET " API "/sandboxes?metadata=sandbox-sdk-native-"
                   "id%3Dx\n");
  rig_answer(&rig, 200, list);
  rig_expect(&rig, "emit 1 \ndone well\n");
  assert_string_equal(s->id, "iold");
  rig_end(&rig);
  close_state(s);
}

/* "Not found" would make a second sandbox. */
static void test_find_error_is_not_absence(void** state) {
  static const struct {
    int status;
    const char* body;
    int code;
  } list[] = {
      {500, "{\"code\":500,\"message\":\"boom\"}", SBX_E_PROVIDER},
      {404, "", SBX_E_NOT_FOUND},
      {401, "{\"code\":401,\"message\":\"Invalid API key\"}",
       SBX_E_AUTHENTICATION},
      {429, "slow down", SBX_E_RATE_LIMITED},
      {502, "<html><title>Bad Gateway</title></html>", SBX_E_UNAVAILABLE},
      {200, "<html></html>", SBX_E_PROVIDER},
      {200, "{}", SBX_E_PROVIDER},
      {200, "[{\"metadata\":{\"" SBX_E2B_KEY_ID "\":\"x\"}}]", SBX_E_PROVIDER},
      {200, "[{\"sandboxID\":\"../x\",\"metadata\":{\"" SBX_E2B_KEY_ID
            "\":\"x\"}}]", SBX_E_PROVIDER},
      {200, "", SBX_E_PROVIDER},
  };
  struct sbx_service_state* s = open_plain();
  struct rig rig;

  for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++) {
    rig_start(&rig, sbx_e2b_find(s, "x"), *(size_t*) *state);
    rig_answer(&rig, list[i].status, list[i].body);
    assert_int_equal(rig.dones, 1);
    assert_int_equal(rig.error.code, list[i].code);
    assert_null(strchr(rig.error.message, '<'));
    assert_null(s->id);
    rig_end(&rig);
  }
  rig_start(&rig, sbx_e2b_find(s, "x"), 0);
  rig_event(&rig, SBX_STEP_FAILED, 1);
  assert_int_equal(rig.error.code, SBX_E_UNAVAILABLE);
  rig_end(&rig);
  rig_start(&rig, sbx_e2b_find(s, "x"), 0);
  rig_answer(&rig, 200, "[]");
  assert_int_equal(rig.error.code, 0);
  assert_null(s->id);
  rig_end(&rig);
  close_state(s);
}

/* ---- create ---- */

static void test_create(void** state) {
  static const struct given given[] = {{"template", "my/tpl:v2", 0},
                                       {"timeout", NULL, 90500},
                                       {"metadata", "{\"user\":\"\xc3\xbc\"}", 0},
                                       {"network", "deny", 0}};
  struct sbx_service_state* s;
  struct sbx_error error;
  struct rig rig;

  assert_int_equal(open_with(given, 4, true, &s, &error), 0);
  rig_start(&rig, sbx_e2b_create(s, "x"), *(size_t*) *state);
  assert_false(rig.flags & SBX_HTTP_IDEMPOTENT);
  rig_expect(&rig, "open 1 POST " API "/v2/sandboxes {\"templateID\":\"my/tpl:v2\""
                   ",\"timeout\":91,\"metadata\":{\"user\":\"\\c3\\bc\",\""
                   SBX_E2B_KEY_ID "\":\"x\"},\"allow_internet_access\":false}\n");
  rig_answer(&rig, 201, CREATED);
  assert_true(rig_has_header(&rig, "X-Access-Token: tok-envd"));
  assert_true(rig_has_header(&rig, "E2b-Sandbox-Id: " ID));
  assert_true(rig_has_header(&rig, "E2b-Sandbox-Port: 49983"));
  assert_false(rig_has_header(&rig, "X-API-Key: " KEY));
  rig_expect(&rig, "open 2 POST " ENVD "/filesystem.Filesystem/MakeDir "
                   "{\"path\":\"/workspace\"}\n");
  rig_answer(&rig, 409, "{\"code\":\"already_exists\",\"message\":\"x\"}");
  rig_expect(&rig, "done well\n");
  assert_string_equal(s->id, ID);
  rig_end(&rig);
  close_state(s);
}

static void test_create_old_server(void** state) {
  struct sbx_service_state* s = open_plain();
  struct rig rig;

  rig_start(&rig, sbx_e2b_create(s, NULL), *(size_t*) *state);
  rig.log.len = 0;
  rig_answer(&rig, 400,
             "{\"code\":400,\"message\":\"validation error: error in openapi3: no "
             "matching operation was found\"}");
  rig_expect(&rig, "open 2 POST " API "/sandboxes {\"templateID\":\"base\","
                   "\"timeout\":300,\"metadata\":{},\"secure\":true}\n");
  rig_answer(&rig, 201, CREATED);
  rig.log.len = 0;
  rig_answer(&rig, 200, "{\"entry\":{}}");
  rig_expect(&rig, "done well\n");
  rig_end(&rig);
  rig_start(&rig, sbx_e2b_connect(s), *(size_t*) *state);
  rig_expect(&rig, "open 1 POST " API "/sandboxes/" ID
                   "/connect {\"timeout\":300}\n");
  rig_end(&rig);
  close_state(s);
}

static void test_create_refused(void** state) {
  static const struct {
    int status;
    const char* body;
    int code;
    bool retryable;
  } list[] = {
      {404, "{\"code\":404,\"message\":\"template 'base' not found\"}",
       SBX_E_NOT_FOUND, false},
      {403, "{\"code\":403,\"message\":\"no access\"}", SBX_E_PERMISSION, false},
      {429, "{\"code\":429,\"message\":\"maximum number of concurrent\"}",
       SBX_E_RATE_LIMITED, true},
      {503, "{\"code\":503,\"error_code\":\"sandbox_capacity_unavailable\"}",
       SBX_E_UNAVAILABLE, true},
      {504, "", SBX_E_TIMEOUT, true},
      {400, "{\"code\":400,\"message\":\"Timeout cannot be greater than 1 hours\"}",
       SBX_E_INVALID_INPUT, false},
      {302, "", SBX_E_PROVIDER, false},
  };
  struct sbx_service_state* s = open_plain();
  struct rig rig;

  for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++) {
    rig_start(&rig, sbx_e2b_create(s, "x"), *(size_t*) *state);
    rig_answer(&rig, list[i].status, list[i].body);
    assert_int_equal(rig.error.code, list[i].code);
    assert_int_equal(rig.error.retryable, list[i].retryable);
    assert_int_equal(rig.opened, 1);
    rig_end(&rig);
  }
  close_state(s);
}

/* Neither the token nor commands go to a host that is not E2B's. */
static void test_create_foreign_domain(void** state) {
  static const char* const bad[] = {"evil.example", "e2b.app.evil.example",
                                    "169.254.169.254", "x@e2b.app", "e2b.app/",
                                    "xe2b.app"};
  char body[256];
  struct rig rig;

  for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
    struct sbx_service_state* s = open_plain();

    rig_start(&rig, sbx_e2b_create(s, "x"), *(size_t*) *state);
    rig.log.len = 0;
    snprintf(body, sizeof(body),
             "{\"sandboxID\":\"" ID "\",\"envdAccessToken\":\"t\",\"domain\":\"%s\"}",
             bad[i]);
    rig_answer(&rig, 201, body);
    rig_expect(&rig, "open 2 DELETE " API "/sandboxes/" ID "\n");
    rig_answer(&rig, 204, "");
    assert_int_equal(rig.error.code, SBX_E_PROVIDER);
    assert_non_null(strstr(rig.error.message, "domain"));
    assert_null(s->id);
    rig_end(&rig);
    close_state(s);
  }
}

static void test_create_undo(void** state) {
  size_t piece = *(size_t*) *state;
  struct sbx_service_state* s = open_plain();
  struct rig rig;

  /* The sandbox does not answer. */
  rig_start(&rig, sbx_e2b_create(s, "x"), piece);
  rig_answer(&rig, 201, CREATED);
  rig.log.len = 0;
  rig_answer(&rig, 502, "{\"sandboxId\":\"x\",\"message\":\"The sandbox was not "
                        "found\",\"code\":502}");
  rig_expect(&rig, "open 3 DELETE " API "/sandboxes/" ID "\n");
  rig_answer(&rig, 204, "");
  rig_expect(&rig, "done unavailable\n");
  assert_null(s->id);
  rig_end(&rig);
  /* Cancelled while it is on its way. */
  rig_start(&rig, sbx_e2b_create(s, "x"), piece);
  rig.log.len = 0;
  rig_event(&rig, SBX_STEP_CANCEL, 0);
  rig_expect(&rig, "");
  rig_answer(&rig, 201, CREATED);
  rig_expect(&rig, "open 2 DELETE " API "/sandboxes/" ID "\n");
  rig_answer(&rig, 204, "");
  rig_expect(&rig, "done aborted\n");
  rig_end(&rig);
  /* In the second request. */
  rig_start(&rig, sbx_e2b_create(s, "x"), piece);
  rig_answer(&rig, 201, CREATED);
  rig.log.len = 0;
  rig_event(&rig, SBX_STEP_DEADLINE, 0);
  rig_expect(&rig, "close 2\nopen 3 DELETE " API "/sandboxes/" ID "\n");
  rig_event(&rig, SBX_STEP_FAILED, 3);
  rig_expect(&rig, "done timeout\n");
  rig_end(&rig);
  close_state(s);
}

/* ---- life ---- */

static void test_life(void** state) {
  size_t piece = *(size_t*) *state;
  struct sbx_service_state* s = open_running("0.6.10");
  struct rig rig;

  rig_start(&rig, sbx_e2b_connect(s), piece);
  rig_expect(&rig, "open 1 POST " API "/v2/sandboxes/" ID
                   "/connect {\"timeout\":300}\n");
  rig_answer(&rig, 200, "{\"sandboxID\":\"" ID "\",\"envdAccessToken\":\"tok-2\","
                        "\"envdVersion\":\"v0.5.10\",\"trafficAccessToken\":null}");
  rig_expect(&rig, "done well\n");
  assert_string_equal(((struct sbx_e2b*) s)->token, "tok-2");
  assert_int_equal(((struct sbx_e2b*) s)->version, SBX_E2B_VERSION(0, 5, 10));
  rig_end(&rig);

  rig_start(&rig, sbx_e2b_stop(s), piece);
  rig_expect(&rig, "open 1 POST " API "/sandboxes/" ID "/pause {}\n");
  rig_answer(&rig, 409, "{\"code\":409,\"message\":\"is already paused\"}");
  rig_expect(&rig, "open 2 GET " API "/sandboxes/" ID "\n");
  rig_answer(&rig, 200, "{\"state\":\"paused\"}");
  rig_expect(&rig, "done well\n");
  rig_end(&rig);

  rig_start(&rig, sbx_e2b_stop(s), piece);
  rig_answer(&rig, 409, "{}");
  rig_answer(&rig, 200, "{\"state\":\"running\"}");
  assert_int_equal(rig.error.code, SBX_E_CONFLICT);
  assert_true(rig.error.retryable);
  rig_end(&rig);

  rig_start(&rig, sbx_e2b_touch(s), piece);
  rig_expect(&rig, "open 1 POST " API "/sandboxes/" ID
                   "/refreshes {\"duration\":300}\n");
  rig_answer(&rig, 405, "");
  rig_expect(&rig, "open 2 POST " API "/sandboxes/" ID
                   "/timeout {\"timeout\":300}\n");
  rig_answer(&rig, 204, "");
  rig_expect(&rig, "done well\n");
  rig_end(&rig);

  rig_start(&rig, sbx_e2b_probe(s), piece);
  rig_answer(&rig, 200, "{\"state\":\"running\"}");
  rig_expect(&rig, "open 1 GET " API "/sandboxes/" ID "\nemit 1 \ndone well\n");
  rig_end(&rig);
  rig_start(&rig, sbx_e2b_probe(s), piece);
  rig.log.len = 0;
  rig_answer(&rig, 404, "{\"code\":404,\"message\":\"doesn't exist\"}");
  rig_expect(&rig, "done well\n");
  rig_end(&rig);
  rig_start(&rig, sbx_e2b_probe(s), piece);
  rig_answer(&rig, 500, "");
  assert_int_equal(rig.error.code, SBX_E_PROVIDER);
  rig_end(&rig);

  rig_start(&rig, sbx_e2b_destroy(s), piece);
  rig_expect(&rig, "open 1 DELETE " API "/sandboxes/" ID "\n");
  rig_answer(&rig, 404, "{\"code\":404}");
  rig_expect(&rig, "done well\n");
  assert_null(s->id);
  rig_end(&rig);
  rig_start(&rig, sbx_e2b_connect(s), piece);
  assert_int_equal(rig.error.code, SBX_E_UNAVAILABLE);
  rig_end(&rig);
  close_state(s);
}

/* ---- processes ---- */

static const char* const echo_argv[] = {"/bin/bash", "-c", "echo out"};
static const char* const echo_env[] = {"FOO=b=r"};
static const struct sbx_start_spec echo_spec = {
    .argv = echo_argv, .argc = 3, .cwd = "/tmp", .env = echo_env, .envc = 1,
    .timeout_ms = 5000};

static void frame(struct rig* rig, unsigned flags, const char* json) {
  size_t len;
  char* bytes = sbx_envelope_encode(flags, json, strlen(json), &len);

  assert_non_null(bytes);
  assert_int_equal(rig_bytes(rig, 1, bytes, len), 0);
  free(bytes);
}

static void stream_head(struct rig* rig) {
  assert_int_equal(rig_head(rig, 1, 200, "content-type",
                            "application/connect+json"), 0);
}

static void start_process(struct rig* rig, struct sbx_service_state* s,
                          const struct sbx_start_spec* spec, size_t piece) {
  rig_start(rig, sbx_e2b_start(s, spec), piece);
  stream_head(rig);
  frame(rig, 0, "{\"event\": {\"start\":{\"pid\":513}}}");
  rig->log.len = 0;
}

static void test_run(void** state) {
  struct sbx_service_state* s = open_running("0.6.10");
  struct rig rig;

  rig_start(&rig, sbx_e2b_start(s, &echo_spec), *(size_t*) *state);
  assert_true(rig_has_header(&rig, "Content-Type: application/connect+json"));
  assert_true(rig_has_header(&rig, "Connect-Timeout-Ms: 5000"));
  assert_true(rig_has_header(&rig, "Keepalive-Ping-Interval: 50"));
  assert_true(rig_has_header(&rig, "X-Access-Token: tok-envd"));
  assert_false(rig.flags & SBX_HTTP_IDEMPOTENT);
  assert_int_equal(rig.idle_ms, 150000);
  rig_expect(&rig, "open 1 POST " ENVD "/process.Process/Start \\00\\00\\00\\00h"
                   "{\"process\":{\"cmd\":\"/bin/bash\",\"args\":[\"-c\",\"echo "
                   "out\"],\"envs\":{\"FOO\":\"b=r\"},\"cwd\":\"/tmp\"},\"stdin\":"
                   "false}\n");
  stream_head(&rig);
  frame(&rig, 0, "{\"event\": {\"start\":{\"pid\":513}}}");
  frame(&rig, 0, "{\"event\":{\"keepalive\":{}}}");
  frame(&rig, 0, "{\"event\":{\"data\":{\"stdout\":\"b3V0Cg==\"}}}");
  frame(&rig, 0, "{\"event\":{\"data\":{\"stderr\":\"ZXJyCg\"}}, \"new\":1}");
  frame(&rig, 0, "{\"event\":{\"surprise\":{\"x\":1}}}");
  rig_expect(&rig, "emit 2 \\01\\02\\00\\00\nemit 3 out\\0a\nemit 4 err\\0a\n");
  frame(&rig, 0, "{\"event\":{\"end\":{\"exitCode\":7,\"exited\":true,\"status\":"
                 "\"exit status 7\",\"error\":\"exit status 7\"}}}");
  rig_expect(&rig, "emit 5 \\07\\00\\00\\00\\00\\00\\00\\00\ntimer 1 1000\n");
  frame(&rig, 2, "{}");
  rig_expect(&rig, "");
  rig_event(&rig, SBX_STEP_END, 1);
  rig_expect(&rig, "done well\n");
  rig_end(&rig);
  close_state(s);
}

/* The same message in every spelling that JSON allows. */
static void test_spellings(void** state) {
  static const struct {
    const char* json;
    const char* log;
  } list[] = {
      {"{\"event\":{\"data\":{\"stdout\":\"YQ==\"}}}", "emit 3 a\n"},
      {" {\n\"event\" : { \"data\":\t{\"stderr\" :\"YQ==\" } } }\n", "emit 4 a\n"},
      {"{\"event\":{\"data\":{\"stdout\":\"YQ\"}}}", "emit 3 a\n"},
      {"{\"event\":{\"data\":{\"stdout\":\"\"}}}", ""},
      {"{\"event\":{\"data\":{\"stdout\":\"\\/\\/8=\"}}}", "emit 3 \\ff\\ff\n"},
      {"{\"event\":{\"data\":{\"stdout\":\"YQ==\",\"stderr\":\"Yg==\"}}}",
       "emit 3 a\nemit 4 b\n"},
      {"{\"event\":{\"data\":{\"stdout\":\"Yg==\"}},\"x\":1}", "emit 3 b\n"},
      {"{\"event\":{\"data\":{\"stdout\":null}}}", ""},
      {"{\"event\":{\"data\":{\"stdout\":\"YQ==\"}}}}", "done provider_error\n"},
      {"{\"event\":{\"data\":{\"stdout\":\"YQ==\"}}", "done provider_error\n"},
      {"{\"event\":{\"data\":{\"stdout\":\"YQ==}}}", "done provider_error\n"},
  };
  struct sbx_service_state* s = open_running("0.6.10");
  struct rig rig;

  for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++) {
    start_process(&rig, s, &echo_spec, *(size_t*) *state);
    frame(&rig, 0, list[i].json);
    rig_expect(&rig, list[i].log);
    rig_end(&rig);
  }
  close_state(s);
}

/* The end is known: what breaks after it does not count. */
static void test_broken_after_the_end(void** state) {
  static const enum sbx_step_event_type last[] = {
      SBX_STEP_FAILED, SBX_STEP_END, SBX_STEP_TIMER, SBX_STEP_CANCEL,
      SBX_STEP_DEADLINE};
  struct sbx_service_state* s = open_running("0.6.10");
  struct rig rig;

  for (size_t i = 0; i < sizeof(last) / sizeof(last[0]); i++) {
    start_process(&rig, s, &echo_spec, *(size_t*) *state);
    frame(&rig, 0, "{\"event\":{\"end\":{\"status\":\"exit status 0\"}}}");
    rig_event(&rig, last[i], 1);
    assert_int_equal(rig.dones, 1);
    assert_int_equal(rig.error.code, 0);
    rig_end(&rig);
  }
  close_state(s);
}

static void test_exits(void** state) {
  static const struct {
    int64_t code;
    const char* status;
    int exit, signal;
  } list[] = {
      {0, "exit status 0", 0, 0},
      {255, "exit status 255", 255, 0},
      {-1, "signal: killed", 137, 9},
      {-1, "signal: terminated", 143, 15},
      {-1, "signal: segmentation fault (core dumped)", 139, 11},
      {-1, "signal: interrupt", 130, 2},
      {-1, "signal: user defined signal 1", 138, 10},
      {-1, "signal: signal 34", 162, 34},
      {-1, "signal: nonsense", 255, 0},
      {-1, "", 255, 0},
  };

  (void) state;
  for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++) {
    struct sbx_emit_exit e = sbx_e2b_exit(list[i].code, list[i].status);

    assert_int_equal(e.exit_code, list[i].exit);
    assert_int_equal(e.signal, list[i].signal);
  }
}

static void test_input(void** state) {
  static const char eof_log[] =
      "open 4 POST " ENVD
      "/process.Process/CloseStdin {\"process\":{\"pid\":513}}\n";
  struct sbx_start_spec spec = echo_spec;
  struct sbx_service_state* s = open_running("0.6.10");
  char big[40000];
  uint32_t number = 15;
  struct rig rig;

  memset(big, 'x', sizeof(big));
  spec.stdin_pipe = true;
  rig_start(&rig, sbx_e2b_start(s, &spec), *(size_t*) *state);
  /* Before the start nothing may be sent. */
  rig_input(&rig, SBX_INPUT_BYTES, "hi", 2);
  rig_input(&rig, SBX_INPUT_BYTES, big, sizeof(big));
  rig_input(&rig, SBX_INPUT_EOF, NULL, 0);
  assert_int_equal(rig.opened, 1);
  stream_head(&rig);
  rig.log.len = 0;
  frame(&rig, 0, "{\"event\":{\"start\":{\"pid\":513}}}");
  sbx_text_add(&rig.log, "", 1);
  assert_non_null(strstr(rig.log.bytes, "\"stdin\":\"aGl4eHh4")); /* together */
  rig.log.len = 0;
  rig_answer(&rig, 200, "{}");
  assert_int_equal(rig.opened, 3);
  assert_memory_equal(rig.log.bytes, "emit 6 \\01\\00\\00\\00\nopen 3", 25);
  rig.log.len = 0;
  rig_answer(&rig, 200, "{}");
  sbx_text_add(&rig.log, "", 1);
  assert_non_null(strstr(rig.log.bytes, eof_log));
  assert_memory_equal(rig.log.bytes, "emit 6 \\01\\00\\00\\00\n", 18);
  rig.log.len = 0;
  rig_answer(&rig, 200, "{}");
  rig_expect(&rig, "");
  rig_input(&rig, SBX_INPUT_SIGNAL, &number, sizeof(number));
  rig_expect(&rig, "open 5 POST " ENVD "/process.Process/SendSignal {\"process\":"
                   "{\"pid\":513},\"signal\":\"SIGNAL_SIGTERM\"}\n");
  rig_answer(&rig, 404, "{\"code\":\"not_found\"}");
  number = 2;
  rig_input(&rig, SBX_INPUT_SIGNAL, &number, sizeof(number));
  assert_true(rig_has_header(&rig, "Authorization: Basic cm9vdDo="));
  rig.log.len = 0;
  rig_event(&rig, SBX_STEP_CANCEL, 0);
  rig_expect(&rig, "done aborted\n");
  rig_end(&rig);
  close_state(s);
}

/* A command with two pieces of input that have not been answered. */
static struct sbx_service_state* start_with_input(struct rig* rig,
                                                  size_t piece) {
  struct sbx_start_spec spec = echo_spec;
  struct sbx_service_state* s = open_running("0.6.10");

  spec.stdin_pipe = true;
  start_process(rig, s, &spec, piece);
  rig_input(rig, SBX_INPUT_BYTES, "a", 1);
  rig_input(rig, SBX_INPUT_BYTES, "b", 1);
  rig->log.len = 0;
  return s;
}

static void test_input_refused(void** state) {
  struct rig rig;
  struct sbx_service_state* s = start_with_input(&rig, *(size_t*) *state);

  rig_answer(&rig, 500, "{\"code\":\"internal\",\"message\":\"broken pipe\"}");
  rig_input(&rig, SBX_INPUT_BYTES, "c", 1);
  rig_expect(&rig, "emit 11 \nemit 11 \n"); /* none of it is written */
  assert_int_equal(rig.dones, 0);
  rig_end(&rig);
  close_state(s);
}

/* Bytes are over, and others may come; an end nobody would tell ends it. */
static void test_input_denied(void** state) {
  struct rig rig;
  struct sbx_service_state* s = start_with_input(&rig, *(size_t*) *state);

  rig_answer(&rig, 401, "{\"code\":\"unauthenticated\"}");
  rig_expect(&rig, "emit 12 \\02\\00\\00\\00\\16\\fc\\ff\\ff\n");
  rig_input(&rig, SBX_INPUT_BYTES, "c", 1);
  rig_input(&rig, SBX_INPUT_EOF, NULL, 0);
  rig.log.len = 0;
  rig_answer(&rig, 403, "{\"code\":\"permission_denied\"}");
  rig_expect(&rig, "emit 12 \\01\\00\\00\\00\\15\\fc\\ff\\ff\n"
                   "open 4 POST " ENVD "/process.Process/CloseStdin {"
                   "\"process\":{\"pid\":513}}\n");
  rig_answer(&rig, 401, "{}");
  rig_expect(&rig, "emit 12 \\00\\00\\00\\00\\16\\fc\\ff\\ff\n"
                   "done authentication\n");
  rig_end(&rig);
  close_state(s);
}

/* A command that was asked to end its input, with this answer. */
static struct sbx_service_state* start_closing(struct rig* rig,
                                               const char* version, int status,
                                               const char* body, size_t piece) {
  struct sbx_start_spec spec = echo_spec;
  struct sbx_service_state* s = open_running(version);

  spec.stdin_pipe = true;
  start_process(rig, s, &spec, piece);
  rig_input(rig, SBX_INPUT_EOF, NULL, 0);
  rig->log.len = 0;
  rig_answer(rig, status, body);
  return s;
}

#define NO_END "emit 12 \\00\\00\\00\\00"

/* Told at once, after the wait for the command's own end, or as a lost one. */
static void test_closing(void** state) {
  static const char page[] = "404 page not found\n";
  static const struct {
    int status;
    const char *body, *at_once, *late;
  } list[] = {
      {401, "{}", NO_END "\\16\\fc\\ff\\ff\ndone authentication\n", NULL},
      {403, "{}", NO_END "\\15\\fc\\ff\\ff\ndone permission\n", NULL},
      {501, "{}", NO_END "\\0f\\fc\\ff\\ff\ndone unsupported\n", NULL},
      {404, page, NO_END "\\0f\\fc\\ff\\ff\ndone unsupported\n", NULL},
      {404, "{\"code\":\"unimplemented\"}",
       NO_END "\\0f\\fc\\ff\\ff\ndone unsupported\n", NULL},
      {404, "{\"code\":\"not_found\"}", "timer 2 5000\n",
       NO_END "\\14\\fc\\ff\\ff\ndone not_found\n"},
      {500, "{\"code\":\"internal\"}", "timer 2 1000\n",
       "done unavailable\n"},
      {409, "{}", "done unavailable\n", NULL},
      {429, "{}", "done unavailable\n", NULL},
      {502, "<html>", "done unavailable\n", NULL},
  };
  struct rig rig;

  for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++) {
    struct sbx_service_state* s =
        start_closing(&rig, "0.6.10", list[i].status, list[i].body,
                      *(size_t*) *state);

    rig_expect(&rig, list[i].at_once);
    if (list[i].late != NULL) {
      rig_event(&rig, SBX_STEP_TIMER, 2);
      rig_expect(&rig, list[i].late);
    }
    assert_int_equal(rig.dones, 1);
    rig_end(&rig);
    close_state(s);
  }
}

/* The command had ended: that explains the refusal, and is what counts. */
static void test_closing_late(void** state) {
  struct rig rig;
  struct sbx_service_state* s =
      start_closing(&rig, "0.6.10", 404, "{\"code\":\"not_found\"}",
                    *(size_t*) *state);

  frame(&rig, 0, "{\"event\":{\"end\":{\"status\":\"exit status 0\"}}}");
  rig.log.len = 0;
  rig_event(&rig, SBX_STEP_TIMER, 2);
  rig_expect(&rig, "");
  assert_int_equal(rig.dones, 0);
  rig_event(&rig, SBX_STEP_END, 1);
  assert_int_equal(rig.error.code, 0);
  rig_end(&rig);
  close_state(s);
}

/* Where the end goes as bytes, a refusal says that nobody reads them. */
static void test_closing_old(void** state) {
  static const char broken[] = "{\"code\":\"internal\"}";
  struct rig rig;
  struct sbx_service_state* s =
      start_closing(&rig, "0.5.1", 500, broken, *(size_t*) *state);

  rig_expect(&rig, "emit 11 \n");
  assert_int_equal(rig.dones, 0);
  rig_end(&rig);
  close_state(s);
}

static void test_terminal(void** state) {
  static const char* const argv[] = {"/bin/bash", "-i", "-l"};
  const uint32_t size[2] = {100, 30};
  struct sbx_start_spec spec = {.argv = argv, .argc = 3, .columns = 80,
                                .rows = 24, .as_root = true};
  struct sbx_service_state* s = open_running("0.6.10");
  struct rig rig;

  rig_start(&rig, sbx_e2b_start(s, &spec), *(size_t*) *state);
  assert_true(rig_has_header(&rig, "Authorization: Basic cm9vdDo="));
  rig_expect(&rig, "open 1 POST " ENVD "/process.Process/Start \\00\\00\\00\\00W"
                   "{\"process\":{\"cmd\":\"/bin/bash\",\"args\":[\"-i\",\"-l\"]},"
                   "\"pty\":{\"size\":{\"cols\":80,\"rows\":24}}}\n");
  stream_head(&rig);
  frame(&rig, 0, "{\"event\":{\"start\":{\"pid\":513}}}");
  frame(&rig, 0, "{\"event\":{\"data\":{\"pty\":\"JCA=\"}}}");
  rig_expect(&rig, "emit 2 \\01\\02\\00\\00\nemit 3 $ \n");
  rig_input(&rig, SBX_INPUT_RESIZE, size, sizeof(size));
  rig_expect(&rig, "open 2 POST " ENVD "/process.Process/Update {\"process\":{"
                   "\"pid\":513},\"pty\":{\"size\":{\"cols\":100,\"rows\":30}}}\n");
  rig_input(&rig, SBX_INPUT_EOF, NULL, 0);
  rig_expect(&rig, "open 3 POST " ENVD "/process.Process/SendInput {\"process\":{"
                   "\"pid\":513},\"input\":{\"pty\":\"BA==\"}}\n");
  rig_answer(&rig, 200, "{}");
  rig_input(&rig, SBX_INPUT_BYTES, "a", 1);
  rig_expect(&rig, "open 4 POST " ENVD "/process.Process/SendInput {\"process\":{"
                   "\"pid\":513},\"input\":{\"pty\":\"YQ==\"}}\n");
  rig_end(&rig);
  close_state(s);
}

static void test_watch(void** state) {
  struct sbx_service_state* s = open_running("0.6.10");
  size_t piece = *(size_t*) *state;
  struct rig rig;

  rig_start(&rig, sbx_e2b_watch(s, "/w/x", true), piece);
  rig_expect(&rig, "open 1 POST " ENVD "/filesystem.Filesystem/WatchDir "
                   "\\00\\00\\00\\00 {\"path\":\"/w/x\",\"recursive\":true}\n");
  assert_false(rig.flags & SBX_HTTP_IDEMPOTENT);
  stream_head(&rig);
  frame(&rig, 0, "{\"start\":{}}");
  frame(&rig, 0, "{\"filesystem\":{\"name\":\"a\",\"type\":\"EVENT_TYPE_CREATE"
                 "\"}}");
  frame(&rig, 0, "{\"keepalive\":{}}");
  frame(&rig, 0, "{\"filesystem\":{\"name\":\"b/c\",\"type\":\"EVENT_TYPE_CHMOD"
                 "\",\"entry\":{}}, \"new\":1}");
  frame(&rig, 0, "{\"filesystem\":{\"name\":\"b\",\"type\":\"EVENT_TYPE_NEW\"}}");
  rig_expect(&rig, "emit 9 \nemit 10 \\01a\nemit 10 \\05b/c\n");
  frame(&rig, 2, "{\"error\":{\"code\":\"unavailable\",\"message\":\"gone\"}}");
  rig_expect(&rig, "done unavailable\n");
  assert_int_not_equal(rig.error.sys, 0);
  rig_end(&rig);

  rig_start(&rig, sbx_e2b_watch(s, "/w", false), piece);
  rig_expect(&rig, "open 1 POST " ENVD "/filesystem.Filesystem/WatchDir "
                   "\\00\\00\\00\\00\\0d{\"path\":\"/w\"}\n");
  stream_head(&rig);
  frame(&rig, 2, "{\"error\":{\"code\":\"not_found\",\"message\":\"path\"}}");
  rig_expect(&rig, "done not_found\n");
  rig_end(&rig);

  rig_start(&rig, sbx_e2b_watch(s, "/w", false), piece);
  stream_head(&rig);
  frame(&rig, 0, "{\"filesystem\":{\"name\":\"early\"}}");
  assert_int_equal(rig.error.code, SBX_E_PROVIDER);
  rig_end(&rig);

  rig_start(&rig, sbx_e2b_watch(s, "/w", false), piece);
  stream_head(&rig);
  frame(&rig, 0, "{\"start\":{}}");
  rig_event(&rig, SBX_STEP_END, 1);
  assert_int_equal(rig.error.code, SBX_E_UNAVAILABLE);
  rig_end(&rig);
  close_state(s);

  s = open_running("0.1.1");
  rig_start(&rig, sbx_e2b_watch(s, "/w", true), piece);
  rig_expect(&rig, "done unsupported\n");
  rig_end(&rig);
  close_state(s);
}

static struct sbx_machine* attach_to(struct sbx_service_state* s,
                                     uint32_t pid) {
  const struct sbx_attach_spec spec = {.pid = pid};

  return sbx_e2b_attach(s, &spec);
}

/* Beside another stream: input alone, by pid. */
static void test_input_only(void** state) {
  static const struct {
    int status;
    const char* log;
  } refusals[] = {{404, "done not_found\n"},
                  {500, "done conflict\n"},
                  {401, "done authentication\n"},
                  {403, "done permission\n"}};
  const struct sbx_attach_spec spec = {.pid = 9, .input_only = true};
  struct sbx_service_state* s = open_running("0.6.10");
  size_t piece = *(size_t*) *state;
  struct rig rig;

  rig_start(&rig, sbx_e2b_attach(s, &spec), piece);
  rig_expect(&rig, "");
  rig_input(&rig, SBX_INPUT_BYTES, "a", 1);
  rig_expect(&rig, "open 2 POST " ENVD "/process.Process/SendInput {\"process\":"
                   "{\"pid\":9},\"input\":{\"stdin\":\"YQ==\"}}\n");
  rig_answer(&rig, 200, "{}");
  rig_expect(&rig, "emit 6 \\01\\00\\00\\00\n");
  rig_input(&rig, SBX_INPUT_EOF, NULL, 0);
  rig_expect(&rig, "open 3 POST " ENVD "/process.Process/CloseStdin {\"process\":"
                   "{\"pid\":9}}\n");
  rig_answer(&rig, 200, "{}");
  rig_expect(&rig, "");
  rig_end(&rig);

  for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
    rig_start(&rig, sbx_e2b_attach(s, &spec), piece);
    rig_input(&rig, SBX_INPUT_BYTES, "a", 1);
    rig.log.len = 0;
    rig_answer(&rig, refusals[i].status, "{\"message\":\"no\"}");
    rig_expect(&rig, refusals[i].log);
    rig_end(&rig);
  }
  close_state(s);

  s = open_running("0.5.1");
  rig_start(&rig, sbx_e2b_attach(s, &spec), piece);
  rig_input(&rig, SBX_INPUT_BYTES, "a", 1);
  rig_expect(&rig, "open 2 POST " ENVD "/process.Process/SendInput {\"process\":"
                   "{\"pid\":9},\"input\":{\"stdin\":\"MQph\"}}\n");
  rig_end(&rig);
  close_state(s);
}

/* Nobody knows whether it arrived: it is not told as written. */
static void test_input_broken(void** state) {
  struct sbx_start_spec spec = echo_spec;
  struct sbx_service_state* s = open_running("0.6.10");
  size_t piece = *(size_t*) *state;
  struct rig rig;

  spec.stdin_pipe = true;
  start_process(&rig, s, &spec, piece);
  rig_input(&rig, SBX_INPUT_BYTES, "a", 1);
  rig.log.len = 0;
  rig_event(&rig, SBX_STEP_FAILED, 2);
  rig_expect(&rig, "done unavailable\n");
  rig_end(&rig);
  start_process(&rig, s, &spec, piece);
  rig_input(&rig, SBX_INPUT_BYTES, "a", 1);
  rig.log.len = 0;
  assert_int_equal(rig_head(&rig, rig.opened, 502, NULL, NULL), 0);
  rig_expect(&rig, "done unavailable\n");
  assert_int_not_equal(rig.error.sys, 0);
  rig_end(&rig);
  close_state(s);
}

static void test_attach(void** state) {
  struct sbx_service_state* s = open_running("0.6.10");
  struct rig rig;

  rig_start(&rig, attach_to(s, 77), *(size_t*) *state);
  rig_expect(&rig, "open 1 POST " ENVD "/process.Process/Connect \\00\\00\\00\\00"
                   "\\16{\"process\":{\"pid\":77}}\n");
  stream_head(&rig);
  frame(&rig, 2, "{\"error\":{\"code\":\"not_found\",\"message\":\"process with pid "
                 "77 not found\"}}");
  rig_expect(&rig, "done not_found\n");
  rig_end(&rig);
  close_state(s);
}

static void test_stream_errors(void** state) {
  static const struct {
    const char* trailer;
    int code;
    bool ran; /* it may have been run */
  } list[] = {
      {"{\"error\":{\"code\":\"invalid_argument\",\"message\":\"cwd '/x' does not "
       "exist\"}}", SBX_E_INVALID_INPUT, false},
      {"{\"error\":{\"code\":\"deadline_exceeded\",\"message\":\"context\"}}",
       SBX_E_TIMEOUT, false},
      {"{\"error\":{\"code\":\"unavailable\",\"message\":\"ended before\"}}",
       SBX_E_UNAVAILABLE, true},
      {"{\"error\":{\"code\":\"unauthenticated\",\"message\":\"invalid username: "
       "'x'\"}}", SBX_E_AUTHENTICATION, false},
      {"{\"error\":{\"code\":\"brand_new\"}}", SBX_E_PROVIDER, false},
      {"{}", SBX_E_PROVIDER, false},
      {"nonsense", SBX_E_PROVIDER, false},
  };
  struct sbx_service_state* s = open_running("0.6.10");
  struct rig rig;

  for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++) {
    start_process(&rig, s, &echo_spec, *(size_t*) *state);
    frame(&rig, 2, list[i].trailer);
    assert_int_equal(rig.dones, 1);
    assert_int_equal(rig.error.code, list[i].code);
    if (list[i].ran) assert_int_not_equal(rig.error.sys, 0);
    rig_end(&rig);
  }
  /* Cut off, in the middle of a message and between two. */
  for (int i = 0; i < 2; i++) {
    start_process(&rig, s, &echo_spec, *(size_t*) *state);
    if (i == 0) rig_bytes(&rig, 1, "\0\0\0\0\x10{", 6);
    rig_event(&rig, SBX_STEP_END, 1);
    assert_int_equal(rig.error.code, SBX_E_UNAVAILABLE);
    assert_int_not_equal(rig.error.sys, 0);
    rig_end(&rig);
  }
  close_state(s);
}

static void test_start_refused(void** state) {
  static const struct {
    int status;
    const char* body;
    int code;
    bool nothing_ran;
  } list[] = {
      {502, "{\"sandboxId\":\"i\",\"message\":\"The sandbox was not found\","
            "\"code\":502}", SBX_E_UNAVAILABLE, true},
      {502, "<html>Bad Gateway</html>", SBX_E_UNAVAILABLE, false},
      {401, "{\"code\":401,\"message\":\"unauthorized access\"}",
       SBX_E_AUTHENTICATION, false},
      {429, "{\"message\":\"too many concurrent incoming connections\"}",
       SBX_E_RATE_LIMITED, false},
      {404, "404 page not found\n", SBX_E_NOT_FOUND, false},
      {200, "<html>captive portal</html>", SBX_E_PROVIDER, false},
  };
  struct sbx_service_state* s = open_running("0.6.10");
  struct rig rig;

  for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++) {
    rig_start(&rig, sbx_e2b_start(s, &echo_spec), *(size_t*) *state);
    rig_answer(&rig, list[i].status, list[i].body);
    assert_int_equal(rig.error.code, list[i].code);
    assert_int_equal(rig.error.code == SBX_E_UNAVAILABLE && rig.error.sys == 0,
                     list[i].nothing_ran);
    rig_end(&rig);
  }
  close_state(s);
}

static void test_hostile_streams(void** state) {
  static const char* const bad[] = {
      "{\"event\":{\"start\":{\"pid\":0}}}",
      "{\"event\":{\"start\":{\"pid\":-1}}}",
      "{\"event\":{\"start\":{\"pid\":99999999999}}}",
      "{\"event\":{\"data\":{\"stdout\":\"YQ==\"}}}", /* before the start */
      "{\"event\":{\"end\":{}}}",
      "{\"event\":[]}",
      "{\"event\":",
      "7",
  };
  static const char huge[] = "\0\xff\xff\xff\xff";
  static const char compressed[] = "\1\0\0\0\1x";
  struct sbx_service_state* s = open_running("0.6.10");
  struct rig rig;

  for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
    rig_start(&rig, sbx_e2b_start(s, &echo_spec), *(size_t*) *state);
    stream_head(&rig);
    frame(&rig, 0, bad[i]);
    assert_int_equal(rig.error.code, SBX_E_PROVIDER);
    rig_end(&rig);
  }
  start_process(&rig, s, &echo_spec, *(size_t*) *state);
  frame(&rig, 0, "{\"event\":{\"data\":{\"stdout\":\"a*b\"}}}");
  assert_int_equal(rig.error.code, SBX_E_PROVIDER);
  rig_end(&rig);
  start_process(&rig, s, &echo_spec, *(size_t*) *state);
  rig_bytes(&rig, 1, huge, 5);
  assert_int_equal(rig.error.code, SBX_E_PROVIDER);
  rig_end(&rig);
  start_process(&rig, s, &echo_spec, *(size_t*) *state);
  rig_bytes(&rig, 1, compressed, 6);
  assert_int_equal(rig.error.code, SBX_E_PROVIDER);
  rig_end(&rig);
  close_state(s);
}

static void test_old_envd(void** state) {
  struct sbx_start_spec spec = echo_spec;
  struct sbx_service_state* s = open_running("0.2.9");
  struct rig rig;

  rig_start(&rig, sbx_e2b_start(s, &spec), *(size_t*) *state);
  assert_true(rig_has_header(&rig, "Authorization: Basic dXNlcjo="));
  sbx_text_add(&rig.log, "", 1);
  assert_non_null(strstr(rig.log.bytes, "\"cmd\":\"/bin/sh\",\"args\":[\"-c\",\""
                                        "exec \\\"$@\\\" </dev/null\",\"sh\",\""
                                        "/bin/bash\""));
  rig_end(&rig);
  spec.stdin_pipe = true;
  start_process(&rig, s, &spec, *(size_t*) *state);
  rig_input(&rig, SBX_INPUT_BYTES, "hi", 2);
  rig_expect(&rig, "open 2 POST " ENVD "/process.Process/SendInput {\"process\":{"
                   "\"pid\":513},\"input\":{\"stdin\":\"MgpoaQ==\"}}\n");
  rig_answer(&rig, 200, "{}");
  rig.log.len = 0;
  rig_input(&rig, SBX_INPUT_EOF, NULL, 0);
  rig_expect(&rig, "open 3 POST " ENVD "/process.Process/SendInput {\"process\":{"
                   "\"pid\":513},\"input\":{\"stdin\":\"Lgo=\"}}\n");
  rig_end(&rig);
  rig_start(&rig, sbx_e2b_upload(s, "/a b", "hi", 2), *(size_t*) *state);
  assert_true(rig_has_header(&rig, "Content-Type: multipart/form-data; "
                                   "boundary=sandbox-sdk-native-7d1f0a6c2b9e"));
  rig_expect(&rig, "open 1 POST " ENVD "/files?path=%2Fa%20b&username=user --sandb"
                   "ox-sdk-native-7d1f0a6c2b9e\\0d\\0aContent-Disposition: form-da"
                   "ta; name=\"file\"; filename=\"file\"\\0d\\0aContent-Type: appl"
                   "ication/octet-stream\\0d\\0a\\0d\\0ahi\\0d\\0a--sandbox-sdk-nat"
                   "ive-7d1f0a6c2b9e--\\0d\\0a\n");
  rig_end(&rig);
  close_state(s);
}

/* ---- files, snapshots, network ---- */

static void test_files(void** state) {
  size_t piece = *(size_t*) *state;
  struct sbx_service_state* s = open_running("0.6.10");
  struct rig rig;

  rig_start(&rig, sbx_e2b_upload(s, "/tmp/\xc3\xbc", "a\0b", 3), piece);
  assert_true(rig_has_header(&rig, "Content-Type: application/octet-stream"));
  rig_expect(&rig, "open 1 POST " ENVD "/files?path=%2Ftmp%2F%C3%BC a\\00b\n");
  rig_answer(&rig, 200, "[{\"name\":\"x\"}]");
  rig_expect(&rig, "done well\n");
  rig_end(&rig);
  rig_start(&rig, sbx_e2b_upload(s, "/x", "", 0), piece);
  rig_answer(&rig, 507, "{\"code\":507,\"message\":\"not enough disk space\"}");
  assert_int_equal(rig.error.code, SBX_E_PROVIDER);
  assert_non_null(strstr(rig.error.message, "disk"));
  rig_end(&rig);

  rig_start(&rig, sbx_e2b_download(s, "/x"), 0);
  rig_expect(&rig, "open 1 GET " ENVD "/files?path=%2Fx\n");
  rig_head(&rig, 1, 200, NULL, NULL);
  rig_bytes(&rig, 1, "ab", 2);
  rig_bytes(&rig, 1, "c", 1);
  rig_event(&rig, SBX_STEP_END, 1);
  rig_expect(&rig, "emit 7 ab\nemit 7 c\ndone well\n");
  rig_end(&rig);
  rig_start(&rig, sbx_e2b_download(s, "/x"), piece);
  rig_answer(&rig, 404, "{\"code\":404,\"message\":\"path '/x' does not exist\"}\n");
  assert_int_equal(rig.error.code, SBX_E_FILE_NOT_FOUND);
  rig_end(&rig);
  rig_start(&rig, sbx_e2b_download(s, "/x"), piece);
  rig_answer(&rig, 502, "{\"message\":\"The sandbox was not found\"}");
  assert_int_equal(rig.error.code, SBX_E_UNAVAILABLE);
  rig_end(&rig);
  close_state(s);
}

static void test_snapshots(void** state) {
  size_t piece = *(size_t*) *state;
  struct sbx_service_state* s = open_running("0.6.10");
  struct rig rig;

  rig_start(&rig, sbx_e2b_snapshot_create(s, NULL), piece);
  rig_expect(&rig, "open 1 POST " API "/sandboxes/" ID "/snapshots {}\n");
  assert_false(rig.flags & SBX_HTTP_IDEMPOTENT);
  rig_answer(&rig, 201, "{\"snapshotID\":\"t/s:default\",\"names\":[]}");
  rig_expect(&rig, "emit 8 t/s:default\ndone well\n");
  rig_end(&rig);
  rig_start(&rig, sbx_e2b_snapshot_create(s, "n"), piece);
  rig_answer(&rig, 201, "{\"snapshotID\":\"a\\nb\"}");
  assert_int_equal(rig.error.code, SBX_E_PROVIDER);
  rig_end(&rig);
  rig_start(&rig, sbx_e2b_snapshot_delete(s, "t/s:default"), piece);
  rig_expect(&rig, "open 1 DELETE " API "/templates/t%2Fs%3Adefault\n");
  rig_answer(&rig, 404, "");
  rig_expect(&rig, "done well\n");
  rig_end(&rig);
  rig_start(&rig, sbx_e2b_snapshot_list(s), piece);
  rig_expect(&rig, "open 1 GET " API "/snapshots?sandboxID=" ID "&limit=100\n");
  rig_head(&rig, 1, 200, "x-next-token", "t");
  rig_bytes(&rig, 1, "[{\"snapshotID\":\"a\"}]", 20);
  rig_event(&rig, SBX_STEP_END, 1);
  rig_answer(&rig, 200, "[]");
  rig_expect(&rig, "emit 8 a\nopen 2 GET " API "/snapshots?sandboxID=" ID
                   "&limit=100&nextToken=t\ndone well\n");
  rig_end(&rig);
  close_state(s);
}

static void test_network(void** state) {
  static const char* const hosts[] = {"npm", "*.example.com"};
  static const char* const bad[] = {"example.com:8443", "[::1]", "http://x", "*"};
  size_t piece = *(size_t*) *state;
  struct sbx_service_state* s = open_running("0.6.10");
  struct rig rig;

  rig_start(&rig, sbx_e2b_set_network(s, hosts, 2), piece);
  rig_expect(&rig, "open 1 PUT " API "/sandboxes/" ID "/network {\"allowOut\":["
                   "\"registry.npmjs.org\",\"registry.yarnpkg.com\",\"nodejs.org\","
                   "\"*.example.com\"],\"denyOut\":[\"0.0.0.0/0\"]}\n");
  rig_answer(&rig, 204, "");
  rig_expect(&rig, "done well\n");
  assert_string_equal(((struct sbx_e2b*) s)->network.shown, "npm, *.example.com");
  rig_end(&rig);
  rig_start(&rig, sbx_e2b_set_network(s, NULL, 0), piece);
  rig_expect(&rig, "open 1 PUT " API "/sandboxes/" ID
                   "/network {\"allowOut\":[],\"denyOut\":[\"0.0.0.0/0\"]}\n");
  rig_end(&rig);
  for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
    rig_start(&rig, sbx_e2b_set_network(s, &bad[i], 1), piece);
    assert_int_equal(rig.error.code, SBX_E_INVALID_INPUT);
    rig_end(&rig);
  }
  close_state(s);
}

static void test_ports(void** state) {
  struct sbx_service_state* s = open_running("0.6.10");
  char url[256], header[256];

  (void) state;
  assert_int_equal(sbx_service_e2b.port_url(s, 3000, url, sizeof(url), header,
                                            sizeof(header)), 0);
  assert_string_equal(url, "https://3000-" ID ".e2b.app");
  assert_string_equal(header, "");
  ((struct sbx_e2b*) s)->traffic = strdup("tt");
  assert_int_equal(sbx_service_e2b.port_url(s, 80, url, sizeof(url), header,
                                            sizeof(header)), 0);
  assert_string_equal(header, "e2b-traffic-access-token: tt");
  assert_int_not_equal(sbx_service_e2b.port_url(s, 80, url, 8, header,
                                                sizeof(header)), 0);
  close_state(s);
}

/* ---- any event at any moment ---- */

typedef struct sbx_machine* (*maker)(struct sbx_service_state* s);

static struct sbx_machine* make_find(struct sbx_service_state* s) {
  return sbx_e2b_find(s, "x");
}
static struct sbx_machine* make_create(struct sbx_service_state* s) {
  return sbx_e2b_create(s, "x");
}
static struct sbx_machine* make_start(struct sbx_service_state* s) {
  return sbx_e2b_start(s, &echo_spec);
}
static struct sbx_machine* make_attach(struct sbx_service_state* s) {
  return attach_to(s, 5);
}
static struct sbx_machine* make_upload(struct sbx_service_state* s) {
  return sbx_e2b_upload(s, "/x", "y", 1);
}
static struct sbx_machine* make_download(struct sbx_service_state* s) {
  return sbx_e2b_download(s, "/x");
}

/* After `steps` parts of an answer: the end comes, and comes once. */
static void interrupt(maker make, unsigned steps,
                      enum sbx_step_event_type type) {
  struct sbx_service_state* s = open_running("0.6.10");
  struct rig rig;

  rig_start(&rig, make(s), 0);
  if (steps > 0) rig_head(&rig, 1, 200, "content-type", "application/connect+json");
  if (steps > 1) rig_bytes(&rig, 1, "\0\0\0", 3);
  if (steps > 2) rig_input(&rig, SBX_INPUT_BYTES, "x", 1);
  rig_event(&rig, type, 1);
  /* What still has to be taken back is answered. */
  for (int i = 0; rig.dones == 0 && i < 5; i++)
    rig_event(&rig, SBX_STEP_FAILED, rig.opened);
  assert_int_equal(rig.dones, 1);
  assert_int_not_equal(rig.error.code, 0);
  rig_end(&rig);
  close_state(s);
}

static void test_interrupted(void** state) {
  static const maker makers[] = {
      make_find,     make_create,   sbx_e2b_connect, sbx_e2b_stop,
      sbx_e2b_touch, sbx_e2b_probe, sbx_e2b_destroy, make_start,
      make_attach,   make_upload,   make_download,   sbx_e2b_snapshot_list};
  static const enum sbx_step_event_type types[] = {
      SBX_STEP_CANCEL, SBX_STEP_DEADLINE, SBX_STEP_FAILED};

  (void) state;
  for (size_t m = 0; m < sizeof(makers) / sizeof(makers[0]); m++)
    for (unsigned steps = 0; steps < 3; steps++)
      for (size_t t = 0; t < 3; t++) interrupt(makers[m], steps, types[t]);
}

static void test_secrets(void** state) {
  struct sbx_service_state* s = open_running("0.6.10");
  struct rig rig;

  (void) state;
  rig_start(&rig, sbx_e2b_connect(s), 0);
  rig_answer(&rig, 401, "{\"code\":401,\"message\":\"bad key " KEY "\"}");
  assert_int_equal(rig.error.code, SBX_E_AUTHENTICATION);
  assert_null(strstr(rig.error.message, KEY));
  assert_non_null(strstr(rig.error.message, "E2B_API_KEY"));
  rig_end(&rig);
  close_state(s);
}

static size_t whole = 0, bytewise = 1, sevens = 7;

#define CUTS(test)                                                 \
  cmocka_unit_test_prestate(test, &whole),                         \
      cmocka_unit_test_prestate(test, &bytewise),                  \
      cmocka_unit_test_prestate(test, &sevens)

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_bad_options),
      cmocka_unit_test(test_key),
      CUTS(test_find_pages),
      CUTS(test_find_old_server),
      CUTS(test_find_error_is_not_absence),
      CUTS(test_create),
      CUTS(test_create_old_server),
      CUTS(test_create_refused),
      CUTS(test_create_foreign_domain),
      CUTS(test_create_undo),
      CUTS(test_life),
      CUTS(test_run),
      CUTS(test_spellings),
      CUTS(test_broken_after_the_end),
      cmocka_unit_test(test_exits),
      CUTS(test_input),
      CUTS(test_input_refused),
      CUTS(test_input_denied),
      CUTS(test_closing),
      CUTS(test_closing_late),
      CUTS(test_closing_old),
      CUTS(test_terminal),
      CUTS(test_attach),
      CUTS(test_input_only),
      CUTS(test_input_broken),
      CUTS(test_watch),
      CUTS(test_stream_errors),
      CUTS(test_start_refused),
      CUTS(test_hostile_streams),
      CUTS(test_old_envd),
      CUTS(test_files),
      CUTS(test_snapshots),
      CUTS(test_network),
      cmocka_unit_test(test_ports),
      cmocka_unit_test(test_interrupted),
      cmocka_unit_test(test_secrets),
  };

  return cmocka_run_group_tests(tests, NULL, NULL);
}
