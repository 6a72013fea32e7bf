// The longest turn of the event loop during some work, in milliseconds. The least
// disturbed of several runs counts: a busy machine takes the CPU away in any turn.

/** `before` makes ready, unwatched, what each run needs. */
export async function longestTurn(work, { rounds = 8, before } = {}) {
  let least = Infinity;
  for (let i = 0; i < rounds; i++) {
    await before?.();
    await new Promise((resolve) => setTimeout(resolve, 20)); // what the garbage collector still does
    least = Math.min(least, await watched(work));
  }
  return least;
}

async function watched(work) {
  let longest = 0;
  let running = true;
  let last = performance.now();
  const turn = () => {
    const now = performance.now();
    longest = Math.max(longest, now - last);
    last = now;
    if (running) setImmediate(turn);
  };
  const done = work().finally(() => (running = false));
  setImmediate(turn);
  await done;
  return Math.max(longest, performance.now() - last); // the turn that it ended in
}

export function reportTurn(name, ms, goal) {
  console.log(`${name.padEnd(52)} ${ms.toFixed(2).padStart(9)} ms (goal ${goal} ms)${ms <= goal ? '  ok' : '  ABOVE'}`);
}
