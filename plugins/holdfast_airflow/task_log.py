"""The log of tasks: lines that whatever names a database or an archive has cannot break."""

from __future__ import annotations

from typing import Any

from locking.one_line import one_line


class LineLog:
    """A logger whose messages are one line each.

    :param log: Airflow's own.
    """

    def __init__(self, log: Any) -> None:
        self._log = log

    def debug(self, words: object, *values: object) -> None:
        """Log what is of use while a mistake is looked for."""
        self._log.debug("%s", _line(words, values))

    def info(self, words: object, *values: object) -> None:
        """Log what happens."""
        self._log.info("%s", _line(words, values))

    def warning(self, words: object, *values: object) -> None:
        """Log what somebody should know."""
        self._log.warning("%s", _line(words, values))

    def error(self, words: object, *values: object) -> None:
        """Log what failed."""
        self._log.error("%s", _line(words, values))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)


class LogsLines:
    """A part of operators, sensors and triggers: their log is a `LineLog`."""

    @property
    def log(self) -> Any:
        """Return the log of the task."""
        return LineLog(super().log)  # type: ignore[misc]


def _line(words: object, values: tuple[object, ...]) -> str:
    return one_line(str(words) % values if values else str(words))
