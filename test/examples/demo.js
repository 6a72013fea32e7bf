// A real Mastra agent at work in a Local workspace.
//   npm run demo                  a scripted model, no key needed
//   npm run demo -- "a task"      with OPENAI_API_KEY, ANTHROPIC_API_KEY or
//                                 GOOGLE_GENERATIVE_AI_API_KEY: that task,
//                                 by the real model (DEMO_MODEL names another)
import { Agent } from '@mastra/core/agent';
import { Mastra } from '@mastra/core/mastra';
import { createMastraWorkspace } from 'sandbox-sdk-native/mastra';
import { local } from 'sandbox-sdk-native/local';
import { scriptedModel } from './scripted-model.js';

const realModels = {
  OPENAI_API_KEY: 'openai/gpt-5',
  ANTHROPIC_API_KEY: 'anthropic/claude-sonnet-4-5',
  GOOGLE_GENERATIVE_AI_API_KEY: 'google/gemini-2.5-pro',
};

const ws = (tool) => `mastra_workspace_${tool}`;
const call = (tool, input) => ({ calls: [{ tool: ws(tool), input }] });
const run = (command, more = {}) => call('execute_command', { command, ...more });

const server = [
  "import { createServer } from 'node:http';",
  "createServer((_, answer) => answer.end('hello from inside\\n')).listen(3000);",
  "console.log('listening on 3000');",
  '',
].join('\n');

/** The pid that Mastra's tool reported for the background command. */
function backgroundPid(seen) {
  const started = seen.find(({ output }) => /PID/.test(String(output)));
  return /PID:?\s*(\d+)/.exec(String(started?.output))?.[1] ?? '0';
}

const script = [
  call('write_file', { path: 'hello.js', content: "console.log('Hello from the sandbox');\n" }),
  run('node hello.js'),
  call('edit_file', { path: 'hello.js', old_string: 'Hello', new_string: 'Hello again' }),
  run('node hello.js'),
  call('write_file', { path: '/src/lib/add.js', content: 'export const add = (a, b) => a + b;\n' }),
  call('list_files', { path: '/' }),
  call('grep', { pattern: 'Hello|add' }),
  call('write_file', { path: 'server.mjs', content: server }),
  run('node server.mjs', { background: true }),
  run(
    "for i in $(seq 50); do node -e \"fetch('http://localhost:3000').then(r => r.text()).then(t => process.stdout.write(t))\" 2>/dev/null && break; sleep 0.1; done",
  ),
  (seen) => call('get_process_output', { pid: backgroundPid(seen) }),
  (seen) => call('kill_process', { pid: backgroundPid(seen) }),
  run('cat /etc/shadow; ls /root /home'),
  run("node -e \"fetch('http://169.254.169.254/').catch(e => console.log('network:', e.cause.code))\""),
  run('env | cut -d= -f1 | sort | tr "\\n" " "'),
  call('read_file', { path: '../../etc/passwd' }),
];

// Steps that need a server on a port.
const serverSteps = script.slice(7, 12);

/** The model's last words, after these steps. */
function summary(steps) {
  const served = serverSteps.every((step) => steps.includes(step)) ? 'A server was started, polled and stopped. ' : '';
  return { text: `hello.js was created, run, edited and run again. ${served}The host stayed out of reach.` };
}

/** { name, key }: the model, and the variable that its key is in. */
function realModel() {
  const key = Object.keys(realModels).find((name) => process.env[name]);
  const name = process.env.DEMO_MODEL || realModels[key];
  return name && { name, key };
}

function stepsFor({ level, landlockAbi }) {
  if (level !== 'landlock' || Number(landlockAbi) >= 4) return [...script, summary(script)];
  console.log('The server step is left out: at level "landlock" commands have network sockets from Linux 6.7 on.');
  const steps = script.filter((step) => !serverSteps.includes(step));
  return [...steps, summary(steps)];
}

function short(value, margin = '    ') {
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  const lines = text.trimEnd().split('\n');
  const shown = lines.slice(0, 12).map((line) => `${margin}${line.slice(0, 160)}`.trimEnd());
  if (lines.length > 12) shown.push(`${margin}... ${lines.length - 12} more lines`);
  return shown.join('\n');
}

function describe({ command, background, path, content, ...more }) {
  if (command) return `${command}${background ? '   (in the background)' : ''}`;
  const rest = Object.entries(more).map(([name, value]) => `${name}: ${JSON.stringify(value)}`);
  const line = [path, rest.join(', ')].filter(Boolean).join('  ');
  return content === undefined ? line : `${line}\n${short(content, '    | ')}`;
}

function printStep({ content }) {
  const results = content.filter((part) => part.type === 'tool-result');
  for (const { toolCallId, toolName, input } of content.filter((part) => part.type === 'tool-call')) {
    console.log(`\n> ${toolName.replace(ws(''), '')}  ${describe(input)}`);
    const output = results.find((part) => part.toolCallId === toolCallId)?.output;
    if (output) console.log(short(output.value ?? output));
  }
}

function modelFailed({ name, key }, error) {
  throw new Error(`the model ${name}${key ? `, with ${key},` : ''} failed: ${error.message}`);
}

async function main() {
  const task = process.argv.slice(2).join(' ');
  const model = realModel();
  if (task && !model) {
    console.error(`demo: a task of your own needs a model key: set one of ${Object.keys(realModels).join(', ')}.
Without a task, \`npm run demo\` needs no key.`);
    process.exitCode = 2;
    return;
  }
  const workspace = createMastraWorkspace({ provider: local({ ports: [3000] }) });
  try {
    await workspace.init();
    const steps = stepsFor(workspace.sandbox.getInfo().metadata);
    const agent = new Agent({
      id: 'demo',
      name: 'Demo',
      model: task ? model.name : scriptedModel(steps),
      instructions: 'Work only in the attached workspace and verify changes.',
      workspace,
    });
    // Without its logger, which would print a failed request in full.
    new Mastra({ agents: { demo: agent }, logger: false });
    const { level, cwd } = workspace.sandbox.getInfo().metadata;
    console.log(`Workspace ready: isolation ${level}, files at ${cwd}. Model: ${task ? model.name : 'scripted, without a key'}.`);
    const work = agent.generate(task || 'Create hello.js and run it.', {
      maxSteps: task ? 60 : steps.length + 1,
      onStepFinish: printStep,
    });
    const result = await (task ? work.catch((error) => modelFailed(model, error)) : work);
    console.log(`\n${result.text}`);
  } finally {
    await workspace.destroy();
  }
}

try {
  await main();
} catch (error) {
  console.error(`demo: ${error.message}`);
  process.exitCode = 1;
}
