"""The wheel holds our four import packages and nothing else, and works where nothing but it is installed."""

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
from holdfast.sources.postgresql.connection.address import Address
from holdfast.sources.postgresql.connection.session import connect

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
    folder = tmp_path_factory.mktemp("dist")
    build: list[str | Path] = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT]
    subprocess.run(build, stdout=subprocess.DEVNULL, check=True)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def programs(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel, with what it depends on, into an empty environment; return its folder of programs."""
    uv, environment = find_uv(), tmp_path_factory.mktemp("installed") / "venv"
    create: list[str | Path] = [uv, "venv", "--quiet", "--no-project", "--python", sys.executable, environment]
    subprocess.run(create, check=True)
    install: list[str | Path] = [
        # The tests' folder may be in memory, which would take half a gigabyte of copies.
        uv, "pip", "install", "--quiet", "--link-mode=symlink", "--python", environment,
        "--build-constraints", REQUIREMENTS,
        "--constraints", REQUIREMENTS, f"holdfast[spark,embedded] @ {wheel.as_uri()}",
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


def test_wheel_installs_only_our_four_import_packages(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as contents:
        top = {name.split("/")[0] for name in contents.namelist()}

    assert {name for name in top if not name.endswith(".dist-info")} == {
        "holdfast", "holdfast_airflow", "locking", "sparkjobs",
    }  # fmt: skip


def test_wheel_holds_every_module_of_the_tree(wheel: Path) -> None:
    tracked = ["holdfast", "locking", "sparkjobs", "plugins/holdfast_airflow"]
    files = [path for folder in tracked for path in (ROOT / folder).rglob("*") if path.suffix in {".py", ".typed"}]

    with zipfile.ZipFile(wheel) as contents:
        missing = {
            path.relative_to(ROOT).as_posix().removeprefix("plugins/") for path in files
        } - set(contents.namelist())  # fmt: skip

    assert missing == set()


def test_installed_command_comes_from_the_wheel_alone(programs: Path, tmp_path: Path) -> None:
    where = "import holdfast, locking, sparkjobs; print(holdfast.__file__, locking.__file__, sparkjobs.__file__)"

    assert holdfast.__version__ in run(programs, "holdfast", "--version", cwd=tmp_path)
    assert str(ROOT) not in run(programs, "python", "-c", where, cwd=tmp_path)


@pytest.mark.parametrize("restores", ["inline", pytest.param("spark", marks=pytest.mark.exhaustive)])
def test_installed_command_backs_up_and_restores(
    restores: str, programs: Path, tmp_path: Path, new_database: Callable[..., Address], monkeypatch: pytest.MonkeyPatch
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
            cwd=cwd, HOLDFAST_EXECUTOR=restores,
        )
    )  # fmt: skip

    assert (backup["commit"], backup["kind"], backup["rows"]) == (1, "full", 500)
    assert (restore["commit"], restore["rows"], restore["equal"]) == (1, 500, True)
    assert list(cwd.iterdir()) == []
