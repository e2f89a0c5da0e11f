"""`python -m bench.parse_time`: the CPU that Airflow's DAG processor takes for the DAG files.

Beside plain DAG files with as many DAGs and tasks.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import runpy
import selectors
import sys
import tempfile
import time
import uuid
from collections import defaultdict
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.support import machine
from bench.support.command import measure_and_report, new_parser, say
from bench.support.figures import Comparison, Ratio, Series, collect, compare
from bench.support.processes import run
from bench.support.report import comparison_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

ROOT = Path(__file__).parents[1]

DAGS = ROOT / "plugins" / "holdfast_airflow" / "dags"

OURS = "dags/"
WITH_FORMS = "plain DAGs with the same forms"
WITHOUT_FORMS = "plain DAGs without forms"

IMPORTED = ", import alone"
"""Ends the names of the times without serialization."""

COMPARISONS = (
    Comparison("beside plain DAGs with the same forms", OURS, WITH_FORMS, target=1.0),
    Comparison("beside plain DAGs without forms", OURS, WITHOUT_FORMS),
    Comparison("import alone, beside plain DAGs with the same forms", OURS + IMPORTED, WITH_FORMS + IMPORTED),
)

NOTES = (
    "Each time is the CPU, user and system, of the children that Airflow's DAG processor forks, one for each file of a "
    "folder: their import, and the serialization of their DAGs. Each round has a new processor. Its own time, before "
    "it forks and when it stores the DAGs, is not in it.",
    "Import alone: the CPU of one process that has imported the operators and runs each file once.",
    "The plain DAG files are made for this: as many DAGs, with the schedules and texts of ours, and as many tasks, "
    "each an `EmptyOperator`. Those with forms have the same params, each as Airflow's `Param`.",
    "Plain DAGs without forms are Airflow's own part: what it takes for so many DAGs and tasks that do nothing.",
)

LOOK_S = 0.05
"""Seconds between two looks whether a child has ended."""

_PLAIN = """\
from datetime import UTC, datetime, timedelta

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Param

