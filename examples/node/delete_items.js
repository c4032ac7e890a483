// node-redis: items that can be deleted, with the methods for cuckoo filters.
//
//     npm install redis
//     node delete_items.js redis://127.0.0.1:6379
'use strict'

const assert = require('node:assert')
const { createClient } = require('redis')

async function run (RESP) {
  const client = createClient({ url: process.argv[2], RESP })
  await client.connect()
  await client.del('carts')
  const cf = client.cf
  assert.strictEqual(await cf.reserve('carts', 1000), 'OK')
  assert.strictEqual(await cf.add('carts', 'anna'), true)
  assert.strictEqual(await cf.add('carts', 'anna'), true) // every add counts
  assert.strictEqual(await cf.addNX('carts', 'anna'), false) // present, so not counted again
  assert.deepStrictEqual(await cf.insert('carts', ['ben', 'carl']), [true, true])
  // Numbers: 1, 0, or -1 for a refused item, which is true: compare with 1.
  assert.deepStrictEqual((await cf.insertNX('carts', ['carl', 'dave'])).map(Number), [0, 1])
  assert.strictEqual(await cf.exists('carts', 'ben'), true)
  assert.strictEqual(await cf.exists('carts', 'nobody'), false) // false is certain
  assert.strictEqual(Number(await cf.count('carts', 'anna')), 2)

  assert.strictEqual(await cf.del('carts', 'anna'), true) // one of two occurrences
  assert.strictEqual(await cf.exists('carts', 'anna'), true)
  assert.strictEqual(await cf.del('carts', 'anna'), true)
  assert.strictEqual(await cf.del('carts', 'anna'), false) // false: it was not there
  const info = await cf.info('carts')
  assert.strictEqual(Number(info['Number of items inserted']), 3)
  await client.close()
}

run(2).then(() => run(3)).then(() => console.log('done'))
