"""Packed batches with redis-py: the lines of a file, a reply per item, items of any bytes.

    pip install redis
    python3 bulk.py redis://127.0.0.1:6379 ids.txt
"""
import itertools
import sys

import redis

client = redis.Redis.from_url(sys.argv[1])


def load(key, lines):
    """Adds the lines of a file, 20 batches in one pipeline. Returns the number of new items."""
    new = 0
    with client.pipeline(transaction=False) as pipe:
        while batch := list(itertools.islice(lines, 10_000)):
            pipe.execute_command("BF.BULKADD", key, "COUNT", "LINES", b"".join(batch))
            if len(pipe) == 20:
                new += sum(pipe.execute())
        return new + sum(pipe.execute())


with open(sys.argv[2], "rb") as lines:
    print(load("ids", lines), "new")

# A reply per item: ord("1") if the item may have been added.
items = ["id-1", "nobody"]
replies = client.execute_command("BF.BULKEXISTS", "ids", "LINES", "\n".join(items))
for item, reply in zip(items, replies):
    print(item, "found" if reply == ord("1") else "absent")

# Items of any bytes.
packed = b"".join(len(item).to_bytes(4, "little") + item for item in [b"a\nb", b""])
print(client.execute_command("BF.BULKADD", "any", "COUNT", "PREFIXED", packed), "new")
