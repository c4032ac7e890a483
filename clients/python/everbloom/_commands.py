"""The commands for which redis-py and valkey-py have no methods."""

from __future__ import annotations

import operator
import struct
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any, Callable, Optional, SupportsIndex, TypedDict, Union

from ._clients import Client, Item, Key
from ._errors import RefusedError, refusal

if TYPE_CHECKING:
    from typing_extensions import Unpack

#: A time span: seconds, of which a thousandth is the smallest part, or a timedelta.
Span = Union[float, timedelta]
#: A moment: seconds of UNIX time, or a datetime with a time zone.
Moment = Union[float, datetime]
#: The most items and bytes of one command of bulk_add.
BATCH_ITEMS, BATCH_BYTES = 10_000, 1 << 20


def _ms(span: Span) -> int:
    """Return a time span in milliseconds."""
    if isinstance(span, timedelta):
        return round(span.total_seconds() * 1000)
    if not hasattr(span, "__round__"):
        raise TypeError(f"a span is a number of seconds or a timedelta, not {type(span).__name__}")
    return round(span * 1000)


def _unix_ms(moment: Moment) -> int:
    """Return a moment in milliseconds of UNIX time."""
    if not isinstance(moment, datetime):
        if not hasattr(moment, "__round__"):
            raise TypeError(f"a moment is UNIX time in seconds or a datetime, not {type(moment).__name__}")
        return round(moment * 1000)
    if moment.tzinfo is None:
        raise ValueError("a datetime needs a time zone")
    return round(moment.timestamp() * 1000)


def _whole(number: float | SupportsIndex, what: str) -> int:
    """Return a whole number, which may be a float such as 1e6."""
    if isinstance(number, float):
        if number.is_integer():
            return int(number)
    elif hasattr(number, "__index__"):
        return operator.index(number)
    raise TypeError(f"{what} is a whole number, not {number!r}")


def _rate(rate: float) -> str:
    """Return an error rate as text."""
    if isinstance(rate, (str, bytes)) or not hasattr(rate, "__float__"):
        raise TypeError(f"an error rate is a number such as 0.01, not {type(rate).__name__}")
    return repr(float(rate))


def _items(items: Iterable[Item]) -> Iterable[Item]:
    """Return items, or raise TypeError for one text or bytes, which Python would take apart."""
    if isinstance(items, (str, bytes, bytearray, memoryview)):
        raise TypeError("items must be an iterable of items, not one item")
    return items


class Shape(TypedDict, total=False):
    """The options of a new filter."""

    #: How long items live after their last add: a sliding-window filter.
    window: Optional[Span]
    #: In how many steps they expire: 14 or 120.
    steps: Optional[float]
    #: False: items live that long after their first add.
    refresh: bool
    #: The hash of the filter has a secret key.
    keyed: bool
    #: Items can be deleted.
    counting: bool
    #: The filter does not grow.
    fixed: bool
    #: When the key ends.
    expire: Optional[Span]


#: The words of the options of Shape.
WORDS: dict[str, Callable[[Any], list[Any]]] = {
    "window": lambda span: ["PWINDOW", _ms(span)],
    "steps": lambda steps: ["STEPS", _whole(steps, "steps")],
    "refresh": lambda refresh: [] if refresh else ["NOREFRESH"],
    "keyed": lambda keyed: ["KEYED"] if keyed else [],
    "counting": lambda counting: ["COUNTING"] if counting else [],
    "fixed": lambda fixed: ["NONSCALING"] if fixed else [],
    "expire": lambda span: ["PX", _ms(span)],
}


def _shape(shape: Mapping[str, Any]) -> list[Any]:
    """Return the options of a new filter."""
    if unknown := shape.keys() - WORDS:
        raise TypeError(f"unknown options of a filter: {', '.join(sorted(unknown))}")
    return [word for name, value in shape.items() if value is not None for word in WORDS[name](value)]


