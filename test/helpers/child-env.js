// The environment of a Node that a test starts: only what is given, and what
// carries a sanitizer over to it. A Node that is meant to end in the middle of
// its work leaks by design.
export function childEnv(given, { leaks = true } = {}) {
  const { LD_PRELOAD, ASAN_OPTIONS } = process.env;
  if (!LD_PRELOAD) return given;
  return { LD_PRELOAD, ASAN_OPTIONS: leaks ? ASAN_OPTIONS : 'detect_leaks=0', ...given };
}

/** For programs that are not ours to check: this environment without the sanitizer. */
export function plainEnv() {
  const { LD_PRELOAD, ASAN_OPTIONS, ...rest } = process.env;
  return rest;
}
