"""Idempotent order intake: an order is processed once, however often it is delivered within the day.

    pip install redis
    python3 window_orders.py redis://127.0.0.1:6379
"""
import sys

import redis

DAY_SECONDS = 86_400
client = redis.Redis.from_url(sys.argv[1])
orders = {}  # in place of a database


def deliver(number, what):
    """Processes an order, unless it was processed before. Returns whether it processed the order."""
    options = ["ERROR", 0.0001, "CAPACITY", 100_000, "WINDOW", DAY_SECONDS, "NOREFRESH"]
    [is_new] = client.execute_command("BF.INSERT", "orders", *options, "ITEMS", number)
    # A 0 is wrong for one order in ten thousand, so look the order up in the database.
    if not is_new and number in orders:
        return False
    orders[number] = what
    return True


assert deliver("17", "a book") and not deliver("17", "a book")
assert all(deliver(str(number), "a lamp") for number in range(1000, 3000))
assert not any(deliver(str(number), "a lamp") for number in range(1000, 3000))
assert len(orders) == 2001
print("done")
