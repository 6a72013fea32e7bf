// A language server inside the sandbox, spoken to over the streams of its
// handle: JSON-RPC with Content-Length, the framing of LSP.
//   node test/examples/language-server.js
import { createMastraWorkspace } from 'sandbox-sdk-native/mastra';
import { local } from 'sandbox-sdk-native/local';

// Stands where an application installs a real one.
const server = `
let input = Buffer.alloc(0);
const send = (message) => {
  const body = Buffer.from(JSON.stringify({ jsonrpc: '2.0', ...message }));
  process.stdout.write('Content-Length: ' + body.length + '\\r\\n\\r\\n');
  process.stdout.write(body);
};
const answers = {
  initialize: () => ({ capabilities: { hoverProvider: true } }),
  'textDocument/hover': ({ textDocument, position }) => {
    const text = require('fs').readFileSync(new URL(textDocument.uri), 'utf8').split('\\n')[position.line];
    return { contents: 'line ' + position.line + ': ' + text };
  },
  shutdown: () => null,
};
process.stdin.on('data', (bytes) => {
  input = Buffer.concat([input, bytes]);
  for (;;) {
    const head = input.indexOf('\\r\\n\\r\\n');
    if (head < 0) return;
    const length = Number(/Content-Length: (\\d+)/i.exec(input.subarray(0, head))[1]);
    if (input.length < head + 4 + length) return;
    const { id, method, params } = JSON.parse(input.subarray(head + 4, head + 4 + length));
    input = input.subarray(head + 4 + length);
    if (id !== undefined) send({ id, result: answers[method](params ?? {}) });
  }
}).on('end', () => process.exit(0));
`;

/** The client's side: requests out over `writer`, answers in over `reader`. */
function connect({ reader, writer }) {
  const waiting = new Map();
  let input = Buffer.alloc(0);
  let calls = 0;

  reader.on('data', (bytes) => {
    input = Buffer.concat([input, bytes]);
    for (let message = take(); message; message = take()) waiting.get(message.id)?.(message.result);
  });

  function take() {
    const head = input.indexOf('\r\n\r\n');
    if (head < 0) return undefined;
    const end = head + 4 + Number(/Content-Length: (\d+)/i.exec(input.subarray(0, head))[1]);
    if (input.length < end) return undefined;
    const message = JSON.parse(input.subarray(head + 4, end));
    input = input.subarray(end);
    return message;
  }

  function send(message) {
    const body = Buffer.from(JSON.stringify({ jsonrpc: '2.0', ...message }));
    writer.write(`Content-Length: ${body.length}\r\n\r\n`);
    writer.write(body);
  }

  return {
    request(method, params) {
      const id = ++calls;
      send({ id, method, params });
      return new Promise((resolve) => waiting.set(id, resolve));
    },
    notify: (method, params) => send({ method, params }),
  };
}

const workspace = createMastraWorkspace({ provider: local() });
try {
  await workspace.filesystem.writeFile('server.js', server);
  await workspace.filesystem.writeFile('src/hello.ts', "const grüße = 'hello 😀';\nexport default grüße;\n");
  const handle = await workspace.sandbox.processes.spawn('node server.js');
  const client = connect(handle);

  const { capabilities } = await client.request('initialize', { rootUri: 'file:///workspace' });
  console.log('capabilities:', Object.keys(capabilities).join(', '));
  client.notify('initialized', {});
  const textDocument = { uri: 'file:///workspace/src/hello.ts' };
  const hover = await client.request('textDocument/hover', { textDocument, position: { line: 0, character: 6 } });
  console.log('hover:', hover.contents);
  await client.request('shutdown');
  handle.writer.end();
  const { exitCode } = await handle.wait();
  console.log('server ended with', exitCode);
} finally {
  await workspace.destroy();
}
