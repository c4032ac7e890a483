"""Tests of near filters: what docs/near-copies.md says of Python."""

import asyncio
import gc
import multiprocessing
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from fractions import Fraction

from support import LIBRARY, Cluster, Redis, Server, ServerTest, free_port, lib, wait_for

import everbloom
from everbloom import Everbloom, NearFilter
from everbloom._clients import Client, Link

FAST = {"interval": 0.005, "max_age": 3600, "on_stale": "error"}


def near(client, key="seen", **options):
    """Return a near filter that was loaded."""
    copy = NearFilter(client, key, **{**FAST, **options})
    assert copy.wait(20), copy.stats()
    return copy


def threads():
    return [thread for thread in threading.enumerate() if thread.name == "near-filter"]


class Lookups(ServerTest):
    def test_a_copy_of_every_kind_finds_what_the_server_finds(self):
        kinds = {
            "plain": [],
            "fixed": ["NONSCALING"],
            "window": ["WINDOW", 3600],
            "keyed": ["KEYED"],
            "counting": ["COUNTING"],
            "redisbloom": ["FORMAT", "redisbloom"],
            "valkey-bloom": ["FORMAT", "valkey-bloom"],
        }
        asked = [f"item-{number}" for number in range(3000)]
        for kind, options in kinds.items():
            self.client.execute_command("BF.RESERVE", kind, 0.2, 2000, *options)
            for number in range(0, 2000, 100):
                self.client.execute_command("BF.MADD", kind, *asked[number : number + 100])
            server = [bool(found) for found in self.client.execute_command("BF.MEXISTS", kind, *asked)]
            with near(self.client, kind) as copy:
                self.assertEqual(copy.contains_many(asked), server, kind)
                self.assertEqual(copy.contains_many(iter(asked[:50])), server[:50])
                self.assertEqual([item in copy for item in asked], server, kind)
                self.assertEqual(copy.contains_many([]), [])

    def test_items_are_encoded_as_the_client_encodes_arguments(self):
        items = [b"\xff\0", "grüße", "", 17, -3, 10**40, 0.1, 1e300, float("inf")]
        for options in (
            {},
            {"decode_responses": True},
            {"encoding": "latin-1"},
            {"protocol": 2},
            {"protocol": 3},
        ):
            client = self.server.client(**options)
            self.addCleanup(client.close)
            client.delete("seen")
            for item in items:
                client.execute_command("BF.ADD", "seen", item)
            with near(client) as copy:
                self.assertEqual([item in copy for item in items], [True] * len(items), options)
                self.assertEqual(copy.contains_many(items), [True] * len(items), options)
                self.assertNotIn("18", copy)
                for wrong in (None, True, [], bytearray(b"a"), object()):
                    with self.assertRaisesRegex(TypeError, "bytes, str, int or float"):
                        wrong in copy
                    with self.assertRaises(TypeError):
                        copy.contains_many([wrong])
                    with self.assertRaises(TypeError):
                        copy.add(wrong)
                for one in ("one", b"one", bytearray(b"one"), memoryview(b"one")):
                    with self.assertRaisesRegex(TypeError, "items must be an iterable of items, not one"):
                        copy.contains_many(one)
                with self.assertRaises(UnicodeEncodeError):
                    "\ud800" in copy

    def test_a_copy_follows_while_the_filter_grows(self):
        copy = near(self.client, interval=0.002)
        self.addCleanup(copy.close)
        self.assertNotIn("item-1", copy)
        for number in range(20_000):
            if number % 100 == 0:
                self.client.execute_command("BF.MADD", "seen", *(f"item-{number + at}" for at in range(100)))
        wait_for(lambda: "item-19999" in copy, "the last item")
        self.assertEqual(copy.contains_many([f"item-{number}" for number in range(20_000)]), [True] * 20_000)
        stats = copy.stats()
        self.assertEqual(stats.errors, 0, stats)
        self.assertGreater(stats.record_bytes, 0)
        self.assertLess(copy.lag, 5)

    def test_own_adds_are_found_at_once(self):
        self.client.execute_command("BF.RESERVE", "seen", 0.001, 1000)
        copy = near(self.client, interval=3599)
        self.addCleanup(copy.close)
        wait_for(lambda: threads(), "the thread")
        self.assertIs(copy.add("alice"), True)
        self.assertIn("alice", copy)
        self.assertIs(copy.add("alice"), False)

    def test_items_of_a_window_expire_in_the_copy(self):
        self.client.execute_command("BF.RESERVE", "seen", 0.001, 1000, "PWINDOW", 1400)
        copy = near(self.client)
        self.addCleanup(copy.close)
        copy.add("alice")
        self.assertIn("alice", copy)
        wait_for(lambda: "alice" not in copy, "the end of the item")
        self.assertFalse(self.client.execute_command("BF.EXISTS", "seen", "alice"))

    def test_a_merge_makes_the_copy_load_again(self):
        self.client.execute_command("BF.MADD", "other", "bob")
        self.client.execute_command("BF.MADD", "seen", "alice")
        copy = near(self.client)
        self.addCleanup(copy.close)
        self.client.execute_command("BF.MERGE", "seen", "other")
        wait_for(lambda: "bob" in copy, "the merged item")
        self.assertGreaterEqual(copy.stats().losses, 1)


