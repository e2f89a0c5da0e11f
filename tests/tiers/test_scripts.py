"""The scripts of the tiers, on programs that only say what they were asked."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from tests.support.runs.clock import LIMIT_S, LOUD_S
from tests.support.runs.durations import Durations

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
CLOSING = "===== 7 passed in {seconds}s ====="
MEMORY = "MemAvailable: {mb}000 kB\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The scripts alone, beside programs that print a line and end well."""
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts")
    shutil.copytree(ROOT / ".ci", tmp_path / ".ci")
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".work").mkdir()
    (tmp_path / ".work" / "env").touch()
    (tmp_path / "meminfo").write_text(MEMORY.format(mb=64_000))
    for name in ("ruff", "lint-imports", "mypy"):
        program(tmp_path, name, f"echo {name} is content")
    said = ("pytest $*", "files: ${TMPDIR-the disk}", CLOSING.format(seconds=3))
    program(tmp_path, "pytest", "\n".join(f'echo "{line}"' for line in said))
    (tmp_path / ".venv" / "bin" / "python").symlink_to(ROOT / ".venv" / "bin" / "python")
    return tmp_path


def program(project: Path, name: str, text: str) -> None:
    path = project / name if "/" in name else project / ".venv" / "bin" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/bash\n{text}\n")
    path.chmod(0o755)


