"""The text for Prometheus, and the file for node_exporter."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from holdfast.common.errors import HoldfastError, UsageError
from holdfast.metrics.catalogue import sample
from holdfast.metrics.exposition import check_target, render, write

SAMPLES = [
    sample("holdfast_archive_bytes", 10, 'a "b"\n'),
    sample("holdfast_archive_up", 1, "shop"),
    sample("holdfast_archive_bytes", 20, "shop"),
]


def test_a_parser_reads_the_samples_back_by_metric() -> None:
    families = list(text_string_to_metric_families(render(SAMPLES).decode()))
    assert [(each.name, each.type) for each in families] == [
        ("holdfast_archive_up", "gauge"),
        ("holdfast_archive_bytes", "gauge"),
    ]
    assert [(each.labels, each.value) for each in families[1].samples] == [
        ({"archive": 'a "b"\n'}, 10.0),
        ({"archive": "shop"}, 20.0),
    ]
    assert families[0].documentation == "1 if all of the archive could be read, else 0."


def test_nothing_is_an_empty_text() -> None:
    assert render([]) == b""


def test_a_file_is_replaced_whole_and_others_may_read_it(tmp_path: Path) -> None:
    file = tmp_path / "holdfast.prom"
    before = os.umask(0o077)
    try:
        write(file, b"one\n")
        with file.open("rb") as reader:
            write(file, b"two\n")
            assert reader.read() == b"one\n"
    finally:
        os.umask(before)
    assert file.read_bytes() == b"two\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    assert [each.name for each in tmp_path.iterdir()] == ["holdfast.prom"]


def test_it_is_on_the_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    sync, rename = os.fsync, Path.replace

    def synced(file: int) -> None:
        done.append("fsync")
        sync(file)

    def renamed(old: Path, new: Path) -> Path:
        done.append("rename")
        return rename(old, new)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", renamed)
    write(tmp_path / "holdfast.prom", b"x")
    assert done == ["fsync", "rename"]


def test_what_cannot_be_written_says_what_to_do_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match=r"no folder .*/no for x\.prom: make it"):
        check_target(tmp_path / "no" / "x.prom")
    with pytest.raises(UsageError, match="is a folder: name a file in it"):
        check_target(tmp_path)

    def full(file: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(HoldfastError, match=r"cannot be written: No space left on device"):
        write(tmp_path / "x.prom", b"x")
    assert list(tmp_path.iterdir()) == []
