/* Reads how a command ended. */
#include "exit.h"

#include <stdlib.h>
#include <string.h>

static const char* const names[] = {
    "", "hangup", "interrupt", "quit", "illegal instruction",
    "trace/breakpoint trap", "aborted", "bus error",
    "floating point exception", "killed", "user defined signal 1",
    "segmentation fault", "user defined signal 2", "broken pipe", "alarm clock",
    "terminated"};

static int signal_of(const char* text) {
  static const char dumped[] = " (core dumped)";
  size_t len = strlen(text), tail = sizeof(dumped) - 1;
  long number;

  if (len > tail && strcmp(text + len - tail, dumped) == 0) len -= tail;
  for (int i = 1; i < (int) (sizeof(names) / sizeof(names[0])); i++)
    if (strlen(names[i]) == len && strncmp(text, names[i], len) == 0) return i;
  if (strncmp(text, "signal ", 7) != 0) return 0;
  number = strtol(text + 7, NULL, 10);
  return number > 0 && number <= 64 ? (int) number : 0;
}

struct sbx_emit_exit sbx_e2b_exit(int64_t code, const char* status) {
  int signal = strncmp(status, "signal: ", 8) == 0 ? signal_of(status + 8) : 0;

  if (signal > 0) return (struct sbx_emit_exit){128 + signal, signal};
  return (struct sbx_emit_exit){(int) (code & 255), 0};
}
