/* Does for commands at level landlock what the kernel would also let them do to
 * files and processes of the host that have the same ids: attributes of files,
 * signals, watches, terminals, listening sockets. Each call is looked at, and
 * done here on the thing that was looked at; none is let go on.
 */
#ifndef SBX_LAUNCHER_GUARD_H
#define SBX_LAUNCHER_GUARD_H

#include <stdbool.h>
#include <stddef.h>

struct seccomp_notif;
struct seccomp_notif_resp;

enum { SBX_GUARD_MAX = 64 };

/* Folders whose files may be changed, without links in their paths. */
struct sbx_guard {
  char* folders[SBX_GUARD_MAX];
  size_t len;
};

/* Adds a folder; false: no memory, or too many. */
bool sbx_guard_add(struct sbx_guard* guard, const char* path);

/* Whether the file behind a descriptor lies below one of the folders, or in no
 * folder at all (pipes, memory). */
bool sbx_guard_holds(const struct sbx_guard* guard, int fd);

/* All calls but the chmod family, which the notifier does. */
bool sbx_guard_knows(const struct seccomp_notif* call);
void sbx_guard_handle(const struct sbx_guard* guard, int listener,
                      const struct seccomp_notif* call,
                      struct seccomp_notif_resp* answer);

#endif
