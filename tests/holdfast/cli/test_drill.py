"""`holdfast drill`: what it asks for and what it tells; whole drills are in tests/sparkjobs/restore/test_drill.py."""

from __future__ import annotations

import re
import shutil
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from holdfast.operations.archive_context import ArchiveContext
from holdfast.operations.requests.base import Request
from holdfast.postgresql.connection.address import Address
from holdfast.storage import ObjectStore
from tests.support.jobs.command import RunCommand

TO = ("--to", "postgresql://me@127.0.0.1:1/empty")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What must hold, which is not asked of any database; the restore is not run, either."""
    statements: list[str] = []

    def run_job(archive: ArchiveContext, request: Request, **more: Any) -> dict[str, Any]:
        return {"rows": 3, "tables": 1, "bytes": 30, "commit": 1, "not_restored": [], "equal": True}

    def check(address: Address, asserted: list[str]) -> tuple[()]:
        statements[:] = asserted
        return ()

    monkeypatch.setattr("holdfast.cli.drill.run_job", run_job)
    monkeypatch.setattr("holdfast.drill.assertions.check", check)
    monkeypatch.setattr("holdfast.drill.drill.asking_login", nullcontext)
    return statements


def test_what_must_hold_comes_from_the_file_the_option_and_the_configuration(
    holdfast: RunCommand, filled: ObjectStore, asked: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "one.sql").write_text("select 3")
    (tmp_path / "archives.yaml").write_text(
        f"archives: {{shop: {{url: {filled.url}, sources: {{shop_db: {{connection: c}}}}, "
        "drill: {assertions: [select 1]}}}"
    )
    monkeypatch.setenv("HOLDFAST_ARCHIVES", str(tmp_path / "archives.yaml"))
    done = holdfast("drill", "shop", *TO, "--assert", "select 2", "--assert-file", str(tmp_path / "one.sql"), "--json")
    assert done.code == 0, done.err
    assert asked == ["select 1", "select 2", "select 3"]
    assert done.value["run"].startswith("drill-shop_db.")


def test_people_are_told_what_was_restored_and_how_old_the_newest_moment_is(
    holdfast: RunCommand, filled: ObjectStore, asked: list[str]
) -> None:
    told = holdfast("drill", filled.url, *TO).out.splitlines()
    assert told[0].startswith("shop_db as of 2026-03-01T12:00:00.000000Z (commit 1): 3 rows of 1 table, equal to the")
    assert told[1] == "no assertions were given"
    assert told[2].endswith(" d old")
    assert told[3].startswith("recorded as drill-shop_db.")


def test_how_old_the_newest_moment_may_be_comes_from_the_option_or_the_configuration(
    holdfast: RunCommand, filled: ObjectStore, asked: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "archives.yaml").write_text(
        f"archives: {{shop: {{url: {filled.url}, sources: {{shop_db: {{connection: c}}}}, "
        "drill: {newest_within: 1h}}}"
    )
    monkeypatch.setenv("HOLDFAST_ARCHIVES", str(tmp_path / "archives.yaml"))
    done = holdfast("drill", "shop", *TO)
    assert (done.code, "the limit is 1:00:00: check why there is no later backup" in done.err) == (4, True)
    assert holdfast("drill", "shop", *TO, "--newest-within", "99999d").code == 0
    assert holdfast("drill", filled.url, *TO, "--newest-within", "1").code == 2


def test_a_copy_of_the_key_opens_the_archive_and_is_proved(
    holdfast: RunCommand, filled: ObjectStore, asked: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("daily", "other"):
        assert holdfast("key", "new", str(tmp_path / name)).code == 0
    shutil.copy(tmp_path / "daily", tmp_path / "copy")
    place, daily, copy = str(tmp_path / "sealed"), f"file:{tmp_path / 'daily'}", f"file:{tmp_path / 'copy'}"
    assert holdfast("copy", filled.url, place, "--to-key", daily).code == 0
    (tmp_path / "archives.yaml").write_text(
        f"archives: {{shop: {{url: {place}, encryption: {{key: '{daily}'}}, sources: {{shop_db: {{connection: c, "
        f"objectives: {{key_proved_within: 90d}}}}}}}}}}"
    )
    monkeypatch.setenv("HOLDFAST_ARCHIVES", str(tmp_path / "archives.yaml"))
    assert holdfast("drill", "shop", *TO).code == 0
    assert holdfast("status", "shop", "--check").code == 1
    done = holdfast("drill", "shop", *TO, "--key", daily)
    assert (done.code, "is the key in use" in done.err) == (2, True)
    other = holdfast("drill", "shop", *TO, "--key", f"file:{tmp_path / 'other'}")
    assert (other.code, "fingerprint" in other.err) == (2, True)
    assert f"the archive was opened by {copy}" in holdfast("drill", "shop", *TO, "--key", copy).out
    assert holdfast("status", "shop", "--check").code == 0
    plain = holdfast("drill", filled.url, *TO, "--key", copy)
    assert plain.code == 2


def test_history_shows_how_drills_went(holdfast: RunCommand, filled: ObjectStore, asked: list[str]) -> None:
    assert holdfast("drill", filled.url, "--history").out == "no drills yet\n"
    assert holdfast("drill", filled.url, *TO, "--json").code == 0
    assert [each["state"] for each in holdfast("drill", filled.url, "--history", "--json").value["drills"]] == [
        "succeeded"
    ]
    shown = holdfast("drill", filled.url, "--history").out
    told = r"  shop_db as of 2026-03-01T12:00:00.000000Z, restored in .* s, the newest moment was .* d old: good\n"
    assert re.search(told, shown)


def test_mistakes_are_found_before_anything_is_started(
    holdfast: RunCommand, filled: ObjectStore, asked: list[str], tmp_path: Path
) -> None:
    for words in (
        ("--keep-server", *TO),
        ("--trust-source",),
        ("--assert-file", str(tmp_path / "none.sql")),
        ("--source", "none"),
    ):
        assert holdfast("drill", filled.url, *words, "--json").code == 2
    assert holdfast("drill", filled.url, "--at", "commit:7", "--json").code == 5
    assert filled.list("runs/").objects == ()
