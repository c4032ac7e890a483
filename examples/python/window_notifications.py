"""Notification suppression: a user is notified of an event, and again only after a week without this event.

    pip install redis
    python3 window_notifications.py redis://127.0.0.1:6379
"""
import sys
import time

import redis

WEEK_SECONDS = 7 * 86_400
client = redis.Redis.from_url(sys.argv[1])
client.execute_command("BF.RESERVE", "notified", 0.001, 10_000, "WINDOW", WEEK_SECONDS, "IFNOTEXISTS")


def should_notify(user, event, days_ago=0):
    """Returns whether to notify the user. `AT` is the time of the event, which may arrive late."""
    at = int((time.time() - days_ago * 86_400) * 1000)
    [is_new] = client.execute_command("BF.INSERT", "notified", "NOCREATE", "AT", at, "ITEMS", f"{user}:{event}")
    return bool(is_new)


assert should_notify("ann", "disk full") and not should_notify("ann", "disk full")
assert should_notify("bob", "disk full", days_ago=6) and not should_notify("bob", "disk full")
try:
    should_notify("cid", "disk full", days_ago=9)
    raise SystemExit("an event older than the window was taken")
except redis.ResponseError:
    pass  # The event is older than the window, so there is nothing to suppress.
print("done")
