// Puts the fake in place of js/load.js. Import it before the package. The other
// tests of the folder run on the real addon.
import * as module from 'node:module';

const fakeUrl = new URL('./fake-native.js', import.meta.url).href;

function resolve(specifier, context, next) {
  const found = next(specifier, context);
  if (!found.url.endsWith('/js/load.js')) return found;
  return { ...found, url: `${fakeUrl}?load`, shortCircuit: true };
}

function load(url, context, next) {
  if (url !== `${fakeUrl}?load`) return next(url, context);
  const source = `import * as fake from ${JSON.stringify(fakeUrl)}; export const native = () => fake;`;
  return { format: 'module', source, shortCircuit: true };
}

/** Node before 22.15 has no such hooks: the tests that need the fake are skipped. */
export const skip = module.registerHooks === undefined && 'needs module.registerHooks (Node 22.15)';
if (!skip) module.registerHooks({ resolve, load });
