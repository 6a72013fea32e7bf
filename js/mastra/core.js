// The user's own @mastra/core, looked up once. As a namespace: an older one lacks
// names.
export * as core from '@mastra/core/workspace';
