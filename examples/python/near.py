import sys
import redis
from everbloom import NearFilter

with NearFilter(redis.Redis.from_url(sys.argv[1]), "seen") as seen:
    assert seen.wait(), seen.stats().last_error  # such as a missing permission
    for item in ("alice", "bob", "alice"):
        if item not in seen:  # a lookup in memory
            seen.add(item)  # on the server, and in the copy
print("done")
