// The fake E2B against the official package: what that can do on the real
// service it can do here, in the same way.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { officialAdapter } from '../fakes/e2b-official.js';
import { runScenario, steps } from '../fakes/e2b-scenario.js';
import { startFake } from '../fakes/e2b.js';

async function scenario(t, options, skip = []) {
  const fake = await startFake(options);
  t.after(() => fake.close());
  const report = await runScenario(fake, officialAdapter(fake), {
    only: (name) => !skip.includes(name),
    onStep: (name, work) => t.test(name, work),
  });
  assert.equal(report.length, steps.length - skip.length);
  assert.deepEqual(report.filter((step) => step.skipped), []);
  return report;
}

test('the official package runs the scenario', (t) => scenario(t, {}));

test('the scenario with odd spaces in the JSON', (t) => scenario(t, { spaces: true }));

test('the scenario with an envd before 0.4.0', async (t) => {
  // The package itself refuses what this envd has not.
  const skip = ['start: stdin and its end', 'start: a large stdin', 'snapshots'];
  const report = await scenario(t, { envdVersion: '0.3.9' }, skip);
  const run = report.find((step) => step.name === 'run: timeout').requests[0];
  assert.equal(run.has.authorization, true);
});
