"""Alerts of an archive: a task has failed for good, once for each cause, and works again."""

from __future__ import annotations

from copy import copy
from datetime import timedelta
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import BaseNotifier

from holdfast.common.errors import UsageError, sentence
from holdfast.common.units import parse_span
from holdfast_airflow.exceptions import JobFailed, ObjectivesMissed
from holdfast_airflow.notifications.alert_memory import AlertMemory
from holdfast_airflow.notifications.message import FailureMessage

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from airflow.sdk import Context

    from holdfast.config.archives_model import AlertConfig, ArchiveConfig
    from holdfast_airflow.notifications.alert_memory import News

VARIABLE: Final = "holdfast_alerts"
"""What the names of Airflow's Variables with what was said begin with, before the archive's."""


def notifiers(archives: Iterable[ArchiveConfig]) -> list[BaseNotifier]:
    """Return the notifiers of archives, each once.

    :raises UsageError: one of them cannot be found, or does not take what it is given.
    """
    alerts: list[AlertConfig] = []
    for archive in archives:
        alerts += [alert for alert in archive.alerts if alert not in alerts]
    return [_notifier(alert) for alert in alerts]


def notify(channels: Iterable[BaseNotifier], message: FailureMessage, context: Mapping[str, Any]) -> None:
    """Give each notifier a message, as `holdfast` in its templates.

    :raises ExceptionGroup: of notifiers that failed; the others have notified.
    """
    failed = []
    # Templates refuse a word that is not there: after a success, and where a task was killed, there is no exception.
    words = {"exception": message.sentence, **context, "holdfast": message}
    for channel in channels:
        try:
            copy(channel)(dict(words))  # it fills in its templates for good
        except Exception as error:  # noqa: BLE001 - one that fails must not keep the others from notifying
            failed.append(error)
    if failed:
        raise ExceptionGroup("notifiers failed", failed)


class ArchiveAlerts:
    """Callbacks of the tasks of an archive.

    :param name: of the archive; "" for archives.yaml as a whole.
    :param archives: whose notifiers are called; the shortest `alert_again` of them counts.
    """

    def __init__(self, name: str, archives: Sequence[ArchiveConfig]) -> None:
        self.channels = notifiers(archives)
        self.has_sources = sum(len(archive.sources) for archive in archives) > 1
        self.places = [place for archive in archives for place in (archive.url, *(archive.replicas or {}).values())]
        repeat_after = min((parse_span(archive.alert_again) for archive in archives), default=timedelta())
        self.memory = AlertMemory(f"{VARIABLE}_{name}" if name else VARIABLE, repeat_after)

    def callbacks(self) -> dict[str, Any]:
        """Return them as arguments of tasks. None where there is no notifier."""
        return {"on_failure_callback": self.failed, "on_success_callback": self.succeeded} if self.channels else {}

    def failed(self, context: Context) -> None:
        """Notify of a failure, if there is anything new about it."""
        task = _task(context)
        self._notify(task, context, self.memory.failed(task, self._causes(task, context)))

    def succeeded(self, context: Context) -> None:
        """Notify that a failure is over, if there was one."""
        task = _task(context)
        before = self.memory.causes(task)
        try:
            self._notify(task, context, self.memory.succeeded(task))
        except ExceptionGroup:
            self.memory.remember(task, before)  # so that its next success says it
            raise

    def _notify(self, task: str, context: Context, news: News) -> None:
        if not (news.causes or news.over):
            return
        try:
            notify(self.channels, FailureMessage.of(context, over=news.over), context)
        except ExceptionGroup:
            self.memory.take_back(task)
            raise

    def _causes(self, task: str, context: Context) -> dict[str, str]:
        """One sentence about two sources is two causes, unless it names the archive's place."""
        error = context.get("exception")
        if isinstance(error, ObjectivesMissed):
            return {self._about(objective.source, objective.why): objective.sentence for objective in error.missed}
        said = FailureMessage.of(context).sentence
        if isinstance(error, JobFailed):
            return {self._about(getattr(context.get("task"), "source", None), said): said}
        return {f"{task}: {said}": said}

    def _about(self, source: str | None, why: str) -> str:
        is_of_source = source and self.has_sources and not any(place and place in why for place in self.places)
        return f"{source}: {why}" if is_of_source else why


def _task(context: Context) -> str:
    instance = context["ti"]
    index = getattr(instance, "map_index", None)
    return f"{instance.dag_id}.{instance.task_id}{'' if index in (None, -1) else f'[{index}]'}"


def _notifier(alert: AlertConfig) -> BaseNotifier:
    kind = _class(alert.notifier)
    try:
        made: BaseNotifier = kind(**alert.arguments)
    except TypeError as error:
        raise UsageError(f"alerts: {alert.notifier} does not take these arguments: {sentence(error)}") from error
    return made


def _class(path: str) -> type[Any]:
    module, _, name = path.rpartition(".")
    try:
        notifier = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise UsageError(
            f"alerts: there is no {path} here ({sentence(error)}): install the provider that has it, or correct it"
        ) from error
    if not (isinstance(notifier, type) and issubclass(notifier, BaseNotifier)):
        raise UsageError(f"alerts: {path} is no notifier of Airflow's (a subclass of airflow.sdk.BaseNotifier)")
    return notifier
