"""Notification suppression: a user is notified of an event, and not again until it has been quiet for a week.

    python3 window_notifications.py redis://127.0.0.1:6379
"""
import sys
import time

import redis

WEEK_SECONDS = 7 * 86_400
client = redis.Redis.from_url(sys.argv[1])
client.execute_command("BF.RESERVE", "notified", 0.001, 10_000, "WINDOW", WEEK_SECONDS, "IFNOTEXISTS")


def should_notify(user, event, days_ago=0):
    """Every event counts, also one that comes late: `AT` is the moment it happened."""
    at = int((time.time() - days_ago * 86_400) * 1000)
    [is_new] = client.execute_command("BF.INSERT", "notified", "NOCREATE", "AT", at, "ITEMS", f"{user}:{event}")
    return bool(is_new)


assert should_notify("ann", "disk full") and not should_notify("ann", "disk full")
assert should_notify("bob", "disk full", days_ago=6) and not should_notify("bob", "disk full")
try:
    should_notify("cid", "disk full", days_ago=9)
    raise SystemExit("an event older than the window was taken")
except redis.ResponseError:
    pass  # older than the window: there is nothing to suppress
print("done")
