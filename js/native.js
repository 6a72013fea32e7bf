// The addon: found and loaded, a local build first, then the one in the package;
// and the numbers that its calls take.
import { createRequire } from 'node:module';

const require = createRequire(import.meta.url);
let loaded;

// Few machines need it: those without libcurl.
const transport = () => require('./transport.js').host;
const host = {
  open: (...args) => transport().open(...args),
  roots: () => transport().roots(),
};

function isMissing(error) {
  return error.code === 'MODULE_NOT_FOUND';
}

const candidates = [
  '../build/Release/addon.node',
  `../prebuilds/linux-${process.arch}-glibc/addon.node`,
];

const remedy = 'run `npm run build` in its folder, or use an x64 image with glibc.';

function load() {
  if (process.platform !== 'linux') {
    throw new Error(
      `sandbox-sdk-native has no build for ${process.platform}: it runs on Linux (on Windows use WSL 2).`,
    );
  }
  for (const candidate of candidates) {
    try {
      const addon = require(candidate);
      addon.lend(host);
      return addon;
    } catch (error) {
      if (isMissing(error)) continue;
      throw new Error(`sandbox-sdk-native cannot be loaded on linux-${process.arch} with this C library: ${remedy}`, {
        cause: error,
      });
    }
  }
  if (process.arch !== 'x64') throw new Error(`sandbox-sdk-native has no build for linux-${process.arch}: ${remedy}`);
  throw new Error(
    'sandbox-sdk-native does not find its addon.node. Where a bundler packs your program, name sandbox-sdk-native ' +
      'as external, for the addon stays a file of the package; in a clone, run `npm run build`.',
  );
}

/** The addon, loaded on first use. */
export function native() {
  return (loaded ??= load());
}

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
