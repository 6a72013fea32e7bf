// What the model is told about the sandbox and the files.

/** Mastra's rule: a string replaces the text, a function gets it. */
export function resolveInstructions(override, makeDefault, requestContext) {
  if (typeof override === 'string') return override;
  const defaultInstructions = makeDefault();
  if (override === undefined) return defaultInstructions;
  return override({ defaultInstructions, requestContext });
}

const levels = {
  full: 'They run isolated from the host: own processes, own network, a read-only system, and only the workspace, /tmp and $HOME can be written.',
  landlock: 'They run restricted on the host: only the workspace, /tmp and $HOME can be written, other files are read-only or hidden.',
  none: 'They run on the host without isolation.',
};

function networkLine(network) {
  if (network === 'allow') return 'The network can be used.';
  if (Array.isArray(network)) return `Of the network only these hosts can be reached: ${network.join(', ')}.`;
  return 'The network is off by policy: downloads and installs from the network fail; do not retry them. localhost works.';
}

function limitsLine(facts) {
  const limits = Object.keys(facts)
    .filter(key => key.startsWith('limits.'))
    .map(key => `${key.slice(7)} ${facts[key]}`);
  return limits.length > 0 ? `Limits: ${limits.join(', ')}.` : '';
}

/** The sandbox: where commands run and what they may do. Reads facts only. */
export function instructionsFor(lease) {
  const { session, provider, workdir } = lease;
  const { facts } = session;
  const lines = [
    `Commands start in ${workdir} and share the workspace ${session.place.inside} with the file tools.`,
    levels[facts.level] ?? '',
    facts.network === undefined && provider.name !== 'local' ? '' : networkLine(provider.options.network),
    limitsLine(facts),
    facts.degraded ? `Not available here: ${facts.degraded}.` : '',
  ];
  return lines.filter(Boolean).join(' ');
}

/** The file tools: how paths are spelled. */
export function filesInstructionsFor(lease, readOnly) {
  const { inside, host } = lease.session.place;
  const same = [`"${inside}/x"`, ...(host && host !== inside ? [`"${host}/x"`] : [])].join(' and ');
  const text = `File tools work in the workspace: "/x" and "x" name the same file, in commands ${same}.`;
  return readOnly ? `${text} The file tools are read-only.` : text;
}
