/* How many processes the remote kit starts for a folder of many names: each
 * costs a sandbox about a millisecond. */
#include "kit_help.h"

#include <sched.h>
#include <sys/mman.h>

#include "providers/kit/run.h"

enum { NAMES = 60, FEW = 30, SKIPPED = 77 };

struct costs {
  int files, links, search, list;
};

/* Ids are given out in order: alone in a namespace that counts them. */
static int next_id(void) {
  pid_t pid = fork();
  if (pid == 0) _exit(0);
  waitpid(pid, NULL, 0);
  return pid;
}

static int cost_of(struct kit* k, enum sbx_file_verb verb, const char* path) {
  struct sbx_file_request r = REQUEST(.verb = verb, .path = path);
  int before = next_id();
  struct answer a = kit_ask(k, &r);
  int after = next_id();
  size_t count = a.code == 0 ? a.result.count : 0;
  free(a.result.data);
  return count == NAMES ? after - before - 1 : INT_MAX;
}

static int cost_of_list(struct kit* k) {
  struct output out = {0}, err = {0};
  struct sbx_kit_job_result result;
  struct sbx_kit_job* job;
  struct sbx_error error;
  size_t argc;
  int before = next_id();
  sbx_kit_job_list(&k->place, &job);
  const char* const* argv = sbx_kit_job_argv(job, &argc);
  int code = run_wait(k, argv, argc, &out, &err);
  int after = next_id();
  sbx_kit_job_feed(job, out.data, out.len);
  int rc = sbx_kit_job_result(job, code, "", 0, &result, &error);
  bool good = rc == 0 && result.count == NAMES &&
              strcmp(result.list[0].command, "one\ntwo") == 0;
  sbx_kit_job_free(job);
  free(out.data);
  free(err.data);
  return good ? after - before - 1 : INT_MAX;
}

static void many(struct kit* k) {
  char script[1024];
  snprintf(script, sizeof(script),
           "mkdir f l '%s'; i=0; while [ $i -lt %d ]; do echo $i >f/$i; "
           "ln -s ../f/$i l/$i; i=$((i + 1)); "
           "echo x 0 >'%s'/e.$((i + 2000)).55; "
           "printf '%%032d s- 3000 77 :\\none\\ntwo' $i "
           ">'%s'/p.$((i + 2000)).55; done", k->folder, NAMES, k->folder,
           k->folder);
  kit_shell(k, script);
}

static int measure(struct kit* k, struct costs* costs) {
  int status = -1;
  pid_t pid = fork();
  if (pid == 0) {
    if (unshare(CLONE_NEWPID) != 0) _exit(SKIPPED);
    pid = fork();
    if (pid == 0) {
      costs->files = cost_of(k, SBX_FILE_WALK, "f");
      costs->links = cost_of(k, SBX_FILE_READDIR, "l");
      costs->search = cost_of(k, SBX_FILE_GATHER, "f");
      costs->list = cost_of_list(k);
      _exit(0);
    }
    waitpid(pid, &status, 0);
    _exit(status == 0 ? 0 : 1);
  }
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* At most one for each name, and none where the tools know how. */
static void few_processes_body(struct kit* k) {
  struct costs* costs = mmap(NULL, sizeof(*costs), PROT_READ | PROT_WRITE,
                             MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  assert_true(costs != MAP_FAILED);
  many(k);
  int code = measure(k, costs);
  if (code == 0) {
    assert_in_range(costs->files, 1, FEW);
    assert_in_range(costs->links, 1, (k->shell->busybox ? NAMES : 0) + FEW);
    assert_in_range(costs->search, 1, NAMES + FEW);
    assert_in_range(costs->list, 1, NAMES + FEW);
  } else {
    assert_int_equal(code, SKIPPED); /* no rights to count */
  }
  munmap(costs, sizeof(*costs));
}
EACH(few_processes)

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(few_processes)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
