/* The tar format (POSIX pax, GNU sparse 1.0): headers to write, and a parser
 * that takes bytes cut anywhere. Knows no files.
 *
 * What it reads may be hostile: every length, number and name is bounded, and a
 * name that is absolute or holds ".." never reaches the sink.
 */
#ifndef SBX_TAR_H
#define SBX_TAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
  SBX_TAR_BLOCK = 512,
  SBX_TAR_PATH_MAX = 4096,    /* with the NUL */
  SBX_TAR_EXTENTS_MAX = 65536 /* pieces of data in a sparse file */
};

enum sbx_tar_type {
  SBX_TAR_FILE = '0',
  SBX_TAR_HARD_LINK = '1', /* to an earlier entry of the archive */
  SBX_TAR_LINK = '2',
  SBX_TAR_FOLDER = '5',
  SBX_TAR_FIFO = '6'
};

struct sbx_tar_entry {
  enum sbx_tar_type type;
  const char* path; /* relative, without trailing slash; "" for the top */
  const char* link; /* target of a link, else "" */
  uint32_t mode;    /* permission bits, 01777 */
  uint64_t size;    /* of a file, holes included */
  int64_t mtime;    /* seconds */
  uint32_t mtime_ns;
};

struct sbx_tar_extent {
  uint64_t offset;
  uint64_t len;
};

/* ---- writing ---- */

/* Bytes of the header blocks of an entry, which are to be followed by its data,
 * padded to whole blocks. With `extents` (any number of them) the data is only
 * what these hold. malloc'ed, NULL without memory. */
char* sbx_tar_header(const struct sbx_tar_entry* entry,
                     const struct sbx_tar_extent* extents, size_t extents_len,
                     size_t* len);

/* ---- reading ---- */

/* Each returns 0, or a negative errno that ends the parse. Strings are valid
 * during the call. */
struct sbx_tar_sink {
  void* arg;
  int (*on_entry)(void* arg, const struct sbx_tar_entry* entry);
  int (*on_data)(void* arg, uint64_t offset, const char* bytes, size_t len);
  int (*on_end)(void* arg); /* of a file's data */
};

struct sbx_tar;

int sbx_tar_new(const struct sbx_tar_sink* sink, struct sbx_tar** out);
void sbx_tar_free(struct sbx_tar* tar);

/* -EPROTO: it is no archive, or a broken one. */
int sbx_tar_feed(struct sbx_tar* tar, const char* bytes, size_t len);

/* Whether the archive's end was seen. */
bool sbx_tar_ended(const struct sbx_tar* tar);

#endif
