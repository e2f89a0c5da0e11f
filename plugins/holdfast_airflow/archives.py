"""Building blocks of the DAG files."""

from __future__ import annotations

import sys
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Self
from zoneinfo import ZoneInfo

from airflow.sdk import DAG, Param, get_parsing_context, task
from airflow.sdk.definitions.param import ParamsDict
from airflow.sdk.exceptions import AirflowSkipException

from holdfast.common.errors import UsageError
from holdfast.common.words import nearest
from holdfast.config.archives_yaml import find_config, read_archives
from holdfast.operations.archive_context import ArchiveContext
from holdfast_airflow.connections import find_archive_or_connection
from holdfast_airflow.deadlines import deadline_of
from holdfast_airflow.exceptions import in_airflow_terms
from holdfast_airflow.forms import FormField
from holdfast_airflow.notifications.alerts import ArchiveAlerts, notifiers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from airflow.sdk import BaseOperator, Context

    from holdfast.config.archives_model import ArchiveConfig
    from holdfast.config.archives_yaml import ReadArchives

ALL = "all"
"""In a form: every source."""

ONE_SOURCE = "{{ '' if params.source == '" + ALL + "' else params.source }}"
"""A template: the source that the form names, or nothing where it says all."""


MANY_RUNS: Final = 1_000_000
"""Number of runs at a time that never holds one back: Airflow has no word for no limit, and 0 starts none.

For DAGs whose runs may meet by the locks of the archive.
"""


class ArchiveDag(DAG):
    """DAG whose runs take the words of its form only.

    Airflow copies the params of a DAG into each task that is made in it, once for each class of the operator, and
    stores them with each task. A run's params are those of the DAG, with the task's own on top: so the copies change
    nothing. In the block of its tasks, this DAG has no params.
    """

    skips_before: SkipsBeforeBackup | None = None
    """Of the archive, where its tasks have nothing to do before the first backup."""

    def __enter__(self) -> Self:
        self._form = self.params
        self.params = ParamsDict()
        return super().__enter__()

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        self.params = self._form
        task: Any  # an operator: none of our DAGs maps its tasks
        for task in self.tasks:
            then = self.skips_before or task._pre_execute_hook
            task._pre_execute_hook = ConfCheck(self.dag_id, self.params, then)


class ConfCheck:
    """Hook that fails a task for unknown words in `conf`, before the task's own hook.

    Airflow takes any: a misspelt `dry_run` would be a real restore.
    """

    def __init__(self, dag_id: str, fields: Iterable[str], then: Callable[[Context], None] | None = None) -> None:
        self.dag_id = dag_id
        self.fields = sorted(fields)
        self.then = then

    def __call__(self, context: Context) -> None:
        for word in sorted(set(context["dag_run"].conf or {}) - set(self.fields)):
            names = ", ".join(self.fields) or "none"
            with in_airflow_terms():
                raise UsageError(
                    f"nothing was done: conf has {word!r}, which is no field of {self.dag_id} (it has: {names})"
                    f"{nearest(word, self.fields)}"
                )
        if self.then is not None:
            self.then(context)


class SkipsBeforeBackup:
    """Hook that skips a task before the first backup.

    Where this machine has seen one there, the task begins, and fails: the archive is gone.
    """

    def __init__(self, archive: str) -> None:
        self.archive = archive

    def __call__(self, context: Context) -> None:
        """Look for a commit, by one listing; for a task of one source, for a block of that."""
        from holdfast.archive import Archive
        from holdfast.archive.format.commits import COMMITS
        from holdfast.archive.format.last_seen import place_of, read_seen

        with in_airflow_terms():
            configured = find_archive_or_connection(self.archive)
            task: Any = context["task"]
            place = configured.location(getattr(task, "replica", None))
            store = ArchiveContext.resolve(configured, place).open()
            seen = read_seen(place_of(store))
            if (seen is None or not seen.sequence) and not store.first(COMMITS, 2):
                raise AirflowSkipException(
                    f"nothing to do: {store.url} has no backup yet (the DAG setup_{self.archive} makes the first one)"
                )
            source = getattr(task, "source", None)
            if source in configured.sources:  # another name is a mistake, which the task itself reports
                blocks = Archive.open(store).state.blocks.values()
                if not any(block.source == source for block in blocks):
                    raise AirflowSkipException(f"nothing to do: {store.url} has no backup of {source} yet")


def read_configuration() -> ReadArchives | None:
    """Read archives.yaml with the mistakes of each archive, those in `alerts` among them.

    :raises UsageError: nothing of the file can be read.
    """
    path = find_config()
    if path is None:
        return None
    read = read_archives(path)
    mistakes: dict[str, str] = {}
    for name, archive in read.archives.items():
        try:
            notifiers([archive])
        except UsageError as error:
            mistakes[name] = str(error)
    return read.mistaken(mistakes)


def configured_archives() -> Mapping[str, ArchiveConfig]:
    """Return the archives that have no mistake, by name.

    Where a file is read for one DAG alone, as each task does before it runs, those that the DAG may be of.
    """
    dag_id = get_parsing_context().dag_id
    archives = all_archives().items()
    return {name: archive for name, archive in archives if dag_id is None or dag_id.endswith(f"_{name}")}


