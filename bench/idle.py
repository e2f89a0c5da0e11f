"""`python -m bench.idle`: the CPU that maintenance takes of archives in which nothing happens.

In a real Airflow, beside tasks that do nothing.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from unittest.mock import patch

import httpx
import psutil
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt

from bench.parse_time import archives_yaml
from bench.support import machine
from bench.support.command import measure_and_report, new_parser, say
from bench.support.figures import Comparison, collect
from bench.support.grown_archive import Shape, make_archive
from bench.support.timed import Timed, as_json, as_markdown
from demo.airflow import AirflowStandalone

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_T = TypeVar("_T")

ROOT = Path(__file__).parents[1]

ARCHIVES = 200
"""Whose maintenance is counted up."""

MOST = 0.05
"""Of one core, for all of them."""

PLAIN = "nothing"

OPERATIONS: Mapping[str, float] = {"lock_reaper": 0.0, "compaction": 1.0, "truncation": 1.0, "vacuum": 1.0}
"""Runs a day of each operation's DAG, as archives.yaml schedules it once a day; those of the reaper are its own."""

_IDLE_S = 20.0
_POLL_S = 2.0
_LIMIT_S = 600.0

_PLAIN_DAG = """\
from airflow.sdk import DAG, task

for number in range({archives}):
    with DAG(f"nothing_a{{number}}", schedule=None):

        @task
        def nothing() -> None:
            pass

        nothing()
"""

COMPARISONS = tuple(
    Comparison(f"{each} of an idle archive, beside a task that does nothing", each, PLAIN) for each in OPERATIONS
)

NOTES = (
    "CPU seconds of one run, user and system, of all processes of `airflow standalone`: what they took while the runs "
    "of all archives were triggered, scheduled and carried out, less what they take in the same time without any run. "
    "SQLite holds Airflow's metadata.",
    "Each archive holds two backups; nothing is to be compacted, truncated or deleted. No task starts Java.",
    "Backups, drills, verification and the judging of objectives are no part of it: they work, or are asked for.",
)


@dataclass(frozen=True)
class Idle(Timed):
    """CPU seconds of one run of each operation.

    :param archives: that were there.
    :param reaper_interval_s: seconds between two runs of an archive's reaper, where there are `ARCHIVES`.
    """

    comparisons = COMPARISONS
    notes = NOTES

    archives: int
    reaper_interval_s: float

    @property
    def title(self) -> str:
        """Return what was measured."""
        return "Maintenance of idle archives"

    @property
    def share(self) -> float:
        """Return which part of one core all archives take."""
        return self._share({name: self.series[name].best for name in OPERATIONS})

    @property
    def details(self) -> str:
        """Return what that is for many archives."""
        plain = self._share(dict.fromkeys(OPERATIONS, self.series[PLAIN].best))
        return (
            f"**{ARCHIVES} archives: {self.share:.1%} of one core**, of which {plain:.1%} would be taken by as many "
            f"tasks that do nothing; wanted: at most {MOST:.0%}. The reaper of each runs every "
            f"{self.reaper_interval_s / 60:.0f} minutes, the other operations once a day. {self.archives} archives "
            "were there."
        )

    @property
    def missed(self) -> list[str]:
        """Return what was not reached, in words."""
        return [f"{ARCHIVES} idle archives under {MOST:.0%} of one core"] if self.share > MOST else []

    def _share(self, seconds: Mapping[str, float]) -> float:
        runs = {**OPERATIONS, "lock_reaper": 86_400 / self.reaper_interval_s}
        return ARCHIVES * sum(runs[name] * seconds[name] for name in OPERATIONS) / 86_400


def main() -> int:
    """Run the bench; 0 when all was reached, 1 when something was missed or failed."""
    parser = new_parser("bench.idle", "Measure the CPU that maintenance of idle archives takes.")
    parser.add_argument("--archives", type=int, default=8, help="that are there")
    given = parser.parse_args()
    return measure_and_report(
        "idle", given.results, lambda: measure(given.archives, given.rounds), as_json=as_json, as_markdown=as_markdown
    )


