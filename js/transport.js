// What the addon borrows to speak HTTP where the machine has no libcurl: one
// attempt of a request, or one raw connection, on node:http and node:tls. All
// judgement (retries, times, bounds, proxies to take) is the engine's.

const OPEN = 1;
const LINE = 2;
const BYTES = 3;
const PULL = 4;
const DONE = 5;

/** enum sbx_failure_kind */
const fail = {
  resolve: 1,
  connect: 2,
  connectTime: 3,
  tls: 4,
  proxy: 5,
  proxyAuth: 6,
  closed: 7,
  protocol: 8,
  decode: 9,
  unsupported: 10,
  other: 12,
};

const builtin = (name) => process.getBuiltinModule(`node:${name}`);

const connectCodes = ['ECONNREFUSED', 'EHOSTUNREACH', 'ENETUNREACH', 'EADDRNOTAVAIL', 'EACCES', 'EPERM'];

class ProxyError extends Error {
  constructor(kind, message) {
    super(message);
    this.kind = kind;
  }
}

function kindOf(error, sent) {
  const code = String(error.code ?? '');
  if (error.kind) return error.kind;
  if (code === 'ENOTFOUND' || code.startsWith('EAI_')) return fail.resolve;
  if (connectCodes.includes(code)) return fail.connect;
  if (code === 'ETIMEDOUT' && !sent) return fail.connectTime;
  if (/^(ERR_TLS|ERR_SSL|CERT_|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO|HOSTNAME_MISMATCH|EPROTO)/.test(code)) return fail.tls;
  if (code.startsWith('HPE_')) return fail.protocol;
  if (code.startsWith('Z_')) return fail.decode;
  if (['ECONNRESET', 'EPIPE', 'ECONNABORTED', 'ETIMEDOUT', 'ERR_STREAM_PREMATURE_CLOSE'].includes(code)) {
    return fail.closed;
  }
  return fail.other;
}

/** Reasons that cannot repeat the request. */
function textOf(error, kind) {
  return [fail.tls, fail.proxy, fail.unsupported].includes(kind) ? error.message : '';
}

function decodeUserInfo(url) {
  const text = `${decodeURIComponent(url.username)}:${decodeURIComponent(url.password)}`;
  return `Basic ${Buffer.from(text).toString('base64')}`;
}

function proxyHeaders(proxy) {
  return proxy.username ? { 'Proxy-Authorization': decodeUserInfo(proxy) } : {};
}

function parseProxy(text) {
  const proxy = new URL(text);
  if (proxy.protocol === 'http:' || proxy.protocol === 'https:') return proxy;
  throw new ProxyError(
    fail.unsupported,
    `a SOCKS proxy needs libcurl 7.87 or newer (Debian, Ubuntu: apt-get install libcurl4)`,
  );
}

const bare = (hostname) => hostname.replace(/^\[|\]$/g, '');
const portOf = (url) => Number(url.port) || (url.protocol === 'https:' ? 443 : 80);

/** A connection through the proxy to host:port, given to `callback(error, socket)`. */
function connectThrough(proxy, host, port, secureContext, callback) {
  const { request } = builtin(proxy.protocol === 'https:' ? 'https' : 'http');
  const target = `${host.includes(':') ? `[${host}]` : host}:${port}`;
  const asked = request({
    host: bare(proxy.hostname),
    port: portOf(proxy),
    method: 'CONNECT',
    path: target,
    headers: { Host: target, ...proxyHeaders(proxy) },
    agent: false,
    secureContext,
  });
  asked.on('connect', (response, socket) => {
    if (response.statusCode === 200) {
      callback(null, socket);
      return;
    }
    socket.destroy();
    const kind = response.statusCode === 407 ? fail.proxyAuth : fail.proxy;
    callback(new ProxyError(kind, `it answered ${response.statusCode}`));
  });
  asked.on('error', (error) => {
    const made = new ProxyError(fail.proxy, error.code ?? 'it cannot be reached');
    callback(made);
  });
  asked.end();
}

function makeProxyAgent(proxy, secureContext) {
  const { Agent } = builtin('https');
  return new (class extends Agent {
    createConnection(options, callback) {
      connectThrough(proxy, options.host, options.port, secureContext, (error, socket) => {
        if (error) callback(error);
        else callback(null, super.createConnection({ ...options, socket }));
      });
    }
  })({ keepAlive: true, secureContext });
}

class Transfer {
  sent = false;
  over = false;
  paused = false;