def _life(if_absent: bool, life: Optional[Span], until: Optional[Moment]) -> list[Any]:
    """Return the options of items."""
    if life is not None and until is not None:
        raise ValueError("give a life or its end, not both")
    words: list[Any] = ["IFABSENT"] if if_absent else []
    words += ["PLIFE", _ms(life)] if life is not None else []
    words += ["PLIFEAT", _unix_ms(until)] if until is not None else []
    return words


class Everbloom:
    """The commands of everbloom over a client, with the same results in RESP2 and RESP3.

    Time spans are seconds or a timedelta; the server counts milliseconds. Moments are seconds of UNIX time or
    a datetime with a time zone. Every method raises RefusedError, or a subclass of it, with the text of the
    server, ConnectionLostError, and TypeError for an argument of another type.
    """

    def __init__(self, client: Any) -> None:
        """Use this client. Raises TypeError for another one."""
        self._client = Client(client)

    def reserve(
        self,
        key: Key,
        error_rate: float,
        capacity: float,
        *,
        if_not_exists: bool = False,
        **shape: Unpack[Shape],
    ) -> bool:
        """Create an empty filter with BF.RESERVE. Return False if it exists, with ``if_not_exists``.

        ``error_rate`` is above 0 and below 1. ``capacity`` is a number of items: with ``window`` those of a
        window. The other options are those of ``Shape``: items expire ``window`` after their last add, or
        their first if not ``refresh``, in 14 or 120 ``steps``. The hash of a ``keyed`` filter is secret.
        Items of a ``counting`` filter can be deleted. A ``fixed`` filter does not grow. The key ends after
        ``expire``.

        Raises ExistsError if the filter exists, without ``if_not_exists``.
        """
        words: list[Any] = ["BF.RESERVE", key, _rate(error_rate), _whole(capacity, "a capacity")]
        options = _shape(shape) + (["IFNOTEXISTS"] if if_not_exists else [])
        if set(options) - {"NONSCALING"}:
            self._require_everbloom(key)
        reply = self._client.call(*words, *options)
        return reply not in (0, False)

    def _require_everbloom(self, key: Key) -> None:
        """Raise RefusedError if the server has no BF.TTL: RedisBloom ignores options it does not know."""
        try:
            self._client.call("BF.TTL", key, b"")
        except RefusedError as error:
            if "unknown command" in str(error):
                raise

    def add(
        self,
        key: Key,
        item: Item,
        *,
        if_absent: bool = False,
        life: Optional[Span] = None,
        life_until: Optional[Moment] = None,
    ) -> bool:
        """Add an item with BF.ADD. Return whether it was new.

        In a filter with a window the item is found for ``life``, or until ``life_until``, and at most one
        step longer. With ``if_absent`` an item that is there keeps its time.

        Raises FullError if the filter is fixed and full.
        """
        return bool(self._client.call("BF.ADD", key, item, *_life(if_absent, life, life_until)))

    def insert(
        self,
        key: Key,
        items: Iterable[Item],
        *,
        error_rate: Optional[float] = None,
        capacity: Optional[float] = None,
        create: bool = True,
        at: Optional[Moment] = None,
        if_absent: bool = False,
        life: Optional[Span] = None,
        life_until: Optional[Moment] = None,
        **shape: Unpack[Shape],
    ) -> list[Union[bool, RefusedError]]:
        """Add items with BF.INSERT. Return for each whether it was new, or why it was refused.

        The list ends at the first item that a full filter refuses. Without ``create`` the filter must exist.
        The items count from the moment ``at``. The other options are those of ``reserve``, for a new filter,
        and of ``add``.

        Raises NotFoundError without ``create`` if there is no filter.
        """
        words: list[Any] = ["BF.INSERT", key]
        words += ["CAPACITY", _whole(capacity, "a capacity")] if capacity is not None else []
        words += ["ERROR", _rate(error_rate)] if error_rate is not None else []
        words += [] if create else ["NOCREATE"]
        words += _shape(shape)
        words += ["AT", _unix_ms(at)] if at is not None else []
        words += _life(if_absent, life, life_until)
        replies = self._client.call(*words, "ITEMS", *_items(items))
        return [refusal(reply) if isinstance(reply, Exception) else bool(reply) for reply in replies]

    def exists(self, key: Key, item: Item, *, within: Optional[Span] = None) -> bool:
        """Return whether an item may be in a filter, or was added ``within`` this time, with BF.EXISTS.

        Raises RefusedError if ``within`` is given for a filter without a window, or is longer than it.
        """
        return bool(
            self._client.call(
                "BF.EXISTS", key, item, *(["PWITHIN", _ms(within)] if within is not None else [])
            )
        )

    def ttl(self, key: Key, item: Item) -> Optional[float]:
        """Return the remaining life of an item in seconds, with BF.PTTL: at most one step too long.

        None if the item is not in the filter; infinity if the filter has no window.
        """
        left_ms = int(self._client.call("BF.PTTL", key, item))
        return {-1: float("inf"), -2: None}.get(left_ms, left_ms / 1000)

    def stats(self, key: Key) -> dict[str, Any]:
        """Return the fields of BF.STATS: numbers, texts, bools, None, and dicts in the list ``per-layer``.

        Raises NotFoundError if there is no filter.
        """
        return _fields(self._client.call("BF.STATS", key))

    def merge(self, dest: Key, *sources: Key, force: bool = False) -> None:
        """Add all items of the sources to ``dest`` with BF.MERGE, and create it if it does not exist.

        With ``force`` also if this breaks the error rate of ``dest``. Raises NotFoundError if a source does
        not exist.
        """
        if not sources:
            raise ValueError("there is no source")
        self._client.call("BF.MERGE", dest, *sources, *(["FORCE"] if force else []))

    def bulk_add(
        self, key: Key, items: Iterable[Item], progress: Optional[Callable[[int, int], None]] = None
    ) -> int:
        r"""Add any number of items with BF.BULKADD. Return how many were new.

        Items are taken as they are: ``(line.rstrip("\n") for line in file)`` cuts the newlines of a file off.

        Sends batches of 10,000 items, or 1 MB, and calls ``progress`` after each with the numbers of items
        that were sent and that were new. Raises RefusedError if items were refused; those of the batches
        before it, and the others of its batch, were added.
        """
        sent = added = 0
        for count, data in _batches(map(self._client.encode, _items(items))):
            reply = self._client.call("BF.BULKADD", key, "PREFIXED", data)
            marks = reply.encode() if isinstance(reply, str) else bytes(reply)
            if b"!" in marks:
                raise RefusedError(
                    f"{marks.count(b'!')} of the items from {sent} to {sent + count} were refused"
                )
            sent, added = sent + count, added + marks.count(b"1")
            if progress is not None:
                progress(sent, added)
        return added


def _batches(items: Iterator[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield packed batches and their numbers of items."""
    data, count = bytearray(), 0
    for item in items:
        data += struct.pack("<I", len(item)) + item
        count += 1
        if count == BATCH_ITEMS or len(data) >= BATCH_BYTES:
            yield count, bytes(data)
            data, count = bytearray(), 0
    if count:
        yield count, bytes(data)


def _fields(reply: Any) -> dict[str, Any]:
    """Return a map, which RESP2 has as a list of names and values."""
    if not isinstance(reply, dict):
        reply = dict(zip(islice(reply, 0, None, 2), islice(reply, 1, None, 2)))
    fields = {_text(name): _text(value) for name, value in reply.items()}
    for name, value in fields.items():
        if name == "per-layer":
            fields[name] = [_fields(layer) for layer in value]
        elif name == "keyed":
            fields[name] = bool(value)
        elif name in ("fill", "error-rate", "error-rate-max", "error-rate-now", "bits-per-item"):
            fields[name] = None if value is None else float(value)
    return fields


def _text(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value
