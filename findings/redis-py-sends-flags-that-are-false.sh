#!/usr/bin/env bash
# redis-py 8.1.0 and valkey-py 6.2.0: bf().reserve(key, rate, capacity, noScale=False) creates a filter of fixed size, and
# bf().insert(..., noCreate=False) refuses to create one. The flags are sent for every value but None.
#
# A good engineer would guess: False means "without the flag", as for the boolean options of set() in the same clients
# (set(key, value, nx=False) sends no NX).
#
# Who is hurt: programs that pass a setting on (noScale=config.fixed). The filter works in tests, and refuses items in
# production when it reaches its capacity.
# shellcheck source=findings/lib.sh
. "$(dirname "$0")/lib.sh"

get_redisbloom
get_redis
pip_install redis==8.1.0 valkey==6.2.0
start "$redis" --loadmodule "$redisbloom"

python - "$port" >"$work/output" <<'P'
import sys
import redis, valkey

for library, name in (redis, "redis-py"), (valkey, "valkey-py"):
    client = library.Redis(port=int(sys.argv[1]), protocol=2)
    client.flushall()
    client.bf().reserve("fixed", 0.01, 2, noScale=False)
    refused = [reply for reply in client.bf().madd("fixed", "1", "2", "3") if isinstance(reply, Exception)]
    print(f"{name}, noScale=False: the third item of two gets", *refused)
    try:
        client.bf().insert("new", ["item"], noCreate=False)
    except library.ResponseError as error:
        print(f"{name}, noCreate=False: {error}")
    print(f"{name}, nx=False of set():", client.set("key", "1", nx=False) and client.set("key", "2", nx=False))
P
holds <<'SEEN'
redis-py, noScale=False: the third item of two gets non scaling filter is full
redis-py, noCreate=False: not found
redis-py, nx=False of set(): True
valkey-py, noScale=False: the third item of two gets non scaling filter is full
valkey-py, noCreate=False: not found
valkey-py, nx=False of set(): True
SEEN
