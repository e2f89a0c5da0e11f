"""Notifiers of an archive, as archives.yaml names them.

They run when a task on the archive has failed for good.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseNotifier

from holdfast.common.errors import UsageError, sentence
from holdfast_airflow.notifications.holdfast import HoldfastNotifier

if TYPE_CHECKING:
    from holdfast.config.archives_model import AlertConfig, ArchiveConfig


def notifiers(archive: ArchiveConfig) -> list[BaseNotifier]:
    """Return the notifiers of an archive, for `on_failure_callback`; each is told what the failure says.

    :raises UsageError: one of them cannot be found, or does not take what it is given.
    """
    return [HoldfastNotifier(_notifier(alert)) for alert in archive.alerts]


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
        found = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise UsageError(
            f"alerts: there is no {path} here ({sentence(error)}): install the provider that has it, or correct it"
        ) from error
    if not (isinstance(found, type) and issubclass(found, BaseNotifier)):
        raise UsageError(f"alerts: {path} is no notifier of Airflow's (a subclass of airflow.sdk.BaseNotifier)")
    return found