def run(project: Path, *command: str, code: int = 0, **environment: str) -> str:
    ours = {"TMPDIR", "BUDGET", "PART", "RECORD", "WORKERS", "CI", "HOLDFAST_TEST_TIER"}
    variables = {name: text for name, text in os.environ.items() if name not in ours}
    done = subprocess.run(
        ["bash", *command],
        cwd=project,
        env={**variables, "MEMORY_INFO": str(project / "meminfo"), "PYTHONPATH": str(ROOT), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == code, done.stdout
    return done.stdout


@pytest.mark.parametrize(("name", "what"), [("ruff", "style"), ("lint-imports", "floors"), ("mypy", "types")])
def test_a_check_that_fails_fails_the_tests_and_is_told_after_them(project: Path, name: str, what: str) -> None:
    program(project, name, f"echo {name} found something; exit 1")
    said = run(project, "scripts/test.sh", "test", code=1)
    assert said.index(CLOSING.format(seconds=3)) < said.index(f"{name} found something")
    assert said.endswith(f"test: what must hold beside the tests failed: {what} (see above).\n")


def test_checks_that_pass_are_said_to_and_tests_that_fail_fail_all_the_same(project: Path) -> None:
    program(project, "pytest", "exit 3")
    assert run(project, "scripts/test.sh", "test", code=3).endswith("test: style, import floors and types are right.\n")


def test_the_fast_tests_and_one_part_are_not_checked_beside(project: Path) -> None:
    program(project, "ruff", "exit 1")
    run(project, "scripts/test.sh", "fast")
    run(project, "scripts/test.sh", "all", PART="no")


@pytest.mark.parametrize(
    ("part", "asked"),
    [
        ("sparkjobs", " tests/sparkjobs"),
        ("sparkjobs docs", " tests/sparkjobs tests/docs"),
        ("tests/docs/test_links.py::test_x", " tests/docs/test_links.py::test_x"),
        ("quorum and not lost", " -k quorum and not lost"),
    ],
)
def test_a_part_is_a_path_or_words(project: Path, part: str, asked: str) -> None:
    for folder in ("sparkjobs", "docs"):
        (project / "tests" / folder).mkdir(parents=True)
    (project / "tests" / "docs" / "test_links.py").touch()
    (line,) = [line for line in run(project, "scripts/test.sh", "all", PART=part).splitlines() if line[:6] == "pytest"]
    assert line.endswith(asked)


def test_the_budget_is_passed_on(project: Path) -> None:
    assert "--budget=2h" in run(project, "scripts/test.sh", "all", BUDGET="2h")
    assert "--budget=none" in run(project, "scripts/test.sh", "all")


def test_durations_are_recorded_only_where_that_is_asked_for(project: Path) -> None:
    assert "tests/durations.json" not in run(project, "scripts/test.sh", "test")
    assert "--record-durations=tests/durations.json" in run(project, "scripts/test.sh", "test", RECORD="1")


@pytest.mark.parametrize(
    ("mb", "tier", "folder"), [(64_000, "test", True), (64_000, "fast", True), (3_500, "test", False)]
)
def test_files_are_in_memory_where_there_is_room(project: Path, mb: int, tier: str, folder: bool) -> None:
    (project / "meminfo").write_text(MEMORY.format(mb=mb))
    # Stands for /dev/shm, which the machine may lack.
    in_memory = project / "memory"
    in_memory.mkdir()
    program(project, "df", "echo Avail; echo 30000")
    said = run(project, "scripts/test.sh", tier, MEMORY_FILES=str(in_memory))
    assert f"files: {in_memory if folder else 'the disk'}" in said
    assert ("the tests have their files on the disk" in said) is not folder
    assert list(in_memory.iterdir()) == []


def test_files_are_on_disk_where_there_is_no_memory_for_files_or_it_takes_no_programs(project: Path) -> None:
    assert "files: the disk" in run(project, "scripts/test.sh", "test", MEMORY_FILES=str(project / "nowhere"))
    program(project, "df", "echo Avail; echo 30000")
    assert "files: the disk" in run(project, "scripts/test.sh", "test", MEMORY_FILES="/proc")


def test_a_folder_that_was_chosen_is_kept(project: Path) -> None:
    said = run(project, "scripts/test.sh", "test", TMPDIR=str(project))
    assert f"files: {project}" in said
    assert "on the disk" not in said


@pytest.mark.parametrize(("cores", "mb", "workers"), [(1, 64_000, 2), (2, 64_000, 3), (16, 64_000, 4), (16, 3_500, 1)])
def test_there_is_a_process_more_than_processors_at_most_four_and_as_memory_allows(
    project: Path, cores: int, mb: int, workers: int
) -> None:
    program(project, "nproc", f"echo {cores}")
    (project / "meminfo").write_text(MEMORY.format(mb=mb))
    assert f"--numprocesses={workers} " in run(project, "scripts/test.sh", "test")


def test_an_unknown_tier_is_refused_in_one_sentence(project: Path) -> None:
    assert run(project, "scripts/test.sh", "some", code=1) == (
        "test: there is no tier some: say fast, test, all or specs.\n"
    )


def test_a_signal_ends_the_tests_and_the_checks_beside_them(project: Path) -> None:
    for name in ("pytest", "mypy"):
        program(project, name, f"echo $$ >{name}.pid; exec sleep 60")
    variables = {**os.environ, "MEMORY_INFO": str(project / "meminfo")}
    with subprocess.Popen(["bash", "scripts/test.sh", "test"], cwd=project, env=variables) as running:
        pids = [int(wait_for(project / f"{name}.pid")) for name in ("pytest", "mypy")]
        running.terminate()
        assert running.wait(timeout=20) == 143
    for pid in pids:
        await_end(pid)


def wait_for(path: Path) -> str:
    """What is written to a file, once it is."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if path.exists() and (text := path.read_text()):
            return text
        time.sleep(0.02)
    raise AssertionError(f"{path} was not written")


def await_end(pid: int) -> None:
    """Wait until a process has ended."""
    deadline = time.monotonic() + 20
    while Path("/proc", str(pid)).exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not Path("/proc", str(pid)).exists()


SETUPS = tuple(
    f"setup{of}.sh"
    for of in ("", "_specs", "_tests", "_emulators", "_browser", "_postgresql", "_porcupine", "_applications")
)


@pytest.mark.parametrize("cores", [1, 2, 8])
def test_everything_is_set_up_and_the_environment_before_what_needs_it(project: Path, cores: int) -> None:
    program(project, ".venv/bin/nproc", f"echo {cores}")
    for name in SETUPS:
        program(project, f"scripts/{name}", f"echo {name} >>order; printf '{name}: be'; printf 'gun\\n'")
    said = run(project, "scripts/setup_all.sh", PATH=f"{project}/.venv/bin:{os.environ['PATH']}")
    assert sorted(said.splitlines()) == sorted(f"{name}: begun" for name in SETUPS)
    # The checkers of models need no environment: they are set up beside it, and may come at any time.
    assert next(name for name in (project / "order").read_text().split() if name != "setup_specs.sh") == "setup.sh"


def test_one_that_cannot_be_set_up_fails_the_whole_after_its_own_sentence(project: Path) -> None:
    for name in SETUPS:
        program(project, f"scripts/{name}", "exit 0")
    program(project, "scripts/setup_tests.sh", "echo 'setup-tests: there is no room' >&2; exit 1")
    said = run(project, "scripts/setup_all.sh", code=1)
    assert said.splitlines() == [
        "setup-tests: there is no room",
        "setup-all: failed: scripts/setup_tests.sh; their sentences are above.",
    ]


def test_a_signal_ends_what_is_being_set_up(project: Path) -> None:
    for name in SETUPS:
        program(project, f"scripts/{name}", f"echo $$ >{name}.pid; sleep 60; true")
    with subprocess.Popen(["bash", "scripts/setup_all.sh"], cwd=project) as running:
        pid = int(wait_for(project / "setup_specs.sh.pid"))
        running.terminate()
        assert running.wait(timeout=20) == 143
    await_end(pid)


def test_without_an_environment_nothing_else_is_set_up(project: Path) -> None:
    for name in SETUPS:
        program(project, f"scripts/{name}", f"echo {name} >>order")
    program(project, "scripts/setup.sh", "echo 'setup: Python is missing' >&2; exit 1")
    assert "setup: Python is missing" in run(project, "scripts/setup_all.sh", code=1)
    assert (project / "order").read_text() == "setup_specs.sh\n"


def few_programs(project: Path) -> str:
    """A PATH without compilers."""
    (project / "few").mkdir()
    for name in ("bash", "cat", "cmp", "dirname", "env", "flock", "mkdir", "rm", "sha256sum"):
        (project / "few" / name).symlink_to(str(shutil.which(name)))
    return str(project / "few")


def test_without_rust_the_models_are_left_out_with_a_reason(project: Path) -> None:
    said = run(project, "scripts/setup_specs.sh", PATH=few_programs(project), HOME=str(project))
    assert "since Rust is missing" in said
    assert "since Rust is missing" in (project / ".work" / "missing" / "specs").read_text()


@pytest.mark.parametrize(
    ("script", "names"),
    [
        ("setup_tests", ["versitygw"]),
        ("setup_emulators", ["azurite", "fake-gcs"]),
        ("setup_browser", ["browser"]),
        ("setup_porcupine", ["porcupine"]),
    ],
)
def test_without_go_and_node_what_needs_them_is_left_out_with_a_reason(
    project: Path, script: str, names: list[str]
) -> None:
    program(project, ".venv/bin/uv", "exit 1")
    (project / ".work" / "env").write_text(f"UV={project}/.venv/bin/uv\n")
    for folder in ("azurite", "browser"):
        (project / "requirements" / folder).mkdir(parents=True)
    packages = [f"{folder}/package{end}.json" for folder in ("azurite", "browser") for end in ("", "-lock")]
    for name in ("go.txt", "node.txt", *packages):
        (project / "requirements" / name).touch()
    (project / "tests" / "support").mkdir(parents=True)
    shutil.copytree(ROOT / "tests" / "support" / "porcupine", project / "tests" / "support" / "porcupine")
    run(project, f"scripts/{script}.sh", PATH=few_programs(project))
    for name in names:
        assert "could not be had" in (project / ".work" / "missing" / name).read_text()


def test_what_was_left_out_is_forgotten_once_it_is_there(project: Path) -> None:
    (project / ".work" / "missing").mkdir()
    (project / ".work" / "missing" / "specs").write_text("no")
    program(project, ".work/bin/tla", "exit 0")
    version = next(
        line for line in (ROOT / "scripts" / "setup_specs.sh").read_text().splitlines() if "VERSION=" in line
    )
    (project / ".work" / "bin" / f"tla.{version.rpartition('=')[2]}").touch()
    run(project, "scripts/setup_specs.sh")
    assert not (project / ".work" / "missing" / "specs").exists()


def ci(project: Path, make: str, code: int) -> str:
    program(project, "make", make)
    Durations({"tests/x.py": (3, 1)}).write(project / ".work" / "test-durations.json")
    return run(project, ".ci/run", code=code, PATH=f"{project}/.venv/bin:{os.environ['PATH']}")


@pytest.mark.parametrize(
    ("seconds", "made", "code"),
    [(LOUD_S - 60, 0, 0), (LOUD_S + 60, 0, 0), (LIMIT_S + 60, 0, 1), (3, 2, 2), (LIMIT_S + 60, 2, 2)],
)
def test_ci_ends_with_the_closing_line_and_the_time_and_the_verdict(
    project: Path, seconds: int, made: int, code: int
) -> None:
    closing = CLOSING.format(seconds=f"{seconds}.25")
    said = ci(project, f"echo '{closing}'; echo 'make: it is so'; exit {made}", code)
    assert said.splitlines()[-2] == closing
    assert said.splitlines()[-1].startswith("The tests took ")
    assert ("THE TESTS TAKE TOO LONG" in said) is (seconds > LOUD_S)


def test_ci_without_tests_fails_even_where_make_does_not(project: Path) -> None:
    assert ci(project, "true", 1).endswith("No test was run, in 0 s.\n")
