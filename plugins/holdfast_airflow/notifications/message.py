"""What a failure says: the sentence, the exit code, and where to look."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from airflow.configuration import conf
from airflow.sdk import BaseNotifier

from holdfast.common.errors import sentence
from holdfast_airflow.exceptions import JobFailed
from holdfast_airflow.page.address import page_address
from holdfast_airflow.runbooks import FOLDER, operation_of, operation_of_task, runbook_for
from locking.one_line import line_logger, one_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from airflow.sdk import Context

MISSED: Final = "missed"
"""State of what stands in for a task where a deadline was missed."""


@dataclass(frozen=True, kw_only=True)
class FailureMessage:
    """Message on a failed task, its end, or a missed deadline; templates call it `holdfast`.

    Each of its texts is on one line, also where names in it have line breaks, and holds no secret of ours.

    :param exit_code: the command's exit code for the same failure; None where it is none of Holdfast's.
    :param archive: a name in archives.yaml, or a URL; None where the task names none.
    :param runbook: its address; "" where there is none.
    :param page: address of the archive on the Holdfast page.
    :param log: address of the task's log; "" where Airflow gives none.
    :param is_missed: it is a deadline that was missed: no task has failed.
    :param is_over: the task has succeeded after it had failed.
    """

    dag_id: str
    run_id: str
    task_id: str
    sentence: str
    exit_code: int | None
    archive: str | None
    runbook: str
    page: str
    log: str
    is_missed: bool = False
    is_over: bool = False

    @classmethod
    def of(cls, context: Mapping[str, Any], *, over: Sequence[str] = ()) -> FailureMessage:
        """Return the message on a failure, from a notifier's context.

        :param over: sentences on earlier failures that are over; where there are some and no exception, all is well.
        """
        instance = context["ti"]
        error, task = context.get("exception"), context.get("task")
        archive = getattr(task, "archive", None)
        exit_code = getattr(error, "exit_code", None)
        is_over = bool(over) and error is None
        operation = operation_of_task(task) or operation_of(str(instance.dag_id), archive)
        runbook = None if is_over else runbook_for(operation, exit_code)
        said = [*([] if is_over else [_sentence(error)]), *(f"no longer: {cause}" for cause in over)]
        return cls(
            dag_id=one_line(str(instance.dag_id)),
            run_id=one_line(str(instance.run_id)),
            task_id=one_line(str(instance.task_id)),
            sentence=one_line("; ".join(said)),
            exit_code=exit_code,
            archive=None if archive is None else one_line(str(archive)),
            runbook=_runbook_address(runbook) if runbook else "",
            page=_page_address(archive),
            log=str(getattr(instance, "log_url", "")),
            is_missed=getattr(instance, "state", None) == MISSED,
            is_over=is_over,
        )

    @property
    def title(self) -> str:
        """Return a subject: which task has failed, or works again."""
        code = "" if self.exit_code is None else f" (exit code {self.exit_code})"
        state = "works again" if self.is_over else "was missed" if self.is_missed else "has failed"
        return f"{self.dag_id}: {self.task_id} {state}{code}"

    @property
    def text(self) -> str:
        """Return all of it as plain text, a line each."""
        return "\n".join([self.title, self.sentence, *(f"{word}: {link}" for word, link in self._links())])

    @property
    def html(self) -> str:
        """Return all of it as HTML, for mails."""
        lines = [f"<b>{escape(self.title)}</b>", escape(self.sentence)]
        lines += [f"{word}: {_linked(link)}" for word, link in self._links()]
        return "<br>\n".join(lines)

    def __str__(self) -> str:
        return self.text

    def _links(self) -> Iterator[tuple[str, str]]:
        for word, link in (("Runbook", self.runbook), ("Archive", self.page), ("Log", self.log)):
            if link:
                yield word, link


def _sentence(error: object) -> str:
    """Return what an exception says. Where Airflow has none, words stand in for it."""
    if isinstance(error, BaseException) and not isinstance(error, JobFailed):
        return sentence(error)
    return str(error or "see its log")


def _runbook_address(name: str) -> str:
    return f"{conf.get('holdfast', 'runbooks_url', fallback=FOLDER).rstrip('/')}/{name}.md"


def _page_address(archive: str | None) -> str:
    """Return the page's whole address where `[api] base_url` says it, else its path."""
    base = urlsplit(conf.get("api", "base_url", fallback=""))
    path = page_address(**({} if archive is None else {"archive": str(archive)}))
    return f"{base.scheme}://{base.netloc}{path}" if base.netloc else path


def _linked(address: str) -> str:
    is_web = urlsplit(address).scheme in ("http", "https")
    return f'<a href="{escape(address)}">{escape(address)}</a>' if is_web else escape(address)


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
        message = FailureMessage.of(context)
        if self.notifier is None:
            for line in message.text.splitlines():
                log.error("%s", line)
        else:
            self.notifier({**context, "holdfast": message})
