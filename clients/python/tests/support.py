"""Servers with the module, on free ports of the loopback interface, and clients of the library under test."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest
from importlib import import_module
from pathlib import Path

MODULE = os.environ.get("MODULE", "")
SERVER = os.environ.get("SERVER", "redis-server")
LIBRARY = os.environ.get("LIBRARY", "redis")
lib = import_module(LIBRARY)
Redis = lib.Redis if LIBRARY == "redis" else lib.Valkey
Cluster = lib.RedisCluster if LIBRARY == "redis" else lib.ValkeyCluster
ROOT = Path(__file__).resolve().parents[3]


def free_port():
    """Return a free port below those for cluster buses."""
    while True:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        if port < 55000:
            return port


class Server:
    """A server. `options` are those of its command line."""

    def __init__(self, *options):
        self.dir = tempfile.mkdtemp(prefix="everbloom-")
        self.port, self.options = free_port(), options
        self.start()

    def start(self):
        command = [
            SERVER,
            "--port",
            str(self.port),
            "--bind",
            "127.0.0.1",
            "--dir",
            self.dir,
            "--save",
            "",
            "--unixsocket",
            f"{self.dir}/socket",
            "--enable-debug-command",
            "yes",
            "--loadmodule",
            MODULE,
            *self.options,
        ]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for(self.replies, "a server that replies")

    def replies(self):
        try:
            with Redis(port=self.port) as client:
                return client.ping()
        except (lib.exceptions.ConnectionError, lib.exceptions.ResponseError):
            return False

    def client(self, **options):
        return Redis(port=self.port, **options)

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.port}"

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self):
        if self.process.poll() is None:
            self.kill()
        shutil.rmtree(self.dir, ignore_errors=True)


def wait_for(condition, what, seconds=90):
    """Wait until the condition holds."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"waited in vain for {what}")
        time.sleep(0.005)


class ServerTest(unittest.TestCase):
    """Tests that share a server, which is emptied before each."""

    @classmethod
    def setUpClass(cls):
        cls.server = Server()
        cls.addClassCleanup(cls.server.stop)

    def setUp(self):
        self.client = self.server.client()
        self.addCleanup(self.client.close)
        self.client.flushall()
