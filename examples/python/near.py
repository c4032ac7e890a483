import sys
import redis
from everbloom import NearFilter

client = redis.Redis.from_url(sys.argv[1])
with NearFilter(client, "seen") as seen:
    for item in ("alice", "bob", "alice"):
        if item not in seen:  # a lookup in memory
            seen.add(item)  # on the server, and in the copy
print("done")
