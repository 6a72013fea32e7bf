// Prints the ms that our import adds to that of @mastra/core/workspace.
await import('@mastra/core/workspace');
const start = performance.now();
await import('sandbox-sdk-native/mastra');
console.log(performance.now() - start);
