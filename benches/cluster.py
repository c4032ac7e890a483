"""Measures 24 partitions on one, two and three primaries, for the figures of docs/clusters.md. Starts the servers, loads
the partitions with the command-line tool, and looks up packed batches over one connection to each primary.

    make build tool      # and `pip install redis`
    python3 benches/cluster.py redis-server target/release/libeverbloom.so target/release/everbloom
"""
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import zlib

import redis

ITEMS, PARTITIONS, ROUNDS = 5_000_000, 24, 3
SLOTS = 16384


def start(server, module, count, folder, processes):
    """Starts primaries with equal shares of the slots and appends their processes. Returns a client for each primary."""
    clients = []
    for number in range(count):
        port = 21000 + os.getpid() % 9000 + number
        arguments = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--cluster-enabled", "yes",
                     "--cluster-config-file", f"{count}-{number}.conf", "--dir", folder, "--loadmodule", os.path.abspath(module)]
        processes.append(subprocess.Popen([server, *arguments], stdout=subprocess.DEVNULL))
        clients.append(redis.Redis(port=port))
    for number, client in enumerate(clients):
        wait(lambda: alive(client))
        first, end = SLOTS * number // count, SLOTS * (number + 1) // count
        client.execute_command("CLUSTER ADDSLOTSRANGE", first, end - 1)
        client.execute_command("CLUSTER SET-CONFIG-EPOCH", number + 1)
    for client in clients[1:]:
        clients[0].execute_command("CLUSTER MEET", "127.0.0.1", client.connection_pool.connection_kwargs["port"])
    wait(lambda: all(b"cluster_state:ok" in info(client) and b"assigned:16384" in info(client) for client in clients))
    return clients


def info(client):
    reply = client.execute_command("CLUSTER INFO")
    return reply if isinstance(reply, bytes) else str(reply).replace("'", "").replace(": ", ":").encode()


def alive(client):
    try:
        return client.ping()
    except redis.RedisError:
        return False


def wait(condition):
    while not condition():
        time.sleep(0.05)


def busiest(clients, command):
    """Returns the seconds that the busiest primary spent on a command."""
    stats = [client.info("commandstats") for client in clients]
    return max(stat.get(f"cmdstat_{command}", {"usec": 0})["usec"] for stat in stats) / 1e6


def reset(clients):
    for client in clients:
        client.config_resetstat()


def owner(clients, key):
    slot = clients[0].execute_command("CLUSTER KEYSLOT", key)
    return clients[slot * len(clients) // SLOTS]


def check(clients, batches):
    """Looks up the items of all partitions, on all primaries at the same time. Returns the number found and the seconds."""
    found = []

    def ask(client):
        for key, data in batches:
            if owners[key] is client:
                found.append(client.execute_command("BF.BULKEXISTS", key, "COUNT", "LINES", data))

    owners = {key: owner(clients, key) for key, _ in batches}
    threads = [threading.Thread(target=ask, args=(client,)) for client in clients]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(found), time.perf_counter() - began


def main(server, module, tool):
    theirs = [[] for _ in range(PARTITIONS)]
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
        path = os.path.join(folder, "items")
        with open(path, "wb") as file:
            for number in range(ITEMS):
                item = b"item:%014d\n" % number
                file.write(item)
                theirs[zlib.crc32(item[:-1]) % PARTITIONS].append(item)
        step = 25_000
        batches = [("seen:{%d}" % number, b"".join(items[start:start + step]))
                   for number, items in enumerate(theirs) for start in range(0, len(items), step)]
        del theirs
        print("| primaries | load, M items/s | of the busiest primary | check, M items/s | of the busiest primary |")
        print("|---|---|---|---|---|")
        for count in (1, 2, 3):
            processes = []
            try:
                clients = start(server, module, count, folder, processes)
                rates = []
                for _ in range(ROUNDS):
                    reset(clients)
                    port = clients[0].connection_pool.connection_kwargs["port"]
                    loading = [tool, "load", f"redis://127.0.0.1:{port}", "seen", path, "-c", "--replace", "-q", "--json",
                               "--partitions", str(PARTITIONS), "--capacity", str(ITEMS)]
                    loaded = json.loads(subprocess.run(loading, check=True, capture_output=True).stdout)
                    load = (ITEMS / loaded["seconds"], ITEMS / busiest(clients, "bf.bulkadd"))
                    reset(clients)
                    found, seconds = check(clients, batches)
                    assert found == ITEMS, f"{found} found"
                    rates.append((*load, ITEMS / seconds, ITEMS / busiest(clients, "bf.bulkexists")))
                best = [max(column) / 1e6 for column in zip(*rates)]
                print("| %d | %.1f | %.1f | %.1f | %.1f |" % (count, *best), flush=True)
            finally:
                for process in processes:
                    process.terminate()
                    process.wait()


main(*sys.argv[1:])
