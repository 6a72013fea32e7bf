// Limits of a sandbox, checked where the user wrote them.
import { invalid } from './errors.js';
import { checkNames, checkObject, show } from './options.js';

const MIB = 1024 * 1024;

// [least, most, what it is]
const kinds = {
  processes: [8, 4194304, 'a whole number from 8 to 4194304'],
  memory: [16 * MIB, Number.MAX_SAFE_INTEGER, 'a whole number of bytes from 16777216, such as 512 * 1024 * 1024'],
  cpu: [0.01, 4096, 'a number of cores from 0.01 to 4096, such as 1.5'],
  openFiles: [32, 1048576, 'a whole number from 32 to 1048576 (of each process)'],
  fileSize: [4096, Number.MAX_SAFE_INTEGER, 'a whole number of bytes from 4096 (of each file)'],
  workspaceSize: [MIB, Number.MAX_SAFE_INTEGER, 'a whole number of bytes from 1048576, such as 2 * 1024 ** 3'],
  outputRate: [1024, Number.MAX_SAFE_INTEGER, 'a whole number of bytes per second from 1024 (of each command)'],
};

export function checkLimits(value) {
  const limits = checkObject(value, 'limits');
  checkNames(limits, Object.keys(kinds), 'limits');
  for (const [name, limit] of Object.entries(limits)) {
    const [least, most, what] = kinds[name];
    if (limit === undefined) continue;
    const whole = name === 'cpu' ? Number.isFinite(limit) : Number.isSafeInteger(limit);
    if (!whole || limit < least || limit > most) throw invalid(`limits.${name} must be ${what}, not ${show(limit)}`);
  }
  return { ...limits };
}
