// A TCP relay in front of a fake that ends the connection after so many bytes of
// one answer, its head among them.
import { connect, createServer } from 'node:net';

/**
 * Starts a relay to a port of loopback.
 *
 * `relay.cut(pattern, at, how)` ends the next answer to a request whose head
 * matches after `at` bytes, by 'reset' or 'fin'; `at` Infinity only counts.
 * -> { used, bytes }.
 */
export async function startRelay(port) {
  const armed = [];
  const sockets = new Set();

  function take(data) {
    const head = data.toString('latin1');
    if (!/^(GET|POST|PUT|DELETE) /.test(head)) return undefined;
    const index = armed.findIndex(one => one.pattern.test(head));
    return index < 0 ? null : armed.splice(index, 1)[0];
  }

  function end(client, how) {
    if (how === 'reset') client.resetAndDestroy();
    else client.end();
  }

  function onAnswer(client, upstream, state, data) {
    const { cut } = state;
    if (!cut) return client.write(data);
    const left = cut.at - cut.bytes;
    cut.bytes += data.length;
    if (data.length <= left) return client.write(data);
    cut.used++;
    state.over = true;
    client.write(data.subarray(0, left), () => setImmediate(() => end(client, cut.how)));
    upstream.destroy();
  }

  const server = createServer(client => {
    const upstream = connect(port, '127.0.0.1');
    const state = { cut: undefined, over: false };
    for (const one of [client, upstream]) {
      one.setNoDelay(true);
      one.on('error', () => {});
      sockets.add(one);
      one.on('close', () => sockets.delete(one));
    }
    client.on('data', data => {
      const found = take(data);
      if (found !== undefined) state.cut = found;
      // Nothing at all is an answer too: the request arrives and that is it.
      upstream.write(data);
    });
    upstream.on('data', data => !state.over && onAnswer(client, upstream, state, data));
    client.on('close', () => upstream.destroy());
    upstream.on('close', () => !state.over && client.end());
  });
  await new Promise(resolve => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    cut(pattern, at, how = 'reset') {
      const one = { pattern, at, how, used: 0, bytes: 0 };
      armed.push(one);
      return one;
    },
    clear: () => armed.splice(0),
    async close() {
      for (const socket of sockets) socket.destroy();
      await new Promise(resolve => server.close(resolve));
    },
  };
}
