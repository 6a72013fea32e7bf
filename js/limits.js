// Limits of a sandbox and sizes of terminals: checked where the user wrote them.
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

const units = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB'];
const inBytes = new Set(['memory', 'fileSize', 'workspaceSize', 'outputRate']);

function bytesText(bytes) {
  let value = bytes;
  let unit = 0;
  for (; value >= 1024 && unit < 4; unit++) value /= 1024;
  return `${Number(value.toFixed(1))} ${units[unit]}`;
}

/** "memory 512 MiB, processes 4096" of facts, '' for none. */
export function limitsText(facts) {
  return Object.keys(facts)
    .filter(key => key.startsWith('limits.') && !key.endsWith('.enforcedBy'))
    .map(key => {
      const name = key.slice(7);
      const text = inBytes.has(name) ? bytesText(Number(facts[key])) : facts[key];
      return `${name} ${text}${name === 'outputRate' ? '/s' : ''}`;
    })
    .join(', ');
}

function checkSide(value, name) {
  if (Number.isInteger(value) && value >= 1 && value <= 65535) return value;
  throw invalid(`${name} must be an integer from 1 to 65535, not ${show(value)}`);
}

/** { cols, rows } of the option `pty`, or undefined for no terminal. */
export function checkPty(value) {
  if (value === undefined || value === false) return undefined;
  const { cols = 80, rows = 24, ...rest } = value === true ? {} : checkObject(value, 'pty');
  checkNames(rest, [], 'pty: { cols, rows }');
  return { cols: checkSide(cols, 'pty.cols'), rows: checkSide(rows, 'pty.rows') };
}

export function checkSize(cols, rows) {
  checkSide(cols, 'cols');
  checkSide(rows, 'rows');
}
