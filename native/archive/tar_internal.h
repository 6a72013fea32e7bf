/* Where the fields of a tar header lie; nothing public. */
#ifndef SBX_TAR_INTERNAL_H
#define SBX_TAR_INTERNAL_H

#include "tar.h"

enum {
  BLOCK = SBX_TAR_BLOCK,
  NAME_AT = 0,
  NAME_SIZE = 100,
  MODE_AT = 100,
  SIZE_AT = 124,
  SIZE_SIZE = 12,
  MTIME_AT = 136,
  SUM_AT = 148,
  TYPE_AT = 156,
  LINK_AT = 157,
  LINK_SIZE = 100,
  MAGIC_AT = 257
};

#endif
