// Prints ratios against the alternatives, measured side by side in one run.
//   npm run bench              everything
//   npm run bench -- commands  one group
const groups = {
  commands: async () => (await import('./commands.js')).commands(),
  network: async () => (await import('./network.js')).network(),
  files: async () => (await import('./files.js')).files(),
  snapshots: async () => (await import('./snapshots.js')).snapshots(),
  limits: async () => (await import('./limits.js')).limits(),
  e2b: async () => (await import('./e2b.js')).e2b(),
};

const asked = process.argv.slice(2);
for (const name of asked.length ? asked : Object.keys(groups)) {
  if (!groups[name]) {
    console.error(`bench: there is no group "${name}"; the groups are ${Object.keys(groups).join(', ')}`);
    process.exit(2);
  }
  console.log(`\n${name.padEnd(52)}      ours    theirs  ratio`);
  await groups[name]();
}
