"""The order in which tests run beside each other: what takes longest comes first, so that all processes end at once.

A plugin of pytest that takes the place of xdist's ``--dist=loadfile``. The tests of one file stay in one process, since
they share what is dear to make. A file that has the mark ``splits`` may be cut into pieces; those of a folder that have
the mark ``together`` are taken as one file.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import pytest
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

from tests.support.runs.budget import NONE, NOT_RUN, Closing, budget_seconds, read_runs, write_runs
from tests.support.runs.durations import RECORDED, Durations, by_file, file_of, folder_of, spelled

PIECE_S = 60.0
"""Seconds of the pieces into which a file is cut: starting servers anew takes some."""

LATE_S = 10.0
"""A test that takes so long keeps waiting what is handed out behind it."""

_DEADLINE = "holdfast_deadline"


@dataclass(frozen=True)
class Unit:
    """What is handed to a process as one: a file, or a piece of it.

    :param seconds: that it takes, as recorded
    :param last_run: when the run began that had it last, in seconds since 1970; 0 is never
    """

    name: str
    tests: tuple[str, ...]
    seconds: float
    last_run: int = 0

    @property
    def folder(self) -> str:
        """The folder of its file: files beside each other share servers that a process starts once."""
        return folder_of(file_of(self.tests[0]))


def plan(
    collection: Sequence[str],
    estimate: Mapping[str, float],
    *,
    splits: Callable[[str], bool],
    together: Callable[[str], bool] = lambda file: False,
    last_runs: Mapping[str, int],
) -> list[Unit]:
    """Put tests into units: by file, by when they were run last, and in pieces where the file says so."""
    units: list[Unit] = []
    groups: dict[str, list[str]] = {}
    for file, tests in by_file(collection).items():
        groups.setdefault(folder_of(file) if together(file) else file, []).extend(tests)
    for file, tests in groups.items():
        for last_run in sorted({last_runs.get(test, 0) for test in tests}):
            alike = [test for test in tests if last_runs.get(test, 0) == last_run]
            for piece in _cut(alike, estimate) if splits(file) else [alike]:
                name = f"{file} from {piece[0].removeprefix(file)}"
                units.append(Unit(name, tuple(piece), sum(estimate[test] for test in piece), last_run))
    return units


def _cut(tests: Sequence[str], estimate: Mapping[str, float]) -> list[list[str]]:
    """Cut tests into pieces of about a minute, in their order: neighbours share the most."""
    total = sum(estimate[test] for test in tests)
    count = round(total / PIECE_S)
    if count < 2:
        return [list(tests)]
    pieces: list[list[str]] = [[]]
    before = 0.0
    for test in tests:
        # A test belongs to the piece in which its middle lies.
        if pieces[-1] and before + estimate[test] / 2 >= total / count * len(pieces):
            pieces.append([])
        pieces[-1].append(test)
        before += estimate[test]
    return pieces


def choose(units: Iterable[Unit], *, waits: float, folders: frozenset[str]) -> Unit:
    """Choose what a process gets next: of what was not run for longest, the longest.

    :param waits: seconds until the process comes to it; behind a long test, what is short waits best
    :param folders: of which the process has had files; a unit of theirs is preferred to one up to twice as long
    """
    first = min(unit.last_run for unit in units)
    oldest = sorted((unit for unit in units if unit.last_run == first), key=lambda unit: (-unit.seconds, unit.name))
    if waits > LATE_S:
        return oldest[-1]
    long = [unit for unit in oldest if unit.seconds * 2 >= oldest[0].seconds]
    return next((unit for unit in long if unit.folder in folders), oldest[0])


class LongestFirst(LoadScopeScheduling):  # type: ignore[misc]
    """Hands out units to processes.

    :param estimate: says how many seconds each test takes
    :param arrange: makes the units of all tests
    """

    def __init__(
        self,
        config: pytest.Config,
        log: object,
        *,
        estimate: Callable[[Sequence[str]], Mapping[str, float]],
        arrange: Callable[[Sequence[str], Mapping[str, float]], list[Unit]],
    ) -> None:
        super().__init__(config, log)
        self._estimate_of = estimate
        self._arrange = arrange
        self._seconds: Mapping[str, float] = {}
        self._units: dict[str, Unit] = {}
        self._unit_of: dict[str, str] = {}

    def schedule(self) -> None:
        """Arrange the tests, once all processes have collected them, and begin."""
        if not self._units:
            collection = next(iter(self.registered_collections.values()))
            self._seconds = self._estimate_of(collection)
            self._units = {unit.name: unit for unit in self._arrange(collection, self._seconds)}
            self._unit_of = {test: unit.name for unit in self._units.values() for test in unit.tests}
        super().schedule()

    def _split_scope(self, nodeid: str) -> str:
        return self._unit_of[nodeid]

    def _assign_work_unit(self, node: WorkerController) -> None:
        had = frozenset(self._units[name].folder for name in self.assigned_work[node])
        waiting = [self._units[name] for name in self.workqueue]
        chosen = choose(waiting, waits=self._pending_seconds(node), folders=had)
        self.workqueue.move_to_end(chosen.name, last=False)
        super()._assign_work_unit(node)

    def _reschedule(self, node: WorkerController) -> None:
        """Hand out another unit, as late as can be: when the process begins the last test of what it has.

        It must know by then what comes next, or that nothing does.
        """
        if node.shutting_down or self._pending_of(self.assigned_work[node]) > 1:
            return
        if not self.workqueue or self._others_are_sooner(node):
            node.shutdown()
        else:
            self._assign_work_unit(node)

    def _others_are_sooner(self, node: WorkerController) -> bool:
        """Whether the others will have begun all that waits before this process has ended its last test."""
        others = [each for each in self.nodes if each is not node and not each.shutting_down]
        left = sum(self._units[name].seconds for name in self.workqueue) + sum(map(self._pending_seconds, others))
        return bool(others) and left / len(others) <= self._pending_seconds(node)

    def _pending_seconds(self, node: WorkerController) -> float:
        units = self.assigned_work[node].values()
        return sum(self._seconds[test] for unit in units for test, completed in unit.items() if not completed)


class Conductor:
    """Orders the tests of a run, in the process that runs no test itself, and keeps what became of them."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._root = config.rootpath
        self._recorded = Durations.read(self._root / RECORDED)
        self._budget: str | None = config.getoption("budget")
        limit = None if self._budget is None else budget_seconds(self._budget)
        self._began = time.time()
        self._deadline = None if limit is None else self._began + limit
        self._runs = {} if self._budget is None else read_runs(self._root)
        self._collected: list[str] = []
        self._took: dict[str, float] = {}
        self._without_success: set[str] = set()

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: WorkerController) -> None:
        """Tell a process when to begin no more tests."""
        node.workerinput[_DEADLINE] = self._deadline

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: object) -> LongestFirst:
        """The order of this run."""
        return LongestFirst(config, log, estimate=self._recorded.estimate, arrange=self._arrange)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add up setup, call and teardown."""
        self._took[report.nodeid] = self._took.get(report.nodeid, 0.0) + getattr(report, "duration", 0.0)
        if not report.passed:
            self._without_success.add(report.nodeid)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write down what is asked for; a run that lost tests has failed."""
        if self._left() and not self._is_over() and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        passed = {test: took for test, took in self._took.items() if test not in self._without_success}
        for path in self._config.getoption("record_durations"):
            file = self._root / path
            recorded = Durations.read(file).merged(passed, whole=self._is_whole())
            recorded.without_files_gone(self._root).write(file)
        if self._budget is not None:
            write_runs(self._root, self._runs, passed, int(self._began))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say which tests have no result."""
        left = self._left()
        if self._budget is not None:
            (self._root / NOT_RUN).write_text("".join(f"{test}\n" for test in left))
        if not left:
            if self._budget is not None:
                terminalreporter.write_line(f"Each of the {len(self._collected)} tests has a result.")
            return
        why = f"the budget of {self._budget} is over" if self._is_over() else "the run was ended, or a process was"
        terminalreporter.section(f"{len(left)} of {len(self._collected)} tests were not run: {why}")
        for file, tests in by_file(left).items():
            terminalreporter.write_line(f"{len(tests):5} of {file}, the first is {tests[0].partition('::')[2]}")
        if self._budget is not None:
            terminalreporter.write_line(f"All names are in {NOT_RUN}; the next run with a budget begins with them.")
            terminalreporter.write_line("Every other test has a result, and those that failed are named below.")

    def _arrange(self, collection: Sequence[str], estimate: Mapping[str, float]) -> list[Unit]:
        self._collected = list(collection)
        units = plan(
            collection,
            estimate,
            splits=lambda file: self._has_mark(file, "splits"),
            together=lambda file: self._has_mark(file, "together"),
            last_runs=self._runs if self._deadline is not None else {},
        )
        if reporter := self._config.pluginmanager.getplugin("terminalreporter"):
            reporter.write_line(self._forecast(units))
        return units

    def _forecast(self, units: Sequence[Unit]) -> str:
        workers = len(self._config.getoption("tx"))
        needed = max(sum(unit.seconds for unit in units) / workers, max(unit.seconds for unit in units))
        unknown = self._recorded.unknown(self._collected)
        text = f"{len(self._collected)} tests, by {workers} process{'es' if workers > 1 else ''}"
        if unknown < len(self._collected):
            text += f": {spelled(needed)}, as recorded"
        if unknown:
            text += f"; {unknown} have no recorded duration"
        if self._deadline is not None:
            text += f"; of these, what was not run for longest, within {self._budget}"
        return f"{text}."

    def _has_mark(self, file: str, mark: str) -> bool:
        try:
            return f"pytest.mark.{mark}" in (self._root / file).read_text()
        except OSError:
            return False

    def _left(self) -> list[str]:
        return [test for test in self._collected if test not in self._took]

    def _is_over(self) -> bool:
        return self._deadline is not None and time.time() >= self._deadline

    def _is_whole(self) -> bool:
        option = self._config.option
        named = self._config.args_source is not pytest.Config.ArgsSource.TESTPATHS
        return not (option.markexpr or option.keyword or named or self._left() or self._without_success)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of the tiers; ``make help`` tells how they are meant."""
    group = parser.getgroup("tiers")
    group.addoption(
        "--record-durations",
        action="append",
        default=[],
        metavar="FILE",
        help=f"write what the tests took to FILE, such as {RECORDED}; what was not run is kept there",
    )
    group.addoption(
        "--budget",
        metavar="TIME",
        help=f"begin with what was not run for longest, and begin nothing after TIME (such as 2h; {NONE} has no end)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Take over the order where several processes run the tests of a file together."""
    if hasattr(config, "workerinput"):
        if deadline := config.workerinput.get(_DEADLINE):
            config.pluginmanager.register(Closing(deadline))
    elif config.getoption("dist", "no") == "loadfile" and config.getoption("tx", None):
        config.pluginmanager.register(_conductor(config))
    elif config.getoption("budget") or config.getoption("record_durations"):
        raise pytest.UsageError("--budget and --record-durations need --numprocesses and --dist=loadfile")


def _conductor(config: pytest.Config) -> Conductor:
    try:
        return Conductor(config)
    except ValueError as error:
        raise pytest.UsageError(str(error)) from None
