// Workspaces for tests, and Mastra's own tools on them.
import * as core from '@mastra/core/workspace';
import { createMastraWorkspace } from 'sandbox-sdk-native/mastra';

import { fake, provider } from './providers.js';

export { withinLimit } from './limit.js';

/** A test body that gets a workspace, which is destroyed afterwards. */
export function using(options, work) {
  return async t => {
    const workspace = createMastraWorkspace({ provider: provider(), ...options });
    try {
      await work(workspace, t);
    } finally {
      await workspace.destroy();
    }
  };
}

/** Mastra's tools of a workspace as functions of their input: tools.read_file({...}). */
export async function toolsOf(workspace, context) {
  const made = await core.createWorkspaceTools(workspace);
  const entries = Object.entries(made).map(([name, tool]) => [
    name.replace('mastra_workspace_', ''),
    input => tool.execute(input, { workspace, ...context }),
  ]);
  return Object.fromEntries(entries);
}

/** Counts the addon's file and spawn calls of a running sandbox, at a service its
 * requests; -> function that gives and resets the count. */
export function countCalls(sandbox) {
  if (fake) return countRequests();
  const { session } = sandbox._lease;
  const { native } = session;
  let count = 0;
  session.native = new Proxy(native, {
    get(target, name) {
      const value = target[name];
      if (typeof value !== 'function') return value;
      return (...args) => {
        if (name === 'file' || name === 'spawn') count++;
        return value.apply(target, args);
      };
    },
  });
  return () => {
    const seen = count;
    count = 0;
    return seen;
  };
}

function countRequests() {
  let mark = fake.mark();
  return () => {
    const seen = fake.count(mark);
    mark = fake.mark();
    return seen;
  };
}

/** Waits until `check` gives something true, and gives that; fails after 60 s. */
export async function until(check, what = String(check)) {
  const end = Date.now() + 60_000;
  for (;;) {
    const value = await check();
    if (value) return value;
    if (Date.now() > end) throw new Error(`never happened: ${what}`);
    await new Promise(resolve => setTimeout(resolve, 20));
  }
}

/** What `command` prints. */
export async function out(workspace, ...args) {
  return (await workspace.sandbox.executeCommand(...args)).stdout;
}
