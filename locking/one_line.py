r"""Text of others on one line, without anything that a terminal obeys.

Names of tables, owners of locks and reasons are text that others have written. A control character among them could
move the cursor, a line break could forge a line of a log, and a bidirectional override could show it backwards. So each
of these stands there as Python would write it in a string, such as `\x1b` and `\n`.
"""

from __future__ import annotations

import logging
import re
from typing import Any

_OBEYED = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""C0 and C1 with DEL, line and paragraph separators, all that turns the direction of text, and halves of surrogates,
which no output can encode."""


def one_line(text: str) -> str:
    """Return a text with its control characters escaped."""
    return _OBEYED.sub(lambda match: match.group().encode("unicode_escape").decode(), text)


class OneLineFormatter(logging.Formatter):
    """Formatter of log records, a line each; a traceback has lines of its own."""

    def format(self, record: logging.LogRecord) -> str:
        return "\n".join(one_line(line) for line in super().format(record).split("\n"))

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name is logging's
        return one_line(super().formatMessage(record))


class OneLineLogger(logging.LoggerAdapter[logging.Logger]):
    """Logger whose messages are one line each in every handler."""

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        if self.isEnabledFor(level):
            kwargs["stacklevel"] = kwargs.get("stacklevel", 1) + 1
            super().log(level, "%s", one_line(str(msg) % args if args else str(msg)), **kwargs)


def line_logger(name: str) -> OneLineLogger:
    """Return the logger of a module."""
    return OneLineLogger(logging.getLogger(name), {})


def guard_last_resort() -> None:
    """Keep messages without a handler to one line each."""
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(OneLineFormatter())


class LineLog:
    """Logger of any kind whose messages are one line each."""

    def __init__(self, log: Any) -> None:
        self._log = log

    def debug(self, words: object, *values: object) -> None:
        self._log.debug("%s", _line(words, values))

    def info(self, words: object, *values: object) -> None:
        self._log.info("%s", _line(words, values))

    def warning(self, words: object, *values: object) -> None:
        self._log.warning("%s", _line(words, values))

    def error(self, words: object, *values: object) -> None:
        self._log.error("%s", _line(words, values))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)


class LogsLines:
    """Mixin for classes with a log, such as Airflow's operators: it is a `LineLog` then."""

    @property
    def log(self) -> Any:
        return LineLog(super().log)  # type: ignore[misc]


def _line(words: object, values: tuple[object, ...]) -> str:
    return one_line(str(words) % values if values else str(words))
