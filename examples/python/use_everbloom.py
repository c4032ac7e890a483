"""The package everbloom over redis-py 5 to 8 or valkey-py 6: the commands for which these have no methods.

    make clients    # or build a wheel: clients/python/README.md
    python3 use_everbloom.py redis://127.0.0.1:6379
"""
import sys
from datetime import timedelta

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from everbloom import Everbloom, FullError

# No repeats: after a lost reply, redis.Redis() of version 8 sends an add again, which then replies 0 for a new item.
client = redis.Redis.from_url(sys.argv[1], retry=Retry(NoBackoff(), 0))
bloom = Everbloom(client)
bloom.reserve("seen", 0.001, 1_000_000, window=timedelta(days=1), steps=120, if_not_exists=True)
assert bloom.add("seen", "alice") is True  # True: new, False: present, or a false positive; with RESP2 and RESP3
assert bloom.exists("seen", "bob") is False  # False is certain
assert bloom.exists("seen", "alice", within=timedelta(hours=1))

# A claim for a minute. The time that is left is at most a step of the window too long.
assert bloom.add("seen", "event-17", if_absent=True, life=60)
assert 60 <= bloom.ttl("seen", "event-17") <= 60 + 86400 / 120

# Any number of items, in packed batches.
assert bloom.bulk_add("ids", (f"id-{number}" for number in range(25_000)), progress=print) > 24_000

# A full filter is an error in the list of a batch.
replies = bloom.insert("tickets", ["1", "2", "3"], capacity=2, error_rate=0.01, fixed=True)
assert replies[:2] == [True, True] and isinstance(replies[2], FullError)
assert bloom.stats("tickets")["growth"] == "fixed"
print("done")
