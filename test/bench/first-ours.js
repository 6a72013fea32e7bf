// Prints ms from the import of the package to the end of a first command.
import '@mastra/core/workspace';
const start = performance.now();
const { createMastraWorkspace } = await import('sandbox-sdk-native/mastra');
const { local } = await import('sandbox-sdk-native/local');
const workspace = createMastraWorkspace({ provider: local({ isolation: 'full', shell: '/bin/sh' }) });
await workspace.init();
await workspace.sandbox.executeCommand('echo hello');
console.log(performance.now() - start);
await workspace.destroy();
