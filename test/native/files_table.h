/* What every file verb answers for every kind of path (Mastra contract, 3.1),
 * on this machine and through the kit. */
#ifndef FILES_TABLE_H
#define FILES_TABLE_H

#include "native/files/files.h"

#define WRITE SBX_FILE_WRITE
#define READ SBX_FILE_READ
#define APPEND SBX_FILE_APPEND
#define DELETE SBX_FILE_DELETE
#define COPY SBX_FILE_COPY
#define MOVE SBX_FILE_MOVE
#define MKDIR SBX_FILE_MKDIR
#define RMDIR SBX_FILE_RMDIR
#define STAT SBX_FILE_STAT
#define READDIR SBX_FILE_READDIR
#define REAL SBX_FILE_REALPATH
#define PARENTS SBX_FILE_PARENTS
#define EXCLUSIVE SBX_FILE_EXCLUSIVE
#define FORCE SBX_FILE_FORCE
#define RECURSIVE SBX_FILE_RECURSIVE

/* One row of the contract's table per operation, one column per kind of path.
 * 0 is success. */
struct row {
  const char* name;
  enum sbx_file_verb verb;
  unsigned flags;
  bool is_target; /* the path is `to`, the source is "src" */
  int codes[11];
};

#define FNF SBX_E_FILE_NOT_FOUND
#define DNF SBX_E_DIRECTORY_NOT_FOUND
#define ISD SBX_E_IS_DIRECTORY
#define NOTD SBX_E_NOT_DIRECTORY
#define EXI SBX_E_FILE_EXISTS
#define NE SBX_E_NOT_EMPTY
#define PERM SBX_E_ACCESS

static const char* const columns[11] = {
    "missing", "file", "dir", "lfile", "ldir", "escape", "edir/new",
    "dangling", "dangling-out", "file/child", ""};

static const struct row rows[] = {
    {"read", READ, 0, false,
     {FNF, 0, ISD, 0, ISD, PERM, PERM, FNF, PERM, FNF, ISD}},
    {"write", WRITE, PARENTS, false,
     {0, 0, ISD, 0, ISD, PERM, PERM, 0, PERM, NOTD, ISD}},
    {"write new", WRITE, PARENTS | EXCLUSIVE, false,
     {0, EXI, EXI, EXI, EXI, PERM, PERM, EXI, PERM, NOTD, EXI}},
    {"write flat", WRITE, 0, false,
     {0, 0, ISD, 0, ISD, PERM, PERM, 0, PERM, NOTD, ISD}},
    {"append", APPEND, 0, false,
     {0, 0, ISD, 0, ISD, PERM, PERM, 0, PERM, NOTD, ISD}},
    {"delete", DELETE, 0, false,
     {FNF, 0, ISD, 0, ISD, PERM, PERM, FNF, PERM, NOTD, ISD}},
    {"delete -f", DELETE, FORCE, false,
     {0, 0, ISD, 0, ISD, 0, PERM, 0, 0, NOTD, ISD}},
    {"copy from", COPY, 0, false,
     {FNF, 0, ISD, 0, ISD, PERM, PERM, FNF, PERM, FNF, ISD}},
    {"copy to", COPY, 0, true,
     {0, 0, ISD, 0, ISD, PERM, PERM, 0, PERM, NOTD, ISD}},
    {"move from", MOVE, 0, false,
     {FNF, 0, 0, 0, 0, PERM, PERM, 0, PERM, FNF, PERM}},
    {"move to", MOVE, 0, true,
     {0, 0, ISD, 0, 0, PERM, PERM, 0, PERM, NOTD, PERM}},
    {"mkdir -p", MKDIR, PARENTS, false,
     {0, EXI, 0, EXI, 0, PERM, PERM, DNF, PERM, NOTD, 0}},
    {"mkdir", MKDIR, 0, false,
     {0, EXI, 0, EXI, 0, PERM, PERM, DNF, PERM, NOTD, 0}},
    {"rmdir", RMDIR, 0, false,
     {DNF, NOTD, NE, NOTD, NE, PERM, PERM, DNF, PERM, NOTD, PERM}},
    {"rmdir -r", RMDIR, RECURSIVE, false,
     {DNF, NOTD, 0, NOTD, 0, PERM, PERM, DNF, PERM, NOTD, PERM}},
    {"rmdir -rf", RMDIR, RECURSIVE | FORCE, false,
     {0, NOTD, 0, NOTD, 0, PERM, PERM, 0, PERM, NOTD, PERM}},
    {"readdir", READDIR, 0, false,
     {DNF, NOTD, 0, NOTD, 0, PERM, PERM, DNF, PERM, NOTD, 0}},
    {"stat", STAT, 0, false,
     {FNF, 0, 0, 0, 0, PERM, PERM, FNF, PERM, FNF, 0}},
    {"realpath", REAL, 0, false,
     {FNF, 0, 0, 0, 0, PERM, PERM, FNF, PERM, FNF, 0}},
};

#endif
