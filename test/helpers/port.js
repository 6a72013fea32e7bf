// A port of this machine for servers that have to be told one: level landlock and
// "none" share the network of the host, and so do the test files that run at once.
import net from 'node:net';

function isFree(port) {
  return new Promise(resolve => {
    const server = net.createServer().once('error', () => resolve(false));
    server.listen(port, () => server.close(() => resolve(true)));
  });
}

/** One that nobody has; below those that the kernel gives to others meanwhile. */
export async function freePort() {
  for (;;) {
    const port = 10_000 + Math.floor(Math.random() * 20_000);
    if (await isFree(port)) return port;
  }
}
