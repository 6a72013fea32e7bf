// A fake E2B on loopback: control plane, edge and envd, with real processes
// and files. What is faithful to what stands in the wire notes of the service.
import { PassThrough } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { Answer } from './answer.js';
import { control, isControlPath } from './e2b/control.js';
import { edge, edgeUpgrade, readTarget } from './e2b/edge.js';
import { readEnvelopes } from './e2b/connect.js';
import { atLeast, Sandboxes } from './e2b/sandboxes.js';
import { Faults, matches } from './faults.js';
import { listen } from './listener.js';
import { buildMachine } from './machine.js';
import { makeCertificate } from './tls.js';

const apiKey = 'e2b_0123456789abcdef0123456789abcdef01234567';

const defaults = {
  api: 'v2', // or 'v1': only the old create and connect
  list: 'v2', // or 'v1': only the old list, without what is paused
  oldStatus: 405, // what a v1 server answers to the newer calls: 400, 404 or 405
  apiKey,
  domain: undefined, // named in the answers
  envdVersion: '0.6.10',
  templates: ['base', 'mcp-gateway', 'desktop', 'code-interpreter-v1'],
  maxAge: 24 * 3600, // s
  maxSandboxes: 1000,
  pageLimit: 100, // of a list, whatever was asked
  cut: 'trailer', // how streams end with their sandbox; or 'reset'
  latencyMs: 0, // before every request
  pauseTakes: async () => {}, // what pausing and resuming wait for
  keepaliveMs: undefined, // instead of what the client asks for
  spaces: false, // JSON as another build of envd prints it
  tls: false,
  http2: false, // with TLS, beside HTTP/1.1
  tlsNames: undefined,
  now: Date.now,
  onCreate: () => {}, // (sandbox) before its machine boots: files of its root
  report: (error) => process.emitWarning(`fake E2B: ${error.stack}`),
};

function parseJson(bytes) {
  try {
    return JSON.parse(bytes.toString());
  } catch {
    return undefined;
  }
}

/** One request as a test sees it. */
function record(incoming, n) {
  const [path] = incoming.url.split('?');
  const target = readTarget(incoming.headers);
  const query = new URL(incoming.url, 'http://fake').searchParams;
  const rpc = /^\/(?:filesystem\.Filesystem|process\.Process)\/(\w+)$/.exec(path)?.[1];
  const plane = !target ? 'api' : target.port === 49983 ? 'envd' : 'port';
  return {
    n,
    method: incoming.method,
    url: incoming.url,
    path,
    query,
    headers: { ...incoming.headers },
    rawHeaders: incoming.rawHeaders,
    plane,
    rpc,
    sandboxID: target?.id ?? /\/sandboxes\/([^/?]+)/.exec(path)?.[1],
    at: performance.now(),
    body: Buffer.alloc(0),
    bytes: 0,
    target,
  };
}

async function readBody(incoming, request) {
  const parts = [];
  for await (const part of incoming) {
    parts.push(part);
    request.bytes += part.length;
  }
  request.body = Buffer.concat(parts);
  const type = request.headers['content-type'] ?? '';
  if (type.startsWith('application/json')) request.json = parseJson(request.body);
  if (!type.startsWith('application/connect')) return;
  request.frames = readEnvelopes(request.body).map((one) => parseJson(one.payload));
  request.json = request.frames[0];
}

// A raw upload goes to its file while it arrives; its first bytes are kept.
function streamBody(incoming, request) {
  const kept = [];
  incoming.on('data', (part) => {
    request.bytes += part.length;
    if (request.bytes <= 65536) request.body = Buffer.concat([...kept.splice(0), request.body, part]);
  });
  request.stream = incoming.pipe(new PassThrough());
  incoming.on('aborted', () => request.stream.destroy(new Error('unexpected EOF')));
}

/** The fake itself; `startFake` makes one. */
class Fake {
  constructor(options) {
    this.options = { ...defaults, ...options };
    this.apiKey = this.options.apiKey;
    this.store = new Sandboxes(this.options);
    this.store.versionHas = (version) => atLeast(this.options.envdVersion, version);
    this.sandboxes = this.store.all;
    this.requests = [];
    this.faults = new Faults();
  }

  async #serve(incoming, response) {
    const request = record(incoming, this.requests.length);
    this.requests.push(request);
    const raw = request.path === '/files' && /^application\/octet-stream/.test(request.headers['content-type'] ?? '');
    if (raw) streamBody(incoming, request);
    else await readBody(incoming, request);
    const answer = new Answer(incoming, response, this.faults.take(request), request);
    // What is recorded of a large upload is its start.
    response.on('close', () => (request.body = Buffer.from(request.body.subarray(0, 1 << 20))));
    if (this.options.latencyMs) await sleep(this.options.latencyMs);
    if (await answer.before()) return;
    if (request.target) return edge(this.store, request, answer, request.target);
    if (isControlPath(request.path)) return control(this.store, request, answer);
    return answer.text(400, 'missing header');
  }

  async start() {
    buildMachine();
    const { tls, http2, port } = this.options;
    this.certificate = tls || http2 ? makeCertificate(this.options.tlsNames) : undefined;
    this.ca = this.certificate?.caFile;
    const onRequest = (incoming, response) =>
      this.#serve(incoming, response).catch((error) => {
        if (!incoming.destroyed && !incoming.aborted) this.options.report(error);
        response.destroy();
      });
    const onUpgrade = (request, socket, head) => edgeUpgrade(this.store, request, socket, head).catch(() => socket.destroy());
    this.listener = await listen({ certificate: this.certificate, http2, port }, onRequest, onUpgrade);
    this.port = this.listener.port;
    this.url = `${this.certificate ? 'https' : 'http'}://127.0.0.1:${this.port}`;
  }

  /** Switches a fault on; see Faults and Answer for the kinds. */
  fault(what) {
    return this.faults.add(what);
  }

  clearFaults() {
    this.faults.clear();
  }

  /** The index of the next request. */
  mark() {
    return this.requests.length;
  }

  since(mark = 0) {
    return this.requests.slice(mark);
  }

  /** How many requests came since then; `match` as in a fault. */
  count(mark = 0, match = {}) {
    return this.since(mark).filter((request) => matches(match, request)).length;
  }

  /** Moves the service's clock; what is due happens before this resolves. */
  advance(ms) {
    return this.store.advance(ms);
  }

  /** Ends a sandbox as its deadline would, without the clock. */
  async expire(id) {
    const sandbox = this.store.get(id);
    if (sandbox) await this.store.kill(sandbox);
  }

  async close() {
    await this.listener.close();
    await this.store.close();
    this.certificate?.remove();
  }

  [Symbol.asyncDispose]() {
    return this.close();
  }
}

/** Starts a fake E2B; the options are named in `defaults` above. */
export async function startFake(options = {}) {
  const fake = new Fake(options);
  await fake.start();
  return fake;
}
