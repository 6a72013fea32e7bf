/* Starting one command with vfork and exec. */
#ifndef SBX_LAUNCHER_SPAWN_H
#define SBX_LAUNCHER_SPAWN_H

#include <stddef.h>
#include <sys/types.h>

#include "caps.h"
#include "nursery.h"
#include "protocol.h"
#include "supervisor.h"

/* Memory that is kept from one spawn to the next. */
struct sbx_spawner {
  struct sbx_limits limits;
  struct sbx_supervisor* supervisor; /* NULL: none */
  struct sbx_nursery* nursery;       /* NULL: this thread starts commands */
  bool terminal; /* descriptor 0 of the next command is to control it */
  char* stack; /* of the child, up to its exec */
  char* arena;
  size_t arena_size;
};

int sbx_spawner_init(struct sbx_spawner* spawner);

/* Runs `payload` (layout in protocol.h, may be changed) with the descriptors
 * 0, 1, 2. Returns the pid; else -1 with errno and `stage`. */
pid_t sbx_spawn(struct sbx_spawner* spawner, char* payload, size_t len,
                const int fds[3], uint32_t* stage);

#endif
