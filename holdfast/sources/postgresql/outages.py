"""What happened to a server in the middle of the work, in one sentence that says what to do."""

from __future__ import annotations

import re

import psycopg

from holdfast.errors import HoldfastError, RefusedError

_ENDED = ("57P01", "57P02", "57P03", "57P05", "25P03")
"""Shut down, crashed, starting, or set to end sessions that are idle. Source: PostgreSQL manual, 'Error Codes'."""


_GUESS = re.compile(
    r"\s*This probably means the server terminated abnormally before or while processing the request\.?"
)


def words(error: BaseException) -> str:
    """Return what a driver says on one line, without libpq's guesses."""
    return _GUESS.sub("", " ".join(str(error).split())).removesuffix(".")


def explained(error: BaseException, url: str) -> HoldfastError | None:
    """Return an error of the driver as one that says what to do; None where that is not known.

    :param url: of the database, without a password.
    """
    if not isinstance(error, psycopg.Error):
        return None
    if isinstance(error, psycopg.errors.DiskFull):
        return HoldfastError(f"{url} has no room left on its disk ({words(error)}): make room there, then start again")
    if isinstance(error, psycopg.errors.ReadOnlySqlTransaction):
        return RefusedError(f"{url} takes no writes ({words(error)}): it is a standby, or set read-only; name another")
    if error.sqlstate in _ENDED or (error.sqlstate is None and isinstance(error, psycopg.OperationalError)):
        return HoldfastError(
            f"the connection to {url} was lost ({words(error)}): start again when the server is up and can be reached"
        )
    return None
