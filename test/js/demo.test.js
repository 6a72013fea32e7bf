// `npm run demo` as a newcomer meets it: it works without a key, and says in one
// line what is missing or wrong.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import http from 'node:http';
import { createRequire } from 'node:module';
import path from 'node:path';
import { test } from 'node:test';

const require = createRequire(import.meta.url);
const newest = require('../../package.json').devDependencies['@mastra/core'];
const skip = require('@mastra/core/package.json').version !== newest && 'the demo is for the newest @mastra/core';
const { OPENAI_API_KEY, ANTHROPIC_API_KEY, GOOGLE_GENERATIVE_AI_API_KEY, DEMO_MODEL, ...keyless } = process.env;
const demo = path.join(import.meta.dirname, '../examples/demo.js');

/** { code, stdout, stderr } of the demo, with no key but those of `env`. */
function run(args, env) {
  return new Promise(resolve => {
    execFile(process.execPath, [demo, ...args], { env: { ...keyless, ...env } }, (error, stdout, stderr) =>
      resolve({ code: error?.code ?? 0, stdout, stderr }),
    );
  });
}

test('a scripted model: every step is printed, no key is needed', { skip }, async () => {
  const { code, stdout, stderr } = await run([]);
  assert.equal(code, 0, stderr);
  assert.equal(stderr, '');
  assert.match(stdout, /^Workspace ready: isolation \w+, files at \/.*scripted/);
  assert.match(stdout, /> execute_command {2}node hello\.js\n {4}Hello from the sandbox\n/);
  assert.match(stdout, /\nhello\.js was created.*\n$/);
});

test('a task without a key: which variables hold one', { skip }, async () => {
  const { code, stdout, stderr } = await run(['a', 'task']);
  assert.equal(code, 2);
  assert.equal(stdout, '');
  assert.match(stderr, /^demo: .*OPENAI_API_KEY, ANTHROPIC_API_KEY, GOOGLE_GENERATIVE_AI_API_KEY/);
});

test('a wrong key: one line that names the model, the variable and the answer', { skip }, async t => {
  const server = http.createServer((request, answer) => {
    request.resume();
    answer.writeHead(401, { 'content-type': 'application/json' });
    answer.end('{"error":{"message":"Incorrect API key provided","code":"invalid_api_key"}}');
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => server.close());
  const env = { OPENAI_API_KEY: 'sk-wrong', OPENAI_BASE_URL: `http://127.0.0.1:${server.address().port}/v1` };
  const { code, stderr } = await run(['a task'], env);
  assert.equal(code, 1);
  assert.equal(stderr, 'demo: the model openai/gpt-5, with OPENAI_API_KEY, failed: Incorrect API key provided\n');
});
