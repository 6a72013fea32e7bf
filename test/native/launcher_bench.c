/* What a command costs through the zygote against a plain posix_spawn, and what
 * a session costs, side by side in one run. Prints ratios.
 *   SBX_LAUNCHER=... launcher_bench [rounds]
 */
#include "launcher_kit.h"

#include <spawn.h>

static int compare(const void* a, const void* b) {
  const uint64_t* x = a;
  const uint64_t* y = b;
  return *x < *y ? -1 : *x > *y;
}

static uint64_t median(uint64_t* list, size_t len) {
  qsort(list, len, sizeof(*list), compare);
  return list[len / 2];
}

static const char* const echo[] = {"/bin/echo", "hi", NULL};

static void read_to_end(int fd) {
  char text[256];

  while (read(fd, text, sizeof(text)) > 0) {
  }
}

static uint64_t plain(void) {
  uint64_t begin = kit_now_us();
  posix_spawn_file_actions_t actions;
  int out[2], err[2];
  pid_t pid;

  if (pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0) abort();
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, out[1], 1);
  posix_spawn_file_actions_adddup2(&actions, err[1], 2);
  posix_spawn(&pid, echo[0], &actions, NULL, (char**) echo, (char**) kit_env);
  posix_spawn_file_actions_destroy(&actions);
  close(out[1]);
  close(err[1]);
  read_to_end(out[0]);
  read_to_end(err[0]);
  waitpid(pid, NULL, 0);
  close(out[0]);
  close(err[0]);
  return kit_now_us() - begin;
}

static uint64_t through(struct kit_session* s) {
  uint64_t begin = kit_now_us();
  struct kit_command c;
  struct kit_packet p;

  kit_request(s, &c, "/workspace", echo, NULL, false);
  kit_await(s, SBX_MSG_SPAWNED, c.id, 5000, &p);
  read_to_end(c.out);
  read_to_end(c.err);
  kit_await(s, SBX_MSG_EXIT, c.id, 5000, &p);
  kit_close(&c);
  return kit_now_us() - begin;
}

/* From END with no grace to the exit of a command that has `children`, and to
 * the end of the last of them. */
static uint64_t kill_tree(struct kit_session* s, const char* script) {
  const char* argv[] = {"/bin/bash", "-c", script, NULL};
  struct kit_command c;
  struct kit_packet p;
  uint64_t begin;
  char line[16];

  if (!kit_spawn(s, &c, "/workspace", argv, NULL, false)) kit_die("spawn");
  if (read(c.out, line, sizeof(line)) <= 0) kit_die("read");
  begin = kit_now_us();
  kit_post(s, SBX_MSG_END, c.id, 0, SBX_SCOPE_TREE);
  kit_await(s, SBX_MSG_EXIT, c.id, 20000, &p);
  read_to_end(c.out); /* closed by the last of the tree */
  begin = kit_now_us() - begin;
  kit_close(&c);
  return begin;
}

static uint64_t session_start(uint64_t* close_us) {
  struct kit_session s;
  uint64_t begin = kit_now_us(), ready;

  if (!kit_start(&s, NULL)) kit_die("start");
  ready = kit_now_us();
  kit_stop(&s);
  *close_us = kit_now_us() - ready;
  return ready - begin;
}

int main(int argc, char** argv) {
  size_t rounds = argc > 1 ? (size_t) atoi(argv[1]) : 500, i;
  uint64_t* lists[4];
  struct kit_session s;

  kit_owner = getpid();
  for (i = 0; i < 4; i++) lists[i] = calloc(rounds, sizeof(uint64_t));
  if (!kit_start(&s, NULL)) kit_die("start");
  for (i = 0; i < rounds; i++) {
    lists[0][i] = plain();
    lists[1][i] = through(&s);
  }
  for (i = 0; i < 10; i++) {
    lists[2][i] = kill_tree(&s, "echo; sleep 100");
    lists[3][i] = kill_tree(
        &s, "for i in $(seq 300); do setsid sleep 100 & done; echo; wait");
  }
  printf("kill of one p50 %lu us, of a tree of 300 p50 %lu us\n",
         (unsigned long) median(lists[2], 10),
         (unsigned long) median(lists[3], 10));
  kit_stop(&s);
  for (i = 0; i < rounds / 10; i++)
    lists[2][i] = session_start(&lists[3][i]);
  printf("posix_spawn p50 %lu us, zygote p50 %lu us\n",
         (unsigned long) median(lists[0], rounds),
         (unsigned long) median(lists[1], rounds));
  printf("zygote / posix_spawn: %.2f\n",
         (double) median(lists[1], rounds) / (double) median(lists[0], rounds));
  printf("session ready p50 %lu us, closed p50 %lu us\n",
         (unsigned long) median(lists[2], rounds / 10),
         (unsigned long) median(lists[3], rounds / 10));
  return 0;
}
