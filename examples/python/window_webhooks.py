"""Webhook idempotency: each event is processed once, by two workers, although the sender repeats it and a worker crashes.

A worker claims an event for a short time, does the work, and then confirms it. If the worker dies, its claim ends by
itself and a later delivery is processed.

    pip install redis
    python3 window_webhooks.py redis://127.0.0.1:6379
"""
import sys
import time

import redis

WINDOW_SECONDS = 60  # how long the sender repeats an event; use 86400 for a day
CLAIM_SECONDS = 1  # longer than the work takes
STEP_SECONDS = WINDOW_SECONDS / 120  # `everbloom size --window 60s --steps 120` prints the step
client = redis.Redis.from_url(sys.argv[1])
# STEPS 120: a claim ends at most half a second late here, and at most 12 minutes late with a window of a day.
client.execute_command(
    "BF.RESERVE", "webhooks", 0.0001, 100_000, "WINDOW", WINDOW_SECONDS, "STEPS", 120, "IFNOTEXISTS"
)
processed = []  # in place of a database


class Crash(Exception):
    """A worker that dies in the middle of its work."""


def handle(worker, event, crashes=False):
    """Returns the status of the response: 200 if the event is done, 409 if the sender must send it again later."""
    if not client.execute_command("BF.ADD", "webhooks", event, "IFABSENT", "LIFE", CLAIM_SECONDS):
        if client.execute_command("BF.TTL", "webhooks", event) <= CLAIM_SECONDS + STEP_SECONDS + 1:
            return 409  # a worker has claimed it
        # It is done. One new event in ten thousand is taken for such a one, so look it up in the database.
        if event in processed:
            return 200
    if crashes:
        raise Crash(worker)
    processed.append(event)  # the work
    client.execute_command("BF.ADD", "webhooks", event)  # confirms the claim
    return 200


# Two workers get the same event. One processes it, and the other one answers that it is done.
assert handle("first", "evt_1") == 200 and handle("second", "evt_1") == 200
assert processed == ["evt_1"]

# The first worker crashes. Its claim refuses the retries of the sender until it ends, and then the second worker works.
try:
    handle("first", "evt_2", crashes=True)
except Crash:
    pass
statuses = []
while not statuses or statuses[-1] != 200:
    statuses.append(handle("second", "evt_2"))
    assert len(statuses) < 100, "the claim does not end"
    time.sleep(0.1)
assert statuses[0] == 409 and processed == ["evt_1", "evt_2"]
assert handle("first", "evt_2") == 200 and processed == ["evt_1", "evt_2"]
print("done")