def measure(archives: int, rounds: int) -> Idle:
    """Run the maintenance of all archives, and as many tasks that do nothing, in turn."""
    date = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    times: list[Mapping[str, float]] = []
    loads: list[float] = []
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as name:
        folder = Path(name)
        interval = _reaper_interval_s(folder / "airflow")
        airflow = _airflow(folder, archives)
        airflow.start()
        try:
            airflow.wait_until_healthy(timeout=_LIMIT_S)
            for kind in (PLAIN, *OPERATIONS):
                _patiently(partial(airflow.api.wait_for_dag, f"{kind}_a{archives - 1}", timeout=_LIMIT_S))
            for number in range(rounds):
                say(f"round {number + 1} of {rounds}")
                loads.append(machine.load())
                at_rest = _at_rest(airflow)
                times.append({kind: _one_run(airflow, kind, archives, at_rest) for kind in (PLAIN, *OPERATIONS)})
        finally:
            airflow.stop()
    facts = {**machine.host(), "Airflow": version("apache-airflow")}
    return Idle(date, facts, loads, collect(times), archives, interval)


def _reaper_interval_s(home: Path) -> float:
    """Return the seconds between two runs of a reaper where there are `ARCHIVES`."""
    with patch.dict(os.environ, AIRFLOW_HOME=str(home)):
        from holdfast_airflow.operators.reap_locks import reaper_interval
    return reaper_interval(ARCHIVES).total_seconds()


def _airflow(folder: Path, archives: int) -> AirflowStandalone:
    shutil.copytree(ROOT / "dags", folder / "dags", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "dags" / "nothing.py").write_text(_PLAIN_DAG.format(archives=archives))
    for number in range(archives):
        make_archive(folder / f"a{number}", Shape(commits=2, blocks=2, files=4, tail=1))
    config = archives_yaml(archives, 1).replace("/archives/", f"{folder}/")
    (folder / "archives.yaml").write_text("\n".join(line for line in config.splitlines() if "schedule:" not in line))
    return AirflowStandalone(
        home=folder / "airflow",
        dags=folder / "dags",
        plugins=ROOT / "plugins",
        env={
            "HOLDFAST_ARCHIVES": str(folder / "archives.yaml"),
            "PYTHONPATH": str(ROOT),
            "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "3600",
            # Runs by schedule would come in between.
            "AIRFLOW__SCHEDULER__USE_JOB_SCHEDULE": "False",
        },
        say=say,
    )


def _at_rest(airflow: AirflowStandalone) -> float:
    """Return the CPU seconds a second that Airflow takes without any run."""
    began, before = time.monotonic(), _cpu(airflow)
    time.sleep(_IDLE_S)
    return (_cpu(airflow) - before) / (time.monotonic() - began)


def _one_run(airflow: AirflowStandalone, kind: str, archives: int, at_rest: float) -> float:
    """Run a DAG of each archive, and return the CPU seconds that one run took."""
    began, before = time.monotonic(), _cpu(airflow)
    runs = {dag: airflow.api.trigger(dag) for dag in (f"{kind}_a{number}" for number in range(archives))}
    for dag, run_id in runs.items():
        state = _patiently(partial(airflow.api.wait_for_run, dag, run_id, timeout=_LIMIT_S, poll=_POLL_S))
        if state != "success":
            raise RuntimeError(f"{dag} ended as {state}")
    spent = _cpu(airflow) - before - at_rest * (time.monotonic() - began)
    say(f"  {kind}: {spent / archives:.2f} s")
    return spent / archives


def _patiently(ask: Callable[[], _T]) -> _T:
    """Ask Airflow, and again where a busy machine did not let it answer in time."""
    return Retrying(retry=retry_if_exception_type(httpx.TimeoutException), stop=stop_after_attempt(10))(ask)


def _cpu(airflow: AirflowStandalone) -> float:
    """Return the CPU seconds of all processes of Airflow, and of those that they have waited for."""
    root = psutil.Process(airflow.pid)
    total = 0.0
    for process in (root, *root.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            used = process.cpu_times()
            total += used.user + used.system + used.children_user + used.children_system
    return total


if __name__ == "__main__":
    sys.exit(main())
