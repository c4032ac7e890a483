// One filter over a whole cluster: partitions under keys such as name:{10}. The CRC-32 of an item gives its partition.
// docs/clusters.md explains it.
//
//     const cluster = createCluster({ rootNodes: [{ url: 'redis://127.0.0.1:7000' }], defaults: { RESP: 3 } })
//     await cluster.connect()
//     const seen = new Partitions(cluster, 'seen', 24)
//     await seen.reserve(0.01, 1000000)
//     await seen.add([Buffer.from('alice'), Buffer.from('bob')])
'use strict'

const { crc32 } = require('node:zlib') // from Node 20.15

/** Returns the slot of a key with this hash tag: CRC-16/XMODEM of its bytes. */
function slot (tag) {
  let crc = 0
  for (const byte of Buffer.from(tag)) {
    crc ^= byte << 8
    for (let bit = 0; bit < 8; bit++) crc = (crc & 0x8000 ? crc << 1 ^ 0x1021 : crc << 1) & 0xFFFF
  }
  return crc % 16384
}

/**
 * Returns the numbers in the keys: that of partition i is the smallest whose slot is in the i-th of `count` equal
 * ranges of the slots.
 */
function numbers (count) {
  const found = new Map()
  for (let number = 0; found.size < count; number++) {
    const part = Math.floor(slot(String(number)) * count / 16384)
    if (!found.has(part)) found.set(part, number)
  }
  return Array.from({ length: count }, (_, part) => found.get(part))
}

class Partitions {
  /** `count` can never change: another count would look for the items elsewhere. */
  constructor (cluster, name, count) {
    Object.assign(this, { cluster, count, keys: numbers(count).map(number => `${name}:{${number}}`) })
  }

  async reserve (errorRate, capacity) {
    const share = capacity / this.count
    const fullest = Math.ceil(share + 4 * Math.sqrt(share))
    for (const key of this.keys) {
      await this.cluster.sendCommand(key, false, ['BF.RESERVE', key, String(errorRate), String(fullest), 'IFNOTEXISTS'])
    }
  }

  /** Sends each partition its items (Buffers) in one command; resolves to the replies in the order of the items. */
  async each (ask, items) {
    const places = new Map()
    items.forEach((item, place) => {
      const part = crc32(item) % this.count
      if (!places.has(part)) places.set(part, [])
      places.get(part).push(place)
    })
    const results = new Array(items.length)
    await Promise.all(Array.from(places, async ([part, theirs]) => {
      const replies = await ask(this.keys[part], theirs.map(place => items[place]))
      theirs.forEach((place, index) => { results[place] = replies[index] }) // true or false, or the error of this item
    }))
    return results
  }

  add (items) {
    return this.each((key, theirs) => this.cluster.bf.mAdd(key, theirs), items)
  }

  contains (items) {
    return this.each((key, theirs) => this.cluster.bf.mExists(key, theirs), items)
  }
}

module.exports = { Partitions }
