// search.test.js on sandboxes at a fake E2B.
process.env.SBX_TEST_PROVIDER = 'e2b';
await import('./search.test.js');
