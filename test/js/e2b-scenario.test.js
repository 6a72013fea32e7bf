// Our provider runs the scenario of the official package on the same fake: the
// same results, and the same requests where the service cares.
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { test } from 'node:test';
import { officialAdapter } from '../fakes/e2b-official.js';
import { runScenario } from '../fakes/e2b-scenario.js';
import { startFake } from '../fakes/e2b.js';

const skip = existsSync(new URL('../../js/e2b.js', import.meta.url)) ? false : 'js/e2b.js is not there';

async function report(t, make, onStep) {
  const fake = await startFake();
  t.after(() => fake.close());
  return runScenario(fake, make(fake), { onStep });
}

// The control plane's calls of a step, each once.
function calls(steps, name) {
  const { requests } = steps.find((step) => step.name === name);
  return new Set(requests.filter((one) => one.plane === 'api').map((one) => `${one.method} ${one.path}`));
}

function request(steps, name, method, path) {
  const { requests } = steps.find((step) => step.name === name);
  return requests.find((one) => one.method === method && one.path === path);
}

test('our provider runs the scenario', { skip }, async (t) => {
  const { ownAdapter } = await import('../fakes/e2b-own.js');
  const ours = await report(t, ownAdapter, (name, work) => t.test(name, work));
  const theirs = await report(t, officialAdapter, (name, work) => work());

  for (const name of ['create', 'pause and resume', 'connect', 'kill'])
    for (const one of calls(theirs, name)) assert.ok(calls(ours, name).has(one), `${name}: ${one}`);

  const made = request(ours, 'create', 'POST', '/v2/sandboxes').json;
  const model = request(theirs, 'create', 'POST', '/v2/sandboxes').json;
  assert.equal(made.templateID, model.templateID);
  assert.equal(made.timeout, model.timeout);
  for (const [key, value] of Object.entries(model.metadata)) assert.equal(made.metadata[key], value);

  const input = '/process.Process/SendInput';
  assert.deepEqual(
    Object.keys(request(ours, 'start: stdin and its end', 'POST', input).json.input),
    Object.keys(request(theirs, 'start: stdin and its end', 'POST', input).json.input),
  );

  // The account's key is the control plane's, the token the sandbox's.
  for (const { requests } of ours) {
    for (const one of requests) {
      assert.equal(one.has.key, one.plane === 'api', `${one.plane} ${one.path}`);
      assert.equal(one.has.token, one.plane === 'envd', `${one.plane} ${one.path}`);
    }
  }
});
