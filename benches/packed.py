"""Compares packed batches with redis-py's methods for BF.MADD and BF.MEXISTS, for the figures of docs/bulk-loading.md.
Empties the server first.

    make run        # in another terminal; and `pip install redis` in this one
    python3 benches/packed.py redis://127.0.0.1:6379
"""
import statistics
import sys
import time

import redis

ITEMS, ROUNDS = 200_000, 5

server = redis.Redis.from_url(sys.argv[1])
server.flushall()
items = [b"user:%019d" % number for number in range(ITEMS)]


def one_by_one(method, size):
    for start in range(0, ITEMS, size):
        assert len(method("ids", *items[start:start + size])) == size


def packed(command, size):
    for start in range(0, ITEMS, size):
        replies = server.execute_command(command, "ids", "LINES", b"\n".join(items[start:start + size]))
        assert len(replies) == size


def packed_to_list(command, size):
    for start in range(0, ITEMS, size):
        replies = server.execute_command(command, "ids", "LINES", b"\n".join(items[start:start + size]))
        assert len([reply == ord("1") for reply in replies]) == size


def rate(way, *arguments, empties):
    """Returns the items per second, the median of all rounds."""
    times = []
    for _ in range(ROUNDS):
        if empties:
            server.delete("ids")
            server.execute_command("BF.RESERVE", "ids", 0.01, ITEMS)
        start = time.perf_counter()
        way(*arguments)
        times.append(time.perf_counter() - start)
    return ITEMS / statistics.median(times)


for method, command, empties in [
    (server.bf().madd, "BF.BULKADD", True),
    (server.bf().mexists, "BF.BULKEXISTS", False),
]:
    base = rate(one_by_one, method, 1000, empties=empties)
    print(f"bf().{method.__name__} of 1000: {base / 1e6:.2f} M items/s")
    for way, size, what in [
        (packed, 1000, "of 1000"),
        (packed, 10_000, "of 10000"),
        (packed_to_list, 10_000, "of 10000, replies as a list"),
    ]:
        figure = rate(way, command, size, empties=empties)
        print(f"{command} {what}: {figure / 1e6:.2f} M items/s, {figure / base:.1f} times")