  constructor(transport, spec, emit) {
    this.transport = transport;
    this.spec = spec;
    this.emit = emit;
    this.proxy = spec.proxy ? parseProxy(spec.proxy) : undefined;
    this.timer = setTimeout(() => {
      this.finish(Object.assign(new Error(), { kind: fail.connectTime }));
    }, spec.connectMs).unref();
  }

  connected() {
    clearTimeout(this.timer);
    this.sent = true;
  }

  finish(error) {
    if (this.over) return;
    this.over = true;
    clearTimeout(this.timer);
    if (!error) {
      this.emit(DONE);
      return;
    }
    const kind = kindOf(error, this.sent);
    const first = error.errors?.[0] ?? error;
    const errno = typeof first.errno === 'number' ? Math.abs(first.errno) : 0;
    this.emit(DONE, kind, errno, this.sent, textOf(error, kind));
    this.drop();
  }

  /** Back-pressure shows in the answer: 1: no more now, 2: not even this. */
  give(stream, bytes) {
    if (this.over) return;
    const answer = this.emit(BYTES, bytes);
    if (this.over || !answer) return;
    this.paused = true;
    stream.pause();
    if (answer === 2) stream.unshift(bytes);
  }

  /** Writes what there is to pull until the stream is full. */
  pump(stream) {
    while (!this.over && !this.full && !this.ended) {
      const buffer = Buffer.allocUnsafe(65536);
      const n = this.emit(PULL, buffer);
      if (this.over || n === 0) return;
      if (n < 0) {
        this.ended = true;
        if (!this.spec.tunnel) stream.end();
        return;
      }
      this.full = !stream.write(buffer.subarray(0, n));
    }
  }

  drained(stream) {
    this.full = false;
    this.pump(stream);
  }

  end() {
    this.over = true;
    clearTimeout(this.timer);
    this.drop();
  }
}

class Request extends Transfer {
  constructor(transport, spec, emit) {
    super(transport, spec, emit);
    const url = new URL(spec.url);
    const secure = url.protocol === 'https:';
    this.request = builtin(secure ? 'https' : 'http').request(this.#options(url, secure));
    this.#setHeaders(url);
    this.#listen();
    if (spec.stream) this.pump(this.request);
    else this.request.end(spec.body);
  }

  #options(url, secure) {
    const options = {
      method: this.spec.method,
      host: bare(url.hostname),
      port: portOf(url),
      path: url.pathname + url.search,
      agent: this.transport.agent(secure ? this.proxy : undefined, secure),
      maxHeaderSize: 80 * 1024,
      setHost: false,
    };
    if (secure || !this.proxy) return options;
    return {
      ...options,
      host: bare(this.proxy.hostname),
      port: portOf(this.proxy),
      path: url.href,
      agent: this.transport.agent(undefined, this.proxy.protocol === 'https:'),
    };
  }

  #setHeaders(url) {
    const { request, spec } = this;
    request.setHeader('Host', url.host);
    for (const line of spec.headers) {
      const colon = line.indexOf(':');
      request.appendHeader(line.slice(0, colon), line.slice(colon + 1).trim());
    }
    if (!request.hasHeader('User-Agent')) request.setHeader('User-Agent', 'sandbox-sdk-native');
    if (!request.hasHeader('Accept')) request.setHeader('Accept', '*/*');
    if (spec.decode) request.setHeader('Accept-Encoding', 'gzip');
    if (this.proxy && url.protocol === 'http:') {
      for (const [name, value] of Object.entries(proxyHeaders(this.proxy))) request.setHeader(name, value);
    }
    if (spec.stream && spec.streamLength >= 0) request.setHeader('Content-Length', spec.streamLength);
    if (!spec.stream && (spec.body.length || spec.method === 'POST')) {
      request.setHeader('Content-Length', spec.body.length);
    }
  }

  #listen() {
    const { request } = this;
    request.on('socket', (socket) => {
      socket.unref();
      if (request.reusedSocket) this.connected();
      else socket.once(socket.encrypted ? 'secureConnect' : 'connect', () => this.connected());
    });
    request.on('response', (response) => this.#answer(response));
    request.on('error', (error) => this.finish(error));
    request.on('drain', () => this.drained(request));
    request.on('close', () => this.finish(Object.assign(new Error(), { kind: fail.closed })));
  }

  #answer(response) {
    this.connected();
    const { rawHeaders } = response;
    this.emit(LINE, `HTTP/${response.httpVersion} ${response.statusCode}`);
    for (let i = 0; i < rawHeaders.length && !this.over; i += 2) {
      this.emit(LINE, `${rawHeaders[i]}: ${rawHeaders[i + 1]}`);
    }
    if (!this.over) this.emit(LINE, '');
    if (this.over) return;
    response.on('error', (error) => this.finish(error));
    response.on('aborted', () => this.finish(Object.assign(new Error(), { kind: fail.closed })));
    this.body = this.#decoded(response);
    this.body.on('data', (bytes) => this.give(this.body, bytes));
    this.body.on('end', () => this.finish());
    if (this.paused) this.body.pause();
  }

  #decoded(response) {
    if (!this.spec.decode || !/^(x-)?gzip$/i.test(response.headers['content-encoding'] ?? '')) return response;
    const plain = builtin('zlib').createGunzip();
    plain.on('error', (error) => this.finish(error));
    return response.pipe(plain);
  }

  pause(paused) {
    this.paused = paused;
    if (paused) this.body?.pause();
    else this.body?.resume();
  }

  wake() {
    this.pump(this.request);
  }

  drop() {
    this.body?.destroy();
    this.request?.destroy();
  }
}

