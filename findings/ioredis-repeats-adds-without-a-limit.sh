#!/usr/bin/env bash
# ioredis 6.0.0: after a lost reply it sends the command again whenever it has reconnected. maxRetriesPerRequest, 20 by
# default, does not end this: it counts attempts to connect since the last connection, not repeats of a command. Only 0
# gives an error and no repeat.
#
# A good engineer would guess: no repeats of commands that change data, or at most 20.
#
# Who is hurt: programs that count (CF.ADD, also INCR) or take the reply 0 of BF.ADD as "processed before", behind a proxy
# or a failing network that breaks connections between command and reply.
# shellcheck source=findings/lib.sh
. "$(dirname "$0")/lib.sh"

get_redisbloom
get_redis
npm_install ioredis@6.0.0
start "$redis" --loadmodule "$redisbloom"

node - "$port" >"$work/output" <<'J'
const net = require('node:net')
const Redis = require('ioredis')
const port = Number(process.argv[2])
const direct = new Redis(port, '127.0.0.1')

// Forwards to the server. Loses the next `losses` replies to CF.*: closes the connection in their place.
function proxy () {
  const state = { losses: 0 }
  state.server = net.createServer(client => {
    const server = net.connect(port, '127.0.0.1')
    let isLost = false
    client.on('data', data => {
      if (data.includes('CF.') && state.losses > 0) isLost = state.losses-- > 0
      server.write(data)
    })
    server.on('data', data => isLost ? client.destroy() : client.write(data))
    client.on('close', () => server.destroy()).on('error', () => {})
    server.on('close', () => client.destroy()).on('error', () => {})
  })
  return new Promise(resolve => state.server.listen(0, '127.0.0.1', () => resolve(state)))
}

async function add (name, losses, options) {
  const between = await proxy()
  const client = new Redis(between.server.address().port, '127.0.0.1', options)
  client.on('error', () => {})
  await client.ping()
  between.losses = losses
  const key = `counted ${name}`
  const outcome = await client.call('CF.ADD', key, 'x').then(reply => `reply ${reply}`, error => error.name)
  console.log(`${name}: ${outcome}; x counts ${await direct.call('CF.COUNT', key, 'x')}`)
  client.disconnect()
  between.server.close()
}

async function main () {
  await add('one reply lost', 1, {})
  await add('40 replies lost', 40, {})
  await add('maxRetriesPerRequest: 0, one reply lost', 1, { maxRetriesPerRequest: 0 })
  process.exit(0)
}

main()
J
holds <<'SEEN'
one reply lost: reply 1; x counts 2
40 replies lost: reply 1; x counts 41
maxRetriesPerRequest: 0, one reply lost: MaxRetriesPerRequestError; x counts 1
SEEN
