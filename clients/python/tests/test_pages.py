"""Runs the Python programs of docs/near-copies.md and docs/clients.md that use this package."""

import os
import subprocess
import sys
import unittest

from support import LIBRARY, ROOT, ServerTest

PROGRAMS = {
    "near.py": "near-copies.md",
    "near_asyncio.py": "near-copies.md",
    "use_everbloom.py": "clients.md",
}


@unittest.skipUnless(LIBRARY == "redis", "the programs use redis-py")
class Pages(ServerTest):
    def test_the_programs_of_the_pages_run(self):
        for name, page in PROGRAMS.items():
            with self.subTest(name):
                program = ROOT / "examples/python" / name
                self.assertIn(f"```python\n{program.read_text()}```\n", (ROOT / "docs" / page).read_text())
                self.client.flushall()
                done = subprocess.run(
                    [sys.executable, program, self.server.url],
                    timeout=60,
                    capture_output=True,
                    text=True,
                    env={**os.environ},
                )
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertTrue(done.stdout.endswith("done\n"))
