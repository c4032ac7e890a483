// node-redis: the commands of RedisBloom, and those that it has no method for.
//
//     npm install redis
//     node use_node_redis.js redis://127.0.0.1:6379
'use strict'

const assert = require('node:assert')
const { createClient, RESP_TYPES } = require('redis')

async function main () {
  const client = createClient({ url: process.argv[2], RESP: 3 })
  await client.connect()
  await client.sendCommand(['BF.RESERVE', 'seen', '0.001', '1000000', 'EX', '86400', 'IFNOTEXISTS'])
  assert.strictEqual(await client.bf.add('seen', 'alice'), true) // true: new
  assert.strictEqual(await client.bf.exists('seen', 'bob'), false) // false is certain
  assert.deepStrictEqual(await client.bf.mAdd('seen', ['alice', 'bob', 'carol']), [false, true, true])
  assert.deepStrictEqual(await client.bf.mExists('seen', ['alice', 'dave']), [true, false])

  // A batch has a reply per item: a full filter is an error inside the list. With RESP 2 mAdd makes it `false`, which
  // looks like a present item. Use RESP 3 for filters that can be full.
  await client.bf.reserve('tickets', 0.01, 2, { NONSCALING: true })
  const replies = await client.bf.mAdd('tickets', ['1', '2', '3'])
  assert.ok(replies[2] instanceof Error)

  // Chunks are bytes, which strings cannot hold, so request Buffers.
  const bytes = client.withTypeMapping({ [RESP_TYPES.BLOB_STRING]: Buffer })
  for (let next = { iterator: 0 }; ; ) {
    next = await bytes.bf.scanDump('seen', Number(next.iterator))
    if (Number(next.iterator) === 0) break
    await client.bf.loadChunk('copy', Number(next.iterator), next.chunk)
  }
  assert.strictEqual(await client.bf.exists('copy', 'alice'), true)
  await client.close()
  console.log('done')
}

main()
