"""State of a task between its tries, in Airflow's task state store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from locking.one_line import line_logger

if TYPE_CHECKING:
    from airflow.sdk import Context

log = line_logger(__name__)


class BetweenTries:
    """Memory of one word for a task's next try.

    Nothing is kept where Airflow has no such store, or does not answer: the task's work matters more.
    """

    def __init__(self, context: Context, key: str) -> None:
        self._store: Any = context.get("task_state_store")
        self._key = key

    @property
    def is_there(self) -> bool:
        """Return whether words can be kept."""
        return self._store is not None

    def kept(self) -> str | None:
        """Return the word that an earlier try has kept."""
        if self._store is None:
            return None
        try:
            word = self._store.get(self._key)
        except Exception as error:  # noqa: BLE001 - without an answer, this try begins as the first
            log.warning("Airflow does not return what the try before has kept: %s", error)
            return None
        return word if isinstance(word, str) else None

    def keep(self, word: str) -> None:
        """Keep a word for the next try."""
        self._change("set", self._key, word)

    def forget(self) -> None:
        """Forget the word: the task has succeeded, or it is of no use."""
        self._change("delete", self._key)

    def _change(self, method: str, *arguments: str) -> None:
        if self._store is None:
            return
        try:
            getattr(self._store, method)(*arguments)
        except Exception as error:  # noqa: BLE001 - the work goes on where Airflow does not take it
            log.warning("Airflow does not keep %s for another try: %s", self._key, error)
