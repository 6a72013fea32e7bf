// Numbers of native/files/files.h and native/session/process.h.
export const verb = Object.freeze({
  READ: 1,
  WRITE: 2,
  APPEND: 3,
  DELETE: 4,
  COPY: 5,
  MOVE: 6,
  MKDIR: 7,
  RMDIR: 8,
  READDIR: 9,
  EXISTS: 10,
  STAT: 11,
  REALPATH: 12,
  WALK: 13,
  GATHER: 14,
  CHANGES: 40,
});

export const flag = Object.freeze({
  PARENTS: 1,
  EXCLUSIVE: 2,
  FORCE: 4,
  RECURSIVE: 8,
  HIDDEN: 16,
  TEXT: 32,
  NOFOLLOW: 64,
  FOLD: 128,
  LINES: 512,
});

export const type = Object.freeze({ FILE: 1, DIRECTORY: 2, LINK: 3, OTHER: 4 });

/** What a process reports of a stream: nothing, bytes, text, or both. */
export const listen = Object.freeze({ BYTES: 1, TEXT: 2 });

/** enum sbx_snapshot_verb */
export const snapshot = Object.freeze({ CREATE: 40, RESTORE: 41, DELETE: 42, LIST: 43, SEED: 44, LAYER: 45 });

/** scope of NativeSandbox.file */
export const WORKSPACE = 0;
export const ROOT = 1;
/** ... the template that a session lies on, read-only */
export const BASE = 2;
