"""`holdfast status --check`: objectives, with Airflow down."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.storage import ObjectStore
from tests.support.jobs.command import RunCommand

SOURCE = "{url: 'postgresql://me@here/shop', objectives: {rpo: 15min}}"


@pytest.fixture
def promised(store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "archives.yaml"
    file.write_text(f"archives: {{shop: {{url: {store.url}, sources: {{shop_db: {SOURCE}}}}}}}")
    monkeypatch.setenv("HOLDFAST_ARCHIVES", str(file))
    return file


def test_a_missed_objective_is_said_and_fails(holdfast: RunCommand, promised: Path) -> None:
    assert holdfast("status", "shop").code == 0
    done = holdfast("status", "shop", "--check")
    assert done.code == 1
    assert "shop_db: rpo 15min missed: there is no backup of it" in done.out
    assert "holdfast: shop_db: rpo 15min is missed" in done.err
    assert holdfast("status", "shop", "--check", "--json").value["objectives"] == [
        {"source": "shop_db", "name": "rpo", "limit": "15min", "is_met": False, "stands": "there is no backup of it"}
    ]


def test_a_check_of_nothing_is_wrong_usage(holdfast: RunCommand, store: ObjectStore, promised: Path) -> None:
    promised.write_text("archives: {}")
    done = holdfast("status", store.url, "--check")
    assert (done.code, "write 'objectives' below one of its sources" in done.err) == (2, True)


def test_an_objective_is_a_length_of_time(holdfast: RunCommand, promised: Path) -> None:
    promised.write_text(promised.read_text().replace("15min", "soon"))
    done = holdfast("status", "shop", "--check")
    assert (done.code, "rpo" in done.err, "write a number and s, min, h, d or w" in done.err) == (2, True, True)
