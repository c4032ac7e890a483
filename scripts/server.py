"""Functions that the Python scripts share: they start a server with the module on a free port, and connect a client."""

import contextlib
import os
import socket
import subprocess
import tempfile
import time


class Client:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.file = self.socket.makefile("rb")

    def send(self, commands):
        """Sends all commands in one pipeline. Returns their replies."""
        parts = []
        for command in commands:
            parts.append(b"*%d\r\n" % len(command))
            for word in command:
                word = word if isinstance(word, bytes) else str(word).encode()
                parts.append(b"$%d\r\n%s\r\n" % (len(word), word))
        self.socket.sendall(b"".join(parts))
        return [self.reply() for _ in commands]

    def reply(self):
        line = self.file.readline()[:-2]
        kind, rest = line[:1], line[1:]
        if kind == b"*":
            return [self.reply() for _ in range(int(rest))]
        if kind == b"$":
            return None if rest == b"-1" else self.file.read(int(rest) + 2)[:-2]
        if kind == b"-":
            raise RuntimeError(rest.decode())
        return int(rest) if kind == b":" else rest

    def ask(self, *command):
        return self.send([command])[0]


@contextlib.contextmanager
def running(server, module, *options):
    """Starts a server in a new directory. Returns a client and the directory; stops the server afterwards."""
    with socket.socket() as free, tempfile.TemporaryDirectory() as folder:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        process = subprocess.Popen(
            [server, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", folder, *options,
             "--loadmodule", os.path.abspath(module)],
            stdout=subprocess.DEVNULL,
        )
        try:
            yield connected(port, process), folder
        finally:
            process.terminate()
            process.wait()


def connected(port, process):
    """Returns a client of a server that is starting."""
    while process.poll() is None:
        with contextlib.suppress(OSError):
            return Client(port)
        time.sleep(0.1)
    raise RuntimeError("the server ended")
