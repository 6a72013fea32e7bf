// A fake E2B in a process of its own: prints { url, apiKey } as JSON and ends
// with its stdin. Its options are one JSON argument.
import { startFake } from './e2b.js';

const fake = await startFake(JSON.parse(process.argv[2] ?? '{}'));
console.log(JSON.stringify({ url: fake.url, apiKey: fake.apiKey, ca: fake.ca }));

async function end() {
  await fake.close();
  process.exit();
}

process.stdin.on('end', end).resume();
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, end);
