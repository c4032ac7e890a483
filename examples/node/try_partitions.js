// Tests partitions.js. Compares the replies with those of one filter. Then looks up items until a line comes in, while
// slots move and primaries change. Uses the keys `one` and `seen:{NUMBER}`, which must not exist.
//
//     npm install redis    # and partitions.js beside this file
//     node try_partitions.js redis://127.0.0.1:7000
'use strict'

const assert = require('node:assert')
const { createCluster } = require('redis')
const { Partitions } = require('./partitions.js')

const TOTAL = 50000

const named = (kind, start, end) =>
  Array.from({ length: end - start }, (_, index) => Buffer.from(`${kind}:${start + index}`))

async function main () {
  const cluster = createCluster({ rootNodes: [{ url: process.argv[2] }], defaults: { RESP: 3 } })
  await cluster.connect()
  const seen = new Partitions(cluster, 'seen', 24)
  await seen.reserve(0.01, TOTAL)
  await cluster.bf.reserve('one', 0.01, TOTAL)
  let [wrong, wrongInOne] = [0, 0]
  const count = replies => replies.filter(reply => reply === true).length
  for (let start = 0; start < TOTAL; start += 5000) {
    const items = named('item', start, start + 5000)
    await seen.add(items)
    await cluster.bf.mAdd('one', items)
    assert.strictEqual(count(await seen.contains(items)), 5000)
  }
  for (let start = 0; start < TOTAL; start += 5000) {
    const absent = named('absent', start, start + 5000)
    wrong += count(await seen.contains(absent))
    wrongInOne += count(await cluster.bf.mExists('one', absent))
  }
  let grown = 0
  for (const key of seen.keys) grown += (await cluster.bf.info(key))['Number of filters'] > 1
  console.log(`there: ${wrong} of ${TOTAL} absent, in one filter ${wrongInOne}; ${grown} grew`)

  console.log('checking')
  let [done, isStopped] = [0, false]
  process.stdin.once('data', () => { isStopped = true })
  cluster.on('error', () => {}) // a node that is gone; the checks below show the effect
  while (!isStopped) {
    const start = done % (TOTAL - 1000)
    try {
      assert.strictEqual(count(await seen.contains(named('item', start, start + 1000))), 1000, 'an item is lost')
    } catch (error) {
      if (error instanceof assert.AssertionError) throw error
      console.log(`once more after: ${error.message}`)
      await new Promise(resolve => setTimeout(resolve, 50))
      continue
    }
    done += 1000
  }
  console.log(`checked ${done}, none lost`)
  process.exit(0)
}

main()
