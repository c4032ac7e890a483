#!/usr/bin/env bash
# ioredis 6.0.0 knows keys only of the commands in its own list, which has none of BF.* and CF.*. `keyPrefix` is put before
# the keys of SET, EXPIRE, EXISTS and DEL, also by call(), and not before those of BF.ADD: the filter is at `seen`, and
# EXPIRE of `seen` in the same transaction replies 0. In a cluster, call("SET") goes to the right node, while BF.ADD goes to
# a random one and is redirected two times in three. In a pipeline over several nodes, some replies are MOVED errors.
#
# A good engineer would guess: the client puts its prefix before the first key of any command, or asks the server, which has
# COMMAND INFO. That SET gets its prefix by call() as well, as the command that a filter needs, supports this guess.
#
# Who is hurt: programs that give each tenant or environment its prefix. Their filters have one key for all of them: an item
# that one tenant added is "seen" for every other one. And a filter that was to expire each day stays.
# shellcheck source=findings/lib.sh
. "$(dirname "$0")/lib.sh"

get_redisbloom
get_redis
pip_install redis==8.1.0
npm_install ioredis@6.0.0
start "$redis" --loadmodule "$redisbloom"
single=$port
nodes=()
for _ in 1 2 3; do
  start "$redis" --loadmodule "$redisbloom" --cluster-enabled yes --cluster-port "$(free_port)" \
    --cluster-announce-ip 127.0.0.1
  nodes+=("$port")
done
python - "${nodes[@]}" <<'P'
import sys, time
import redis

nodes = [redis.Redis(port=int(port), protocol=2) for port in sys.argv[1:]]
for node, (first, last) in zip(nodes, [(0, 5460), (5461, 10922), (10923, 16383)]):
    node.execute_command("CLUSTER", "ADDSLOTSRANGE", first, last)
    bus = nodes[0].config_get("cluster-port")["cluster-port"]
    node.execute_command("CLUSTER", "MEET", "127.0.0.1", sys.argv[1], bus)
while any(b"cluster_state:ok" not in node.execute_command("CLUSTER", "INFO")
          or len(node.execute_command("CLUSTER", "SLOTS")) < 3 for node in nodes):
    time.sleep(0.1)
P

node - "$single" "${nodes[@]}" >"$work/output" <<'J'
const Redis = require('ioredis')
const [single, ...ports] = process.argv.slice(2).map(Number)

async function prefixes () {
  const client = new Redis({ port: single, keyPrefix: 'tenant1:' })
  await client.call('SET', 'string', 'value')
  const replies = await client.multi().call('BF.ADD', 'seen', 'x').expire('seen', 60).exec()
  console.log(`BF.ADD and EXPIRE in a transaction: ${replies.map(([error, reply]) => error || reply).join(', ')}`)
  console.log(`EXISTS: ${await client.exists('string')} for the string, ${await client.exists('seen')} for the filter`)
  console.log(`keys: ${(await new Redis(single).keys('*')).sort().join(', ')}`)
  const other = new Redis({ port: single, keyPrefix: 'tenant2:' })
  console.log(`BF.EXISTS with another prefix: ${await other.call('BF.EXISTS', 'seen', 'x')}`)
}

async function redirections () {
  const nodes = ports.map(port => new Redis(port))
  const cluster = new Redis.Cluster(ports.map(port => ({ host: '127.0.0.1', port })))
  await cluster.call('SET', 'string', 'value')
  for (const [command, ...more] of [['SET', 'value'], ['BF.ADD', 'x'], ['BF.EXISTS', 'x'], ['CF.ADDNX', 'x']]) {
    for (const node of nodes) await node.config('RESETSTAT')
    for (let number = 0; number < 600; number++) await cluster.call(command, `${command} ${number % 60}`, ...more)
    let moved = 0
    for (const node of nodes) moved += Number((await node.info('errorstats')).match(/MOVED:count=(\d+)/)?.[1] ?? 0)
    const shown = moved === 0 ? 'none' : moved > 300 && moved < 500 ? 'about two thirds' : moved
    console.log(`call("${command}") 600 times in a cluster: ${shown} redirected`)
  }
  const pipeline = cluster.pipeline()
  for (let number = 0; number < 60; number++) pipeline.call('BF.ADD', `filter ${number}`, 'x')
  const errors = (await pipeline.exec()).map(([error]) => error?.message.split(' ')[0]).filter(Boolean)
  console.log(`BF.ADD to 60 filters in a pipeline: ${errors.length > 20 ? 'over 20' : errors.length} errors, ` +
    `${[...new Set(errors)].join(', ')}`)
}

prefixes().then(redirections).then(() => process.exit(0))
J
holds <<'SEEN'
BF.ADD and EXPIRE in a transaction: 1, 0
EXISTS: 1 for the string, 0 for the filter
keys: seen, tenant1:string
BF.EXISTS with another prefix: 1
call("SET") 600 times in a cluster: none redirected
call("BF.ADD") 600 times in a cluster: about two thirds redirected
call("BF.EXISTS") 600 times in a cluster: about two thirds redirected
call("CF.ADDNX") 600 times in a cluster: about two thirds redirected
BF.ADD to 60 filters in a pipeline: over 20 errors, MOVED
SEEN
