import * as core from '/work/wt/deep/node_modules/@mastra/core/dist/workspace/index.js';
import { createMastraWorkspace } from '/work/wt/deep/js/mastra/index.js';
import { local } from '/work/wt/deep/js/local.js';
export const name = 'sandbox-sdk-native';
export async function create({ root, env, id }) {
  const workspace = createMastraWorkspace({ provider: local({ directory: root, isolation: 'full' }), ...(env ? { env } : {}), ...(id ? { id } : {}) });
  await workspace.init();
  return { workspace, fs: workspace.filesystem, sandbox: workspace.sandbox, core, async destroy() { await workspace.destroy(); } };
}
