// One filter over a whole cluster: partitions under the keys name:{0}, name:{1}, ... The CRC-32 of an item gives its
// partition. docs/clusters.md explains it.
//
//     const cluster = createCluster({ rootNodes: [{ url: 'redis://127.0.0.1:7000' }], defaults: { RESP: 3 } })
//     await cluster.connect()
//     const seen = new Partitions(cluster, 'seen', 24)
//     await seen.reserve(0.01, 1000000)
//     await seen.add([Buffer.from('alice'), Buffer.from('bob')])
'use strict'

const { crc32 } = require('node:zlib') // from Node 20.15

class Partitions {
  /** `count` can never change: another count would look for the items elsewhere. */
  constructor (cluster, name, count) {
    Object.assign(this, { cluster, name, count })
  }

  key (number) {
    return `${this.name}:{${number}}`
  }

  async reserve (errorRate, capacity) {
    const share = capacity / this.count
    const fullest = Math.ceil(share + 4 * Math.sqrt(share))
    for (let number = 0; number < this.count; number++) {
      const key = this.key(number)
      await this.cluster.sendCommand(key, false, ['BF.RESERVE', key, String(errorRate), String(fullest), 'IFNOTEXISTS'])
    }
  }

  /** Sends each partition its items (Buffers) in one command; resolves to the replies in the order of the items. */
  async each (ask, items) {
    const places = new Map()
    items.forEach((item, place) => {
      const number = crc32(item) % this.count
      if (!places.has(number)) places.set(number, [])
      places.get(number).push(place)
    })
    const results = new Array(items.length)
    await Promise.all(Array.from(places, async ([number, theirs]) => {
      const replies = await ask(this.key(number), theirs.map(place => items[place]))
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
