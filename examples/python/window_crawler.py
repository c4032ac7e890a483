"""A crawler's revisit window: pages that were fetched within the last two seconds (days, in real life) are skipped.

    pip install redis
    python3 window_crawler.py redis://127.0.0.1:6379
"""
import sys
import time

import redis

WINDOW_MS = 2000
client = redis.Redis.from_url(sys.argv[1])
client.execute_command("BF.RESERVE", "fetched", 0.001, 10_000, "PWINDOW", WINDOW_MS, "IFNOTEXISTS")


def fetch(links):
    """Fetches the links that are due. Returns them."""
    seen = client.execute_command("BF.MEXISTS", "fetched", *links)
    due = [link for link, is_seen in zip(links, seen) if not is_seen]
    if due:
        client.execute_command("BF.MADD", "fetched", *due)
    return due


links = [f"https://example.com/{number}" for number in range(100)]
# One page in a thousand is skipped although it was never fetched. It gets another chance after the window.
assert len(fetch(links)) >= 95
assert fetch(links) == []
time.sleep(WINDOW_MS / 1000 * 15 / 14 + 0.1)
assert len(fetch(links)) >= 95
print("done")
