/* What /proc tells about the processes there are. */
#ifndef SBX_LAUNCHER_PROC_H
#define SBX_LAUNCHER_PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct sbx_proc {
  pid_t pid;
  pid_t parent;
  pid_t session;
  char state;
  uint32_t threads;
  bool member; /* scratch of the caller, cleared by a scan */
  uint64_t start; /* with the pid the identity of a process */
};

/* Sorted by pid, without the caller itself. */
struct sbx_procs {
  struct sbx_proc* list;
  size_t len;
  size_t size;
};

/* One process, as /proc of this mount namespace has it. False: it is gone. */
bool sbx_proc_read(pid_t pid, struct sbx_proc* p);

/* Reads the whole table. `dir` is a descriptor of /proc. -1: no memory. */
int sbx_procs_scan(struct sbx_procs* procs, int dir);
void sbx_procs_free(struct sbx_procs* procs);

/* NULL if there is none. */
struct sbx_proc* sbx_procs_find(const struct sbx_procs* procs, pid_t pid);

/* What an open file is called in /proc/PID/fd, "" for what cannot tell one
 * holder from another (only pipes and sockets can). */
enum { SBX_STREAM_NAME = 40 };
void sbx_stream_name(int fd, char name[SBX_STREAM_NAME]);

/* Whether `pid` has one of `names` open for writing. */
bool sbx_proc_holds(int dir, pid_t pid, const char names[][SBX_STREAM_NAME],
                    size_t count);

#endif