class Tunnel extends Transfer {
  constructor(transport, spec, emit) {
    super(transport, spec, emit);
    const url = new URL(spec.url);
    const host = bare(url.hostname);
    const secure = url.protocol === 'https:';
    if (!this.proxy) {
      this.#take(secure, host, builtin('net').connect(portOf(url), host));
      return;
    }
    connectThrough(this.proxy, host, portOf(url), transport.context(), (error, socket) => {
      if (this.over) socket?.destroy();
      else if (error) this.finish(error);
      else this.#take(secure, host, socket);
    });
  }

  #take(secure, host, raw) {
    const { tls, net } = { tls: builtin('tls'), net: builtin('net') };
    const servername = net.isIP(host) ? '' : host;
    const socket = secure
      ? tls.connect({ socket: raw, host, servername, secureContext: this.transport.context() })
      : raw;
    this.socket = socket;
    if (secure) raw.on('error', (error) => this.finish(error));
    socket.unref();
    socket.on('error', (error) => this.finish(error));
    socket.on('data', (bytes) => this.give(socket, bytes));
    socket.on('drain', () => this.drained(socket));
    socket.on('end', () => this.finish());
    socket.on('close', () => this.finish(Object.assign(new Error(), { kind: fail.closed })));
    if (secure) socket.once('secureConnect', () => this.#open());
    else if (raw.connecting) socket.once('connect', () => this.#open());
    else this.#open();
  }

  #open() {
    this.connected();
    if (this.paused) this.socket.pause();
    this.emit(OPEN);
    this.pump(this.socket);
  }

  pause(paused) {
    this.paused = paused;
    if (paused) this.socket?.pause();
    else this.socket?.resume();
  }

  wake() {
    if (this.socket && this.sent) this.pump(this.socket);
  }

  drop() {
    this.socket?.destroySoon();
  }
}

const none = { pause() {}, wake() {}, end() {} };

class Transport {
  #ca;
  #context;
  #agents = new Map();

  constructor(ca) {
    this.#ca = ca;
  }

  context() {
    this.#context ??= builtin('tls').createSecureContext(this.#ca ? { ca: this.#ca } : {});
    return this.#context;
  }

  agent(proxy, secure) {
    const key = `${secure} ${proxy?.href ?? ''}`;
    if (!this.#agents.has(key)) this.#agents.set(key, this.#makeAgent(proxy, secure));
    return this.#agents.get(key);
  }

  #makeAgent(proxy, secure) {
    if (proxy) return makeProxyAgent(proxy, this.context());
    const { Agent } = builtin(secure ? 'https' : 'http');
    return new Agent({ keepAlive: true, ...(secure && { secureContext: this.context() }) });
  }

  start(spec, emit) {
    try {
      return spec.tunnel ? new Tunnel(this, spec, emit) : new Request(this, spec, emit);
    } catch (error) {
      const kind = kindOf(error, false);
      emit(DONE, kind, 0, false, textOf(error, kind));
      return none;
    }
  }

  close() {
    for (const agent of this.#agents.values()) agent.destroy();
  }
}

/** What native().lend takes. */
export const host = {
  /** `ca`: PEM, or undefined for Node's own roots. */
  open(caFile, ca) {
    return new Transport(caFile ? builtin('fs').readFileSync(caFile) : ca);
  },
  /** Node's own roots as PEM. */
  roots: () => builtin('tls').rootCertificates.join('\n'),
};