class Staleness(ServerTest):
    def test_a_filter_that_does_not_exist_contains_nothing(self):
        copy = near(self.client)
        self.addCleanup(copy.close)
        self.assertNotIn("alice", copy)
        self.assertEqual(copy.contains_many(["alice"] * 2000), [False] * 2000)
        copy.add("alice")
        wait_for(lambda: "alice" in copy, "the new filter")

    def test_an_old_copy_is_not_used(self):
        server = Server()
        self.addCleanup(server.stop)
        client = server.client()
        client.execute_command("BF.ADD", "seen", "alice")
        strict = near(client, max_age=0.5)
        asks = near(client, max_age=0.5, on_stale="server")
        unlimited = near(client)
        self.assertIn("alice", strict)
        server.kill()
        wait_for(lambda: min(strict.lag, asks.lag) > 0.5, "the age")
        self.assertIn("alice", unlimited)
        with self.assertRaises(everbloom.StaleError) as raised:
            "alice" in strict
        with self.assertRaises(everbloom.StaleError):
            strict.contains_many([])
        self.assertTrue(str(raised.exception))
        with self.assertRaises(everbloom.ConnectionLostError):
            "alice" in asks
        with self.assertRaises(everbloom.ConnectionLostError):
            asks.add("bob")
        server.start()
        client.execute_command("BF.ADD", "seen", "carol")
        self.assertIn("carol", asks)
        self.assertEqual(asks.contains_many(["carol", "dave"]), [True, False])
        for copy in (strict, unlimited):
            wait_for(
                lambda copy=copy: copy.contains_many(["carol"]) == [True] if copy.lag < 0.5 else False,
                "the load",
            )
        for copy in (strict, asks, unlimited):
            copy.close()

    def test_errors_have_the_text_of_the_server(self):
        self.client.execute_command(
            "ACL", "SETUSER", "near", "on", ">secret", "~seen", "+bf.scandump", "+@connection"
        )
        client = self.server.client(username="near", password="secret")
        self.addCleanup(client.close)
        copy = NearFilter(client, "seen", on_stale="error")
        self.addCleanup(copy.close)
        wait_for(lambda: copy.stats().errors, "an error")
        with self.assertRaisesRegex(everbloom.StaleError, "bf.follow.*needs the rule"):
            "alice" in copy
        with self.assertRaisesRegex(everbloom.DeniedError, "bf.add"):
            copy.add("alice")
        self.client.set("text", "of a string")
        wrong = NearFilter(self.client, "text", on_stale="error")
        self.addCleanup(wrong.close)
        wait_for(lambda: wrong.stats().errors, "an error")
        with self.assertRaisesRegex(everbloom.StaleError, "WRONGTYPE"):
            "alice" in wrong
        with self.assertRaisesRegex(everbloom.RefusedError, "WRONGTYPE"):
            wrong.add("alice")

    def test_without_a_copy_the_server_is_asked(self):
        self.client.execute_command("BF.ADD", "seen", "alice")
        rules = ["on", ">secret", "~seen", "+bf.exists", "+bf.mexists", "+@connection"]
        self.client.execute_command("ACL", "SETUSER", "asks", *rules)
        client = self.server.client(username="asks", password="secret")
        self.addCleanup(client.close)
        with NearFilter(client, "seen") as copy:
            self.assertIn("alice", copy)
            self.assertNotIn("bob", copy)
            self.assertEqual(copy.contains_many(["alice", "bob"] * 1500), [True, False] * 1500)
            self.assertEqual(copy.contains_many([]), [])

    def test_arguments_are_checked(self):
        for wrong in ({"on_stale": "ask"}, {"interval": 0}, {"max_age": -1}, {"interval": float("nan")}):
            with self.assertRaises(ValueError):
                NearFilter(self.client, "seen", **wrong)
        for wrong in ({"interval": 250}, {"max_age": 0.25}, {"interval": 2, "max_age": 1}, {"max_age": 0}):
            with self.assertRaisesRegex(ValueError, "less than max_age: both are in seconds"):
                NearFilter(self.client, "seen", **wrong)
        for client in (None, 17, "redis://localhost"):
            with self.assertRaises(TypeError):
                NearFilter(client, "seen")
        for use in (Everbloom, lambda client: NearFilter(client, "seen")):
            with self.assertRaisesRegex(TypeError, "the client must not be a pipeline"):
                use(self.client.pipeline())
        of_asyncio = getattr(__import__(f"{LIBRARY}.asyncio").asyncio, Redis.__name__)

        async def follow():
            NearFilter(of_asyncio(), "seen")

        with self.assertRaisesRegex(TypeError, "blocking"):
            asyncio.run(follow())

    def test_seconds_of_any_type_of_number(self):
        for number in (Decimal, Fraction):
            with near(self.client, interval=number("0.005"), max_age=number(3600)) as copy:
                copy.add("alice")
                self.client.execute_command("BF.ADD", "seen", number.__name__)
                wait_for(lambda copy=copy, number=number: number.__name__ in copy, "the next item")


