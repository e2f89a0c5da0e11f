"""`python -m bench.idle`: what an Airflow takes that has 200 archives of three sources, while nothing happens in them.

At rest, by its parts; and of each operation of maintenance, beside tasks that do nothing.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from unittest.mock import patch

import httpx
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, stop_after_delay

from bench.parse_time import archives_yaml
from bench.support import machine
from bench.support.airflow_parts import Taken, taken
from bench.support.command import measure_and_report, new_parser, say
from bench.support.figures import Comparison, collect
from bench.support.grown_archive import Shape, make_archive
from bench.support.timed import Timed, as_json, as_markdown
from demo.airflow import AirflowStandalone
from holdfast.config.archives_model import ArchiveConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_T = TypeVar("_T")

ROOT = Path(__file__).parents[1]

ARCHIVES = 200
"""Whose maintenance is counted up."""

MOST = 0.05
"""Of one core, for all of them."""

PLAIN = "nothing"

MAINTENANCE = ("lock_reaper", "compaction", "truncation", "vacuum")
OPERATIONS = (*MAINTENANCE, "objectives")
"""Whose DAGs are run."""

OTHERS = ("archive_verification", "backup", "migration", "restore", "restore_drill", "setup")
"""Whose DAGs are there."""

RPO = "24h"
"""Objective of the archives that are counted up. Those that are there promise less, and so keep it."""

_REST_S = 120.0
"""Seconds of the watch of Airflow at rest: four readings of its DAG files."""

_IDLE_S = 20.0
_QUIET = 0.05
"""Of one core: what a DAG processor takes at most while it reads nothing."""

_POLL_S = 2.0
_LIMIT_S = 600.0

_PLAIN_DAG = """\
from airflow.sdk import DAG, task

for number in range({runs}):
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
    "One `airflow standalone` has all archives and their DAGs; its metadata is in SQLite. Runs by schedule are off: "
    "all that run are triggered.",
    f"At rest: as Airflow comes, over {_REST_S:.0f} s. It reads each DAG file again every 30 s "
    "(`[dag_processor] min_file_process_interval`). Memory is PSS: what processes share is counted once.",
    "CPU seconds of one run, user and system, of all processes: what they took while a DAG of each of some archives "
    "was triggered, scheduled and carried out, less what they take in the same time without any run. The DAG files are "
    "not read meanwhile.",
    "Each archive holds two backups of each source; nothing is to be compacted, truncated or deleted, and all "
    "objectives are kept. No task starts Java.",
    "Backups, drills and verification are no part of it: they work, or are asked for.",
)


@dataclass(frozen=True)
class Idle(Timed):
    """Load of Airflow at rest, and CPU seconds of one run of each operation.

    :param archives: that were there, of `sources` each.
    :param dags: that Airflow had.
    :param runs: of each operation in a round, each of another archive.
    :param known_s: seconds from when a new Airflow was up until it had all DAGs.
    :param parts: of Airflow, at rest: CPU seconds a second, and memory.
    :param a_day: runs a day of each operation of one archive, where there are `ARCHIVES`.
    """

    comparisons = COMPARISONS
    notes = NOTES

    archives: int
    sources: int
    dags: int
    runs: int
    known_s: float
    parts: Mapping[str, Taken]
    a_day: Mapping[str, float]

    @property
    def title(self) -> str:
        """Return what was measured."""
        return "Many idle archives on one Airflow"

    @property
    def share(self) -> float:
        """Return which part of one core the maintenance of all archives takes."""
        return self._share(MAINTENANCE, {name: self.series[name].best for name in MAINTENANCE})

    @property
    def details(self) -> str:
        """Return what that is for many archives."""
        plain = self._share(MAINTENANCE, dict.fromkeys(MAINTENANCE, self.series[PLAIN].best))
        judging = self._share(["objectives"], {"objectives": self.series["objectives"].best})
        return (
            f"**Maintenance of {ARCHIVES} archives: {self.share:.1%} of one core**, of which {plain:.1%} would be "
            f"taken by as many tasks that do nothing; wanted: at most {MOST:.0%}. Judging an `rpo` of {RPO} of each: "
            f"{judging:.1%} more. {self.archives} archives of {self.sources} sources were there, with {self.dags:,} "
            f"DAGs, which Airflow knew {self.known_s:.0f} s after it was up; {self.runs} of each operation ran in each "
            "round."
        )

    @property
    def missed(self) -> list[str]:
        """Return what was not reached, in words."""
        return [f"{ARCHIVES} idle archives under {MOST:.0%} of one core"] if self.share > MOST else []

    def _share(self, names: Sequence[str], seconds: Mapping[str, float]) -> float:
        return ARCHIVES * sum(self.a_day[name] * seconds[name] for name in names) / 86_400


