"""Which versions an advisory concerns, and how the snapshot is made anew."""

from __future__ import annotations

import datetime
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from scripts.supply_chain import advisories
from scripts.supply_chain.advisories import FOLDER, GENERIC, PYPI, Advisory, exported, order, read_snapshot, taken


def advisory(*events: dict[str, str], ecosystem: str = PYPI, **more: Any) -> Advisory:
    affected = {"package": {"ecosystem": ecosystem, "name": "Some_Thing"}, **more}
    if events:
        affected["ranges"] = [{"type": "ECOSYSTEM", "events": list(events)}]
    return Advisory("X-1", "it is bad", (affected,))


@pytest.mark.parametrize(
    ("version", "is_affected"),
    [("1.0", False), ("1.1", True), ("1.9", True), ("1.10rc1", True), ("1.10", False), ("2.0", True), ("2.1", False)],
)
def test_a_range_begins_where_it_was_introduced_and_ends_where_it_was_fixed(version: str, is_affected: bool) -> None:
    known = advisory({"introduced": "1.1"}, {"fixed": "1.10"}, {"introduced": "2.0"}, {"last_affected": "2.0"})
    assert known.concerns(PYPI, "some-thing", version) == is_affected


def test_all_versions_are_meant_by_zero_and_single_ones_by_name() -> None:
    assert advisory({"introduced": "0"}).concerns(PYPI, "some-thing", "0.0.1")
    assert advisory(versions=["1.5"]).concerns(PYPI, "some-thing", "1.5")
    assert not advisory(versions=["1.5"]).concerns(PYPI, "some-thing", "1.6")


def test_another_package_or_ecosystem_is_not_concerned() -> None:
    assert not advisory({"introduced": "0"}).concerns(PYPI, "thing", "1")
    assert not advisory({"introduced": "0"}, ecosystem=GENERIC).concerns(PYPI, "some-thing", "1")


def test_letters_of_native_versions_come_after_none() -> None:
    versions = ["3.0.10", "1.1.1za", "1.1.2", "1.1.1", "3.0.9", "1.1.1w"]
    said = sorted(versions, key=lambda version: order(GENERIC, version))
    assert said == ["1.1.1", "1.1.1w", "1.1.1za", "1.1.2", "3.0.9", "3.0.10"]


def record(name: str, **more: Any) -> dict[str, Any]:
    affected = {"package": {"ecosystem": PYPI, "name": name, "purl": "x"}, "versions": ["1"], "database_specific": {}}
    return {"id": f"X-{name}", "details": "First line\nsecond", "affected": [affected], "published": "2026", **more}


def test_an_export_is_cut_to_what_is_pinned_and_read() -> None:
    kept = taken([record("ours"), record("theirs"), record("ours", withdrawn="2026")], {"ours"})
    package = {"ecosystem": PYPI, "name": "ours", "purl": "x"}
    affected = [{"package": package, "versions": ["1"]}]
    assert kept == [{"id": "X-ours", "summary": "First line", "affected": affected}]


def test_an_export_is_a_folder_or_an_archive(tmp_path: Path) -> None:
    (tmp_path / "export" / "ours").mkdir(parents=True)
    (tmp_path / "export" / "ours" / "a.yaml").write_text(yaml.safe_dump(record("ours")))
    (tmp_path / "export" / "README.md").write_text("no record")
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        archive.writestr("b.json", json.dumps(record("ours")))
    assert list(exported(tmp_path / "export")) == list(exported(tmp_path / "all.zip")) == [record("ours")]


def test_a_snapshot_that_was_made_anew_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "export").mkdir()
    (tmp_path / "export" / "a.json").write_text(json.dumps(record("PySpark")))
    (tmp_path / "snapshots").mkdir()
    today = datetime.date(2026, 11, 27)
    advisories.main(tmp_path / "export", tmp_path / "snapshots" / "pypi.yaml", today)
    assert capsys.readouterr().out.startswith("1 advisories about packages that are pinned here")
    snapshot = read_snapshot(tmp_path / "snapshots")
    assert snapshot.made == today
    assert [each.id for each in snapshot.advisories if each.concerns(PYPI, "pyspark", "1")] == ["X-PySpark"]


def test_the_committed_snapshot_says_when_and_from_what_it_was_made() -> None:
    for file in FOLDER.glob("*.yaml"):
        document = yaml.safe_load(file.read_text())
        assert document["made"] >= datetime.date(2026, 11, 27)
        assert document["from"]
        assert all(each["summary"] and each["affected"] for each in document["advisories"])
