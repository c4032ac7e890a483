// Packed batches with node-redis: the lines of a file, a reply per item, items of any bytes.
//
//     npm install redis
//     node bulk.js redis://127.0.0.1:6379 ids.txt

const { open } = require('node:fs/promises')
const { createClient } = require('redis')

async function main () {
  const client = createClient({ url: process.argv[2] })
  await client.connect()

  let added = 0
  let batch = []
  const send = async () => {
    added += await client.sendCommand(['BF.BULKADD', 'ids', 'COUNT', 'LINES', batch.join('\n') + '\n'])
    batch = []
  }
  for await (const line of (await open(process.argv[3])).readLines()) {
    if (batch.push(line) === 10000) await send()
  }
  if (batch.length > 0) await send()
  console.log(added, 'new')

  // A reply per item: '1' if the item may have been added.
  const items = ['id-1', 'nobody']
  const replies = await client.sendCommand(['BF.BULKEXISTS', 'ids', 'LINES', items.join('\n')])
  items.forEach((item, i) => console.log(item, replies[i] === '1' ? 'found' : 'absent'))

  // Items of any bytes.
  const packed = Buffer.concat([Buffer.from('a\nb'), Buffer.alloc(0)].flatMap((item) => {
    const length = Buffer.alloc(4)
    length.writeUInt32LE(item.length)
    return [length, item]
  }))
  console.log(await client.sendCommand(['BF.BULKADD', 'any', 'COUNT', 'PREFIXED', packed]), 'new')
  await client.close()
}

main()
