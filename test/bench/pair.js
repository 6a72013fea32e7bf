// Measures two ways of doing one thing in turn, A B A B ..., so that a machine
// that changes its speed changes both.

export function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)];
}

async function timed(run, before) {
  before?.();
  const start = performance.now();
  await run();
  return performance.now() - start;
}

/** -> { ours, theirs, ratio } in ms; medians of `rounds` runs each, `before` every one. */
export async function pair(ours, theirs, { rounds = 60, warmup = 5, before } = {}) {
  for (let i = 0; i < warmup; i++) {
    await ours();
    await theirs();
  }
  const a = [];
  const b = [];
  for (let i = 0; i < rounds; i++) {
    if (i % 2) {
      b.push(await timed(theirs, before));
      a.push(await timed(ours, before));
    } else {
      a.push(await timed(ours, before));
      b.push(await timed(theirs, before));
    }
  }
  return { ours: median(a), theirs: median(b), ratio: median(a) / median(b) };
}

/** One line of the report. `goal` is the ratio that the project aims at. */
export function report(name, result, goal) {
  const { ours, theirs, ratio } = result;
  const verdict = goal === undefined ? '' : ratio <= goal ? '  ok' : '  ABOVE';
  console.log(
    `${name.padEnd(52)} ${ours.toFixed(2).padStart(9)} ms ${theirs.toFixed(2).padStart(9)} ms  ` +
      `${ratio.toFixed(2)}x${goal === undefined ? '' : ` (goal ${goal}x)`}${verdict}`,
  );
}
