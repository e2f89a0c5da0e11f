"""Server failures during the work, in one sentence with a remedy."""

from __future__ import annotations

import re

from holdfast.common.errors import HoldfastError, RefusedError, message_of

_ENDED = ("57P01", "57P02", "57P03", "57P05", "25P03")
"""Shut down, crashed, starting, or set to end sessions that are idle. Source: PostgreSQL manual, 'Error Codes'."""

_DISK_FULL = "53100"
_READ_ONLY = "25006"

_GUESS = re.compile(
    r"\s*This probably means the server terminated abnormally before or while processing the request\.?"
)


class SessionError(HoldfastError):
    """Refusal of a statement by the server, or a failed connection.

    :param sqlstate: the server's code; None where it gave none.
    """

    def __init__(self, message: str, sqlstate: str | None) -> None:
        super().__init__(message, sqlstate)
        self.message = message
        self.sqlstate = sqlstate

    def __str__(self) -> str:
        return self.message


class BrokenOffError(Exception):
    """Loss of a connection that had been opened, or failure of a query that had begun to return rows.

    Tried again it may succeed, so it is none of the errors that end a job at once.
    """


def words(error: BaseException) -> str:
    """Return a driver's message on one line, without libpq's guesses."""
    return _GUESS.sub("", message_of(error)).removesuffix(".")


def remedy(error: BaseException) -> str:
    """Return the remedy for a server outage; "" for any other error."""
    import psycopg  # what works on an archive alone asks here, too, where it fails

    if not isinstance(error, psycopg.Error):
        return ""
    if error.sqlstate == _DISK_FULL:
        return "make room on the server's disk, then start again"
    if error.sqlstate == _READ_ONLY:
        return "the server is a standby, or set read-only: name another one"
    if error.sqlstate in _ENDED or (error.sqlstate is None and isinstance(error, psycopg.OperationalError)):
        return "start again when the server is up and can be reached"
    return ""


def explained(error: BaseException, url: str) -> HoldfastError | None:
    """Return a server outage as an error with its remedy.

    None where the error is no outage.

    :param url: of the database, without a password.
    """
    what_to_do = remedy(error)
    if not what_to_do:
        return None
    kind = RefusedError if getattr(error, "sqlstate", None) == _READ_ONLY else HoldfastError
    return kind(f"the work in {url} ended: {words(error)}: {what_to_do}")
