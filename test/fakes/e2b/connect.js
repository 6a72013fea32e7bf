// The Connect protocol with JSON: envelopes, unary answers, streams, errors.
import { gzipSync } from 'node:zlib';

const statuses = {
  canceled: 499,
  unknown: 500,
  invalid_argument: 400,
  deadline_exceeded: 504,
  not_found: 404,
  already_exists: 409,
  permission_denied: 403,
  resource_exhausted: 429,
  failed_precondition: 400,
  aborted: 409,
  out_of_range: 400,
  unimplemented: 501,
  internal: 500,
  unavailable: 503,
  data_loss: 500,
  unauthenticated: 401,
};

export class RpcError extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

// Output is most of what a fake sends, and base64 needs no escapes.
function printData(value) {
  const data = value.event?.data;
  if (!data || value.future) return undefined;
  const [[name, text]] = Object.entries(data);
  return Buffer.from(`{"event":{"data":{"${name}":"${text}"}}}`, 'latin1');
}

/** JSON as the service writes it; with `spaces` as another build of it does. */
export function print(value, spaces) {
  const quick = spaces ? undefined : printData(value);
  if (quick) return quick;
  const text = spaces ? JSON.stringify(value, null, 1).replace(/\n\s*/g, ' ') : JSON.stringify(value);
  return Buffer.from(text);
}

export function envelope(flags, payload) {
  const head = Buffer.alloc(5);
  head[0] = flags;
  head.writeUInt32BE(payload.length, 1);
  return Buffer.concat([head, payload]);
}

/** Every envelope of a request's body -> [{ flags, payload }]. */
export function readEnvelopes(body) {
  const found = [];
  let at = 0;
  while (at + 5 <= body.length) {
    const end = at + 5 + body.readUInt32BE(at + 1);
    if (end > body.length) break;
    found.push({ flags: body[at], payload: body.subarray(at + 5, end) });
    at = end;
  }
  return found;
}

function lowerCamel(name) {
  return name.replace(/_([a-z])/g, (_, letter) => letter.toUpperCase());
}

// Names of maps that a user fills stay as they are.
function camelKeys(value, key) {
  if (Array.isArray(value)) return value.map((one) => camelKeys(one));
  if (!value || typeof value !== 'object' || key === 'envs') return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, one]) => [lowerCamel(name), camelKeys(one, lowerCamel(name))]),
  );
}

/** One JSON object of a request, its names in lowerCamelCase. */
export function parseMessage(bytes) {
  if (!bytes.length) throw new RpcError('invalid_argument', 'unmarshal message: zero-length payload is not a valid JSON object');
  let value;
  try {
    value = JSON.parse(bytes.toString());
  } catch (error) {
    throw new RpcError('invalid_argument', `unmarshal message: proto: syntax error: ${error.message}`);
  }
  if (!value || typeof value !== 'object' || Array.isArray(value))
    throw new RpcError('invalid_argument', 'unmarshal message: proto: unexpected token');
  return camelKeys(value);
}

export function fromBase64(text) {
  return Buffer.from(String(text), 'base64'); // takes the url-safe alphabet too
}

/** `Connect-Timeout-Ms` in ms, or undefined. */
export function readTimeout(headers) {
  const text = headers['connect-timeout-ms'];
  if (text === undefined) return undefined;
  if (!/^\d{1,10}$/.test(text))
    throw new RpcError('invalid_argument', `parse timeout: invalid timeout "${text}"`);
  return Number(text);
}

/** Answers a unary call. */
export function answerUnary(answer, value, { gzip, spaces }) {
  const body = print(value, spaces);
  const headers = { 'content-type': 'application/json', 'accept-encoding': 'gzip' };
  if (!gzip) return answer.send(200, { ...headers, 'content-length': body.length }, body);
  answer.send(200, { ...headers, 'content-encoding': 'gzip' }, gzipSync(body));
}

export function answerError(answer, error, { spaces } = {}) {
  const code = error instanceof RpcError ? error.code : 'internal';
  const body = print({ code, message: error.message }, spaces);
  answer.send(statuses[code], { 'content-type': 'application/json', 'content-length': body.length }, body);
}

/** A server stream. Its frame faults come from the answer's fault. */
export class Stream {
  #answer;
  #fault;
  #spaces;
  #held = [];
  #frames = 0;

  constructor(answer, { spaces }) {
    this.#answer = answer;
    this.answer = answer;
    this.#fault = answer.fault ?? {};
    this.#spaces = spaces;
    this.closed = false;
    this.onClose = [];
    answer.head(200, { 'content-type': 'application/connect+json', 'connect-accept-encoding': 'gzip' });
    answer.flush();
    answer.onClose(() => this.#close());
  }

  #close() {
    if (this.closed) return;
    this.closed = true;
    for (const one of this.onClose) one();
  }

  #frame(value) {
    const payload = print(value, this.#spaces);
    const compressed = this.#fault.compressedFrame && this.#frames++ > 0;
    return compressed ? envelope(1, gzipSync(payload)) : envelope(0, payload);
  }

  #odd() {
    if (this.#fault.keepalives)
      for (let i = 0; i < this.#fault.keepalives; i++) this.#answer.write(this.#frame({ event: { keepalive: {} } }));
    if (this.#fault.unknown) {
      this.#answer.write(this.#frame({ event: { telemetry: { cpu: [1, { two: null }] } } }));
      this.#answer.write(this.#frame({ future: 'é漢😀' }));
    }
  }

  // With `reorder` every output frame waits for one of the other stream, as
  // the service gives no order between the two.
  #reordered(value) {
    const data = value.event?.data;
    if (!this.#fault.reorder) return [value];
    if (data?.stdout !== undefined) {
      this.#held.push(value);
      return [];
    }
    if (data) return [value];
    const all = [...this.#held, value];
    this.#held = [];
    return all;
  }

  /** False when the reader is slow: wait for `drained`. */
  send(value) {
    if (this.closed) return true;
    if (this.#fault.unknown) value = { ...value, future: { a: [1] } };
    let fast = true;
    for (const one of this.#reordered(value)) fast = this.#answer.write(this.#frame(one));
    if (value.event?.start) this.#odd();
    if (value.event?.start && this.#fault.hugeEnvelope) this.#huge();
    if (value.event?.end && this.#fault.afterEnd) this.#breakAfterEnd();
    return fast;
  }

  #huge() {
    this.#answer.write(Buffer.from([0, 0xff, 0xff, 0xff, 0xff, ...Buffer.from('{"event":')]));
  }

  #breakAfterEnd() {
    const how = this.#fault.afterEnd;
    if (how === 'reset') this.#answer.reset();
    else if (how === 'fin') this.#answer.finish();
    this.#close();
  }

  drained(then) {
    this.#answer.onDrain(then);
  }

  end(error) {
    if (this.closed) return;
    const value = error ? { error: { code: error.code ?? 'internal', message: error.message } } : {};
    for (const one of this.#held) this.#answer.write(this.#frame(one));
    this.#answer.end(envelope(2, print(value, this.#spaces)));
    this.#close();
  }

  /** The connection just breaks, as at an older edge. */
  cut() {
    if (this.closed) return;
    this.#answer.reset();
    this.#close();
  }
}
