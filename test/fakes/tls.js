// A certificate authority of one test run, and a server certificate of it.
// Node cannot make X.509, so the openssl program does.
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { plainEnv } from '../helpers/child-env.js';
import { makeFolder, removeFolder } from './temporary.js';

const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];

function openssl(folder, ...args) {
  execFileSync('openssl', args, { cwd: folder, stdio: ['ignore', 'ignore', 'pipe'], env: plainEnv() });
}

function subject(names) {
  return names.map((name) => (/^[\d.]+$/.test(name) ? `IP:${name}` : `DNS:${name}`)).join(',');
}

/** -> { key, cert, caFile, remove() } for 127.0.0.1 and the names. */
export function makeCertificate(names = ['localhost', '*.e2b.fake', 'e2b.fake']) {
  const folder = makeFolder('fake-ca-');
  const all = subject(['127.0.0.1', ...names]);
  try {
    openssl(folder, 'req', '-x509', ...newKey, '-keyout', 'ca.key', '-out', 'ca.pem', '-days', '2', '-subj', '/CN=fake CA');
    openssl(folder, 'req', ...newKey, '-keyout', 'server.key', '-out', 'server.csr', '-subj', '/CN=fake server');
    writeFileSync(`${folder}/server.ext`, `subjectAltName=${all}\nextendedKeyUsage=serverAuth\n`);
    openssl(folder, 'x509', '-req', '-in', 'server.csr', '-CA', 'ca.pem', '-CAkey', 'ca.key', '-CAcreateserial',
      '-out', 'server.pem', '-days', '2', '-extfile', 'server.ext');
  } catch (error) {
    removeFolder(folder);
    throw new Error(`fake TLS: the openssl program is needed: ${error.stderr ?? error.message}`);
  }
  return {
    key: readFileSync(`${folder}/server.key`),
    cert: readFileSync(`${folder}/server.pem`),
    caFile: `${folder}/ca.pem`,
    remove: () => removeFolder(folder),
  };
}
