"""A notifier that passes a failure's sentence to another one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.sdk import BaseNotifier

from holdfast_airflow.notifications.message import FailureMessage
from locking.one_line import line_logger

if TYPE_CHECKING:
    from airflow.sdk import Context

log = line_logger(__name__)


class HoldfastNotifier(BaseNotifier):
    """Notifier that gives the notifier of any channel the words on a failure.

    Templates of that one may use `holdfast`: `{{ holdfast.text }}` is all in plain text, `{{ holdfast.html }}` for
    mails, `{{ holdfast.title }}` a subject; its parts are `sentence`, `exit_code`, `runbook`, `page`, `log`, `archive`,
    `dag_id`, `run_id` and `task_id`.

        on_failure_callback=HoldfastNotifier(SlackNotifier(text="{{ holdfast.text }}"))

    The notifiers that archives.yaml names have it by themselves.

    :param notifier: of the channel; without one, the text goes to the log.
    """

    def __init__(self, notifier: BaseNotifier | None = None) -> None:
        super().__init__()
        self.notifier = notifier

    def notify(self, context: Context) -> None:
        """Call the channel's notifier."""
        message = FailureMessage.of(context)
        if self.notifier is None:
            for line in message.text.splitlines():
                log.error("%s", line)
        else:
            self.notifier({**context, "holdfast": message})