class Ends(ServerTest):
    def test_close_ends_the_thread_and_lookups(self):
        with near(self.client) as copy:
            self.assertEqual(len(threads()), 1)
        wait_for(lambda: not threads(), "the end of the thread")
        copy.close()
        self.assertIsNone(copy.lag)
        self.assertFalse(copy.wait(5))
        for use in (
            lambda: "alice" in copy,
            lambda: copy.contains_many(["alice"]),
            lambda: copy.add("alice"),
        ):
            with self.assertRaises(everbloom.ClosedError):
                use()
        self.assertTrue(self.client.ping())

    def test_the_garbage_collector_ends_the_thread(self):
        copy = near(self.client)
        copy.itself = copy
        gone = weakref.ref(copy)
        del copy
        gc.collect()
        self.assertIsNone(gone())
        wait_for(lambda: not threads(), "the end of the thread")

    def run_python(self, program, *arguments):
        return subprocess.run(
            [sys.executable, "-c", program, *arguments], timeout=30, capture_output=True, text=True
        )

    def test_an_interpreter_that_exits_does_not_hang(self):
        program = f"""
import sys, {LIBRARY}, everbloom
near = everbloom.NearFilter({LIBRARY}.{Redis.__name__}(port=int(sys.argv[1])), "seen", interval=0.001)
if sys.argv[2] == "wait": near.wait()
print("end" if sys.argv[2] == "wait" else near.lag)
"""
        self.client.execute_command("BF.MADD", "seen", *range(10_000))
        for _ in range(3):
            done = self.run_python(program, str(self.server.port), "wait")
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "end\n", ""))
        with socket.socket() as silent:
            silent.bind(("127.0.0.1", 0))
            silent.listen()
            done = self.run_python(program, str(silent.getsockname()[1]), "at once")
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "None\n", ""))

    def test_other_threads_run_during_large_batches(self):
        self.client.execute_command("BF.RESERVE", "seen", 0.001, 100_000)
        copy = near(self.client, interval=3599)
        self.addCleanup(copy.close)
        items, interval = [str(number) for number in range(400_000)], sys.getswitchinterval()
        has_run, go = [], threading.Lock()
        go.acquire()
        other = threading.Thread(target=lambda: go.acquire() and has_run.append(True))
        other.start()
        # The other thread can only run if this one gives up the interpreter's lock by itself.
        sys.setswitchinterval(1000)
        try:
            go.release()
            copy.contains_many(items[:1000])
            small = bool(has_run)
            copy.contains_many(items)
            large = bool(has_run)
        finally:
            sys.setswitchinterval(interval)
        other.join()
        self.assertEqual((small, large), (False, True))


