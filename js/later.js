// Providers that this version has not. A clear answer, where Node would say only
// that the package has no such path.
import { unsupported } from './errors.js';

function later(name) {
  return () => {
    throw unsupported(`${name}() is not part of this version of sandbox-sdk-native: it has local() and e2b()`, name);
  };
}

export const daytona = later('daytona');
export const upstash = later('upstash');
export const vercel = later('vercel');
