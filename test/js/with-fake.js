// Puts the fake in place of the addon that js/native.js loads. Import it before the
// package. The other tests of the folder run on the real addon.
import * as module from 'node:module';

const fakeUrl = new URL('./fake-native.js', import.meta.url).href;

function resolve(specifier, context, next) {
  const found = next(specifier, context);
  if (!found.url.endsWith('/js/native.js')) return found;
  return { ...found, url: `${fakeUrl}?for=${found.url}`, shortCircuit: true };
}

function load(url, context, next) {
  if (!url.startsWith(`${fakeUrl}?for=`)) return next(url, context);
  // With a query it is the real one: its numbers stay, its addon does not.
  const real = JSON.stringify(`${url.slice(`${fakeUrl}?for=`.length)}?real`);
  const source = `import * as fake from ${JSON.stringify(fakeUrl)}; export * from ${real}; export const native = () => fake;`;
  return { format: 'module', source, shortCircuit: true };
}

/** Node before 22.15 has no such hooks: the tests that need the fake are skipped. */
export const skip = module.registerHooks === undefined && 'needs module.registerHooks (Node 22.15)';
if (!skip) module.registerHooks({ resolve, load });
