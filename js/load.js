// Finds and loads the addon: a local build first, then the one in the package.
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
