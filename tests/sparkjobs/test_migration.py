"""The job of migration, as the command and the operator start it."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.archive import Archive
from holdfast.storage import ObjectStore, open_store
from sparkjobs import migration
from tests.support.archives import maintaining
from tests.support.archives.maintaining import result_of, run_maintenance


@pytest.fixture
def old(tmp_path: Path) -> ObjectStore:
    """An archive of the first format."""
    made = Archive.create(open_store(str(tmp_path / "archive")), name="shop", number=1).store
    maintaining.back_up(made, 1)
    return made


def test_an_archive_is_lifted_to_the_format_that_is_asked_for(
    old: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = result_of(run_maintenance(old, monkeypatch, migration.main, "migration", "--to", "2"))
    assert Archive.open(old).state.format == 2
    assert done["format"] == 2
    again = result_of(run_maintenance(old, monkeypatch, migration.main, "migration", "--to", "2"))
    assert Archive.open(old).state.sequence == 2
    assert again != done


def test_a_format_that_nobody_knows_is_refused_and_changes_nothing(
    old: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, record = run_maintenance(old, monkeypatch, migration.main, "migration", "--to", "99")
    assert (code != 0, record.state) == (True, "failed")
    assert (Archive.open(old).state.format, Archive.open(old).state.sequence) == (1, 1)
