"""Which packages a command imports: each costs every start of it, and what is not needed must not be there."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from holdfast.archive import Archive
from holdfast.storage import open_store

CLOUDS = {"azure", "boto3", "botocore", "google.cloud.storage", "httpx", "requests"}
COORDINATION = {"alembic", "sqlalchemy"}
ENGINES = {"duckdb", "pandas", "py4j", "pyspark"}
DATA = {"adbc_driver_postgresql", "numpy", "psycopg", "pyarrow"}
FOUNDATION = {"cryptography", "pydantic", "tenacity", "yaml"}
EVERY = CLOUDS | COORDINATION | ENGINES | DATA | FOUNDATION | {"rich"}

STARTS = {
    "version": ["--version"],
    "help": ["--help"],
    "wrong": ["bakcup"],
    "status": ["status"],
    "truncate": ["truncate", "--keep", "last=1"],
    "vacuum": ["vacuum"],
    "verify": ["verify"],
    "compact": ["compact", "--dry-run"],
    "backup": ["backup", "--help"],
}
"""In an order in which each one needs no less than those before it: they run in one process."""

PROGRAM = """
import contextlib, io, json, sys
loaded = {}
for name, arguments in json.loads(sys.argv.pop()).items():
    sys.argv = ["holdfast", *arguments]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            from holdfast.cli import main
            main()
        except SystemExit as ended:
            code = ended.code
    loaded[name] = [code, sorted(sys.modules)]
print(json.dumps(loaded))
"""


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, set[str]]:
    """What is loaded once each of the commands has run, on an archive in a folder."""
    url = str(tmp_path_factory.mktemp("here") / "archive")
    Archive.create(open_store(url), name="shop")
    on_archive = ("status", "truncate", "vacuum", "verify", "compact")
    starts = {name: [words[0], url, *words[1:]] if name in on_archive else words for name, words in STARTS.items()}
    command = [sys.executable, "-c", PROGRAM, json.dumps(starts)]
    told = json.loads(subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(url)).stdout)
    assert {name: code for name, (code, _) in told.items() if code} == {"wrong": 2}
    return {name: EVERY & set(modules) for name, (_, modules) in told.items()}


def test_version_loads_nothing_heavy(loaded: Mapping[str, set[str]]) -> None:
    assert loaded["version"] == set()


def test_help_loads_what_prints_it_and_no_command(loaded: Mapping[str, set[str]]) -> None:
    assert loaded["help"] == {"rich"}


def test_a_wrong_command_loads_none_that_is_right(loaded: Mapping[str, set[str]]) -> None:
    assert loaded["wrong"] <= {"pydantic", "rich"}


@pytest.mark.parametrize("name", ["status", "truncate", "vacuum"])
def test_what_reads_only_commits_loads_no_reader_of_rows(loaded: Mapping[str, set[str]], name: str) -> None:
    assert loaded[name] <= FOUNDATION | {"rich"}


@pytest.mark.parametrize("name", ["verify", "compact", "backup"])
def test_what_works_on_a_folder_loads_no_cloud_no_engine_and_no_coordination(
    loaded: Mapping[str, set[str]], name: str
) -> None:
    assert loaded[name] & (CLOUDS | COORDINATION | ENGINES) == set()
