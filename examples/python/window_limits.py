"""At most one message an hour of each kind: a user gets a message of a kind at most once an hour, whatever the kinds are.

A message that is held back does not start the hour again, and one that could not be sent does not count.

    pip install redis
    python3 window_limits.py redis://127.0.0.1:6379
"""
import sys

import redis

HOUR_SECONDS = 3600
KINDS = ["alert", "comment", "offer"]
client = redis.Redis.from_url(sys.argv[1])
# STEPS 120: a message is held back at most 30 seconds too long. The error rate: one new message in a thousand is
# held back too.
client.execute_command(
    "BF.RESERVE", "messages", 0.001, 100_000, "WINDOW", HOUR_SECONDS, "STEPS", 120, "IFNOTEXISTS"
)
outbox = []


def send(user, kind, fails=False):
    """Sends a message unless the user got one of this kind within the hour. Returns whether it was sent."""
    item = f"{user}:{kind}"
    # A claim of a minute: if the message cannot be sent, another one can be sent soon.
    if not client.execute_command("BF.ADD", "messages", item, "IFABSENT", "LIFE", 60):
        return False
    if fails:
        return False
    outbox.append(item)
    client.execute_command("BF.ADD", "messages", item)  # the hour begins
    return True


def got_lately(user, seconds):
    """Returns the kinds of which the user got a message within some seconds, with one command for all kinds."""
    lines = "\n".join(f"{user}:{kind}" for kind in KINDS)
    found = client.execute_command("BF.BULKEXISTS", "messages", "WITHIN", seconds, "LINES", lines)
    return [kind for kind, is_found in zip(KINDS, found.decode()) if is_found == "1"]


assert [send("ann", kind) for kind in KINDS] == [True, True, True]
assert [send("ann", kind) for kind in KINDS] == [False, False, False]
assert send("bob", "alert") and not send("bob", "alert") and send("bob", "offer")
assert not send("cid", "offer", fails=True) and got_lately("cid", 600) == []
assert got_lately("ann", 600) == KINDS and got_lately("bob", 600) == ["alert", "offer"]
assert client.execute_command("BF.TTL", "messages", "cid:offer") <= 60 + 31
assert len(outbox) == 5
print("done")
