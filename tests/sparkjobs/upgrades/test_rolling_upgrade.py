"""A rolling upgrade: this release and a newer one on one archive, and with one coordination store.

Drivers and workers of different releases: `tests/sparkjobs/cluster/`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.archive.format.versions import READS, WRITER
from holdfast.postgresql.connection.address import Address
from holdfast.postgresql.connection.session import connect
from holdfast.replication.log.settings import COORDINATION_VARIABLE
from tests.support.jobs.command import Finished
from tests.support.jobs.command_here import run_here
from tests.support.jobs.newer_release import NEXT, VERSION, NewerRelease

pytestmark = pytest.mark.service

NO_READER = f"needs a reader of format {READS + 1}; {WRITER} reads up to format {READS}. Upgrade holdfast."
TABLE = "create table orders as select i as id, md5(i::text) as name from generate_series(1, 500) i"


@pytest.fixture
def newer(tmp_path: Path) -> NewerRelease:
    return NewerRelease.made(tmp_path / "newer")


@pytest.fixture
def source(create_database: Callable[..., Address]) -> Address:
    return create_database(TABLE)


def refused(done: Finished, sentence: str) -> None:
    assert (done.code, sentence in done.err, "Traceback" in done.err) == (2, True, False), done.err


def files(folder: Path) -> dict[str, bytes]:
    """Return what an archive in a folder has, beside its locks."""
    found = {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in found.items() if not name.startswith("locks")}


def test_both_write_in_turn_until_the_archive_has_a_format_that_only_one_knows(
    newer: NewerRelease, source: Address, create_database: Callable[..., Address], tmp_path: Path
) -> None:
    newer.add_format()
    archive, target = tmp_path / "shop", create_database()
    url = str(archive)
    backup = ("backup", url, "--source", source.url, "--json")
    assert newer.run("init", url, "--format", "2").code == 0
    for number, run in enumerate((run_here, newer.run, run_here), start=1):
        with connect(source) as session:
            session.execute(b"insert into public.orders values (0, 'more')")
        done = run(*backup, address=source)
        assert (done.code, done.value["rows"]) == (0, 500 + number), done.err
    writers = [json.loads(path.read_bytes())["writer"] for path in sorted((archive / "commits").iterdir())]
    assert writers == [WRITER, f"holdfast {VERSION}", WRITER]
    for run in (run_here, newer.run):
        assert run("verify", url, "--deep").code == 0
    restored = run_here("restore", url, "--to", target.url, "--json", address=target)
    assert (restored.code, restored.value["equal"], restored.value["rows"]) == (0, True, 503), restored.err

    assert newer.run("migrate", url, "--to", str(NEXT)).code == 0
    before = files(archive)
    for words in (
        *(("points", url), ("status", url), ("verify", url), ("vacuum", url), ("compact", url)),
        *(("restore", url, "--to", target.url), ("truncate", url, "--keep", "last=1"), backup),
        *(("copy", url, str(tmp_path / "copy")), ("hold", "list", url), ("query", url, "select 1")),
    ):
        refused(run_here(*words, address=source), NO_READER)
    assert files(archive) == before
    assert NO_READER in run_here("doctor", url).out
    assert newer.run(*backup, address=source).code == 0


@pytest.fixture
def replicas(tmp_path: Path, source: Address, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """Two replicas of an archive with a backup by this release."""
    monkeypatch.chdir(tmp_path)
    store = {COORDINATION_VARIABLE: f"sqlite:///{tmp_path}/store.db"}
    near, far = str(tmp_path / "near"), str(tmp_path / "far")
    for words in (
        *(("init", near), ("replica", "add", "near", near), ("replica", "add", "far", far)),
        *(("backup", near, "--source", source.url), ("replica", "sync", "far")),
    ):
        done = run_here(*words, address=source, more=store)
        assert done.code == 0, done.err
    return near, far


@pytest.mark.exhaustive
def test_a_store_of_a_newer_release_is_refused_and_one_of_this_release_is_rebuilt(
    newer: NewerRelease, source: Address, replicas: tuple[str, str], tmp_path: Path
) -> None:
    newer.add_migration()
    near, far = replicas
    more = {COORDINATION_VARIABLE: f"sqlite:///{tmp_path}/store.db"}
    backup = ("backup", near, "--source", source.url)
    assert run_here("replica", "status", more=more).code == 0
    assert newer.run("replica", "status", more=more).code == 0  # to look at it is enough
    assert newer.run(*backup, address=source, more=more).code == 0
    for words in (backup, ("replica", "status"), ("replica", "sync", "far"), ("vacuum", near)):
        refused(run_here(*words, address=source, more=more), "store.db is of a newer release: upgrade holdfast")
    points = run_here("points", near, "--json", more=more)
    assert (points.code, len(points.value["sources"][0]["intervals"])) == (0, 2), points.err

    back = {COORDINATION_VARIABLE: f"sqlite:///{tmp_path}/back.db"}
    assert newer.run("replica", "sync", "far", more=more).code == 0
    for step in (
        ("replica", "rebuild-store", "--replica", f"near={near}", "--replica", f"far={far}"),
        *(backup, ("replica", "sync", "far"), ("verify", far, "--deep")),
    ):
        done = run_here(*step, address=source, more=back)
        assert done.code == 0, done.err
