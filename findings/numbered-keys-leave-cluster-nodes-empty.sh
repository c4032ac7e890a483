#!/usr/bin/env bash
# Redis 8.2.3 and Valkey 9.1.2: keys that end in consecutive numbers, with the number as hash tag or without one, are not
# spread over a cluster as by chance. With 24 keys name:{0} to name:{23} and 8 nodes with equal ranges of slots, four nodes
# have six keys each and four have none, and of 16 nodes eight have none. With 32 keys it is the same.
#
# A good engineer would guess: CRC-16 is a hash, so 24 keys come to about three for each of 8 nodes, and four empty nodes
# practically never happen. But it is linear: digits that differ in a few bits change the same few bits of the slot, whatever
# stands before them. The upper bits, which decide on the node, take few of their values. Names that are hashes do not do
# this.
#
# Who is hurt: those who split one big filter, counter or queue into numbered keys so that all nodes take part. Half of the
# memory and processors has nothing to do. A cluster of 4 shows nothing, and with 8 the fullest nodes have as much as before.
# shellcheck source=findings/lib.sh
. "$(dirname "$0")/lib.sh"

get_redis
get_valkey
pip_install redis==8.1.0

for server in "$redis" "$valkey"; do
  "$server" --version | cut -d' ' -f 1-3
  start "$server" --cluster-enabled yes --cluster-port "$(free_port)"
  python - "$port" <<'P'
import hashlib, sys
import redis

client = redis.Redis(port=int(sys.argv[1]), protocol=2)


def show(keys, example, nodes):
    counts = [0] * nodes
    for key in keys:
        counts[client.execute_command("CLUSTER", "KEYSLOT", key) * nodes // 16384] += 1
    print(f"{len(keys)} keys such as {example} on {nodes} nodes:", *counts)


for number_of_keys, nodes in (24, 4), (24, 8), (32, 8), (24, 16), (32, 16):
    show([f"name:{{{number}}}" for number in range(number_of_keys)], "name:{10}", nodes)
show([f"name:{number}" for number in range(24)], "name:10", 16)
show([f"name:{number:02}" for number in range(24)], "name:07", 8)
show([f"name:{hashlib.sha1(b'%d' % number).hexdigest()[:8]}" for number in range(24)], "name:b1d57811", 8)
P
done >"$work/output"
holds <<'SEEN'
Redis server v=8.2.3
24 keys such as name:{10} on 4 nodes: 6 6 6 6
24 keys such as name:{10} on 8 nodes: 6 0 6 0 6 0 6 0
32 keys such as name:{10} on 8 nodes: 8 0 8 0 8 0 8 0
24 keys such as name:{10} on 16 nodes: 3 3 0 0 3 3 0 0 2 4 0 0 2 4 0 0
32 keys such as name:{10} on 16 nodes: 3 5 0 0 3 5 0 0 2 6 0 0 2 6 0 0
24 keys such as name:10 on 16 nodes: 3 3 0 0 3 3 0 0 4 2 0 0 4 2 0 0
24 keys such as name:07 on 8 nodes: 6 0 6 0 6 0 6 0
24 keys such as name:b1d57811 on 8 nodes: 5 3 3 1 2 4 3 3
Valkey server v=9.1.2
24 keys such as name:{10} on 4 nodes: 6 6 6 6
24 keys such as name:{10} on 8 nodes: 6 0 6 0 6 0 6 0
32 keys such as name:{10} on 8 nodes: 8 0 8 0 8 0 8 0
24 keys such as name:{10} on 16 nodes: 3 3 0 0 3 3 0 0 2 4 0 0 2 4 0 0
32 keys such as name:{10} on 16 nodes: 3 5 0 0 3 5 0 0 2 6 0 0 2 6 0 0
24 keys such as name:10 on 16 nodes: 3 3 0 0 3 3 0 0 4 2 0 0 4 2 0 0
24 keys such as name:07 on 8 nodes: 6 0 6 0 6 0 6 0
24 keys such as name:b1d57811 on 8 nodes: 5 3 3 1 2 4 3 3
SEEN
