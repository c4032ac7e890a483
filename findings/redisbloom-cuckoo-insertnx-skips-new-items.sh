#!/usr/bin/env bash
# RedisBloom 2.8.2: a cuckoo filter that was not reserved refuses new items long before it is full. CF.INSERTNX replies 0,
# "present", for a quarter of 40 000 distinct items and does not store them; CF.INSERT of the same items ends with an error
# at some 30 000, when the filter has 37 % false positives. CF.INFO shows nothing unusual.
#
# A good engineer would guess: growth keeps the error rate roughly (fingerprints of 8 bits in buckets of 2 give 1.6 %), so
# CF.INSERTNX takes all but some hundred items. But each of the 32 arrays of a grown filter adds its false positives.
#
# Who is hurt: those who let the first CF.ADDNX create the filter and take its 0 for "seen before": a quarter of the new
# users, orders or links are taken for known ones.
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
items = [f"item:{number}" for number in range(40_000)]


def batches(command, key):
    for start in range(0, len(items), 100):
        yield from client.execute_command(command, key, "ITEMS", *items[start : start + 100])


def rounded(number, to):
    return round(number / to) * to


replies = list(batches("CF.INSERTNX", "distinct"))
print(f"CF.INSERTNX of 40000 distinct items: some {rounded(replies.count(0), 1000)} replies of 0")
added = 0
try:
    for reply in batches("CF.INSERT", "all"):
        added += reply
except redis.ResponseError as error:
    print(f"CF.INSERT ends after some {rounded(added, 1000)} items: {error}")
found = sum(client.execute_command("CF.MEXISTS", "all", *(f"absent:{number}" for number in range(20_000))))
print("then it finds over 30 % of absent items:", found > 0.3 * 20_000)
P
holds <<'SEEN'
CF.INSERTNX of 40000 distinct items: some 10000 replies of 0
CF.INSERT ends after some 31000 items: Maximum expansions reached
then it finds over 30 % of absent items: True
SEEN
