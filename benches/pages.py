"""Measures filters of 1 GB with and without large pages, before and after a save, and the time of forks, for the figures of
decision 9. Needs 7 GB of memory, Linux 6.1 and the server on the same machine. Empties the server and writes snapshots.

    make run        # in another terminal; and `pip install redis` in this one
    python3 benches/pages.py redis://127.0.0.1:6379
"""
import random
import statistics
import sys
import time

import redis

CAPACITY, ITEMS, BLOCK, ROUNDS, FORKS = 890_000_000, 100_000_000, 500_000, 9, 15
# bf.huge-pages for each filter, before and after the save.
FILTERS = {"small": ("no", "no"), "once": ("yes", "no"), "large": ("yes", "yes")}
WORK = [
    ("BF.ADD", "new", 1, 6000),
    ("BF.EXISTS", "absent", 1, 6000),
    ("BF.EXISTS", "present", 1, 6000),
    ("BF.MADD", "new", 100, 300),
    ("BF.MEXISTS", "absent", 100, 300),
    ("BF.MEXISTS", "present", 100, 300),
]

server = redis.Redis.from_url(sys.argv[1])
chance = random.Random(1)


def block(number):
    """Returns a packed block of items of eight bytes, the same for each filter."""
    return random.Random(number).randbytes(8 * BLOCK)


def fill(key, items):
    server.execute_command("BF.RESERVE", key, 0.01, CAPACITY)
    for number in range(items // BLOCK):
        server.execute_command("BF.BULKADD", key, "COUNT", "FIXED", 8, block(number))
    settle()


def large_megabytes():
    with open("/proc/%d/smaps_rollup" % server.info("server")["process_id"]) as rollup:
        return next(int(line.split()[1]) // 1024 for line in rollup if line.startswith("AnonHugePages:"))


def settle():
    """Waits until the server has collapsed all pages that it will collapse."""
    before = None
    while before != (now := large_megabytes()):
        before = now
        time.sleep(2)


def allow(key, after_save):
    server.config_set("bf.huge-pages", FILTERS[key][after_save])


def save(adds_to=()):
    """Saves a snapshot and adds items meanwhile. Returns the microseconds of the fork."""
    server.bgsave()
    while server.info("persistence")["rdb_bgsave_in_progress"]:
        for key in adds_to:
            allow(key, True)
            server.execute_command("BF.MADD", key, *[chance.randbytes(9) for _ in range(1000)])
    return server.info("stats")["latest_fork_usec"]


def nanoseconds(key, command, what, batch, commands):
    """Returns the server's own time per item."""
    packed = block(0)
    pipeline = server.pipeline(transaction=False)
    for _ in range(commands):
        places = [8 * chance.randrange(BLOCK) for _ in range(batch)]
        items = [packed[at:at + 8] if what == "present" else chance.randbytes(9) for at in places]
        pipeline.execute_command(command, key, *items)
    server.config_resetstat()
    pipeline.execute()
    return server.info("commandstats")["cmdstat_" + command.lower()]["usec"] * 1000 / commands / batch


def measure(after_save):
    print("| ns for an item | %s | once / small | large / small |" % " | ".join(FILTERS))
    print("|---|" + "---|" * (len(FILTERS) + 2))
    for key in FILTERS:
        # The memory may have been idle for long, so it is read once before the measurement.
        for number in range(10):
            server.execute_command("BF.BULKEXISTS", key, "FIXED", 8, block(number))
    for command, what, batch, commands in WORK:
        rounds = []
        for turn in range(ROUNDS):
            times = {}
            for key in sorted(FILTERS, key=lambda key: (list(FILTERS).index(key) + turn) % len(FILTERS)):
                allow(key, after_save)
                times[key] = nanoseconds(key, command, what, batch, commands)
            rounds.append(times)
        cells = ["%.0f" % statistics.median(times[key] for times in rounds) for key in FILTERS]
        for key in ("once", "large"):
            ratios = sorted(times[key] / times["small"] for times in rounds)
            cells.append("%.2f (%.2f to %.2f)" % (statistics.median(ratios), ratios[0], ratios[-1]))
        print("| %s, %s | %s |" % (command, what, " | ".join(cells)), flush=True)


server.flushall()
for key in FILTERS:
    allow(key, False)
    fill(key, ITEMS)
print("filled; %d MB in large pages" % large_megabytes())
measure(False)
save(adds_to=FILTERS)
for key in FILTERS:
    allow(key, True)
    server.execute_command("BF.ADD", key, "one more")
split = large_megabytes()
settle()
print("saved while items were added; %d MB in large pages, then %d MB" % (split, large_megabytes()))
measure(True)
server.flushall()
for setting in ("no", "yes"):
    server.config_set("bf.huge-pages", setting)
    fill(setting, ITEMS // 5)
    forks = sorted(save() for _ in range(FORKS))
    print("bf.huge-pages %s: fork %d us (%d to %d)" % (setting, statistics.median(forks), forks[0], forks[-1]))
    server.delete(setting)
