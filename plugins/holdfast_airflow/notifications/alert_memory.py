"""Memory of what the alerts of an archive have said.

It lies in a Variable of Airflow for each archive, which the tasks of all workers reach, and the DAG processor, which
reports tasks that were killed. Where it is lost or cannot be read, everything is said once more.
"""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from airflow.sdk import Variable

from locking.one_line import line_logger

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

log = line_logger(__name__)

_FORGOTTEN: Final = timedelta(days=31)
"""After which the causes of a task that does not run any more are dropped."""

_TOGETHER_S: Final = 2.0
"""Within which tasks that fail by one cause write over each other."""

_CHANGING = re.compile(
    r"(?<![\w./-])\d[\dT:.,+Z-]*(?![\w-])"  # numbers and times, not those in names
    r"|\b[0-9a-f]{12,}\b|\b[0-9a-f]{8}-[0-9a-f-]{27}\b"  # ids
)

_Causes = dict[str, list[str]]
"""Causes of a task's failure, each with the time of its last alert and its sentence."""


class News(NamedTuple):
    """Sentences to say: of `causes` that are new or were said long ago, and of those that are `over`."""

    causes: list[str]
    over: list[str]


class AlertMemory:
    """Memory of what was said of an archive's tasks.

    A cause is a text; numbers, times and ids in it do not count. Tasks that fail by the same share it.

    :param key: of the Variable.
    :param repeat_after: after which a cause that goes on is said again.
    """

    def __init__(
        self,
        key: str,
        repeat_after: timedelta,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.key = key
        self.repeat_after = repeat_after
        self._now = now
        self._sleep = sleep

    def failed(self, task: str, causes: Mapping[str, str]) -> News:
        """Remember a task's causes with their sentences, and return what to say."""
        state = self._read()
        before = state.get(task, {})
        mine = self._with_times(causes, state)
        elsewhere = {cause for name, remembered in state.items() if name != task for cause in remembered}
        over = [said for cause, (_, said) in before.items() if cause not in mine.keys() | elsewhere]
        news = [cause for cause, (at, _) in mine.items() if not at]
        now = self._now().isoformat()
        mine = {cause: [at or now, said] for cause, (at, said) in mine.items()}
        if mine != before:
            self._write({**state, task: mine})
        if news:
            news = self._not_said_meanwhile(task, mine, news)
        return News([mine[cause][1] for cause in news], over)

    def succeeded(self, task: str) -> News:
        """Forget a task's causes in all tasks, and return them."""
        state = self._read()
        over = state.pop(task, {})
        if over:
            self._write(
                {
                    name: {cause: said for cause, said in remembered.items() if cause not in over}
                    for name, remembered in state.items()
                }
            )
        return News([], [said for _, said in over.values()])

    def causes(self, task: str) -> _Causes:
        """Return what a task has failed by, as it was said."""
        return self._read().get(task, {})

    def remember(self, task: str, causes: _Causes) -> None:
        """Remember again what a task has failed by, as its end could not be said."""
        self._write({**self._read(), task: causes})

    def take_back(self, task: str) -> None:
        """Forget what a task has failed by, as it could not be said."""
        self._write({name: remembered for name, remembered in self._read().items() if name != task})

    def _with_times(self, causes: Mapping[str, str], state: Mapping[str, _Causes]) -> _Causes:
        """Return causes with when each was last said by any task; "" where it is to be said now."""
        since = (self._now() - self.repeat_after).isoformat()
        times: dict[str, str] = {}
        for cause, (at, _) in (item for remembered in state.values() for item in remembered.items()):
            if at > since:
                times[cause] = max(at, times.get(cause, ""))
        return {(key := _stable(cause)): [times.get(key, ""), said] for cause, said in causes.items()}

    def _not_said_meanwhile(self, task: str, mine: _Causes, news: list[str]) -> list[str]:
        """Return what is to be said where tasks may have failed at the same moment: the last one to write says it."""
        self._sleep(_TOGETHER_S)
        state = self._read()
        if task in state:
            return news
        self._write({**state, task: mine})
        since = self._with_times(dict.fromkeys(news, ""), state)
        return [cause for cause in news if not since[cause][0]]

    def _read(self) -> dict[str, _Causes]:
        try:
            state: dict[str, _Causes] = Variable.get(self.key, default={}, deserialize_json=True)
            oldest = (self._now() - _FORGOTTEN).isoformat()
            return {
                task: kept
                for task, causes in state.items()
                if (kept := {cause: said for cause, said in causes.items() if said[0] > oldest})
            }
        except Exception as error:  # noqa: BLE001 - to say too much is better than nothing
            log.warning("what alerts have said cannot be read from the Variable %s: %s", self.key, error)
            return {}

    def _write(self, state: Mapping[str, _Causes]) -> None:
        kept = {task: causes for task, causes in state.items() if causes}
        try:
            if kept:
                Variable.set(self.key, kept, serialize_json=True)
            else:
                Variable.delete(self.key)
        except Exception as error:  # noqa: BLE001 - as above
            log.warning("what alerts have said cannot be kept in the Variable %s: %s", self.key, error)


def _stable(cause: str) -> str:
    return _CHANGING.sub("#", cause)
