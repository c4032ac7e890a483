"""redis-py 5 to 8: items that can be deleted, with the methods for cuckoo filters.

    pip install redis
    python3 delete_items.py redis://127.0.0.1:6379
"""
import sys

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

for protocol in (2, 3):
    # No repeats: redis.Redis() of version 8 sends a command again after a lost reply. The item would count twice.
    client = redis.Redis.from_url(sys.argv[1], protocol=protocol, retry=Retry(NoBackoff(), 0))
    client.delete("carts", "copy")
    cf = client.cf()
    # RESP2 replies with 1 or 0, RESP3 with True or False; in Python they are equal.
    assert cf.create("carts", 1000)
    assert cf.add("carts", "anna") == 1
    assert cf.add("carts", "anna") == 1  # every add counts
    assert cf.addnx("carts", "anna") == 0  # present, so not counted again
    assert cf.insert("carts", ["ben", "carl"]) == [1, 1]
    assert cf.insertnx("carts", ["carl", "dave"]) == [0, 1]  # a refused item is -1, which is true: compare with 1
    assert cf.exists("carts", "ben") == 1 and cf.exists("carts", "nobody") == 0
    assert cf.mexists("carts", "ben", "nobody") == [1, 0]
    assert cf.count("carts", "anna") == 2

    assert cf.delete("carts", "anna") == 1  # one of two occurrences
    assert cf.exists("carts", "anna") == 1
    assert cf.delete("carts", "anna") == 1
    assert cf.delete("carts", "anna") == 0  # 0: it was not there
    info = cf.info("carts")
    if not isinstance(info, dict):  # redis-py 5 returns a dict in RESP3
        assert (info.insertedNum, info.deletedNum, info.filterNum) == (3, 2, 1)

    # Chunks are bytes: with decode_responses=True, cf.scandump fails.
    iterator, data = cf.scandump("carts", 0)
    while iterator:
        cf.loadchunk("copy", iterator, data)
        iterator, data = cf.scandump("carts", iterator)
    assert cf.exists("copy", "dave") == 1
print("done")