class Forks(ServerTest):
    def test_the_child_of_a_fork_makes_a_copy_of_its_own(self):
        self.client.execute_command("BF.ADD", "seen", "alice")
        copy = near(self.client, on_stale="server", interval=0.001)
        self.addCleanup(copy.close)
        for use in ("in", "many", "lag", "add", "stats"):
            pid = os.fork()
            if pid == 0:
                code = 1
                try:
                    if use == "in":
                        assert "alice" in copy
                    elif use == "many":
                        assert copy.contains_many(["alice", "bob"] * 1000) == [True, False] * 1000
                    elif use == "lag":
                        assert copy.lag is None or copy.lag < 20
                    elif use == "add":
                        assert copy.add(f"child-{os.getpid()}")
                    assert copy.wait(20)
                    assert copy.stats().loads == 1 and len(threads()) == 1
                    self.client.execute_command("BF.ADD", "seen", f"late-{os.getpid()}")
                    wait_for(lambda: f"late-{os.getpid()}" in copy, "the item")
                    copy.close()
                    wait_for(lambda: not threads(), "the end of the thread")
                    code = 0
                finally:
                    os._exit(code)
            self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0, use)
            wait_for(lambda pid=pid: f"late-{pid}" in copy, "the item of the child")
        self.assertEqual(copy.stats().loads, 1)

    def test_a_fork_amid_changes_and_lookups(self):
        self.client.execute_command("BF.ADD", "seen", "alice")
        copy = near(self.client, on_stale="server", interval=0.001)
        self.addCleanup(copy.close)
        ended = threading.Event()

        def look():
            while not ended.is_set():
                copy.contains_many(items)

        def change():
            client = self.server.client()
            while not ended.is_set():
                client.execute_command("BF.MADD", "seen", *(random.random() for _ in range(100)))
            client.close()

        items = [str(number) for number in range(5000)]
        others = [threading.Thread(target=run) for run in (look, look, change)]
        for thread in others:
            thread.start()
        try:
            for _ in range(15):
                pid = os.fork()
                if pid == 0:
                    os._exit(0 if "alice" in copy and copy.wait(20) and "alice" in copy else 1)
                self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)
        finally:
            ended.set()
            for thread in others:
                thread.join()

    def test_the_thread_imports_nothing(self):
        # The child of a fork amid an import would have half a module for ever.
        program = f"""
import sys, threading, {LIBRARY}, everbloom
client = {LIBRARY}.{Redis.__name__}(host="localhost", port=int(sys.argv[1]))
known, begin = set(sys.modules), threading.Thread.start
def start(thread):
    global known
    known = set(sys.modules)
    begin(thread)
threading.Thread.start = start
with everbloom.NearFilter(client, "seen", interval=0.001) as near:
    assert near.wait()
    print(sorted(set(sys.modules) - known))
"""
        done = subprocess.run(
            [sys.executable, "-c", program, str(self.server.port)], timeout=30, capture_output=True, text=True
        )
        self.assertEqual((done.stdout, done.stderr), ("[]\n", ""))

    def test_multiprocessing_uses_a_copy_of_the_parent(self):
        self.client.execute_command("BF.ADD", "seen", "alice")
        copy = near(self.client, on_stale="server")
        self.addCleanup(copy.close)
        with multiprocessing.get_context("fork").Pool(2, _adopt, (copy,)) as pool:
            self.assertEqual(pool.map(_is_in, ["alice", "bob"] * 10), [True, False] * 10)

    def test_a_prefork_server_of_two_workers(self):
        try:
            import gunicorn  # noqa: F401
        except ImportError:
            self.skipTest("gunicorn is not installed")
        self.client.execute_command("BF.ADD", "seen", "alice")
        environment = {**os.environ, "SERVER_PORT": str(self.server.port)}
        # The master inherits the socket: a free port could be taken before it listens.
        listener = socket.create_server(("127.0.0.1", 0))
        command = [
            sys.executable,
            "-m",
            "gunicorn",
            "--preload",
            "-w",
            "2",
            "-b",
            f"fd://{listener.fileno()}",
            "--chdir",
            os.path.dirname(__file__),
            "--log-level",
            "error",
            "prefork:application",
        ]
        with subprocess.Popen(command, env=environment, pass_fds=[listener.fileno()]) as master:
            address = listener.getsockname()
            listener.close()
            try:
                replies = {}

                def ask(item):
                    with socket.create_connection(address, 10) as stream:
                        stream.sendall(f"GET /{item} HTTP/1.0\r\n\r\n".encode())
                        pid, found = stream.makefile().read().split()[-2:]
                    replies.setdefault(pid, []).append(found)

                def workers(item):
                    replies.clear()
                    with ThreadPoolExecutor(4) as pool:
                        asked = [pool.submit(ask, item) for _ in range(8)]
                    return len(replies) if not any(one.exception() for one in asked) else 0

                wait_for(lambda: workers("alice") == 2, "replies of two workers")
                self.assertEqual(set(sum(replies.values(), [])), {"True"})
                first = next(iter(replies))
                os.kill(int(first), signal.SIGKILL)
                wait_for(lambda: workers("alice") == 2 and first not in replies, "another worker")
                self.assertEqual(set(sum(replies.values(), [])), {"True"})
                wait_for(lambda: workers("bob") == 2, "replies of two workers")
                self.assertEqual(set(sum(replies.values(), [])), {"False"})
            finally:
                master.terminate()