"""


@dataclass(frozen=True)
class ParseTimes:
    """What the bench found out.

    :param dags, tasks: how many all files of a folder make.
    :param files: the best CPU seconds of each of our files.
    """

    archives: int
    sources: int
    dags: int
    tasks: int
    series: Mapping[str, Series]
    files: Mapping[str, float]
    facts: Mapping[str, str]
    measured: str

    @property
    def ratios(self) -> list[Ratio]:
        """Return how our files compare with the plain ones."""
        return [compare(each, self.series) for each in COMPARISONS]

    @property
    def missed(self) -> Sequence[str]:
        """Return what was not reached, in words."""
        return [each.comparison.what for each in self.ratios if each.reached is False]


def main() -> int:
    """Run the bench; 0 when all was reached, 1 when something was missed."""
    parser = new_parser("bench.parse_time", "Measure the CPU that Airflow takes to read the DAG files.")
    parser.add_argument("--archives", type=int, default=200, help="in archives.yaml")
    parser.add_argument("--sources", type=int, default=3, help="of each archive")
    parser.add_argument("--process", type=Path, metavar="FOLDER", help="be the DAG processor of a folder, once")
    given = parser.parse_args()
    if given.process:
        print("\n" + json.dumps(process(given.process)))
        return 0
    return measure_and_report(
        "parse_time",
        given.results,
        lambda: measure(given.archives, given.sources, given.rounds),
        as_json=lambda found: (
            json.dumps({**asdict(found), "ratios": [asdict(each) for each in found.ratios]}, indent=1) + "\n"
        ),
        as_markdown=as_markdown,
    )


def measure(archives: int, sources: int, rounds: int) -> ParseTimes:
    """Read our files and the plain ones, in turn.

    :raises ProgramError: a processor failed.
    """
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as place:
        home = Path(place)
        (home / "archives.yaml").write_text(archives_yaml(archives, sources))
        say(f"reading the DAG files with {archives:,} archives of {sources} sources")
        stored = in_processor(DAGS, home)["dags"]
        folders = {OURS: DAGS, WITH_FORMS: home / "with_forms", WITHOUT_FORMS: home / "without_forms"}
        for folder in (folders[WITH_FORMS], folders[WITHOUT_FORMS]):
            folder.mkdir()
            for name, text in plain_files(stored, archives, with_forms=folder is folders[WITH_FORMS]).items():
                (folder / name).write_text(text)
        times: list[dict[str, float]] = []
        files: dict[str, float] = {}
        for number in range(rounds):
            times.append({})
            for what, folder in folders.items():
                found = in_processor(folder, home)
                seconds = found["seconds"]
                times[-1][what] = sum(seconds.values())
                times[-1][what + IMPORTED] = found["imported"]
                say(f"round {number + 1}: {what}: {times[-1][what]:.2f} s, {len(found['dags'])} DAGs")
                if what == OURS:
                    files = {name: min(files.get(name, spent), spent) for name, spent in seconds.items()}
    return ParseTimes(
        archives,
        sources,
        len(stored),
        sum(len(each["tasks"]) for each in stored),
        collect(times),
        files,
        {**machine.host(), "Airflow": version("apache-airflow")},
        datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    )


def archives_yaml(archives: int, sources: int) -> str:
    """Return the text of an archives.yaml with so many archives of so many sources, named `a0` and on."""
    lines = ["archives:"]
    for number in range(archives):
        lines += [
            f"  a{number}:",
            f"    url: /archives/a{number}",
            "    schedule: {full: '@daily', changes: '*/15 * * * *', truncation: '@daily', verification: '@daily'}",
            "    keep: {daily: 3}",
            "    sources:",
            *(f"      s{source}: {{connection: c{number}_{source}}}" for source in range(sources)),
        ]
    return "\n".join(lines) + "\n"


def plain_files(stored: Sequence[Mapping[str, Any]], archives: int, *, with_forms: bool) -> dict[str, str]:
    """Return plain DAG files with the DAGs that Airflow stored of ours, by name.

    :param stored: in Airflow's form; the DAGs of the archive `a0` stand for those of all.
    """
    made: dict[str, list[str]] = defaultdict(lambda: [_PLAIN])
    for dag in stored:
        kind, _, archive = dag["dag_id"].rpartition("_")
        if archive in ("a0", "configuration"):
            count = archives if archive == "a0" else 1
            made[Path(dag["fileloc"]).name] += _plain_dags(kind, count, dag, with_forms=with_forms)
    return {name: "\n".join(lines) + "\n" for name, lines in made.items()}


def _plain_dags(kind: str, count: int, dag: Mapping[str, Any], *, with_forms: bool) -> Iterator[str]:
    timetable = dag["timetable"]["__var"]
    schedule = repr(timetable["expression"]) if "expression" in timetable else "timedelta(minutes=10)"
    yield f"for number in range({count}):"
    yield "    with DAG("
    yield f"        f'{kind}_a{{number}}',"
    yield f"        schedule={schedule if timetable else None},"
    yield f"        doc_md={dag['doc_md']!r},"
    yield "        start_date=datetime(2026, 1, 1, tzinfo=UTC), catchup=False, max_active_runs=1,"
    yield f"        description={dag['description']!r}, tags={[*dag['tags']]!r},"
    yield "        default_args={'retries': 2, 'retry_delay': timedelta(minutes=5)},"
    yield "        params={"
    for name, field in dag["params"] if with_forms else ():
        # A field that must be filled in has no default; a DAG with a schedule may have none such.
        default = "" if field["default"] is None and not timetable else f"{field['default']!r}, "
        schema = field["schema"]["__var"]
        yield f"            {name!r}: Param({default}description={field['description']!r}, **{schema!r}),"
    yield "        },"
    yield "    ):"
    for task in dag["tasks"]:
        yield f"        EmptyOperator(task_id={task['__var']['task_id']!r})"


def in_processor(folder: Path, home: Path) -> dict[str, Any]:
    """Read a folder's DAG files in a DAG processor of its own, and return what `process` does.

    :param home: Airflow's; with the archives.yaml.
    :raises ProgramError: the processor failed.
    """
    environment = {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "ERROR",
        "HOLDFAST_ARCHIVES": str(home / "archives.yaml"),
        "PYTHONPATH": os.pathsep.join([str(ROOT / "plugins"), str(ROOT)]),
    }
    done = run([sys.executable, "-m", "bench.parse_time", "--process", folder], environment)
    found: dict[str, Any] = json.loads(done.output.splitlines()[-1])
    return found


def process(folder: Path) -> dict[str, Any]:
    """Be a DAG processor that reads each file of a folder once, as Airflow's does.

    :return: `seconds` of CPU by file, those of the import of all files alone (`imported`), and the `dags` in Airflow's
        form.
    :raises RuntimeError: a file could not be read.
    """
    import airflow.dag_processing.manager  # noqa: F401 - a child finds in memory what its parent has imported
    from airflow.listeners.listener import get_listener_manager

    get_listener_manager()  # loads the plugins, as the start of the DAG processor does
    gc.collect()
    gc.freeze()  # as Airflow does before it forks
    seconds: dict[str, float] = {}
    dags: list[dict[str, Any]] = []
    for file in sorted(folder.glob("[!_]*.py")):
        before = _cpu_of_children()
        dags += _dags_of(file)
        seconds[file.name] = _cpu_of_children() - before
    begun = time.process_time()
    for file in sorted(folder.glob("[!_]*.py")):
        runpy.run_path(str(file))
    return {"seconds": seconds, "imported": time.process_time() - begun, "dags": dags}


def _dags_of(file: Path) -> list[dict[str, Any]]:
    import structlog
    from airflow.dag_processing.processor import DagFileProcessorProcess

    with selectors.DefaultSelector() as selector, Path(os.devnull).open("ab") as nowhere:
        child = DagFileProcessorProcess.start(
            id=uuid.uuid4(),
            path=file,
            bundle_path=file.parent,
            bundle_name="bench",
            dag_file_rel_path=file.name,
            callbacks=[],
            selector=selector,
            logger=structlog.wrap_logger(structlog.ReturnLogger()),
            logger_filehandle=nowhere,
            subprocess_logs_to_stdout=False,
            client=None,  # type: ignore[arg-type]  # only for files that ask for variables or connections
        )
        while not child.is_ready:
            for key, _ in selector.select(timeout=LOOK_S):
                handle, close = key.data
                if not handle(key.fileobj):
                    close(key.fileobj)
    result = child.parsing_result
    if result is None or result.import_errors:
        raise RuntimeError(f"{file.name}: {result and result.import_errors}")
    return [each.data["dag"] for each in result.serialized_dags]


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def as_markdown(found: ParseTimes) -> str:
    """Return the report for people."""
    return "\n".join(_lines(found)) + "\n"


def _lines(found: ParseTimes) -> Iterator[str]:
    yield "# Reading the DAG files"
    yield ""
    yield (
        f"{found.measured}, {len(found.series[OURS].seconds)} rounds, interleaved. {found.archives:,} archives of "
        f"{found.sources} sources: {found.dags:,} DAGs with {found.tasks:,} tasks."
    )
    yield from comparison_lines(found.ratios, found.series, NOTES, found.facts)
    yield from ("", "## Each file", "", "CPU seconds, the best of all rounds.", "", "| file | s |", "| --- | --- |")
    for name, spent in found.files.items():
        yield f"| {name} | {spent:.2f} |"


if __name__ == "__main__":
    sys.exit(main())
