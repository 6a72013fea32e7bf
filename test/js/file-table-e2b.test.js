// file-table.test.js on a sandbox at a fake E2B.
process.env.SBX_TEST_PROVIDER = 'e2b';
await import('./file-table.test.js');
