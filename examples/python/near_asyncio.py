import asyncio
import sys
import redis
from everbloom import NearFilter

async def main():
    # With "error", lookups never wait for the network, but raise StaleError without a recent copy.
    seen = NearFilter(redis.Redis.from_url(sys.argv[1]), "seen", on_stale="error")
    await asyncio.to_thread(seen.wait)
    if "alice" not in seen:
        await asyncio.to_thread(seen.add, "alice")
    await asyncio.to_thread(seen.close)
    print("done")

asyncio.run(main())
