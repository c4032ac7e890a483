#!/usr/bin/env bash
# RedisBloom 2.8.2 in Redis 8.2.3 and Valkey 9.1.2: a user who may read a key (%R~ in the access list) may not run BF.EXISTS,
# BF.INFO, BF.SCANDUMP, CF.EXISTS or CF.COUNT on it. A user with +@read may not either. The commands have the flag
# "readonly", and replicas run them. But the module states no key specification, so the server takes each key for read and
# written, and it puts the commands into no category.
#
# A good engineer would guess: the permission to read suffices for commands that are flagged as read-only, as it does for
# SISMEMBER and PFCOUNT, and +@read has all of them.
#
# Who is hurt: those who give a web server or an exporter of metrics a user that only looks up. It gets NOPERM for each
# lookup, and the way out, ~ in place of %R~, lets it delete or overwrite the filter by any command that it may run.
# shellcheck source=findings/lib.sh
. "$(dirname "$0")/lib.sh"

get_redisbloom
get_redis
get_valkey
pip_install redis==8.1.0

for server in "$redis" "$valkey"; do
  "$server" --version | cut -d' ' -f 1-3
  start "$server" --loadmodule "$redisbloom"
  python - "$port" <<'P'
import sys
import redis

client = redis.Redis(port=int(sys.argv[1]), protocol=2)
client.execute_command("BF.ADD", "bloom", "x")
client.execute_command("CF.ADD", "cuckoo", "x")
client.sadd("set", "x")
client.pfadd("hyperloglog", "x")
lookups = [("SISMEMBER", "set", "x"), ("PFCOUNT", "hyperloglog"), ("BF.EXISTS", "bloom", "x"), ("BF.INFO", "bloom"),
           ("BF.SCANDUMP", "bloom", 0), ("CF.EXISTS", "cuckoo", "x"), ("CF.COUNT", "cuckoo", "x")]


def show(*rules):
    client.execute_command("ACL", "SETUSER", "lookups", "reset", "on", "nopass", *rules)
    allowed, refused = [], []
    with redis.Redis(port=int(sys.argv[1]), protocol=2, username="lookups", password="any") as user:
        for command in lookups:
            try:
                user.execute_command(*command)
                allowed.append(command[0])
            except redis.exceptions.NoPermissionError:
                refused.append(command[0])
    print(*rules, "may:", ", ".join(allowed), "- may not:", ", ".join(refused) or "none")


show("+@all", "%R~*")
show("+@read", "~*")
show("+@all", "~*")
flags = client.connection_pool.get_connection()
flags.send_command("COMMAND", "INFO", "BF.EXISTS")
info = flags.read_response()[0]
print("BF.EXISTS: flags", sorted(map(bytes.decode, info[2])), "- categories", info[6])
P
done >"$work/output"
holds <<'SEEN'
Redis server v=8.2.3
+@all %R~* may: SISMEMBER, PFCOUNT - may not: BF.EXISTS, BF.INFO, BF.SCANDUMP, CF.EXISTS, CF.COUNT
+@read ~* may: SISMEMBER, PFCOUNT - may not: BF.EXISTS, BF.INFO, BF.SCANDUMP, CF.EXISTS, CF.COUNT
+@all ~* may: SISMEMBER, PFCOUNT, BF.EXISTS, BF.INFO, BF.SCANDUMP, CF.EXISTS, CF.COUNT - may not: none
BF.EXISTS: flags ['fast', 'module', 'readonly'] - categories []
Valkey server v=9.1.2
+@all %R~* may: SISMEMBER, PFCOUNT - may not: BF.EXISTS, BF.INFO, BF.SCANDUMP, CF.EXISTS, CF.COUNT
+@read ~* may: SISMEMBER, PFCOUNT - may not: BF.EXISTS, BF.INFO, BF.SCANDUMP, CF.EXISTS, CF.COUNT
+@all ~* may: SISMEMBER, PFCOUNT, BF.EXISTS, BF.INFO, BF.SCANDUMP, CF.EXISTS, CF.COUNT - may not: none
BF.EXISTS: flags ['fast', 'module', 'readonly'] - categories []
SEEN
