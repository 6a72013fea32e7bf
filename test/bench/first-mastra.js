// As first-theirs.js, with our workspace: both import @mastra/core.
import '@mastra/core/workspace';
import { createMastraWorkspace } from 'sandbox-sdk-native/mastra';
import { local } from 'sandbox-sdk-native/local';

const workspace = createMastraWorkspace({ provider: local({ isolation: 'full', shell: '/bin/sh' }) });
await workspace.init();
await workspace.sandbox.executeCommand('echo hello');
console.log(performance.now());
await workspace.destroy();
