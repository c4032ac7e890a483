"""Measures ways to remember ids of 36 bytes for a day, all with the same ids on one server, and prints a table.

The bytes are the growth of `used_memory`. The times are the server's own, from INFO commandstats, for an add of an id
that is absent and for a check of one that is present. The server is emptied: use one without data.

    pip install redis
    python3 window_compare.py redis://127.0.0.1:6379 1000000
"""
import random
import sys
import time
import uuid

import redis

DAY_SECONDS = 86_400
client = redis.Redis.from_url(sys.argv[1])
count = int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000
if count < 100_000:
    raise SystemExit("at least 100000 ids, to see their memory beside the server's own")
if client.dbsize():
    raise SystemExit("the server has keys: use an empty one")
generator = random.Random(1)
ids = [str(uuid.UUID(int=generator.getrandbits(128), version=4)) for _ in range(count)]


def nanoseconds(name, commands):
    """Runs commands in pipelines. Returns the server's time for one of them."""
    client.config_resetstat()
    for start in range(0, len(commands), 1000):
        with client.pipeline(transaction=False) as pipeline:
            for command in commands[start : start + 1000]:
                pipeline.execute_command(*command)
            pipeline.execute()
    found = client.info("commandstats")[f"cmdstat_{name}"]
    return found["usec"] / found["calls"] * 1000


def measure(way, kept_too_long, prepare, add, check):
    client.flushall(asynchronous=False)
    time.sleep(1)
    before = client.info("memory")["used_memory"]
    if prepare:
        client.execute_command(*prepare)
    add_ns = nanoseconds(add("").pop(0).lower(), [add(one) for one in ids])
    bytes_per_item = (client.info("memory")["used_memory"] - before) / count
    check_ns = nanoseconds(check("").pop(0).lower(), [check(one) for one in ids])
    print(f"| {way} | {bytes_per_item:.2f} | {add_ns:.0f} | {check_ns:.0f} | {kept_too_long} |", flush=True)
    return bytes_per_item


def measure_filter(name, rate, steps):
    reserve = ["BF.RESERVE", "k", rate, count, "WINDOW", DAY_SECONDS, "STEPS", steps]
    late = f"{DAY_SECONDS / steps / 60:.0f} minutes"
    add, check = lambda one: ["BF.ADD", "k", one, "IFABSENT"], lambda one: ["BF.EXISTS", "k", one]
    return measure(f"one filter, {name}, {steps} steps", late, reserve, add, check)


info = client.info("server")
print(f"{count} ids, {info.get('server_name', 'redis')} {info.get('valkey_version', info['redis_version'])}\n")
print("| what | bytes per id | ns per add | ns per check | kept too long |\n|---|---|---|---|---|")
day = str(DAY_SECONDS)
of_set = measure(
    "a key per id, SET NX EX", "nothing", None, lambda one: ["SET", one, "1", "NX", "EX", day], lambda one: ["EXISTS", one]
)
# Redis has HSETEX from 8.0 on, Valkey from 9.0 on.
if client.command_list(pattern="hsetex"):
    measure(
        "a hash with expiring fields",
        "nothing",
        None,
        lambda one: ["HSETEX", "k", "FNX", "EX", day, "FIELDS", "1", one, "1"],
        lambda one: ["HEXISTS", "k", one],
    )
measure(
    "a sorted set by time",
    "until it is trimmed",
    None,
    lambda one: ["ZADD", "k", "NX", str(int(time.time())), one],
    lambda one: ["ZSCORE", "k", one],
)
for name, rate in [("1 %", 0.01), ("0.01 %", 0.0001)]:
    for steps in (14, 120):
        of_filter = measure_filter(name, rate, steps)
        print(f"SET NX EX takes {of_set / of_filter:.1f} times as much", file=sys.stderr)
client.flushall()
