"""One filter over a whole cluster: partitions under keys such as name:{10}. The CRC-32 of an item gives its partition.
docs/clusters.md explains it.

    seen = Partitions(redis.RedisCluster.from_url("redis://127.0.0.1:7000"), "seen", 24)
    seen.reserve(0.01, 1_000_000)
    seen.add([b"alice", "bob".encode()])
"""
import binascii
import math
import zlib


def numbers(count):
    """Returns the numbers in the keys: that of partition i is the smallest whose slot is in the i-th of `count` equal
    ranges of the slots."""
    found, number = {}, 0
    while len(found) < count:
        slot = binascii.crc_hqx(str(number).encode(), 0) % 16384
        found.setdefault(slot * count // 16384, number)
        number += 1
    return [found[part] for part in range(count)]


class Partitions:
    """`count` can never change: with another count, items would be looked up in other partitions."""

    def __init__(self, client, name, count):
        self.client, self.count = client, count
        self.keys = [f"{name}:{{{number}}}" for number in numbers(count)]

    def reserve(self, error_rate, capacity):
        share = capacity / self.count
        fullest = math.ceil(share + 4 * math.sqrt(share))
        for key in self.keys:
            self.client.execute_command("BF.RESERVE", key, error_rate, fullest, "IFNOTEXISTS")

    def _each(self, command, items):
        """Sends each partition its items (bytes) in one command. Returns the replies in the order of the items."""
        places = {}
        for place, item in enumerate(items):
            places.setdefault(zlib.crc32(item) % self.count, []).append(place)
        pipeline = self.client.pipeline()
        for part, theirs in places.items():
            pipeline.execute_command(command, self.keys[part], *(items[place] for place in theirs))
        results = [None] * len(items)
        for theirs, replies in zip(places.values(), pipeline.execute()):
            for place, reply in zip(theirs, replies):
                results[place] = reply  # 1 or 0, in RESP3 True or False; or the error of this item
        return results

    def add(self, items):
        return self._each("BF.MADD", items)

    def contains(self, items):
        return self._each("BF.MEXISTS", items)
