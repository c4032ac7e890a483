"""Copies of filters in this process, which follow their server."""

from __future__ import annotations

# Python imports it for the first address that a process looks up. A process that is forked amid this
# import by the thread below could not look up addresses at all.
import encodings.idna  # noqa: F401
import os
import queue
import random
import threading
import time
import weakref
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Optional

from ._clients import Client, Item, Key, Link
from ._errors import ClosedError, StaleError, refusal
from ._native import Copy, Steps

if TYPE_CHECKING:
    from typing_extensions import Self

#: How often a copy is loaded again of a filter whose changes the server does not keep, in seconds.
RELOAD_INTERVAL = 10.0
#: The shortest and the longest wait before a load, in seconds.
WAIT_MIN, WAIT_MAX = 1.0, 60.0
#: How long the end waits for the thread, in seconds. Its connection is cut: some milliseconds are left.
END_WAIT = 2.0


@dataclass(frozen=True)
class NearStats:
    """What a copy has done so far in this process."""

    #: Copies that were loaded.
    loads: int = 0
    #: How often the server did not know what had changed.
    losses: int = 0
    #: Bytes of the records that came after the loads.
    record_bytes: int = 0
    #: Errors of the connection and of the server.
    errors: int = 0
    #: The last of them; empty if there was none.
    last_error: str = ""