def all_archives() -> Mapping[str, ArchiveConfig]:
    """Return the archives that have no mistake, whichever DAG the file is read for."""
    try:
        read = read_configuration()
    except UsageError:
        return {}
    return read.archives if read else {}


def has_configuration() -> bool:
    """Return whether an archives.yaml is there or named."""
    try:
        return find_config() is not None
    except UsageError:
        return True


def check_configuration() -> None:
    """Make sure that archives.yaml, if there is one, has no mistake.

    :raises UsageError: a line for each archive: file, line, key and what to write instead.
    """
    if (read := read_configuration()) is not None and read.mistakes:
        raise UsageError("\n".join(read.mistakes.values()))


def archives_at_one_place() -> Mapping[str, ArchiveConfig]:
    """Return the archives without replicas, by name."""
    return {name: archive for name, archive in configured_archives().items() if archive.url}


def archives_with_replicas() -> Mapping[str, ArchiveConfig]:
    """Return the archives with replicas, by name."""
    return {name: archive for name, archive in configured_archives().items() if archive.replicas}


def replicas_by_suffix(archive: ArchiveConfig) -> Mapping[str, str | None]:
    """Return an archive's replicas, by the suffix of their tasks' ids; without replicas, None by ""."""
    return {f"_{name}": name for name in archive.replicas} if archive.replicas else {"": None}


def archive_dag(
    operation: str,
    name: str,
    archive: ArchiveConfig,
    *,
    doc: str,
    terms: Mapping[str, object] | None = None,
    tag: str = "maintenance",
    schedule_key: str | None = None,
    retry_delay: timedelta = timedelta(minutes=5),
    after_backup: bool = False,
    **settings: Any,
) -> DAG:
    """Make the DAG `<operation>_<name>` of one archive: one run at a time unless `max_active_runs` says otherwise.

    Its tasks have the owner, the pool and the queue that archives.yaml names.

    :param doc: what Airflow shows about it, with `{name}`, `{place}`, `{schedule}`, and those of `terms`.
    :param tag: beside `holdfast` and the archive's name.
    :param schedule_key: which of the archive's schedules it runs on, and which deadline its runs have.
    :param retry_delay: after which tasks that fail are tried again, twice, where the DAG has a schedule.
    :param after_backup: its tasks are skipped while the archive has no backup.
    :param settings: more for the DAG; they win.
    :raises UsageError: one of the archive's `alerts` cannot be made.
    """
    schedule = getattr(archive.schedule, schedule_key) if schedule_key else settings.pop("schedule", None)
    common: dict[str, Any] = {
        "doc_md": doc.format(
            name=name,
            place=archive.url or ", ".join(archive.replicas or {}),
            schedule=schedule or "none is set",
            **(terms or {}),
        ),
        "schedule": schedule,
        # Airflow reads the schedule in the time zone of this.
        "start_date": datetime(2026, 1, 1, tzinfo=ZoneInfo(archive.timezone)),
        "catchup": False,
        "max_active_runs": 1,
        "tags": ["holdfast", tag, name],
        # Without a schedule it does nothing by itself; a run that is triggered would wait, without a word.
        "is_paused_upon_creation": None if schedule else False,
    }
    defaults = _task_defaults(name, archive)
    if schedule_key or schedule:
        # A person waits for a run that was triggered by hand, and no one for a scheduled run.
        defaults |= {"retries": 2 if schedule else 0, "retry_delay": retry_delay}
    if schedule_key:
        common["deadline"] = deadline_of(name, archive, schedule_key)
    common["default_args"] = defaults | settings.pop("default_args", {})
    settings["params"] = {word: FormField.of(param) for word, param in settings.get("params", {}).items()}
    dag = ArchiveDag(dag_id=f"{operation}_{name}", **(common | settings))
    dag.skips_before = SkipsBeforeBackup(name) if after_backup else None
    # Airflow shows the code of the file that makes the DAG, and takes it to be this one.
    dag.fileloc = sys._getframe(1).f_code.co_filename
    return dag


def _task_defaults(name: str, archive: ArchiveConfig) -> dict[str, Any]:
    said = {"owner": archive.owner, "pool": archive.pool, "queue": archive.queue}
    defaults = {word: value for word, value in said.items() if value is not None}
    return defaults | ArchiveAlerts(name, [archive]).callbacks()


def source_param(archive: ArchiveConfig, description: str) -> Param:
    """Return a form's field for one source, or all; for any name where none is known."""
    sources = sorted(archive.sources)
    schema = {"enum": [ALL, *sources]} if sources else {"type": "string", "minLength": 1}
    return Param(ALL, **schema, title="Source", description=description)


def choose_tasks(tasks: Mapping[str, Sequence[BaseOperator]]) -> None:
    """Let a run skip the tasks of sources that its form does not ask for."""
    if len(tasks) > 1:
        ids = {source: [task.task_id for task in of_source] for source, of_source in tasks.items()}
        _choose_sources(ids) >> [task for of_source in tasks.values() for task in of_source]


@task.branch(task_id="choose_sources")
def _choose_sources(tasks: Mapping[str, list[str]], params: Mapping[str, str] | None = None) -> list[str]:
    chosen = (params or {}).get("source", ALL)
    return [task_id for source, ids in tasks.items() if chosen in (ALL, source) for task_id in ids]
