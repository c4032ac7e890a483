"""Tests partitions.py. Compares the replies with those of one filter. Then looks up items until a line comes in, while
slots move and primaries change. Uses the keys `one` and `seen:{NUMBER}`, which must not exist.

    pip install redis    # and partitions.py beside this file
    python3 try_partitions.py redis://127.0.0.1:7000
"""
import select
import sys
import time

import redis
from partitions import Partitions


def layers(cluster, key):
    """Returns the number of layers of a filter. One field of BF.INFO is a list in RESP2 and a dict in RESP3."""
    field = cluster.execute_command("BF.INFO", key, "FILTERS")
    [number] = field.values() if isinstance(field, dict) else field
    return number


def main(url):
    cluster = redis.RedisCluster.from_url(url)
    seen = Partitions(cluster, "seen", 24)
    items = [b"item:%d" % number for number in range(50_000)]
    seen.reserve(0.01, len(items))
    cluster.execute_command("BF.RESERVE", "one", 0.01, len(items))
    for start in range(0, len(items), 5000):
        seen.add(items[start:start + 5000])
        cluster.execute_command("BF.MADD", "one", *items[start:start + 5000])
    assert all(seen.contains(items))
    grown = sum(layers(cluster, key) > 1 for key in seen.keys)
    absent = [b"absent:%d" % number for number in range(50_000)]
    one = sum(cluster.execute_command("BF.MEXISTS", "one", *absent))
    print(f"there: {sum(seen.contains(absent))} of {len(absent)} absent, in one filter {one}; {grown} grew", flush=True)

    # Looks up items while slots move and primaries change, until a line comes in.
    print("checking", flush=True)
    done, slowest = 0, 0.0
    while not select.select([sys.stdin], [], [], 0)[0]:
        start = time.monotonic()
        part = items[done % 49_000:][:1000]
        try:
            assert all(seen.contains(part)), "an item is lost"
        except (redis.ConnectionError, redis.exceptions.ClusterError) as error:
            print(f"once more after: {error}", flush=True)
            continue
        slowest = max(slowest, time.monotonic() - start)
        done += 1000
    print(f"checked {done}, none lost", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
