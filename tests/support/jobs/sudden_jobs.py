"""Backups and restores, each in a process of its own that can be made to end at any step.

Run as a program it imports everything once, then forks a process for each line of JSON it reads: so a job costs
what it does, and not the second that its imports take. Tasks run in the process itself, without Spark.
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Literal

import psutil

from holdfast.archive import locks
from holdfast.archive.format import last_seen, runs
from holdfast.operations import backup_run, job_process
from holdfast.operations.requests.backup import BackupRequest
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.dump.programs import need_program
from holdfast.postgresql.snapshot.table_reader import cut
from holdfast.storage import open_store
from locking import Owner
from sparkjobs import backup, restore
from sparkjobs.driver import application, log_windows, snapshot_reader
from sparkjobs.tasks import changes, pieces
from tests.support.jobs.application_arguments import parse_request
from tests.support.jobs.inline_jobs import SteadyExecutor
from tests.support.jobs.steps import SteppedStore, Steps, When, count_database_steps

SOURCE = "shop"
PIECE_BYTES = 8 << 10
"""Small, so that a small table has two pieces."""


_NO_THREADS = {"OPENBLAS_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}
"""Keeps numpy and pyarrow from starting threads when they are imported: what one of them holds in the moment of a fork
stays locked in the child for ever."""

LIMIT_S = 180
"""A job that takes longer hangs: it says where, and ends."""


@dataclass(frozen=True)
class Order:
    """One job.

    :param url, password: of the database, which is read or written.
    :param at: the step that its process ends at; 0: none.
    :param named: only steps with this in their name are counted.
    :param most_changes: messages after which it ends a window with a transaction; 0: as always.
    :param parent: environment variables of a backup's driver whose parent outlives it; None: one process is both.
    :param suspends: at that step its process is stopped, and does not end.
    :param packs: a backup stores its small pieces in a pack, and the changes of a window.
    """

    operation: Literal["backup", "restore"]
    archive: str
    url: str
    password: str
    run: str
    at: int = 0
    named: str = ""
    when: When = "before"
    options: tuple[str, ...] = ()
    most_changes: int = 0
    parent: Mapping[str, str] | None = None
    suspends: bool = False
    packs: bool = False


@dataclass(frozen=True)
class Ended:
    """How a process ended.

    :param code: its exit code, negative for a signal.
    :param steps: the names of the steps it began; threads may have begun some beside its last one.
    :param said: what it wrote to stderr.
    """

    code: int
    steps: tuple[str, ...]
    said: str


class SuddenJobs:
    """Runs jobs, one at a time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.jobs.sudden_jobs", folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[3],
            # What a killed process leaves in the machine's temporary folder is left in ours.
            env={name: value for name, value in os.environ.items() if not name.startswith(("PG", "HOLDFAST_"))}
            | {"TMPDIR": str(folder), last_seen.VARIABLE: "off", **_NO_THREADS},
        )

    def run(self, order: Order) -> Ended:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asdict(order)) + "\n")
        self._process.stdin.flush()
        code = int(self._process.stdout.readline())
        said = (self._folder / "said").read_text()
        return Ended(code, tuple((self._folder / "steps").read_text().splitlines()), said)

    def suspended(self) -> psutil.Process | None:
        """Return the process of a job that is stopped, if there is one."""
        children = psutil.Process(self._process.pid).children()
        return next((child for child in children if child.status() == psutil.STATUS_STOPPED), None)

    def close(self) -> None:
        """End the process that forks them."""
        self._process.communicate()


def _work(order: Order, steps: Steps) -> int:
    """Do what the command and its job do: take the locks, do the work, give the locks back."""
    store = SteppedStore(open_store(order.archive), steps)
    count_database_steps(steps)
    _replace(application, "open_store", lambda url: store)
    _replace(application, "make_executor", lambda operation: SteadyExecutor())
    _replace(snapshot_reader, "cut", partial(cut, piece_bytes=PIECE_BYTES))
    # Threads make no steps beside each other, or they would come now in one order, now in another.
    if order.packs:
        _replace(pieces, "PACKED_FROM", 0)
        _replace(pieces, "MOST_BEHIND", 0)
        _replace(changes, "PACKED_FROM", 0)
    else:
        _replace(pieces, "SMALL_BYTES", -1)
    _replace(runs, "INTERVAL_S", 0.0)
    if order.most_changes:
        _replace(log_windows, "MOST_CHANGES", order.most_changes)
    to_run = ["--archive", order.archive, "--source", SOURCE, "--run", order.run, *order.options]
    if order.parent is not None:
        os.environ.update(order.parent)
        return backup.main(to_run)
    backs_up = order.operation == "backup"
    sources = [SOURCE] if backs_up else []
    with locks.acquire(store, order.operation, sources=sources, owner=Owner(), purpose="test", wait=0) as held:
        role: Literal["source", "target"] = "source" if backs_up else "target"
        os.environ.update(job_process.job_environment(order.url, order.password, held, role))
        if not backs_up:
            return restore.main(to_run)
        codes = []

        def attempt(more: Mapping[str, str]) -> str:
            os.environ.update(more)
            codes.append(backup.main(to_run))
            return ""

        backup_run.run_to_the_end(
            store,
            order.run,
            Address(order.url, order.password),
            request=parse_request(BackupRequest, to_run),
            attempt=attempt,
        )
        return codes[-1]


def _replace(module: object, name: str, value: object) -> None:
    getattr(module, name)  # what is not there would be replaced without effect
    setattr(module, name, value)


def _child(order: Order, folder: Path) -> int:
    said = os.open(folder / "said", os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
    steps = os.open(folder / "steps", os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
    os.dup2(said, 1)
    os.dup2(said, 2)
    faulthandler.dump_traceback_later(LIMIT_S, exit=True)

    def tell(name: str) -> None:
        os.write(steps, f"{name}\n".encode())

    try:
        end = signal.SIGSTOP if order.suspends else signal.SIGKILL
        return _work(order, Steps(order.at, order.when, tell, order.named, end))
    except BaseException:  # noqa: BLE001 - it is told; nothing of the parent's may run in this process
        traceback.print_exc()
        return 99


def main() -> None:
    """Fork a process for every order."""
    for program in ("pg_dump", "pg_restore"):
        need_program(program, at_least=0)  # each process would ask every program for its version
    if "AWS_ENDPOINT_URL" in os.environ:
        import_module("holdfast.storage.s3.store")  # each process would
    threads = psutil.Process().num_threads()
    if threads != 1:
        raise RuntimeError(f"{threads} threads are here, and must not be when processes are forked")
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            code = _child(Order(**json.loads(line)), Path(sys.argv[1]))
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
