#!/usr/bin/env bash
# RedisBloom 2.8.2: BF.EXISTS and BF.MEXISTS of a key that is no Bloom filter reply 0, and CF.EXISTS, CF.MEXISTS and CF.COUNT
# of a key that is no cuckoo filter do. There is no WRONGTYPE, whatever the key holds: a set with the item, the other kind of
# filter with the item, a string. BF.CARD, BF.INFO and all commands that change something do give an error.
#
# A good engineer would guess: WRONGTYPE, as from SISMEMBER and BF.ADD, since a 0 of a filter means "certainly absent".
#
# Who is hurt: programs that were changed from BF to CF (for deletions) in the process that adds and not in each that looks
# up, or that have a wrong key. Every lookup says 0, and a filter that is full of items looks empty.
# shellcheck source=findings/lib.sh
. "$(dirname "$0")/lib.sh"

get_redisbloom
get_redis
pip_install redis==8.1.0
start "$redis" --loadmodule "$redisbloom"

python - "$port" >"$work/output" <<'P'
import sys
import redis

client = redis.Redis(port=int(sys.argv[1]), protocol=2)
for command in ("BF.ADD", "bloom", "x"), ("CF.ADD", "cuckoo", "x"), ("SADD", "set", "x"), ("SET", "string", "x"):
    client.execute_command(*command)


def show(key, *commands):
    replies = []
    for command in commands:
        arguments = [] if command in ("BF.CARD", "BF.INFO") else ["x"]
        try:
            replies.append(f"{command} {client.execute_command(command, key, *arguments)}")
        except redis.ResponseError:
            replies.append(command + " an error")
    print(f"{key}: {', '.join(replies)}")


bloom = "BF.EXISTS", "BF.MEXISTS", "BF.CARD", "BF.INFO", "BF.ADD"
cuckoo = "CF.EXISTS", "CF.MEXISTS", "CF.COUNT", "CF.ADD", "CF.DEL"
show("bloom", "BF.EXISTS", *cuckoo)
show("cuckoo", "CF.EXISTS", *bloom)
show("set", *bloom, *cuckoo, "SISMEMBER")
show("string", *bloom, *cuckoo, "SISMEMBER")
P
holds <<'SEEN'
bloom: BF.EXISTS 1, CF.EXISTS 0, CF.MEXISTS [0], CF.COUNT 0, CF.ADD an error, CF.DEL an error
cuckoo: CF.EXISTS 1, BF.EXISTS 0, BF.MEXISTS [0], BF.CARD an error, BF.INFO an error, BF.ADD an error
set: BF.EXISTS 0, BF.MEXISTS [0], BF.CARD an error, BF.INFO an error, BF.ADD an error, CF.EXISTS 0, CF.MEXISTS [0], CF.COUNT 0, CF.ADD an error, CF.DEL an error, SISMEMBER 1
string: BF.EXISTS 0, BF.MEXISTS [0], BF.CARD an error, BF.INFO an error, BF.ADD an error, CF.EXISTS 0, CF.MEXISTS [0], CF.COUNT 0, CF.ADD an error, CF.DEL an error, SISMEMBER an error
SEEN
