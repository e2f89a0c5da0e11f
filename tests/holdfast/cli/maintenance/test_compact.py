"""`holdfast compact`: what it asks the job for, and what it says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast.archive import Archive
from holdfast.operations.archive_context import ArchiveContext
from holdfast.operations.requests.base import Request
from holdfast.storage import ObjectStore, open_store
from tests.support.archives.blocks_without_rows import fill
from tests.support.jobs.command import RunCommand

RESULT = {
    "commit": 12,
    "joined": [
        {"source": "shop_db", "commit": 11, "blocks": 9, "bytes_before": 5000, "bytes": 2000, "changes": 1234,
         "from": "then", "to": "now"}
    ],
    "consolidated": [
        {"source": "shop_db", "commit": 12, "tables": 3, "rows": 77, "bytes": 4000, "restorable_to": "now",
         "position": "0/1"}
    ],
}  # fmt: skip


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The operation and the arguments of the job, which is not run."""
    given: list[str] = []

    def run_job(archive: ArchiveContext, request: Request, **more: Any) -> dict[str, Any]:
        given[:] = [request.operation, *request.to_arguments()]
        return RESULT

    monkeypatch.setattr("holdfast.cli.maintenance.compact.run_job", run_job)
    return given


def test_a_dry_run_says_what_would_be_joined_and_runs_no_job(
    holdfast: RunCommand, store: ObjectStore, asked: list[str]
) -> None:
    fill(store, 9)
    done = holdfast("compact", store.url, "--dry-run", "--consolidate", "--json")
    assert (done.code, asked, done.value["dry_run"]) == (0, [], True)
    assert [(each["source"], each["blocks"]) for each in done.value["joined"]] == [("shop_db", 9)]
    assert [each["position"] for each in done.value["consolidated"]] == ["0/190"]
    said = holdfast("compact", store.url, "--dry-run", "--consolidate").out
    assert "would join 9 blocks of changes of shop_db" in said
    assert "would make a full snapshot of shop_db at 2026-03-01T12:09:00.000000Z" in said
    assert holdfast("compact", store.url, "--dry-run", "--min-blocks", "10").out.strip() == "nothing to do"


def test_the_job_is_told_what_the_configuration_says_unless_something_else_is_given(
    holdfast: RunCommand, store: ObjectStore, asked: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(store, 1)
    defaults = ["--min-blocks", "8", "--small", "64 MiB", "--target", "512 MiB"]
    assert holdfast("compact", store.url, "--json").value == RESULT
    assert asked == ["compaction", *defaults, "--min-age", "1h"]
    file = tmp_path / "archives.yaml"
    section = "{min_blocks: 3, small: 1 MB, target: 2 MB, min_age: 2h}"
    file.write_text(f"archives: {{shop: {{url: {store.url}, compaction: {section}}}}}")
    monkeypatch.setenv("HOLDFAST_ARCHIVES", str(file))
    configured = ["--small", "1 MB", "--target", "2 MB", "--min-age", "2h"]
    holdfast("compact", "shop", "--consolidate")
    assert asked == ["compaction", "--consolidate", "--min-blocks", "3", *configured]
    holdfast("compact", "shop", "--min-blocks", "5", "--source", "shop_db")
    assert asked == ["compaction", "--source", "shop_db", "--min-blocks", "5", *configured]


def test_people_are_told_what_was_joined_and_made(holdfast: RunCommand, store: ObjectStore, asked: list[str]) -> None:
    said = holdfast("compact", store.url).out.splitlines()
    assert said == [
        "commit 11: joined 9 blocks of changes of shop_db from then to now (1,234 changes, 5.0 kB before, 2.0 kB now)",
        "commit 12: a full snapshot of shop_db at now (77 rows of 3 tables, 4.0 kB written)",
    ]


def test_a_source_that_is_not_there_is_a_mistake(holdfast: RunCommand, store: ObjectStore, asked: list[str]) -> None:
    fill(store, 1)
    done = holdfast("compact", store.url, "--source", "another", "--json")
    assert (done.code, asked) == (2, [])
    assert "shop_db" in done.value["error"]


def test_an_archive_of_format_1_has_to_be_migrated_first(
    holdfast: RunCommand, tmp_path: Path, asked: list[str]
) -> None:
    store = Archive.create(open_store(str(tmp_path / "old")), name="old", number=1).store
    done = holdfast("compact", store.url, "--dry-run", "--json")
    assert (done.code, asked) == (5, [])
    assert f"holdfast migrate {store.url} --to 2" in done.value["error"]