class _Thread(threading.Thread):
    """Follows the filter in one process. It does not keep the copy alive, which ends it."""

    def __init__(self, steps: Steps, link: Link, interval: float) -> None:
        super().__init__(name="near-filter", daemon=True)
        self._steps, self._link, self._interval = steps, link, interval
        # Not an Event: the garbage collector may call `end` on this thread at any time, also within a wait.
        self._has_ended, self._wake = False, queue.SimpleQueue[None]()
        self._wait, self._loaded_at = WAIT_MIN, float("inf")
        self._pid = os.getpid()
        self.stats = NearStats()

    def run(self) -> None:
        while not self._has_ended:
            try:
                wait = self._step()
            except Exception as error:
                if self._has_ended:
                    break
                self.stats = replace(self.stats, errors=self.stats.errors + 1, last_error=str(error))
                wait = self._backoff() if self._steps.is_loading() else _jittered(WAIT_MIN)
            if wait:
                with suppress(queue.Empty):
                    self._wake.get(timeout=wait)
        self._link.close()

    def _step(self) -> float:
        """Send one command and take its reply. Return how long to wait before the next, in seconds."""
        progress, record_bytes = self._steps.take(self._link.call(*self._steps.command()))
        stats = self.stats
        if progress == "loaded":
            self.stats = replace(stats, loads=stats.loads + 1)
            self._loaded_at = time.monotonic()
        elif progress in ("lost", "changed"):
            self.stats = replace(stats, losses=stats.losses + 1)
            return self._backoff() if progress == "lost" else RELOAD_INTERVAL
        elif record_bytes:
            self.stats = replace(stats, record_bytes=stats.record_bytes + record_bytes)
        if progress != "part" and self._steps.needs_time():
            self._ask_time()
        return self._interval if progress == "current" else 0.0

    def _ask_time(self) -> None:
        reply = self._link.call(b"TIME")
        if isinstance(reply, str):
            raise refusal(RuntimeError(reply))
        seconds, micros = reply
        self._steps.set_server_time(int(seconds) * 1000 + int(micros) // 1000)

    def _backoff(self) -> float:
        """Return the wait before the next load. A copy that has followed for a minute begins anew."""
        if time.monotonic() - self._loaded_at > WAIT_MAX:
            self._wait = WAIT_MIN
        self._loaded_at = float("inf")
        wait, self._wait = _jittered(self._wait), min(2 * self._wait, WAIT_MAX)
        return min(max(wait, WAIT_MIN), WAIT_MAX)

    def end(self) -> None:
        """End the thread. In another process, which has no such thread, do nothing."""
        if os.getpid() != self._pid or self._has_ended:
            return
        self._has_ended = True
        self._wake.put(None)
        self._link.interrupt()
        if threading.current_thread() is not self:
            self.join(END_WAIT)


def _jittered(seconds: float) -> float:
    return seconds * random.uniform(0.5, 1.5)


class NearFilter(Copy):
    """A copy of a filter in this process, which follows the server over a connection of its own.

    ``item in near`` returns what the server would have returned at some time within the last ``max_age``
    seconds. All methods may be called from several threads. In the child of a fork, the first use begins a
    new copy. A filter that does not exist contains nothing.

    >>> with NearFilter(client, "seen") as near:
    ...     if "alice" not in near:
    ...         near.add("alice")
    """

    _client: Client
    _key: bytes
    _interval: float
    _asks: bool
    _closed: bool

    def __new__(
        cls,
        client: Any,
        key: Key,
        *,
        interval: float = 0.25,
        max_age: float = 10,
        on_stale: str = "server",
    ) -> Self:
        """Begin to follow the filter under ``key``. Does not wait for the server: see ``wait``.

        ``client`` is a ``Redis`` or ``RedisCluster`` of redis-py 5 to 8, or that of valkey-py 6, also of a
        sentinel. The copy asks for changes each ``interval`` seconds, which must be less than ``max_age``.
        From an age of ``max_age`` seconds on, lookups ask the server by the client, or raise StaleError if
        ``on_stale`` is ``"error"``: then they never use the network.

        Raises TypeError for another client, and ValueError for another option.
        """
        if on_stale not in ("server", "error"):
            raise ValueError('on_stale must be "server" or "error"')
        for name, seconds in (("interval", interval), ("max_age", max_age)):
            if not hasattr(seconds, "__float__"):
                raise TypeError(f"{name} is a number of seconds, not {type(seconds).__name__}")
        interval, max_age = float(interval), float(max_age)
        if not 0.001 <= interval <= 3600:
            raise ValueError("interval must be a number of seconds from 0.001 to 3600")
        if 0 <= max_age <= interval:
            raise ValueError("interval must be less than max_age: both are in seconds")
        own = Client(client)
        raw_key = own.encode(key)
        self = super().__new__(cls, raw_key, max_age, own.encoder.encoding, own.encoder.encoding_errors)
        self._client, self._key, self._interval = own, raw_key, interval
        self._asks, self._closed = on_stale == "server", False
        self._begin()
        return self

    def _begin(self) -> None:
        self._thread = _Thread(self._follower(), Link(self._client, self._key), self._interval)
        # Called by close, by the garbage collector, or when the interpreter exits.
        self._end = weakref.finalize(self, self._thread.end)
        self._thread.start()

    def _restart(self) -> None:
        """Begin anew in the child of a fork, whose first use calls this."""
        if self._renew(True):
            self._end.detach()
            if not self._closed:
                self._begin()

    def _ask(self, items: list[bytes]) -> list[bool]:
        """Return the results of lookups that the copy does not have."""
        if self._closed:
            raise ClosedError("the near filter was closed")
        if not self._asks:
            cause = self._thread.stats.last_error
            raise StaleError("there is no recent copy of the filter" + (f": {cause}" if cause else ""))
        if len(items) == 1:
            return [bool(self._client.call("BF.EXISTS", self._key, items[0]))]
        found: list[bool] = []
        # The server runs other commands between these.
        for at in range(0, len(items), 1000):
            found += map(bool, self._client.call("BF.MEXISTS", self._key, *items[at : at + 1000]))
        return found

    def add(self, item: Item) -> bool:
        """Add an item on the server with BF.ADD, and to the copy. Return whether it was new to the server.

        Raises RefusedError with the server's text, and ConnectionLostError: then the item may have been
        added.
        """
        if self._closed:
            raise ClosedError("the near filter was closed")
        data = self._encode(item)
        is_new = bool(self._client.call("BF.ADD", self._key, data))
        self._added(data, is_new)
        return is_new

    @property
    def lag(self) -> Optional[float]:
        """The age of the copy in seconds: every item that was added earlier is found. None without a copy."""
        return self._age()

    def stats(self) -> NearStats:
        """Return what the copy has done so far in this process."""
        self._age()
        return self._thread.stats

    def wait(self, timeout: float = 60) -> bool:
        """Wait up to ``timeout`` seconds for a copy, or until there is no filter.

        Return whether this was so in time.
        """
        end = time.monotonic() + float(timeout)
        while self._age() is None and not self._closed and time.monotonic() < end:
            time.sleep(0.002)
        return self._age() is not None

    def close(self) -> None:
        """End the thread and its connection, and free the copy. The client stays open."""
        self._closed = True
        self._end()
        self._renew(False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
