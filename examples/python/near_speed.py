"""Measures lookups in a near copy beside those on the server, through the same client: a reserved filter of 1,000,000 items.

    taskset -c 0 python3 near_speed.py redis://127.0.0.1:6379
"""
import sys
import time

import redis
from everbloom import Everbloom, NearFilter

ITEMS = 1_000_000
client = redis.Redis.from_url(sys.argv[1])
client.delete("speed")
Everbloom(client).reserve("speed", 0.001, ITEMS)
Everbloom(client).bulk_add("speed", (f"item-{number}" for number in range(ITEMS)))
items = [f"item-{number * 7919 % (2 * ITEMS)}" for number in range(200_000)]
batches = [items[at : at + 100] for at in range(0, len(items), 100)]


def measure(name, count, run):
    """Print and return the nanoseconds of each lookup: the least of three runs."""
    least = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        run()
        least = min(least, (time.perf_counter() - start) / count * 1e9)
    print(f"{name}: {least:.0f} ns")
    return least


def one_by_one():
    for item in items:
        item in near  # noqa: B015


def exists():
    for item in items[:5000]:
        client.execute_command("BF.EXISTS", "speed", item)


start = time.perf_counter()
with NearFilter(client, "speed") as near:
    assert near.wait()
    print(f"loaded in {(time.perf_counter() - start) * 1000:.0f} ms")
    here = measure("in", len(items), one_by_one)
    there = measure("BF.EXISTS", 5000, exists)
    many_here = measure("contains_many of 100, per item", len(items), lambda: [near.contains_many(b) for b in batches])
    many_there = measure(
        "BF.MEXISTS of 100, per item", 30_000,
        lambda: [client.execute_command("BF.MEXISTS", "speed", *batch) for batch in batches[:300]],
    )
    print(f"in: 1/{there / here:.0f}, contains_many: 1/{many_there / many_here:.1f}")
print("done")
