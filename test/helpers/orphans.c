/* orphans LIMIT_MS COMMAND [ARG ...]
 *
 * Runs the command and adopts what it leaves behind. Prints the command's wait
 * status and how many processes were still there LIMIT_MS after it had ended;
 * kills them. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* The pids of this process's children, freshly read. */
static size_t children(pid_t* pids, size_t max) {
  char path[64];
  snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
  FILE* file = fopen(path, "re");
  size_t count = 0;
  int pid;
  while (file && count < max && fscanf(file, "%d", &pid) == 1)
    pids[count++] = pid;
  if (file) fclose(file);
  return count;
}

static void reap(void) {
  while (waitpid(-1, NULL, WNOHANG) > 0) {
  }
}

static void describe(pid_t pid) {
  char path[64], line[256] = "";
  snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)pid);
  FILE* file = fopen(path, "re");
  if (!file) return;
  size_t len = fread(line, 1, sizeof(line) - 1, file);
  fclose(file);
  for (size_t i = 0; i < len; i++)
    if (!line[i]) line[i] = ' ';
  fprintf(stderr, "left: %d %s\n", (int)pid, line);
}

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  pid_t command = fork();
  if (command < 0) return 2;
  if (command == 0) {
    execvp(argv[2], argv + 2);
    _exit(127);
  }
  int status = 0;
  pid_t got;
  while ((got = waitpid(-1, &status, 0)) != command)
    if (got < 0 && errno != EINTR) return 2;

  pid_t left[512];
  long end = now_ms() + atol(argv[1]);
  size_t count;
  do {
    reap();
    count = children(left, 512);
    usleep(5000);
  } while (count && now_ms() < end);
  for (size_t i = 0; i < count; i++) {
    describe(left[i]);
    kill(left[i], SIGKILL);
  }
  printf("status %d left %zu\n", status, count);
  return 0;
}
