#!/usr/bin/env bash
# RedisBloom 2.8.2: BF.ADD and BF.MADD of items that are in the filter, CF.ADDNX of a known item, and CF.DEL of a missing one
# change nothing and reply 0. They are writes all the same: sent to replicas and the append-only file, counted for the next
# snapshot, announced to WATCH, so that a transaction on the key is aborted.
#
# A good engineer would guess: as with SADD of a member and SREM of a missing one, which the server does not propagate.
#
# Who is hurt: deduplication, where most adds are of known items. Its append-only file and its traffic to replicas grow with
# the requests, not with the new items, and optimistic transactions on the key fail without a change.
# shellcheck source=findings/lib.sh
. "$(dirname "$0")/lib.sh"

get_redisbloom
get_redis
pip_install redis==8.1.0
start "$redis" --loadmodule "$redisbloom" --appendonly yes --appendfsync always

python - "$port" >"$work/output" <<'P'
import sys
import redis

client = redis.Redis(port=int(sys.argv[1]), protocol=2)
for command in ("BF.ADD", "bloom", "x"), ("CF.ADD", "cuckoo", "x"), ("SADD", "set", "x"):
    client.execute_command(*command)
for command in (
    ("BF.ADD", "bloom", "x"),
    ("BF.MADD", "bloom", "x"),
    ("CF.ADDNX", "cuckoo", "x"),
    ("CF.DEL", "cuckoo", "y"),
    ("SADD", "set", "x"),
    ("SREM", "set", "y"),
):
    before = client.info("persistence")
    with client.pipeline() as transaction:
        transaction.watch(command[1])
        reply = client.execute_command(*command)
        after = client.info("persistence")
        transaction.multi()
        transaction.ping()
        try:
            transaction.execute()
            watch = "goes on"
        except redis.WatchError:
            watch = "is aborted"
    grown = "grows" if after["aof_current_size"] > before["aof_current_size"] else "does not grow"
    changes = after["rdb_changes_since_last_save"] - before["rdb_changes_since_last_save"]
    print(f"{command[0]} replies {reply}: {changes} changes, the file {grown}, a transaction {watch}")
P
holds <<'SEEN'
BF.ADD replies 0: 1 changes, the file grows, a transaction is aborted
BF.MADD replies [0]: 1 changes, the file grows, a transaction is aborted
CF.ADDNX replies 0: 1 changes, the file grows, a transaction is aborted
CF.DEL replies 0: 1 changes, the file grows, a transaction is aborted
SADD replies 0: 0 changes, the file does not grow, a transaction goes on
SREM replies 0: 0 changes, the file does not grow, a transaction goes on
SEEN
