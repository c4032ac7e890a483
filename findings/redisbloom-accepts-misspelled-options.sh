#!/usr/bin/env bash
# RedisBloom 2.8.2: BF.RESERVE replies OK to an option that is misspelled or that it does not have, and makes a filter
# without it. BF.INSERT takes the same misspelled word for the option with the same first letters. So "NOSCALING" makes a
# filter that grows in one command, and a filter of fixed size in the other; and "EX 60", as in SET, expires nothing.
#
# A good engineer would guess: a command with an unknown option is an error, as everywhere in the server.
#
# Who is hurt: those who learn from memory growth, from refused items, or from filters that are never removed, that an option
# was not the one that they wrote.
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


def asked(*words):
    print(*words, "->", client.execute_command(*words))


def growth(key):
    replies = client.execute_command("BF.MADD", key, *range(1000))
    info = client.execute_command("BF.INFO", key)
    error = next((reply for reply in replies if isinstance(reply, Exception)), "no error")
    print(f"{key}: {info[info.index(b'Number of filters') + 1]} filters for 1000 items, {error}")


asked("BF.RESERVE", "reserved", 0.01, 100, "NOSCALING")
growth("reserved")
asked("BF.INSERT", "inserted", "NOSCALING", "ITEMS", "a")
growth("inserted")
asked("BF.RESERVE", "mortal", 0.01, 100, "EX", 60)
print("TTL mortal ->", client.ttl("mortal"))
P
holds <<'SEEN'
BF.RESERVE reserved 0.01 100 NOSCALING -> b'OK'
reserved: 4 filters for 1000 items, no error
BF.INSERT inserted NOSCALING ITEMS a -> [1]
inserted: 1 filters for 1000 items, non scaling filter is full
BF.RESERVE mortal 0.01 100 EX 60 -> b'OK'
TTL mortal -> -1
SEEN
