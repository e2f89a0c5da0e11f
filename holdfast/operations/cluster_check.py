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
"""Name, URL and password of each source that workers are to try, as JSON."""

MASTER_VARIABLE: Final = "HOLDFAST_SPARK_MASTER"

CONNECT_S: Final = 5.0
"""Spark itself asks a master that does not answer for a minute."""

_CONF: Final = {
    # Ours is not there where Holdfast is missing, which is to be found out.
    "spark.python.daemon.module": "pyspark.daemon",
    # Else executors come only once there is more to do than there are.
    "spark.dynamicAllocation.enabled": "false",
    # A worker's process has one environment, and each question one of its own.
    "spark.python.worker.reuse": "false",
}


def cluster_master() -> str:
    """Return the URL of the cluster's master that jobs of this environment go to.

    :raises UsageError: they go to none.
    """
    master = os.environ.get(MASTER_VARIABLE, "")
    if not master or master.startswith("local"):
        raise UsageError(
            f"jobs run on this machine here ({MASTER_VARIABLE} is {master or 'not set'}): set it to the cluster's "
            "master, such as spark://host:7077 (in Airflow, the host of the Spark connection says it)"
        )
    return master


def check_cluster(master: str, store: SealedStore, sources: Mapping[str, Address]) -> Iterator[DoctorFinding]:
    """Run the job, and yield what it finds; a job that fails is a finding, too.

    :param sources: by name, which each worker is to reach.
    """
    if forced_executor() == "inline":
        yield DoctorFinding("executor", f"{FORCED_VARIABLE} is inline", "unset it: no job goes to the cluster")
    try:
        _check_master(master)
        yield from _run(master, store, sources)
    except HoldfastError as error:
        yield DoctorFinding("cluster", f"{master} cannot be used", str(error))


def _check_master(master: str) -> None:
    """Check that a standalone cluster's master can be reached.

    :raises HoldfastError: none can.
    """
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
        f"no master answers ({'; '.join(failures)}): check {MASTER_VARIABLE}, the network, and whether it runs"
    )


def _run(master: str, store: SealedStore, sources: Mapping[str, Address]) -> list[DoctorFinding]:
    operation = ClusterCheckRequest.operation
    run = job_process.new_run_id(operation)
    with tempfile.TemporaryDirectory(prefix="holdfast-records-", ignore_cleanup_errors=True) as folder:
        log = Path(folder) / "log"
        environment = {
            **job_process.job_environment(None, None, None, keys=ArchiveKeys(store.key, store.signing)),
            job_process.RECORDS_VARIABLE: folder,
            SOURCES_VARIABLE: json.dumps([[name, each.url, each.password] for name, each in sources.items()]),
        }
        code = job_process.submit(
            operation, ["--archive", store.url, "--run", run], environment, master=master, conf=_CONF, log=log
        )
        record = read_last(open_url(folder), run)
        said = log.read_text(errors="replace")
    if record is not None and record.result is not None:
        return [DoctorFinding.described(each) for each in record.result["findings"]]
    if record is not None and record.error is not None:
        raise HoldfastError(record.error.message)
    last = last_words(said, operation) or f"the job {JobEnd(code).how} ({' | '.join(said.splitlines()[-3:])})"
    raise HoldfastError(last)
