/* Puts an archive in the place of everything in a folder. The folder itself
 * stays, for it is mounted, pinned and somebody's working directory; so its
 * entries change places, in steps of which each can be found again:
 *
 *   stage/new   the archive's files, complete before anything moves
 *   stage/old   what was there; while it has this name the way is back
 *   stage/gone  the same under its second name; from then on the way is forward
 *
 * A stage that still holds what is nowhere else is never removed.
 */
#include "internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../remove.h"

enum {
  FOLDER = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
  TRIES_MAX = 16 /* against one who fills the folder meanwhile */
};

struct swap {
  int top;
  int stage;
  bool keeps;  /* what cannot be moved away stays, to be removed afterwards:
                  folders of an overlay's lower layer */
  bool clears; /* what is in the way goes */
  bool half;   /* neither state could be reached */
};

static int folder_at(int dir, const char* name) {
  int fd = openat(dir, name, FOLDER);
  return fd < 0 ? -errno : fd;
}

static bool is_there(int dir, const char* name) {
  struct statx st;
  return sbx__statx(dir, name, &st) == 0;
}

static int set_mode(int path_fd, unsigned mode) {
  char link[64];
  snprintf(link, sizeof(link), "/proc/self/fd/%d", path_fd);
  return chmod(link, mode & 07777) < 0 ? -errno : 0;
}

/* A folder that is not writable cannot be moved, as its ".." changes. */
static int move_entry(int from, const char* name, int to) {
  if (renameat(from, name, to, name) == 0) return 0;
  if (errno != EACCES) return -errno;
  struct statx st;
  int fd = openat(from, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return -EACCES;
  int rc = sbx__statx_fd(fd, &st);
  if (rc == 0) {
    rc = set_mode(fd, st.stx_mode | 0700);
    if (rc == 0) rc = renameat(from, name, to, name) < 0 ? -errno : 0;
    set_mode(fd, st.stx_mode & 01777);
  }
  close(fd);
  return rc;
}

static bool in_the_way(int rc) {
  return rc == -ENOTEMPTY || rc == -EEXIST || rc == -ENOTDIR || rc == -EISDIR;
}

/* What others made under a name of the archive meanwhile makes room for it. */
static int move_over(int from, const char* name, int to) {
  int rc = move_entry(from, name, to);
  for (int i = 0; i < TRIES_MAX && in_the_way(rc); i++) {
    sbx_remove_tree(to, name);
    rc = move_entry(from, name, to);
  }
  return rc;
}

static int move_all(const struct swap* s, int from, int to, bool keeps) {
  struct sbx__names names;
  int rc = sbx__names_read(from, true, &names);
  if (rc < 0) return rc;
  for (size_t i = 0; i < names.count && rc == 0; i++) {
    const char* name = names.list[i].text;
    /* In an archive, too: a command may have made one before that was packed. */
    if (strcmp(name, SBX_ARCHIVE_STAGE) == 0) continue;
    rc = s->clears ? move_over(from, name, to) : move_entry(from, name, to);
    if (keeps && rc == -EXDEV) rc = 0;
  }
  sbx__names_free(&names);
  return rc;
}

static int remove_rest(const struct swap* s) {
  struct sbx__names names;
  int again = folder_at(s->top, ".");
  if (again < 0) return again;
  int rc = sbx__names_read(again, true, &names);
  close(again);
  if (rc < 0) return rc;
  for (size_t i = 0; i < names.count; i++) {
    const char* name = names.list[i].text;
    if (strcmp(name, SBX_ARCHIVE_STAGE) == 0) continue;
    int one = sbx_remove_tree(s->top, name);
    if (rc == 0) rc = one;
  }
  sbx__names_free(&names);
  return rc;
}

static int move_named(const struct swap* s, const char* name, bool out,
                      bool keeps) {
  int fd = folder_at(s->stage, name);
  /* Killed while the stage was being removed: it has been emptied before. */
  if (fd == -ENOENT && out) return 0;
  if (fd < 0) return fd;
  int top = folder_at(s->top, ".");
  struct swap again = {.top = top, .stage = s->stage, .clears = s->clears};
  int rc = top < 0 ? top
           : out   ? move_all(&again, fd, top, keeps)
                   : move_all(&again, top, fd, keeps);
  if (top >= 0) close(top);
  close(fd);
  return rc;
}

static int go_back(struct swap* s) {
  int rc = move_named(s, "old", true, false);
  s->half = rc < 0;
  return rc;
}

static int go_forward(struct swap* s) {
  int rc = s->keeps ? remove_rest(s) : 0;
  s->clears = s->keeps;
  int moved = move_named(s, "new", true, false);
  s->half = moved < 0;
  return rc < 0 ? rc : moved;
}

/* Commands can make anything of that name. */
static bool is_ours(int stage) {
  static const char* const parts[] = {"new", "old", "gone"};
  for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
    struct statx st;
    if (sbx__statx(stage, parts[i], &st) == 0 && !S_ISDIR(st.stx_mode))
      return false;
  }
  return true;
}

int sbx_archive_recover(int dir) {
  struct swap s = {.top = dir};
  int rc = 0;
  s.stage = folder_at(dir, SBX_ARCHIVE_STAGE);
  if (s.stage == -ENOENT || s.stage == -ENOTDIR) return 0;
  if (s.stage < 0) return s.stage;
  if (!is_ours(s.stage)) {
    close(s.stage);
    return 0;
  }
  if (is_there(s.stage, "gone"))
    rc = go_forward(&s);
  else if (is_there(s.stage, "old"))
    rc = go_back(&s);
  close(s.stage);
  return rc < 0 ? rc : sbx_remove_tree(dir, SBX_ARCHIVE_STAGE);
}

static int swap_in(struct swap* s) {
  if (mkdirat(s->stage, "old", 0700) < 0) return -errno;
  int rc = move_named(s, "old", false, s->keeps);
  if (rc == 0 && renameat(s->stage, "old", s->stage, "gone") < 0) rc = -errno;
  if (rc == 0) return go_forward(s);
  int back = go_back(s);
  return back < 0 ? back : rc;
}

static int unpack_new(struct sbx__archive* a, const struct swap* s) {
  if (mkdirat(s->stage, "new", 0700) < 0) return -errno;
  int fd = folder_at(s->stage, "new");
  if (fd < 0) return fd;
  int rc = sbx__archive_unpack(a, fd);
  close(fd);
  return rc;
}

/* After a recovery, what still has that name is not ours. */
static int make_stage(int top) {
  sbx_remove_tree(top, SBX_ARCHIVE_STAGE);
  return mkdirat(top, SBX_ARCHIVE_STAGE, 0700) < 0 ? -errno : 0;
}

static int restore(struct sbx__archive* a, struct swap* s) {
  int rc = make_stage(s->top);
  if (rc < 0) return rc;
  s->stage = folder_at(s->top, SBX_ARCHIVE_STAGE);
  if (s->stage < 0) return s->stage;
  rc = unpack_new(a, s);
  if (rc == 0) rc = swap_in(s);
  close(s->stage);
  if (s->half)
    a->remedy = "old and new files are in \"" SBX_ARCHIVE_STAGE "\"";
  else
    sbx_remove_tree(s->top, SBX_ARCHIVE_STAGE);
  return rc;
}

int sbx__archive_restore(struct sbx__archive* a) {
  struct swap s = {.top = folder_at(a->root->fd, "."), .keeps = true};
  if (s.top < 0) return s.top;
  sbx__archive_at(a, "");
  int rc = sbx_archive_recover(s.top);
  if (rc == 0) rc = restore(a, &s);
  close(s.top);
  return rc;
}
