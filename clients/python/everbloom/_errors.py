"""The exceptions of the package."""


class EverbloomError(Exception):
    """The base of all exceptions of this package."""


class StaleError(EverbloomError):
    """There is no copy that is recent enough. The text is the last error of the copy, if there was one."""


class ClosedError(EverbloomError):
    """The near filter was closed."""


class ConnectionLostError(EverbloomError):
    """The server cannot be reached, or did not reply in time.

    A command that changes a filter may have run.
    """


class RefusedError(EverbloomError):
    """The server has refused the command. ``text`` is its text, without the code ``ERR``."""

    @property
    def text(self) -> str:
        """The text of the server."""
        return str(self)


class NotFoundError(RefusedError):
    """There is no filter under the key."""


class ExistsError(RefusedError):
    """There is a filter under the key already."""


class FullError(RefusedError):
    """The filter is fixed and full."""


class DeniedError(RefusedError):
    """The user may not run the command, or not with this key."""


def refusal(error: Exception) -> RefusedError:
    """Return the exception for an error of the server, which a client has read."""
    text = str(error).removeprefix("ERR ")
    # Clients remove the code of the errors that they know.
    if type(error).__name__ == "NoPermissionError" or text.startswith("NOPERM "):
        return DeniedError(text)
    if text == "not found" or text.startswith("not found: "):
        return NotFoundError(text)
    if text == "item exists":
        return ExistsError(text)
    if "filter is full" in text:
        return FullError(text)
    return RefusedError(text)
