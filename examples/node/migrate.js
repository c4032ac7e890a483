// Moves a filter of the FNV design (k times FNV-1a with a salt byte at the end) from a SETBIT string to everbloom,
// measures the weakness of this design, and replaces the filter by a native one.
//
//     npm install ioredis
//     node migrate.js redis://127.0.0.1:6379
'use strict'

const assert = require('node:assert')
const Redis = require('ioredis')

const BITS = 10000
const HASHES = 7
const STRING = '{seen}'
const FILTER = '{seen}:bf'
const NATIVE = '{seen}:new'

/** FNV-1a with 32 bits. */
function fnv1a (bytes) {
  let hash = 0x811c9dc5
  for (const byte of bytes) hash = Math.imul(hash ^ byte, 0x01000193) >>> 0
  return hash
}

/** What the old code sets and asks for. */
function positions (item) {
  const bytes = Buffer.from(item)
  return Array.from({ length: HASHES }, (_, salt) => fnv1a([...bytes, salt]) % BITS)
}

async function oldAdd (client, item) {
  const pipeline = client.pipeline()
  for (const position of positions(item)) pipeline.setbit(STRING, position, 1)
  await pipeline.exec()
}

async function oldHas (client, item) {
  const pipeline = client.pipeline()
  for (const position of positions(item)) pipeline.getbit(STRING, position)
  return (await pipeline.exec()).every(([, bit]) => bit === 1)
}

/** The share of items that a filter takes for present, in percent. */
async function percentPresent (client, key, items) {
  const replies = await client.call('BF.MEXISTS', key, ...items)
  return replies.filter(reply => reply === 1).length * 100 / items.length
}

async function migrate (client) {
  await client.del(STRING, FILTER, NATIVE)
  const members = Array.from({ length: 1000 }, (_, number) => `item:${number}`)
  const absent = Array.from({ length: 2000 }, (_, number) => `other:${number}`)
  for (const item of members) await oldAdd(client, item)

  // Import the bits. Every reply stays the same.
  await client.call('BF.IMPORT', FILTER, 'SOURCE', STRING, 'SCHEME', 'fnv32a-salted', 'BITS', BITS, 'HASHES', HASHES)
  const items = [...members, ...absent]
  const replies = await client.call('BF.MEXISTS', FILTER, ...items)
  for (const [index, item] of items.entries()) {
    assert.strictEqual(replies[index] === 1, await oldHas(client, item), `the reply for ${item} has changed`)
  }
  assert(replies.slice(0, members.length).every(reply => reply === 1), 'a member is missing')

  // An add sets the same bits as the old code. BF.EXPORT returns the string.
  await client.call('BF.ADD', FILTER, 'item:new')
  await oldAdd(client, 'item:new')
  assert.deepStrictEqual(await client.callBuffer('BF.EXPORT', FILTER), await client.getBuffer(STRING))

  // The imported filter has the weakness too. If you still have the items, build a native filter and rename it.
  const before = await percentPresent(client, FILTER, absent)
  await client.call('BF.RESERVE', NATIVE, '0.001', '10000')
  await client.call('BF.MADD', NATIVE, ...members, 'item:new')
  await client.rename(NATIVE, FILTER)
  const after = await percentPresent(client, FILTER, absent)
  assert(before > 10 && after < 1, `${before} % before, ${after} % after`)
  assert.strictEqual(await percentPresent(client, FILTER, members), 100)
  await client.unlink(STRING)
  console.log(`moved: ${members.length + 1} items; ${before} % false positives as imported, ${after} % natively`)
}

async function main () {
  const client = new Redis(process.argv[2] ?? 'redis://127.0.0.1:6379')
  try {
    await migrate(client)
  } finally {
    client.disconnect()
  }
}

main().catch(error => {
  console.error(error)
  process.exitCode = 1
})
