"""Tests of the typed commands, under both protocols and with decoded replies."""

import time
from datetime import datetime, timedelta, timezone

from support import ServerTest

import everbloom
from everbloom import Everbloom


class Commands(ServerTest):
    def each(self):
        """Yield the commands over a client of each kind, on an empty server."""
        for options in (
            {},
            {"protocol": 2},
            {"protocol": 3},
            {"protocol": 3, "decode_responses": True},
            {"protocol": 2, "decode_responses": True},
        ):
            client = self.server.client(**options)
            self.addCleanup(client.close)
            client.flushall()
            with self.subTest(options):
                yield Everbloom(client), client

    def test_reserve(self):
        for bloom, client in self.each():
            self.assertIs(bloom.reserve("a", 0.01, 1000), True)
            self.assertIs(bloom.reserve("a", 0.01, 1000, if_not_exists=True), False)
            self.assertIs(bloom.reserve("b", 0.01, 1000, if_not_exists=True), True)
            with self.assertRaisesRegex(everbloom.ExistsError, "^item exists$"):
                bloom.reserve("a", 0.01, 1000)
            bloom.reserve(
                "w", 1e-5, 1000, window=timedelta(days=1), steps=120, refresh=False, keyed=True, expire=90.5
            )
            stats = bloom.stats("w")
            self.assertEqual(
                (stats["kind"], stats["keyed"], stats["steps"], stats["error-rate"]),
                ("window", True, 120, 1e-5),
            )
            self.assertTrue(90_000 <= client.pttl("w") <= 90_500)
            bloom.reserve("c", 0.01, 1000, counting=True, fixed=True)
            self.assertEqual([bloom.stats("c")[field] for field in ("kind", "growth")], ["counting", "fixed"])
            with self.assertRaisesRegex(TypeError, "unknown options of a filter: windows"):
                bloom.reserve("d", 0.01, 1000, windows=3)
            with self.assertRaisesRegex(everbloom.RefusedError, "error rate"):
                bloom.reserve("d", 2, 1000)

    def test_options_that_the_server_would_ignore(self):
        client = self.server.client()
        self.addCleanup(client.close)
        bloom, sent = Everbloom(client), []
        unknown = bloom._client.response_error("unknown command 'BF.TTL', with args beginning with: 'k' ")

        # This server replies as RedisBloom does, which ignores options of BF.RESERVE that it does not know.
        def execute(*words):
            sent.append(words[0])
            if words[0] == "BF.TTL":
                raise unknown
            return b"OK"

        client.execute_command = execute
        for shape in ({"window": 1}, {"keyed": True}, {"counting": True}, {"expire": 1}):
            with (
                self.subTest(shape),
                self.assertRaisesRegex(everbloom.RefusedError, "unknown command 'BF.TTL'"),
            ):
                bloom.reserve("k", 0.01, 100, **shape)
        self.assertNotIn("BF.RESERVE", sent)
        self.assertIs(bloom.reserve("k", 0.01, 100, fixed=True), True)

    def test_add_and_lives(self):
        for bloom, _ in self.each():
            self.assertEqual(
                [bloom.add("a", item) for item in ("x", b"x", 1, "1", 2.5)], [True, False, True, False, True]
            )
            bloom.reserve("w", 0.001, 1000, window=3600)
            self.assertIs(bloom.add("w", "x", life=60), True)
            self.assertTrue(60 <= bloom.ttl("w", "x") <= 60 + 3600 / 14)
            self.assertIs(bloom.add("w", "x", life=timedelta(minutes=30), if_absent=True), False)
            self.assertTrue(bloom.ttl("w", "x") <= 60 + 3600 / 14)
            self.assertIs(bloom.add("w", "y", life_until=time.time() + 60), True)
            self.assertIs(
                bloom.add("w", "z", life_until=datetime.now(timezone.utc) + timedelta(seconds=60)), True
            )
            self.assertIsNone(bloom.ttl("w", "absent"))
            self.assertEqual(bloom.ttl("a", "x"), float("inf"))
            with self.assertRaises(ValueError):
                bloom.add("w", "x", life=1, life_until=time.time() + 1)
            with self.assertRaisesRegex(ValueError, "time zone"):
                bloom.add("w", "x", life_until=datetime.now())
            with self.assertRaisesRegex(everbloom.RefusedError, "WINDOW"):
                bloom.add("a", "x", life=60)

    def test_insert(self):
        for bloom, _ in self.each():
            with self.assertRaisesRegex(everbloom.NotFoundError, "^not found$"):
                bloom.insert("a", ["x"], create=False)
            replies = bloom.insert("a", iter(["x", "y", "x"]), capacity=2, error_rate=0.01, fixed=True)
            self.assertEqual(replies, [True, True, False])
            replies = bloom.insert("a", ["x", "z", "u"])
            self.assertEqual(replies[0], False)
            self.assertIsInstance(replies[1], everbloom.FullError)
            with self.assertRaises(everbloom.FullError):
                bloom.add("a", "z")
            now = time.time()
            self.assertEqual(
                bloom.insert(
                    "w", ["x"], window=3600, capacity=1000, at=now - 1800, life=2000, if_absent=True
                ),
                [True],
            )
            self.assertTrue(150 <= bloom.ttl("w", "x") <= 250 + 3600 / 14)

    def test_exists_within(self):
        for bloom, _ in self.each():
            bloom.reserve("w", 0.001, 1000, window=3600)
            bloom.insert("w", ["old"], at=time.time() - 1800)
            bloom.add("w", "new")
            self.assertEqual(
                [bloom.exists("w", item) for item in ("old", "new", "none")], [True, True, False]
            )
            self.assertEqual(
                [bloom.exists("w", item, within=timedelta(minutes=5)) for item in ("old", "new")],
                [False, True],
            )
            self.assertIs(bloom.exists("w", "old", within=1900.5), True)
            with self.assertRaises(everbloom.RefusedError):
                bloom.exists("w", "old", within=10_000)

    def test_stats_have_plain_types(self):
        for bloom, _ in self.each():
            bloom.reserve("a", 0.01, 100, fixed=True)
            bloom.add("a", "x")
            stats = bloom.stats("a")
            self.assertEqual(
                (stats["items"], stats["keyed"], stats["steps"], stats["layers"]), (1, False, None, 1)
            )
            self.assertIsInstance(stats["fill"], float)
            self.assertIsInstance(stats["type"], str)
            (layer,) = stats["per-layer"]
            self.assertIsInstance(layer["error-rate-now"], float)
            self.assertEqual(layer["items"], 1)
            with self.assertRaises(everbloom.NotFoundError):
                bloom.stats("none")

    def test_merge(self):
        for bloom, _ in self.each():
            bloom.add("{t}a", "x")
            bloom.add("{t}b", "y")
            self.assertIsNone(bloom.merge("{t}all", "{t}a", "{t}b"))
            self.assertTrue(bloom.exists("{t}all", "x") and bloom.exists("{t}all", "y"))
            with self.assertRaisesRegex(everbloom.NotFoundError, "{t}none"):
                bloom.merge("{t}all", "{t}none")
            with self.assertRaises(ValueError):
                bloom.merge("{t}all")
            bloom.merge("{t}all", "{t}a", force=True)

    def test_bulk_add(self):
        for bloom, _ in self.each():
            seen = []
            bloom.reserve("a", 1e-6, 30_000)
            added = bloom.bulk_add(
                "a", (f"item\n{at}" for at in range(25_000)), progress=lambda *counts: seen.append(counts)
            )
            self.assertEqual([sent for sent, _ in seen], [10_000, 20_000, 25_000])
            self.assertEqual(seen[-1][1], added)
            self.assertTrue(24_900 < added <= 25_000)
            self.assertEqual(bloom.bulk_add("a", [b"", b"", 17, "item\n1"]), 2)
            self.assertEqual(bloom.bulk_add("a", []), 0)
            self.assertTrue(bloom.exists("a", "17"))
            self.assertLess(bloom.bulk_add("big", (b"%07d" % at * 100_000 for at in range(5))), 6)
            bloom.reserve("full", 0.01, 2, fixed=True)
            with self.assertRaisesRegex(everbloom.RefusedError, "1 of the items from 0 to 3"):
                bloom.bulk_add("full", ["1", "2", "3"])

    def test_a_wrong_type_is_a_type_error(self):
        for bloom, client in self.each():
            bloom.reserve("w", 0.01, 1000, window=3600)
            for wrong in (["a", "b"], None, True, object()):
                for call in (bloom.add, bloom.exists, bloom.ttl):
                    with self.assertRaisesRegex(TypeError, "Invalid input of type"):
                        call("w", wrong)
                for call in (bloom.insert, bloom.bulk_add):
                    with self.assertRaisesRegex(TypeError, "Invalid input of type"):
                        call("w", ["x", wrong])
                with self.assertRaisesRegex(TypeError, "Invalid input of type"):
                    bloom.merge("d", wrong)
                with self.assertRaisesRegex(TypeError, "Invalid input of type"):
                    everbloom.NearFilter(client, wrong)
            for one in ("abc", b"abc", bytearray(b"abc"), memoryview(b"abc")):
                for call in (bloom.insert, bloom.bulk_add):
                    with self.assertRaisesRegex(TypeError, "items must be an iterable of items, not one"):
                        call("new", one)
            for wrong in ("1d", [1], b"60", datetime.now()):
                with self.assertRaisesRegex(TypeError, "a span is a number of seconds or a timedelta, not"):
                    bloom.add("w", "x", life=wrong)
                with self.assertRaisesRegex(TypeError, "a span is"):
                    bloom.reserve("v", 0.01, 1000, window=wrong)
            for wrong in ("1d", timedelta(days=1)):
                with self.assertRaisesRegex(TypeError, "a moment is UNIX time in seconds or a datetime, not"):
                    bloom.add("w", "x", life_until=wrong)
            for wrong in ("1000", 1000.5, float("inf"), None):
                with self.assertRaisesRegex(TypeError, "a capacity is a whole number, not "):
                    bloom.reserve("v", 0.01, wrong)
            with self.assertRaisesRegex(TypeError, "steps is a whole number, not '14'"):
                bloom.reserve("v", 0.01, 1000, window=60, steps="14")
            for wrong in ("1%", b"0.01", None):
                with self.assertRaisesRegex(TypeError, "an error rate is a number such as 0.01, not "):
                    bloom.reserve("v", wrong, 1000)
            for wrong in ({"interval": "1s"}, {"max_age": "10"}, {"interval": timedelta(seconds=1)}):
                with self.assertRaisesRegex(TypeError, "(interval|max_age) is a number of seconds, not "):
                    everbloom.NearFilter(client, "w", **wrong)
            # Nothing was sent.
            self.assertEqual((client.dbsize(), bloom.stats("w")["items"]), (1, 0))

    def test_a_whole_float_is_an_integer(self):
        for bloom, _client in self.each():
            bloom.reserve("r", 0.01, 1e6, window=60, steps=14.0)
            bloom.insert("i", ["a"], capacity=5e3)
            self.assertEqual((bloom.stats("r")["capacity"], bloom.stats("i")["capacity"]), (1_000_000, 5000))

    def test_a_lost_server_is_an_error_of_its_own(self):
        from support import free_port, lib

        client = self.server.client()
        client.connection_pool.connection_kwargs["port"] = free_port()
        if hasattr(lib, "retry"):
            client.connection_pool.connection_kwargs["retry"] = lib.retry.Retry(lib.backoff.NoBackoff(), 0)
        with self.assertRaises(everbloom.ConnectionLostError) as raised:
            Everbloom(client).add("a", "x")
        self.assertIsInstance(raised.exception.__cause__, lib.exceptions.ConnectionError)

    def test_the_exceptions_are_one_tree(self):
        for name in everbloom.__all__:
            kind = getattr(everbloom, name)
            if name.endswith("Error"):
                self.assertTrue(issubclass(kind, everbloom.EverbloomError))
