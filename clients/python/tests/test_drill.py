"""The drill of near copies: the server and processes with copies are killed again and again, while others add.

DRILL_SECONDS: how long (default: 60). DRILL_SEED: the seed of the random choices.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
import unittest

from support import LIBRARY, Redis, Server, lib

SECONDS = float(os.environ.get("DRILL_SECONDS", "60"))
#: Lookups of added items, and absent items, of each round of a follower.
SAMPLE = 200


def follow(port, seed):
    """Be a process with a copy. Each line of the input has the number of added items and when the last was added.

    Prints a line for each: the lookups, those of items that are older than the lag and were missed, and false positives.
    """
    from everbloom import NearFilter, StaleError

    chance = random.Random(seed)
    copy = NearFilter(Redis(port=port), "seen", interval=0.02, max_age=5, on_stale="error")
    for line in sys.stdin:
        # The moments of the items since the last line, in order. Item n is `item-n`.
        first, moments = json.loads(line)
        times = follow.times
        assert len(times) == first
        times.extend(moments)
        looked, missed, wrong, stale = 0, [], 0, 0
        try:
            for _ in range(SAMPLE):
                # In this order: the copy is that of `now - lag_before` or later.
                now, lag_before = time.monotonic(), copy.lag
                if lag_before is None or not times:
                    stale += 1
                    continue
                # Often one of the newest items that must be found.
                at = (
                    chance.randrange(len(times))
                    if chance.random() < 0.5
                    else bisect_before(times, now - lag_before)
                )
                if at is None or times[at] >= now - lag_before:
                    continue
                looked += 1
                if f"item-{at}" not in copy:
                    missed.append(at)
                wrong += f"absent-{chance.random()}" in copy
        except StaleError:
            stale += 1
        print(json.dumps([looked, missed, wrong, stale, copy.stats().loads, copy.stats().losses]), flush=True)


follow.times = []


def bisect_before(times, moment):
    """Return the last of the items that were added before a moment."""
    import bisect

    at = bisect.bisect_left(times, moment) - 1
    return at if at >= 0 else None


class Follower:
    def __init__(self, port, seed):
        command = [sys.executable, __file__, "follow", str(port), str(seed)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.sent = 0

    def ask(self, times):
        self.process.stdin.write(json.dumps([self.sent, times[self.sent :]]) + "\n")
        self.process.stdin.flush()
        self.sent = len(times)
        return json.loads(self.process.stdout.readline())

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


class Drill(unittest.TestCase):
    @unittest.skipUnless(SECONDS > 0, "DRILL_SECONDS=0")
    def test_no_item_older_than_the_lag_is_missed(self):
        seed = int(os.environ.get("DRILL_SEED", time.time_ns() % 10**9))
        chance = random.Random(seed)
        # What was added with a reply survives a kill.
        server = Server("--appendonly", "yes", "--appendfsync", "no")
        self.addCleanup(server.stop)
        client = server.client(socket_timeout=5)
        client.execute_command("BF.RESERVE", "seen", 0.001, 20_000)
        followers = [Follower(server.port, seed + at) for at in range(3)]
        times, totals = [], [0] * 6
        killed = {"server": 0, "follower": 0}
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            for _ in range(20):
                count = chance.choice((1, 10, 100))
                items = [f"item-{len(times) + at}" for at in range(count)]
                while True:
                    try:
                        client.execute_command("BF.MADD", "seen", *items)
                        break
                    except (
                        lib.exceptions.ConnectionError,
                        lib.exceptions.TimeoutError,
                        lib.exceptions.ResponseError,
                    ):
                        time.sleep(0.01)
                times += [time.monotonic()] * count
            for follower in followers:
                looked, missed, *others = follower.ask(times)
                self.assertEqual(missed, [], f"seed {seed}")
                totals = [total + more for total, more in zip(totals, (looked, len(missed), *others))]
            draw = chance.random()
            if draw < 0.01:
                server.kill()
                server.start()
                killed["server"] += 1
            elif draw < 0.04:
                at = chance.randrange(len(followers))
                followers[at].kill()
                followers[at] = Follower(server.port, chance.random())
                killed["follower"] += 1
            elif draw < 0.045:
                client.execute_command("BF.ADD", "other", "x")
                client.execute_command("BF.MERGE", "seen", "other")
        for follower in followers:
            follower.kill()
        looked, _, wrong, stale, *_ = totals
        print(
            f"drill with {LIBRARY}, seed {seed}, {SECONDS:.0f} s: {len(times)} items, {looked} lookups of items older than the "
            f"lag, 0 missed, {wrong} false positives, {stale} lookups or rounds without a recent copy; killed: {killed}",
            flush=True,
        )
        self.assertGreater(looked, 1000)
        self.assertLess(wrong, looked / 100)


if __name__ == "__main__":
    follow(int(sys.argv[2]), sys.argv[3])
