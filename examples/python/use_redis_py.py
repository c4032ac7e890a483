"""redis-py 5 to 8: the commands of RedisBloom, and those that it has no method for.

    pip install redis
    python3 use_redis_py.py redis://127.0.0.1:6379
"""
import sys

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

# No repeats: after a lost reply, redis.Redis() of version 8 sends an add again, which then replies 0 for a new item.
client = redis.Redis.from_url(sys.argv[1], retry=Retry(NoBackoff(), 0))
if not client.exists("seen"):
    client.execute_command("BF.RESERVE", "seen", 0.001, 1_000_000, "EX", 86400, "IFNOTEXISTS")
# RESP2 replies with 1 or 0, RESP3 with True or False; in Python they are equal.
assert client.bf().add("seen", "alice") == 1  # 1: new, 0: present, or a false positive
assert client.bf().exists("seen", "bob") == 0  # 0 is certain
assert client.bf().madd("seen", "alice", "bob", "carol") == [0, 1, 1]
assert client.bf().mexists("seen", "alice", "dave") == [1, 0]

# A batch has a reply per item: a full filter is an error inside the list, not an exception.
client.bf().reserve("tickets", 0.01, 2, noScale=True)  # noScale=False is sent too: leave it out
replies = client.bf().madd("tickets", "1", "2", "3")
assert replies[:2] == [1, 1] and isinstance(replies[2], redis.ResponseError)

# One field of BF.INFO is a list of one value in RESP2, and a dict in RESP3, which redis-py speaks by default from 8.0 on.
# After bf(), BF.INFO of one field by the same client raises KeyError, except with protocol=3. So use another client.
field = redis.Redis.from_url(sys.argv[1]).execute_command("BF.INFO", "seen", "ITEMS")
assert list(field.values() if isinstance(field, dict) else field) == [3]
print("done")
