// What the model is told about the sandbox and the files.

/** Mastra's rule: a string replaces the text, a function gets it. */
export function resolveInstructions(override, makeDefault, requestContext) {
  if (typeof override === 'string') return override;
  const defaultInstructions = makeDefault();
  if (override === undefined) return defaultInstructions;
  return override({ defaultInstructions, requestContext });
}

const levels = {
  full: 'Commands are isolated: they see a read-only system and write only to the workspace, /tmp and $HOME.',
  landlock: 'Commands are restricted: they write only to the workspace, $TMPDIR and $HOME.',
  none: 'Commands are not isolated from this machine.',
};

const apart = 'Commands are isolated: they run in a machine of their own.';

function networkLine({ network, networkAllow: hosts, level }) {
  if (network === undefined) return '';
  if (network === 'allow') return 'The network can be used.';
  if (network === 'list') {
    const through = level === undefined ? '' : ', through the proxy in HTTP_PROXY';
    return `Of the network only these hosts can be reached${through}: ${hosts}.`;
  }
  const off = 'The network is off by policy: downloads fail, and trying again does not help.';
  return level === 'landlock' ? off : `${off} localhost works.`;
}

const units = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB'];
const inBytes = new Set(['memory', 'fileSize', 'workspaceSize', 'outputRate']);

function bytesText(bytes) {
  let value = bytes;
  let unit = 0;
  for (; value >= 1024 && unit < 4; unit++) value /= 1024;
  return `${Number(value.toFixed(1))} ${units[unit]}`;
}

// "memory 512 MiB, processes 4096" of facts, '' for none.
function limitsText(facts) {
  return Object.keys(facts)
    .filter(key => key.startsWith('limits.') && !key.endsWith('.enforcedBy'))
    .map(key => {
      const name = key.slice(7);
      const text = inBytes.has(name) ? bytesText(Number(facts[key])) : facts[key];
      return `${name} ${text}${name === 'outputRate' ? '/s' : ''}`;
    })
    .join(', ');
}

function limitsLine(facts) {
  const text = limitsText(facts);
  return text && `Limits: ${text}.`;
}

/** The sandbox: where commands run and what they may do. Reads facts only. */
export function instructionsFor(lease) {
  const { session, shownWorkdir: workdir } = lease;
  const { facts } = session;
  const inside = session.place.shown;
  const workspace = workdir === inside ? '' : `, in the workspace ${inside}`;
  const lines = [
    `Commands start in ${workdir}${workspace}.`,
    levels[facts.level] ?? (lease.provider.remote ? apart : ''),
    networkLine(facts),
    limitsLine(facts),
    facts.degraded ? `Note: ${facts.degraded.replaceAll('\n', '; ')}.` : '',
  ];
  return lines.filter(Boolean).join(' ');
}

/** The file tools: how paths are spelled. */
export function filesInstructionsFor(lease, readOnly) {
  const { inside, host } = lease.session.place;
  const also = host && host !== inside ? ` or "${host}/x"` : '';
  const text = `File tools work in the workspace ${inside}: "/x", "x" and "${inside}/x"${also} name the same file.`;
  return readOnly ? `${text} The file tools are read-only.` : text;
}
