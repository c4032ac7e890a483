"""Compares 24 partitions with one filter for the same items, for the figures of docs/clusters.md. Both are on one server,
so that only the partitions differ. Empties the server first.

    make run        # in another terminal; and `pip install redis` in this one
    python3 benches/partitions.py redis://127.0.0.1:6379
"""
import math
import statistics
import sys
import zlib

import redis

ITEMS, ABSENT, COUNT, BATCH = 2_000_000, 500_000, 24, 10_000

server = redis.Redis.from_url(sys.argv[1])
server.flushall()
share = ITEMS / COUNT
fullest = math.ceil(share + 4 * math.sqrt(share))
keys = ["part:{%d}" % number for number in range(COUNT)]
server.execute_command("BF.RESERVE", "one", 0.01, ITEMS)
for key in keys:
    server.execute_command("BF.RESERVE", key, 0.01, fullest)


def in_one(command, items):
    return server.execute_command(command, "one", *items)


def in_parts(command, items):
    theirs = {}
    for item in items:
        theirs.setdefault(zlib.crc32(item) % COUNT, []).append(item)
    pipeline = server.pipeline(transaction=False)
    for number, some in theirs.items():
        pipeline.execute_command(command, keys[number], *some)
    return [reply for replies in pipeline.execute() for reply in replies]


def measured(ask, command, items):
    """Returns the replies, and the server's time per item in nanoseconds."""
    server.config_resetstat()
    replies = ask(command, items)
    stats = server.info("commandstats")
    usec = next(stat["usec"] for name, stat in stats.items() if name.upper().endswith(command))
    return replies, usec * 1000 / len(items)


for command, kind, total in (("BF.MADD", b"item:%d", ITEMS), ("BF.MEXISTS", b"absent:%d", ABSENT)):
    times, yes = {in_one: [], in_parts: []}, {in_one: 0, in_parts: 0}
    for start in range(0, total, BATCH):
        items = [kind % number for number in range(start, start + BATCH)]
        for ask in times:
            replies, nanoseconds = measured(ask, command, items)
            times[ask].append(nanoseconds)
            yes[ask] += sum(replies)
    for ask in times:
        median = statistics.median(times[ask])
        print(f"{command} {ask.__name__}: {median:.0f} ns per item, {yes[ask] / total:.2%} replied 1")
fullest_items = max(server.execute_command("BF.CARD", key) for key in keys)
print(f"the fullest partition holds {fullest_items} of {fullest} items")


def size(key):
    """Returns the bytes of a filter. One field of BF.INFO is a list in RESP2 and a dict in RESP3."""
    field = server.execute_command("BF.INFO", key, "SIZE")
    [size_bytes] = field.values() if isinstance(field, dict) else field
    return size_bytes


print(f"bytes: {sum(map(size, keys)) / size('one'):.3f} times those of one filter,"
      f" {sum(map(server.memory_usage, keys)) / server.memory_usage('one'):.3f} times with the allocator's rounding")
