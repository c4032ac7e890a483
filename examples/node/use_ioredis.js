// ioredis: every command goes through call().
//
//     npm install ioredis
//     node use_ioredis.js redis://127.0.0.1:6379
'use strict'

const assert = require('node:assert')
const Redis = require('ioredis')

async function main () {
  // 0: otherwise a command is sent again after a lost reply, and an add then replies 0 for a new item.
  const client = new Redis(process.argv[2], { maxRetriesPerRequest: 0 })
  await client.call('BF.RESERVE', 'seen', 0.001, 1000000, 'EX', 86400, 'IFNOTEXISTS')
  assert.strictEqual(await client.call('BF.ADD', 'seen', 'alice'), 1) // 1: new
  assert.strictEqual(await client.call('BF.EXISTS', 'seen', 'bob'), 0) // 0 is certain
  assert.deepStrictEqual(await client.call('BF.MADD', 'seen', 'alice', 'bob', 'carol'), [0, 1, 1])
  assert.deepStrictEqual(await client.call('BF.MEXISTS', 'seen', 'alice', 'dave'), [1, 0])

  // A batch has a reply per item: a full filter is an error inside the list, not a rejected promise.
  await client.call('BF.RESERVE', 'tickets', 0.01, 2, 'NONSCALING')
  const replies = await client.call('BF.MADD', 'tickets', '1', '2', '3')
  assert.ok(replies[2] instanceof Error)

  // Chunks are bytes, so use callBuffer instead of call.
  const [iterator, chunk] = await client.callBuffer('BF.SCANDUMP', 'seen', 0)
  assert.strictEqual(await client.call('BF.LOADCHUNK', 'copy', iterator, chunk), 'OK')
  client.disconnect()
  console.log('done')
}

main()
