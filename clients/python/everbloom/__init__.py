"""Filters of the module everbloom for Redis and Valkey: typed commands, and copies in this process.

``Everbloom(client)`` has the commands for which redis-py and valkey-py have no methods. ``NearFilter(client,
key)`` is a copy of a filter that follows the server.
"""

from ._commands import Everbloom
from ._errors import (
    ClosedError,
    ConnectionLostError,
    DeniedError,
    EverbloomError,
    ExistsError,
    FullError,
    NotFoundError,
    RefusedError,
    StaleError,
)
from ._near import NearFilter, NearStats

__all__ = [
    "ClosedError",
    "ConnectionLostError",
    "DeniedError",
    "Everbloom",
    "EverbloomError",
    "ExistsError",
    "FullError",
    "NearFilter",
    "NearStats",
    "NotFoundError",
    "RefusedError",
    "StaleError",
]
