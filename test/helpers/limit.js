// Time limits of tests, which a busy machine may reach before the test's own work.

/**
 * What `run(ms)` comes to with a time limit that ends it after what `done(result)`
 * looks for: a limit that was too short for this machine is raised.
 */
export async function withinLimit(run, done, ms = 200) {
  for (;; ms *= 4) {
    const result = await run(ms);
    if (done(result) || ms > 20_000) return { ...result, limit: ms };
  }
}
