"""Check of a Spark cluster by a small job of its own, for `holdfast doctor`."""

from __future__ import annotations

import json
import os
import socket
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from holdfast.archive.format.runs import read_last
from holdfast.common.doctor_finding import DoctorFinding
from holdfast.common.errors import HoldfastError, UsageError
from holdfast.common.signing import ArchiveKeys
from holdfast.operations import job_process
from holdfast.operations.executor_choice import FORCED_VARIABLE, forced_executor
from holdfast.operations.outcome import JobEnd, last_words
from holdfast.operations.requests.cluster_check import ClusterCheckRequest
from holdfast.storage import open_url

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from holdfast.postgresql.connection.address import Address
    from holdfast.storage import SealedStore

SOURCES_VARIABLE: Final = "HOLDFAST_CHECKED_SOURCES"
"""Name, URL and password of each source that workers must reach, as JSON."""

CONNECT_S: Final = 5.0
"""Spark itself tries for a minute to reach a master."""

_CONF: Final = {
    # Ours is missing where Holdfast is, which is one of the findings.
    "spark.python.daemon.module": "pyspark.daemon",
    # Otherwise Spark starts executors only for more work.
    "spark.dynamicAllocation.enabled": "false",
    # Each question needs a process with its own environment.
    "spark.python.worker.reuse": "false",
}


def cluster_master() -> str:
    """Return the URL of the cluster's master that jobs go to; raises UsageError if they run on this machine."""
    master = os.environ.get(job_process.MASTER_VARIABLE, "")
    if not master or master.startswith("local"):
        raise UsageError(
            f"jobs run on this machine ({job_process.MASTER_VARIABLE} is {master or 'not set'}): set it to the "
            "cluster's master, such as spark://host:7077 (in Airflow, to the host of the Spark connection)"
        )
    return master


def check_cluster(master: str, store: SealedStore, sources: Mapping[str, Address]) -> Iterator[DoctorFinding]:
    """Run the job, and yield its findings; a job that fails is one, too.

    :param sources: that each worker must reach, by name.
    """
    if forced_executor() == "inline":
        yield DoctorFinding("executor", f"{FORCED_VARIABLE} is inline", "unset it: no job goes to the cluster")
    try:
        _check_master(master)
        yield from _run(master, store, sources)
    except HoldfastError as error:
        yield DoctorFinding("cluster", f"{master} cannot be used", str(error))


def _check_master(master: str) -> None:
    if not master.startswith("spark://"):
        return
    failures = []
    for place in master.removeprefix("spark://").split(","):
        host, _, port = place.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), CONNECT_S).close()
        except (OSError, ValueError) as error:
            failures.append(f"{place}: {error}")
        else:
            return
    raise HoldfastError(
        f"no master answers ({'; '.join(failures)}): check {job_process.MASTER_VARIABLE}, the network, and that it runs"
    )


def _run(master: str, store: SealedStore, sources: Mapping[str, Address]) -> list[DoctorFinding]:
    operation = ClusterCheckRequest.operation
    run = job_process.new_run_id(operation)
    with tempfile.TemporaryDirectory(prefix="holdfast-records-", ignore_cleanup_errors=True) as folder:
        log = Path(folder) / "log"
        environment = {
            **job_process.job_environment(None, None, None, keys=ArchiveKeys(store.key, store.signing)),
            job_process.RECORDS_VARIABLE: folder,
            SOURCES_VARIABLE: json.dumps([[name, source.url, source.password] for name, source in sources.items()]),
        }
        code = job_process.submit(
            operation, ["--archive", store.url, "--run", run], environment, master=master, conf=_CONF, log=log
        )
        record = read_last(open_url(folder), run)
        output = log.read_text(errors="replace")
    if record is not None and record.result is not None:
        return [DoctorFinding.described(each) for each in record.result["findings"]]
    if record is not None and record.error is not None:
        raise HoldfastError(record.error.message)
    last = last_words(output, operation) or f"the job {JobEnd(code).how} ({' | '.join(output.splitlines()[-3:])})"
    raise HoldfastError(last)