def main() -> int:
    """Run the bench; 0 when all was reached, 1 when something was missed or failed."""
    parser = new_parser("bench.idle", "Measure what an Airflow takes that has many idle archives.")
    parser.add_argument("--archives", type=int, default=ARCHIVES, help="that are there")
    parser.add_argument("--sources", type=int, default=3, help="of each archive")
    parser.add_argument("--runs", type=int, default=16, help="of each operation in a round, each of another archive")
    given = parser.parse_args()
    return measure_and_report(
        "idle",
        given.results,
        lambda: measure(given.archives, given.sources, min(given.runs, given.archives), given.rounds),
        as_json=as_json,
        as_markdown=report,
    )


def measure(archives: int, sources: int, runs: int, rounds: int) -> Idle:
    """Watch an Airflow at rest; then run the maintenance of some archives, beside tasks that do nothing."""
    date = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    times: list[Mapping[str, float]] = []
    loads: list[float] = []
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as name:
        folder = Path(name)
        a_day = _a_day(folder / "airflow")
        _prepare(folder, archives, sources, runs)
        with _airflow(folder) as airflow:
            began = time.monotonic()
            for kind in (PLAIN, *OPERATIONS, *OTHERS):
                last = (runs if kind == PLAIN else archives) - 1
                _patiently(partial(airflow.api.wait_for_dag, f"{kind}_a{last}", timeout=_LIMIT_S))
            known_s = time.monotonic() - began
            dags = len(_patiently(airflow.api.dag_ids)) - runs
            say(f"{dags:,} DAGs are known after {known_s:.0f} s")
            parts = _at_rest(airflow, _REST_S)
        with _airflow(folder, {"AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "86400"}) as airflow:
            _wait_until_read(airflow)
            for number in range(rounds):
                say(f"round {number + 1} of {rounds}")
                loads.append(machine.load())
                at_rest = sum(each.cpu_s for each in _at_rest(airflow, _IDLE_S).values())
                times.append({kind: _one_run(airflow, kind, runs, at_rest) for kind in (PLAIN, *OPERATIONS)})
    facts = {**machine.host(), "Airflow": version("apache-airflow")}
    return Idle(date, facts, loads, collect(times), archives, sources, dags, runs, known_s, parts, a_day)


def _a_day(home: Path) -> Mapping[str, float]:
    """Return the runs a day of each operation, where there are `ARCHIVES`."""
    with patch.dict(os.environ, AIRFLOW_HOME=str(home)):
        from holdfast_airflow.operators.check_objectives import judging_interval
        from holdfast_airflow.operators.reap_locks import reaper_interval
    promise = {"sources": {"shop": {"connection": "shop", "objectives": {"rpo": RPO}}}}
    judged = judging_interval(ArchiveConfig.model_validate({"url": "/archives/shop", **promise}))
    a_day = timedelta(days=1)
    return {
        **dict.fromkeys(OPERATIONS, 1.0),
        "lock_reaper": a_day / reaper_interval(ARCHIVES),
        "objectives": a_day / (judged or a_day),
    }


def _prepare(folder: Path, archives: int, sources: int, runs: int) -> None:
    """Make the archives, their archives.yaml and the DAG files."""
    (folder / "dags").mkdir()
    (folder / "dags" / "nothing.py").write_text(_PLAIN_DAG.format(runs=runs))
    for number in range(archives):
        make_archive(
            folder / f"a{number}",
            Shape(commits=2 * sources, blocks=2 * sources, files=4 * sources, sources=sources, tail=1),
        )
    config = archives_yaml(archives, sources).replace("/archives/", f"{folder}/")
    for number in range(sources):
        # As `make_archive` names them.
        config = config.replace(f"  s{number}: {{", f"  shop{number or ''}: {{objectives: {{rpo: 500w}}, ")
    (folder / "archives.yaml").write_text(config)


def _airflow(folder: Path, settings: Mapping[str, str] | None = None) -> AirflowStandalone:
    return AirflowStandalone(
        home=folder / "airflow",
        dags=folder / "dags",
        plugins=ROOT / "plugins",
        env={
            "HOLDFAST_ARCHIVES": str(folder / "archives.yaml"),
            "PYTHONPATH": str(ROOT),
            # As Airflow comes.
            "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "30",
            "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "1",
            "AIRFLOW__SCHEDULER__SCHEDULER_HEARTBEAT_SEC": "5",
            # Runs by schedule would come in between.
            "AIRFLOW__SCHEDULER__USE_JOB_SCHEDULE": "False",
            **(settings or {}),
        },
        say=say,
    )


def _wait_until_read(airflow: AirflowStandalone) -> None:
    """Wait until Airflow has read all DAG files once after its start."""
    for attempt in Retrying(stop=stop_after_delay(_LIMIT_S)):
        with attempt:
            if (busy := _at_rest(airflow, _IDLE_S)["dag-processor"].cpu_s) > _QUIET:
                raise RuntimeError(f"Airflow's DAG processor still takes {busy:.0%} of a core")


def _at_rest(airflow: AirflowStandalone, seconds: float) -> Mapping[str, Taken]:
    """Return the CPU seconds a second that each part takes without any run, and its memory in the end."""
    began, before = time.monotonic(), _taken(airflow)
    time.sleep(seconds)
    after, passed = _taken(airflow), time.monotonic() - began
    return {
        part: Taken((found.cpu_s - (before[part].cpu_s if part in before else 0.0)) / passed, found.memory)
        for part, found in after.items()
    }


def _taken(airflow: AirflowStandalone) -> Mapping[str, Taken]:
    if airflow.pid is None:
        raise RuntimeError("Airflow has ended")
    return taken(airflow.pid)


def _one_run(airflow: AirflowStandalone, kind: str, count: int, at_rest: float) -> float:
    """Run a DAG of each archive, and return the CPU seconds that one run took."""
    began, before = time.monotonic(), _cpu(airflow)
    runs = {dag: airflow.api.trigger(dag) for dag in (f"{kind}_a{number}" for number in range(count))}
    for dag, run_id in runs.items():
        state = _patiently(partial(airflow.api.wait_for_run, dag, run_id, timeout=_LIMIT_S, poll=_POLL_S))
        if state != "success":
            raise RuntimeError(f"{dag} ended as {state}")
    spent = _cpu(airflow) - before - at_rest * (time.monotonic() - began)
    say(f"  {kind}: {spent / count:.2f} s")
    return spent / count


def _patiently(ask: Callable[[], _T]) -> _T:
    """Ask Airflow, and again where a busy machine did not let it answer in time."""
    return Retrying(retry=retry_if_exception_type(httpx.TimeoutException), stop=stop_after_attempt(10))(ask)


def _cpu(airflow: AirflowStandalone) -> float:
    """Return the CPU seconds of all processes of Airflow, and of those that they have waited for."""
    return sum(each.cpu_s for each in _taken(airflow).values())


def report(found: Idle) -> str:
    """Return everything as Markdown."""
    lines = ["", "## Airflow at rest", "", "| part | of one core | memory |", "| --- | --- | --- |"]
    lines += [f"| {part} | {each.cpu_s:.1%} | {each.memory / 1e6:.0f} MB |" for part, each in found.parts.items()]
    total = sum(each.cpu_s for each in found.parts.values())
    lines.append(f"| all | {total:.1%} | {sum(each.memory for each in found.parts.values()) / 1e6:.0f} MB |")
    return as_markdown(found) + "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
