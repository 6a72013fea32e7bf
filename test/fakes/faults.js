// What a fake does wrong on request: which request, how often, in which way.
import { gzipSync } from 'node:zlib';

/** Whether a recorded request is what `match` names. */
export function matches(match, request) {
  if (match.method && match.method !== request.method) return false;
  if (match.plane && match.plane !== request.plane) return false;
  if (match.rpc && match.rpc !== request.rpc) return false;
  if (match.path instanceof RegExp && !match.path.test(request.path)) return false;
  if (typeof match.path === 'string' && match.path !== request.path) return false;
  return !match.when || match.when(request);
}

/** The list of faults that a test switched on. */
export class Faults {
  #list = [];

  /** -> a handle { used, remove() }. */
  add({ match = {}, times = 1, skip = 0, ...what }) {
    const fault = { match, left: times, skip, what, used: 0, remove: () => this.#remove(fault) };
    this.#list.push(fault);
    return fault;
  }

  #remove(fault) {
    this.#list = this.#list.filter((one) => one !== fault);
  }

  clear() {
    this.#list = [];
  }

  /** What goes wrong with this request, or undefined. */
  take(request) {
    for (const fault of this.#list) {
      if (fault.left <= 0 || !matches(fault.match, request)) continue;
      if (fault.skip-- > 0) continue;
      fault.left--;
      fault.used++;
      return fault.what;
    }
    return undefined;
  }
}

/** A whole answer that a fault gives instead of the service's, or undefined. */
export function replacement(fault) {
  if (fault.respond) return { headers: {}, body: '', ...fault.respond };
  if (fault.html502) {
    const body = '<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>\r\n<h1>502 Bad Gateway</h1>\r\n</body>\r\n</html>\r\n';
    return { status: 502, headers: { 'content-type': 'text/html' }, body };
  }
  if (fault.rateLimit) {
    const { retryAfter, body = '{"code":429,"message":"Rate limit exceeded"}' } = fault.rateLimit;
    const headers = { 'content-type': 'application/json; charset=utf-8' };
    if (retryAfter !== undefined) headers['retry-after'] = String(retryAfter);
    return { status: 429, headers, body };
  }
  if (fault.empty404) return { status: 404, headers: {}, body: '' };
  if (fault.redirect) return { status: 302, headers: { location: fault.redirect }, body: '' };
  if (fault.gzipBomb) {
    const headers = { 'content-type': 'application/json', 'content-encoding': 'gzip' };
    return { status: 200, headers, body: gzipSync(Buffer.alloc(fault.gzipBomb, 0x20)) };
  }
  return undefined;
}
