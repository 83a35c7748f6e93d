// rate-limiter-flexible, as its documentation uses it. Arguments: the folder of node_modules, the port of the store.
// For every line "checks inFlight names" on standard input it makes so many checks and answers with the CPU seconds.
'use strict';
const { createRequire } = require('node:module');
const { createInterface } = require('node:readline');
const [folder, port] = process.argv.slice(2);
const from = createRequire(`${folder}/`);
const { RateLimiterRedis } = from('rate-limiter-flexible');
const Redis = from('ioredis');

const limiter = new RateLimiterRedis({ storeClient: new Redis({ port: Number(port) }), points: 1_000_000, duration: 60 });

async function spend(checks, inFlight, names) {
  let next = 0;
  const task = async () => {
    while (next < checks) await limiter.consume(`client-${next++ % names}`);
  };
  await Promise.all(Array.from({ length: inFlight }, task));
}

(async () => {
  for await (const line of createInterface({ input: process.stdin })) {
    const before = process.cpuUsage();
    await spend(...line.split(' ').map(Number));
    const { user, system } = process.cpuUsage(before);
    console.log((user + system) / 1e6);
  }
  process.exit(0);
})();
