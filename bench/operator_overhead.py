"""`python -m bench.operator_overhead`: what an operator takes beside the Spark job that it runs.

Beside a bare SparkSubmitOperator that runs the same application with the same arguments.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections import defaultdict
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from inspect import unwrap
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from bench.support import machine
from bench.support.command import measure_and_report, new_parser, say
from bench.support.figures import Comparison, collect
from bench.support.timed import Timed, as_json, as_markdown
from bench.verification import make_verifiable
from holdfast.archive import locks
from holdfast.operations.job_process import find_application, job_environment, local_environment, new_run_id, spark_conf
from holdfast.operations.requests.verification import VerificationRequest
from holdfast.storage import open_store
from locking import Owner

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from holdfast.storage import ObjectStore

FILES, ROWS = 4, 10_000
MASTER = "local[2]"

OURS = "VerifyOperator"
BARE = "a bare SparkSubmitOperator"
COMPARISONS = (Comparison("VerifyOperator, beside a bare SparkSubmitOperator with the same application", OURS, BARE),)

MOST_S = 3.0
"""That our operator may take longer."""

NOTES = (
    f"Both run the Spark application `verification` with the same arguments and settings, on {MASTER}, on an archive "
    f"of {FILES} small files, of which each run reads all. Most of both is the start of Java, Spark and Python.",
    "Each operator's `execute` is called as the task runner calls it, with nothing of Airflow around it: scheduling, "
    "XComs and logs are in neither.",
    "Ours also reads archives.yaml and the connections, looks for Java, opens the archive, takes the locks and renews "
    "them, follows the job's progress, checks its result, updates the archive's record and releases the locks. The "
    "locks of the bare one are taken before its time begins, and released after it.",
)


@dataclass(frozen=True)
class Overhead(Timed):
    """Times of an operator of ours and of the bare one."""

    comparisons = COMPARISONS
    notes = NOTES

    @property
    def title(self) -> str:
        """Return what was measured."""
        return "Overhead of an operator"

    @property
    def overheads(self) -> list[float]:
        """Return the seconds that our operator took longer, by round."""
        ours, bare = self.series[OURS].seconds, self.series[BARE].seconds
        return [mine - theirs for mine, theirs in zip(ours, bare, strict=True)]

    @property
    def details(self) -> str:
        """Return the overhead in a sentence."""
        best = self.series[OURS].best - self.series[BARE].best
        rounds = ", ".join(f"{each:.2f}" for each in self.overheads)
        return f"**Overhead: {best:.2f} s** of the best times; by round {rounds} s; wanted: less than {MOST_S:g} s."

    @property
    def missed(self) -> list[str]:
        """Return what was not reached, in words."""
        best = self.series[OURS].best - self.series[BARE].best
        return [f"an overhead of less than {MOST_S:g} s"] if best >= MOST_S else []


def main() -> int:
    """Run the bench; 0 when all was reached, 1 when something was missed or failed."""
    given = new_parser("bench.operator_overhead", "Measure what an operator takes beside its Spark job.").parse_args()
    return measure_and_report(
        "operator_overhead", given.results, lambda: measure(given.rounds), as_json=as_json, as_markdown=as_markdown
    )


def measure(rounds: int) -> Overhead:
    """Run both operators in turn."""
    times: list[Mapping[str, float]] = []
    loads: list[float] = []
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as name, _airflow(Path(name)):
        store = open_store(f"{name}/archive")
        make_verifiable(store, FILES, ROWS)
        _bare(store)  # the first Java reads its files from the disk
        for number in range(rounds):
            say(f"round {number + 1} of {rounds}")
            loads.append(machine.load())
            times.append({OURS: _ours(store), BARE: _bare(store)})
            say("  " + ", ".join(f"{what} {seconds:.2f} s" for what, seconds in times[-1].items()))
    date = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return Overhead(date, machine.host(), loads, collect(times))


@contextmanager
def _airflow(home: Path) -> Iterator[None]:
    """Set what Airflow and Holdfast read from the environment: Airflow reads its own when it is first imported."""
    config = home / "archives.yaml"
    config.write_text(f"archives: {{bench: {{url: {home / 'archive'}}}}}")
    settings = {
        "AIRFLOW_HOME": str(home / "airflow"),
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "WARNING",
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": MASTER}),
        "HOLDFAST_ARCHIVES": str(config),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    with patch.dict(os.environ, settings):
        yield


def _ours(store: ObjectStore) -> float:
    from holdfast_airflow.assets import record_of
    from holdfast_airflow.operators import VerifyOperator

    outlets = [record_of("bench")]
    operator = VerifyOperator(task_id="verify", archive="bench", job_executor="spark", outlets=outlets)
    return _timed(store, operator)


def _bare(store: ObjectStore) -> float:
    from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

    request = VerificationRequest(new=True, deep=True, within="30d")
    with locks.acquire(store, "verification", owner=Owner(), purpose="bench", wait=60) as held:
        operator = SparkSubmitOperator(
            task_id="verify",
            application=str(find_application("verification")),
            application_args=["--archive", store.url, "--run", new_run_id("bare"), *request.to_arguments()],
            conf=spark_conf(),
            env_vars={**local_environment(MASTER), **job_environment(None, None, held)},
            durable=False,
        )
        return _timed(store, operator)


def _timed(store: ObjectStore, operator: Any) -> float:
    for found in list(store.list("runs/").objects):
        store.delete(found.key)  # as if nothing had been verified yet
    task = SimpleNamespace(dag_id="bench", run_id="bench", task_id=operator.task_id, map_index=-1)
    context: Any = {"ti": task, "outlet_events": defaultdict(SimpleNamespace)}
    began = time.perf_counter()
    unwrap(type(operator).execute)(operator, context)
    seconds = time.perf_counter() - began
    operator._hook._submit_sp.stdout.close()  # which the hook leaves to the garbage collector
    return seconds


if __name__ == "__main__":
    sys.exit(main())
