// An HTTP answer that a fault can cut, split, slow down, hang or replace.
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import { replacement } from './faults.js';

// A small generator with a seed, so that a failing split can be repeated.
function generator(seed) {
  let state = seed >>> 0 || 1;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) / 2 ** 32;
  };
}

function* pieces(data, size) {
  for (let at = 0; at < data.length; ) {
    const next = at + Math.max(1, size());
    yield data.subarray(at, next);
    at = next;
  }
}

export class Answer {
  #response;
  #request;
  #sent = 0;
  #slow;
  #queue = Promise.resolve();
  #over = false;

  constructor(request, response, fault, record) {
    this.#request = request;
    this.#response = response;
    this.fault = fault;
    this.record = record;
    this.#slow = fault && this.#splitter(fault);
    response.on('error', () => {});
  }

  #splitter(fault) {
    if (fault.oneByte) return () => 1;
    if (fault.drip) return () => fault.drip.bytes;
    if (fault.splits === undefined) return undefined;
    const random = generator(fault.splits);
    return () => Math.floor(random() * 40);
  }

  get two() {
    return this.#request.httpVersionMajor === 2;
  }

  /** Breaks the connection (HTTP/2: the stream) without an orderly end. */
  reset() {
    this.#over = true;
    if (this.two) return this.#response.stream.close(2);
    const { socket } = this.#request;
    try {
      socket.resetAndDestroy();
    } catch {
      socket.destroy();
    }
  }

  /** Ends the connection without the answer's end. */
  finish() {
    this.#over = true;
    if (this.two) return this.#response.stream.close(2);
    this.#request.socket.end();
  }

  /** Runs a fault that comes before any answer. -> true: there is nothing more to do. */
  async before() {
    const { fault } = this;
    if (!fault) return false;
    if (fault.delay) await sleep(fault.delay, undefined, { ref: false });
    if (fault.hang) return true;
    if (fault.reset) {
      this.reset();
      return true;
    }
    if (fault.goaway && this.two) this.#response.stream.session.goaway();
    if (fault.endlessHeaders) {
      this.#endlessHeaders();
      return true;
    }
    const instead = replacement(fault);
    if (instead) this.send(instead.status, instead.headers, Buffer.from(instead.body));
    return Boolean(instead);
  }

  #endlessHeaders() {
    const { socket } = this.#request;
    if (this.two) {
      const many = Array.from({ length: 5000 }, (_, i) => [`x-filler-${i}`, 'a'.repeat(200)]);
      return this.#response.writeHead(200, Object.fromEntries(many)).end();
    }
    let line = 0;
    this.#over = true;
    socket.write('HTTP/1.1 200 OK\r\n');
    const more = () => {
      while (!socket.destroyed && line < 500_000)
        if (!socket.write(`x-filler-${line++}: ${'a'.repeat(200)}\r\n`)) return;
      socket.destroy();
    };
    socket.on('drain', more);
    more();
  }

  head(status, headers) {
    this.record.status = status;
    if (this.fault?.loseAnswer) return;
    const kept = { ...headers };
    if (this.two) delete kept.connection;
    this.#response.writeHead(status, kept);
  }

  flush() {
    if (!this.fault?.loseAnswer) this.#response.flushHeaders();
  }

  onClose(then) {
    this.#response.on('close', then);
  }

  get gone() {
    return this.#over || this.#response.destroyed;
  }

  /** Resolves when the reader took what was written, or is gone. */
  ready() {
    return new Promise((resolve) => {
      if (this.gone || !this.#response.writableNeedDrain) return resolve();
      this.#response.once('drain', resolve);
      this.#response.once('close', resolve);
    });
  }

  onDrain(then) {
    this.#response.once('drain', then);
  }

  // What of `data` a cut leaves; the rest never goes out.
  #before(data) {
    const limit = this.fault?.cutAfter ?? this.fault?.truncate;
    if (limit === undefined) return data;
    return data.subarray(0, Math.max(0, limit - this.#sent));
  }

  #put(data) {
    if (this.#over) return true;
    if (this.fault?.loseAnswer) return true;
    const part = this.#before(data);
    this.#sent += part.length;
    const fast = part.length ? this.#response.write(part) : true;
    if (part.length < data.length) this.#cut();
    return fast;
  }

  #cut() {
    const how = this.fault.cutAfter === undefined ? 'finish' : 'reset';
    // The bytes written so far have to leave first.
    this.#response.write('', () => setTimeout(() => this[how](), 20).unref());
    this.#over = true;
  }

  async #putSlowly(data) {
    for (const piece of pieces(data, this.#slow)) {
      if (this.#over || this.#response.destroyed) return;
      this.#put(piece);
      if (this.fault.drip) await sleep(this.fault.drip.ms, undefined, { ref: false });
      else await nextTurn();
    }
  }

  /** False when the reader is slow. */
  write(data) {
    if (!this.#slow) return this.#put(data);
    this.#queue = this.#queue.then(() => this.#putSlowly(data));
    return true;
  }

  end(data) {
    if (data?.length) this.write(data);
    const last = () => {
      if (this.fault?.loseAnswer) this.reset();
      else if (!this.#over) this.#response.end();
    };
    if (this.#slow) this.#queue = this.#queue.then(last);
    else last();
  }

  send(status, headers, body = Buffer.alloc(0)) {
    let data = body;
    const kept = { ...headers };
    if (this.fault?.patch && /json/.test(kept['content-type'] ?? '')) {
      data = Buffer.from(JSON.stringify(this.fault.patch(JSON.parse(body.toString()))));
      if (kept['content-length']) kept['content-length'] = data.length;
    }
    this.head(status, kept);
    this.end(data);
  }

  json(status, value, headers = {}) {
    const body = Buffer.from(`${JSON.stringify(value)}`);
    this.send(status, { 'content-type': 'application/json; charset=utf-8', 'content-length': body.length, ...headers }, body);
  }

  text(status, text) {
    const body = Buffer.from(text);
    this.send(status, { 'content-type': 'text/plain; charset=utf-8', 'content-length': body.length }, body);
  }
}
