#!/usr/bin/env bash
# BF.MADD of three items to a filter of fixed size for two: RedisBloom 2.8.2 replies 1, 1 and an error in the array. The
# clients make four things of it: redis-py 8.1.0 has an exception object in the list, as node-redis 6.3.1 with RESP 3.
# node-redis with RESP 2 has `false`, as for an item that is present. coredis 6.9.0 has `True`, as for an item that was added.
# valkey-glide 2.6.0 (sync) raises an error for the whole batch, though two items were added.
#
# A good engineer would guess: an error in a reply is an error in the client, whatever the protocol.
#
# Who is hurt: programs that fill fixed filters by batches with node-redis or coredis. They lose items without noticing,
# and a change of the protocol version alone decides whether there is an error.
# shellcheck source=findings/lib.sh
. "$(dirname "$0")/lib.sh"

get_redisbloom
get_redis
pip_install redis==8.1.0 coredis==6.9.0 valkey-glide-sync==2.6.0
npm_install redis@6.3.1
start "$redis" --loadmodule "$redisbloom"

{
  python - "$port" 2>/dev/null <<'P'
import asyncio, sys
import coredis, glide_sync, redis

port = int(sys.argv[1])
client = redis.Redis(port=port)
for key in "redis-py", "coredis", "glide", "node2", "node3":
    client.execute_command("BF.RESERVE", key, 0.01, 2, "NONSCALING")


def show(name, replies):
    words = ["an error" if isinstance(reply, Exception) else str(reply) for reply in replies]
    print(f"{name}: {', '.join(words)}")


show("redis-py", client.bf().madd("redis-py", "1", "2", "3"))


async def with_coredis():
    async with coredis.Redis(port=port) as client:
        return await client.bf.madd("coredis", ["1", "2", "3"])


show("coredis", asyncio.run(with_coredis()))
glide = glide_sync.GlideClient.create(
    glide_sync.GlideClientConfiguration([glide_sync.NodeAddress("127.0.0.1", port)]))
try:
    show("valkey-glide", glide.custom_command(["BF.MADD", "glide", "1", "2", "3"]))
except glide_sync.RequestError:
    print("valkey-glide: raises; items in the filter:", client.execute_command("BF.CARD", "glide"))
P
  node - "$port" <<'J'
const { createClient } = require('redis')
async function main () {
  for (const RESP of [2, 3]) {
    const client = createClient({ url: `redis://127.0.0.1:${process.argv[2]}`, RESP })
    await client.connect()
    const replies = await client.bf.mAdd(`node${RESP}`, ['1', '2', '3'])
    const words = replies.map(reply => reply instanceof Error ? 'an error' : String(reply))
    console.log(`node-redis, RESP ${RESP}: ${words.join(', ')}`)
    await client.close()
  }
}
main()
J
} >"$work/output"
holds <<'SEEN'
redis-py: True, True, an error
coredis: True, True, True
valkey-glide: raises; items in the filter: 2
node-redis, RESP 2: true, true, false
node-redis, RESP 3: true, true, an error
SEEN
