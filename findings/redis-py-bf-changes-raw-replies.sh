#!/usr/bin/env bash
# redis-py 8.1.0: client.bf() is a helper with the methods for Bloom filters. It also changes what the client itself returns:
# from then on execute_command("BF.INFO", key, field), which worked before, raises KeyError, also in other code that has the
# same client. client.cf() changes what CF.INFO returns. With protocol=3 nothing changes.
#
# A good engineer would guess: a helper changes nothing of the client that made it, and execute_command returns the
# reply of the server.
#
# Who is hurt: programs that share a client. Code that sends raw commands fails after another part has called bf() once: in
# production, or in the tests that run later.
# shellcheck source=findings/lib.sh
. "$(dirname "$0")/lib.sh"

get_redisbloom
get_redis
pip_install redis==8.1.0
start "$redis" --loadmodule "$redisbloom"

python - "$port" >"$work/output" <<'P'
import sys
import redis

def kind(client, *command):
    try:
        return type(client.execute_command(*command)).__name__
    except Exception as error:
        return f"{type(error).__name__} {error}"

commands = ("BF.INFO", "bloom", "ITEMS"), ("CF.INFO", "cuckoo")
for options in {}, {"protocol": 2}, {"protocol": 3}:
    client = redis.Redis(port=int(sys.argv[1]), **options)
    client.flushall()
    client.execute_command("BF.ADD", "bloom", "x")
    client.execute_command("CF.ADD", "cuckoo", "x")
    before = [kind(client, *command) for command in commands]
    client.bf(), client.cf()
    after = [kind(client, *command) for command in commands]
    for command, first, then in zip(commands, before, after):
        print(f"{options or 'default'}, {' '.join(command)}: {first}, after bf() and cf() {then}")
P
holds <<'SEEN'
default, BF.INFO bloom ITEMS: dict, after bf() and cf() KeyError 'Capacity'
default, CF.INFO cuckoo: dict, after bf() and cf() CFInfo
{'protocol': 2}, BF.INFO bloom ITEMS: list, after bf() and cf() KeyError 'Capacity'
{'protocol': 2}, CF.INFO cuckoo: list, after bf() and cf() CFInfo
{'protocol': 3}, BF.INFO bloom ITEMS: dict, after bf() and cf() dict
{'protocol': 3}, CF.INFO cuckoo: dict, after bf() and cf() dict
SEEN
