"""What redis-py and valkey-py have in common: their exceptions, encoders and connections."""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from typing import Any, Union

from ._errors import ConnectionLostError, refusal

#: How long a connection, or a part of a reply, may take, in seconds, if the client has no limit.
TIMEOUT = 5.0
Item = Union[bytes, str, int, float]
Key = Union[bytes, str]


class Client:
    """A client of the program: ``Redis``, ``RedisCluster``, ``Valkey`` or ``ValkeyCluster``."""

    def __init__(self, client: Any) -> None:
        modules = [kind.__module__.split(".") for kind in type(client).__mro__]
        roots = [names[0] for names in modules if names[0] in ("redis", "valkey")]
        if not roots or not hasattr(client, "get_encoder"):
            raise TypeError(f"the client must be one of redis-py or valkey-py, not {type(client).__name__}")
        if any("asyncio" in names for names in modules):
            raise TypeError("the client must be a blocking one: call add and wait by asyncio.to_thread")
        if hasattr(client, "command_stack"):
            raise TypeError("the client must not be a pipeline, which sends no command before its end")
        self.raw = client
        self.encoder = client.get_encoder()
        errors = import_module(f"{roots[0]}.exceptions")
        #: The exceptions for an error of the server, for a key of another node, and of a connection.
        self.response_error: Any = errors.ResponseError
        self.moved_error: Any = errors.MovedError
        #: The exception for a value that the client cannot encode.
        self.data_error: Any = errors.DataError
        name = roots[0].capitalize()
        #: All of them. That of a cluster's client is no subclass of the first.
        self.all_errors: Any = (
            getattr(errors, f"{name}Error"),
            getattr(errors, f"{name}ClusterException"),
            OSError,
        )

    def error(self, error: Exception) -> Exception:
        """Return the exception of this package for one of the client, or TypeError for a wrong argument."""
        if isinstance(error, self.response_error):
            return refusal(error)
        if isinstance(error, self.data_error):
            return TypeError(str(error))
        return ConnectionLostError(str(error))

    def encode(self, item: Item) -> bytes:
        """Return an item or a key as the client sends it. Raises TypeError for another type."""
        try:
            return bytes(self.encoder.encode(item))
        except self.data_error as error:
            raise self.error(error) from error

    def call(self, *words: Any) -> Any:
        """Send a command over the client and return its reply."""
        try:
            return self.raw.execute_command(*words)
        except self.all_errors as error:
            raise self.error(error) from error


class Link:
    """A connection of its own with the parameters of a client, which is made when it is needed."""

    def __init__(self, client: Client, key: bytes) -> None:
        self._client = client
        self._key = key
        self._connection: Any = None
        self._moved: dict[str, Any] = {}

    def _connect(self) -> Any:
        try:
            return self._open()
        except Exception:
            self.close()
            # The node may have left the cluster, or lost its slots to another.
            if hasattr(self._client.raw, "nodes_manager"):
                with suppress(*self._client.all_errors):
                    self._client.raw.nodes_manager.initialize()
            raise

    def _open(self) -> Any:
        raw = self._client.raw
        if hasattr(raw, "get_node_from_key"):
            node = raw.get_node_from_key(self._key)
            get = getattr(raw, "get_redis_connection", None) or raw.get_valkey_connection
            raw = get(node)
        pool = raw.connection_pool
        options = {name: value for name, value in pool.connection_kwargs.items() if "maint_notif" not in name}
        options.update(
            self._moved, decode_responses=False, retry=None, retry_on_error=[], health_check_interval=0
        )
        # Unix sockets have no timeout of their own for connecting.
        for name in (
            ("socket_timeout",) if "path" in options else ("socket_timeout", "socket_connect_timeout")
        ):
            options[name] = options.get(name) or TIMEOUT
        connection = pool.connection_class(**options)
        connection.connect()
        return connection

    def _send(self, words: tuple[bytes, ...]) -> Any:
        if self._connection is None:
            self._connection = self._connect()
        self._connection.send_command(*words)
        return self._connection.read_response()

    def call(self, *words: bytes, follows: bool = True) -> Any:
        """Return the reply: a list, or the text of an error of the server.

        If it ``follows``, the node that has the key replies. After another error it connects anew.
        """
        try:
            return self._send(words)
        except self._client.response_error as error:
            text = str(error)
            if follows and (isinstance(error, self._client.moved_error) or text.startswith("MOVED ")):
                return self._follow(text, words)
            if type(error).__name__ == "NoPermissionError":
                return f"NOPERM {text.removeprefix('NOPERM ')}"
            return "ERR not found" if text == "not found" else text
        except BaseException:
            # Of any kind: the reply may be read in part.
            self.close()
            raise

    def _follow(self, moved: str, words: tuple[bytes, ...]) -> Any:
        """Send the command to the node that has the key: the last word of `moved`."""
        self.close()
        host, _, port = moved.rsplit(" ", 1)[-1].rpartition(":")
        # A node that does not know its own address means that of this connection.
        self._moved = {"port": int(port), **({"host": host} if host else {})}
        return self.call(*words, follows=False)

    def interrupt(self) -> None:
        """Make a call of another thread end."""
        sock = getattr(self._connection, "_sock", None)
        if sock is not None:
            with suppress(OSError):
                sock.shutdown(2)

    def close(self) -> None:
        """Close the connection. The next call connects anew, to the node of the client."""
        connection, self._connection, self._moved = self._connection, None, {}
        if connection is not None:
            connection.disconnect()
