/* The system call filter of PID 1 and every command. */
#ifndef SBX_LAUNCHER_SECCOMP_H
#define SBX_LAUNCHER_SECCOMP_H

#include <stdbool.h>

/* Installs the filter. `tid` is a second thread of PID 1, to be left alone like
 * PID 1 itself. With `notify` chmod calls with set-id bits go to the
 * listener that is returned (ENOSYS, EINVAL: the kernel has no listeners and
 * nothing was installed), else they are refused and 0 is returned. */
int sbx_seccomp_install(int tid, bool notify);

/* The filter of level landlock, for the thread that commands are born from. */
enum { SBX_SECCOMP_SHIELDED = 6 };
struct sbx_seccomp_outside {
  int shielded[SBX_SECCOMP_SHIELDED]; /* numbers that no signal and no pidfd may
                                         name: threads of ours; 0: none */
  bool own_ids;   /* nobody else has the ids of the commands */
  bool notify;    /* as above */
  bool network;   /* the host's is allowed */
  unsigned abi;   /* of Landlock */
};
int sbx_seccomp_install_outside(const struct sbx_seccomp_outside* spec);

#endif
