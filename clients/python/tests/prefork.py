"""The program of a prefork server: its near filter is made before the workers are."""

import os
import time

from support import Redis

from everbloom import NearFilter

near = NearFilter(Redis(port=int(os.environ["SERVER_PORT"])), "seen")


def application(environment, start):
    """Reply with the process id and whether the item of the path was added."""
    time.sleep(0.02)  # So that the other worker gets requests too.
    start("200 OK", [("Content-Type", "text/plain")])
    return [f"{os.getpid()} {environment['PATH_INFO'][1:] in near}".encode()]
