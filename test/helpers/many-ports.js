// Prints the bytes of JavaScript's heap that each of 60 sessions leaves behind
// whose port was asked; run with --expose-gc.
import { setTimeout as sleep } from 'node:timers/promises';
import { createSandbox } from 'sandbox-sdk-native';
import { local } from 'sandbox-sdk-native/local';

const COUNT = 60;
const provider = local({ ports: [3000] });

async function one() {
  const box = await createSandbox({ provider });
  const { request } = await box.ports.expose(3000);
  await request('/').then(answer => answer.text());
  await box.destroy();
}

async function many() {
  for (let i = 0; i < COUNT; i++) await one();
  for (let i = 0; i < 4; i++) {
    globalThis.gc();
    await sleep(20);
  }
  return process.memoryUsage().heapUsed;
}

await many();
console.log((-(await many()) + (await many())) / COUNT);
