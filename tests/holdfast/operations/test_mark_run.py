"""A mark is set as archives.yaml has its source, in all replicas, and summed up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast.archive import Archive
from holdfast.config.archives_model import ArchiveConfig, SourceConfig
from holdfast.operations import marks
from holdfast.operations.archive_context import ArchiveContext
from holdfast.operations.marks import mark_source
from holdfast.operations.requests.mark import MarkRequest
from holdfast.postgresql.connection.address import Address
from holdfast.storage import open_store

ADDRESS = Address("postgresql://me@db.example/shop")


@pytest.mark.parametrize("why", ["", "no pg_dump"])
def test_a_mark_is_set_by_the_sources_settings_in_each_replica(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    near = Archive.create(open_store(str(tmp_path / "near")), name="shop")
    asked: dict[str, Any] = {}

    def set_mark(archive: Archive, stores: Any, address: Address, source: str, name: str, **more: Any) -> marks.SetMark:
        asked.update(
            archive=archive.store.url, stores=[store.url for store in stores], source=source, name=name, **more
        )
        return marks.SetMark("0/1", archive.identity.created, why)

    monkeypatch.setattr(marks, "set_mark", set_mark)
    urls = {name: str(tmp_path / name) for name in ("near", "far")}
    replicas = ArchiveContext.resolve(ArchiveConfig(replicas=urls)).replicas
    source = SourceConfig(url=ADDRESS.url, tables=["a.*"], exclude=["a.b"])
    summary = mark_source(replicas, MarkRequest(name="before 4.2", source="shop_db"), source, ADDRESS)
    assert asked == {
        "archive": near.store.url, "stores": list(urls.values()), "source": "shop_db", "name": "before 4.2",
        "tables": ["a.*"], "exclude": ["a.b"],
    }  # fmt: skip
    assert (summary["mark"], summary["source"], summary["position"]) == ("before 4.2", "shop_db", "0/1")
    assert (summary["schema_known"], summary["schema_note"]) == (not why, why)