def _adopt(copy):
    globals()["adopted"] = copy


def _is_in(item):
    return item in globals()["adopted"]


class Connections(ServerTest):
    def test_a_unix_socket(self):
        client = Redis(unix_socket_path=f"{self.server.dir}/socket")
        client.execute_command("BF.ADD", "seen", "alice")
        with near(client) as copy:
            self.assertIn("alice", copy)

    def test_another_database(self):
        client = self.server.client(db=3)
        client.execute_command("BF.ADD", "seen", "alice")
        with near(client) as copy, near(self.client) as other:
            self.assertIn("alice", copy)
            self.assertNotIn("alice", other)

    def nodes(self, *slots):
        """Return the nodes of a new cluster, each with its first and last slot, or none."""
        nodes = [
            Server(
                "--cluster-enabled",
                "yes",
                "--cluster-config-file",
                f"nodes-{at}",
                "--cluster-require-full-coverage",
                "no",
            )
            for at in range(len(slots))
        ]
        for node, own in zip(nodes, slots):
            self.addCleanup(node.stop)
            if own:
                node.client().execute_command("CLUSTER ADDSLOTSRANGE", *own)
            nodes[0].client().execute_command("CLUSTER MEET", "127.0.0.1", node.port)
        for node in nodes:
            wait_for(lambda node=node: self.has(node, "CLUSTER INFO", "cluster_state:ok"), "the cluster")
            known = f"cluster_known_nodes:{len(nodes)}"
            wait_for(lambda node=node: self.has(node, "CLUSTER INFO", known), "the nodes")
        return nodes

    def has(self, node, command, text):
        """Return whether the reply to the command contains the text."""
        return text in str(node.client().execute_command(command)).replace("'", "").replace(" ", "")

    def test_a_cluster_and_a_key_that_is_elsewhere(self):
        nodes = self.nodes((0, 8191), (8192, 16383))
        clients = [node.client() for node in nodes]
        cluster = Cluster(host="127.0.0.1", port=nodes[0].port)
        for key in ("a", "b", "c", "d"):
            cluster.execute_command("BF.ADD", key, "alice")
            with near(cluster, key) as copy:
                self.assertIn("alice", copy)
                self.assertTrue(copy.add("bob"))
                self.assertIn("bob", copy)
            # A client of one node alone: the copy looks for the key where the node says it is.
            for client in clients:
                with near(client, key) as copy:
                    self.assertEqual(copy.contains_many(["alice", "bob", "carol"]), [True, True, False])
                # There, it is found that there is no filter.
                with near(client, f"none-{key}") as copy:
                    self.assertEqual((copy.stats().errors, "alice" in copy), (0, False))
        with self.assertRaisesRegex(TypeError, "the client must not be a pipeline"):
            Everbloom(cluster.pipeline())
        cluster.close()

    def test_a_node_that_has_a_moved_key_and_fails(self):
        nodes = self.nodes((0, 8191), (8192, 16383))
        # The slots of `a` and `b` are 15495 and 3300.
        self.assertEqual(nodes[0].client().execute_command("CLUSTER KEYSLOT", "a"), 15495)
        link = Link(Client(nodes[0].client()), b"a")
        self.addCleanup(link.close)
        nodes[1].kill()
        with self.assertRaises(lib.exceptions.ConnectionError):
            link.call(b"BF.CARD", b"a")
        # The node of the client is next.
        self.assertEqual(link.call(b"BF.CARD", b"b"), 0)

    def test_a_copy_follows_the_new_primary_of_a_cluster(self):
        old, new = self.nodes((0, 16383), None)
        new.client().execute_command("CLUSTER REPLICATE", old.client().execute_command("CLUSTER MYID"))
        client = new.client()
        wait_for(lambda: client.info("replication").get("master_link_status") == "up", "the replica")
        wait_for(lambda: self.has(old, "CLUSTER SLOTS", str(new.port)), "the replica at its primary")
        cluster = Cluster(host="127.0.0.1", port=old.port)
        cluster.execute_command("BF.ADD", "seen", "alice")
        copy = near(cluster)
        self.addCleanup(copy.close)
        old.kill()
        client.execute_command("CLUSTER FAILOVER", "TAKEOVER")
        wait_for(lambda: client.info("replication")["role"] == "master", "the new primary")
        wait_for(lambda: self.has(new, "CLUSTER INFO", "cluster_state:ok"), "the cluster")
        client.execute_command("BF.ADD", "seen", "bob")
        wait_for(lambda: "bob" in copy, "the item of the new primary")

    def test_a_slot_without_a_node_is_a_lost_connection(self):
        (node,) = self.nodes((0, 8191))
        cluster = Cluster(host="127.0.0.1", port=node.port, require_full_coverage=False)
        with self.assertRaisesRegex(everbloom.ConnectionLostError, "15495"):
            Everbloom(cluster).add("a", "alice")

    def test_a_sentinel(self):
        port = free_port()
        config = f"{self.server.dir}/sentinel.conf"
        with open(config, "w") as file:
            file.write(f"port {port}\nbind 127.0.0.1\nsentinel monitor main 127.0.0.1 {self.server.port} 1\n")
        server = os.environ.get("SERVER", "redis-server")
        process = subprocess.Popen(
            [server, config, "--sentinel"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            sentinel = lib.Sentinel([("127.0.0.1", port)], socket_timeout=5)

            def knows():
                try:
                    return sentinel.discover_master("main")
                except (lib.exceptions.ConnectionError, lib.sentinel.MasterNotFoundError):
                    return False

            wait_for(knows, "the sentinel")
            client = sentinel.master_for("main")
            client.execute_command("BF.ADD", "seen", "alice")
            with near(client) as copy:
                self.assertIn("alice", copy)
        finally:
            process.kill()
            process.wait()

    def test_asyncio_programs_use_it(self):
        async def program():
            copy = NearFilter(self.client, "seen", on_stale="error")
            await asyncio.to_thread(copy.wait)
            await asyncio.to_thread(copy.add, "alice")
            while "alice" not in copy:
                await asyncio.sleep(0.01)
            copy.close()

        asyncio.run(program())
