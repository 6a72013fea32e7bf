/* The kit's shell programs as read-only data. Comments and indentation stay
 * here: command.c leaves them out. */
#include "internal.h"

#ifndef SBX_KIT_DIR
#define SBX_KIT_DIR "providers/kit/shell"
#endif

#define SCRIPT(name)                                                       \
  __asm__(".pushsection .rodata\n"                                         \
          ".global sbx_kit_" #name "_start\n"                              \
          ".hidden sbx_kit_" #name "_start\n"                              \
          "sbx_kit_" #name "_start:\n"                                     \
          ".incbin \"" SBX_KIT_DIR "/" #name ".sh\"\n"                     \
          ".global sbx_kit_" #name "_end\n"                                \
          ".hidden sbx_kit_" #name "_end\n"                                \
          "sbx_kit_" #name "_end:\n"                                       \
          ".byte 0\n"                                                      \
          ".popsection\n");                                                \
  extern const char sbx_kit_##name##_start[], sbx_kit_##name##_end[]

SCRIPT(base);
SCRIPT(lock);
SCRIPT(replace);
SCRIPT(look);
SCRIPT(read);
SCRIPT(write);
SCRIPT(append);
SCRIPT(folder);
SCRIPT(transfer);
SCRIPT(list);
SCRIPT(gather);
SCRIPT(run);
SCRIPT(tree);
SCRIPT(job);
SCRIPT(kill);
SCRIPT(signal);
SCRIPT(jobs);
SCRIPT(prepare);
SCRIPT(follow);

#define TEXT(name) {sbx_kit_##name##_start, sbx_kit_##name##_end}

static const struct {
  const char* start;
  const char* end;
} scripts[] = {
    [SBX__SH_BASE] = TEXT(base),       [SBX__SH_LOCK] = TEXT(lock),
    [SBX__SH_REPLACE] = TEXT(replace), [SBX__SH_LOOK] = TEXT(look),
    [SBX__SH_READ] = TEXT(read),       [SBX__SH_WRITE] = TEXT(write),
    [SBX__SH_APPEND] = TEXT(append),   [SBX__SH_FOLDER] = TEXT(folder),
    [SBX__SH_TRANSFER] = TEXT(transfer), [SBX__SH_LIST] = TEXT(list),
    [SBX__SH_GATHER] = TEXT(gather),
    [SBX__SH_RUN] = TEXT(run),
    [SBX__SH_TREE] = TEXT(tree),
    [SBX__SH_JOB] = TEXT(job),
    [SBX__SH_KILL] = TEXT(kill),
    [SBX__SH_SIGNAL] = TEXT(signal),
    [SBX__SH_JOBS] = TEXT(jobs),
    [SBX__SH_PREPARE] = TEXT(prepare),
    [SBX__SH_FOLLOW] = TEXT(follow),
};

const char* sbx__kit_script(enum sbx__script script, size_t* len) {
  *len = (size_t)(scripts[script].end - scripts[script].start);
  return scripts[script].start;
}
