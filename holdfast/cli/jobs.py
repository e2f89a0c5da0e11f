"""Commands that run a Spark application: take the locks, submit, follow, tell how it ended."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from holdfast import jobs
from holdfast.archive import Archive, locks
from holdfast.archive.runs import RunRecord, read_last
from holdfast.errors import HoldfastError, ReportedError
from holdfast.sources.postgresql.session import connect
from holdfast.storage import open_store
from locking import Owner

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.cli.output import Output
    from holdfast.sources.postgresql.address import Address
    from holdfast.storage import ObjectStore


def run_job(
    operation: Literal["backup", "restore"],
    url: str,
    arguments: Sequence[str],
    *,
    address: Address,
    role: Literal["source", "target"],
    sources: Sequence[str] = (),
    wait: float,
    output: Output,
) -> dict[str, Any]:
    """Run an operation under its locks and return its summary.

    :param wait: seconds to wait for locks that others hold.
    :raises ReportedError: it failed; the sentence and the exit code are its own.
    """
    store = open_store(url)
    Archive.open(store)  # nothing is written, not even a lock, where there is no archive
    connect(address).close()
    jobs.check_java()
    run = jobs.new_run_id(operation)
    output.say(f"{operation} {url}: run {run}")
    with locks.acquire(
        store, operation, sources=sources, owner=Owner(), purpose=f"{operation} {run}", wait=wait
    ) as held:
        environment = jobs.job_environment(address.url, address.password, held, role)
        return _submit(operation, store, run, arguments, environment, output)


def _submit(
    operation: str,
    store: ObjectStore,
    run: str,
    arguments: Sequence[str],
    environment: dict[str, str],
    output: Output,
) -> dict[str, Any]:
    with tempfile.NamedTemporaryFile(prefix=f"holdfast-{operation}-", suffix=".log", delete=False) as file:
        log = Path(file.name)
    code = jobs.submit(
        operation,
        ["--archive", store.url, "--run", run, *arguments],
        environment,
        on_tick=lambda: output.progress(read_last(store, run)),
        log=log,
    )
    record = read_last(store, run)
    if record is not None and record.state != "running" and (record.error is None or record.error.exit_code != 1):
        log.unlink()  # whatever it says, the job has said it better
    return _result_of(record, code, log)


def _result_of(record: RunRecord | None, code: int, log: Path) -> dict[str, Any]:
    if record is None or record.state == "running":
        raise HoldfastError(f"Spark ended with exit code {code} before the job could say why: see {log}")
    if record.error is not None:
        more = f" (Spark's log: {log})" if log.exists() else ""
        raise ReportedError(record.error.message + more, record.error.exit_code)
    return record.result or {}
